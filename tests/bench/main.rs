//! The program `bench`: ours against the peers on one broker, latency under an open loop, and how cost grows.

mod contest;
mod contestant;
mod digest;
mod expected;
mod ground;
mod growth;
mod latency;
mod open_loop;
mod program;
mod ratio;
mod throughput;

use anyhow::{Context, Result};
use ground::Ground;
use serde::Serialize;
use std::process::ExitCode;
use transom_harness::broker::NoBackend;

const USAGE: &str = "\
Usage: bench throughput [--quick]   CPU and records per second against the peers; target/bench/bench.json
       bench latency [--quick]      from scheduled send to committed read, under an open loop; target/bench/latency.json
       bench growth [--quick]       start, memory, cost by partitions, workers and record size; target/bench/growth.json

Uses the broker in KAFKA_BOOTSTRAP_SERVERS, else starts one. Exit code: 0, 1 if an output was wrong or something failed,
64 on wrong usage, 69 when nothing can run a broker.";

const EXIT_FAILURE: u8 = 1;
/// EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// EX_UNAVAILABLE of sysexits.h: something must be installed first.
const EXIT_UNAVAILABLE: u8 = 69;

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Minutes: to see that nothing is broken, and roughly how fast it is.
    Quick,
    /// As long as the figures need.
    Full,
}

impl Extent {
    fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (command, extent) = match words.as_slice() {
        [command] => (*command, Extent::Full),
        [command, "--quick"] => (*command, Extent::Quick),
        _ => ("", Extent::Full),
    };
    let part = match command {
        "throughput" => throughput::run,
        "latency" => latency::run,
        "growth" => growth::run,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let result = Ground::find_or_start().and_then(|ground| {
        println!("{}", ground.description());
        part(&ground, extent)
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILURE),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(if error.is::<NoBackend>() { EXIT_UNAVAILABLE } else { EXIT_FAILURE })
        }
    }
}

/// Writes results to the bench's folder.
fn save<T: Serialize>(name: &str, results: &T) -> Result<()> {
    let path = ground::results().join(name);
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(&path, text + "\n").with_context(|| format!("write {}", path.display()))
}
