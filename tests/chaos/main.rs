//! `chaos`: episodes of live traffic under a seeded mix of faults, each judged by the oracle.

mod crew;
mod episode;
mod evidence;
mod faults;
mod harm;
mod network;
mod points;
mod setup;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use episode::Verdict;
use faults::Tally;
use stage::{Ground, Stages};

const USAGE: &str = "\
Usage: chaos [--episodes N] [--seed S] [--keep DIRECTORY]
N episodes (1) with the seeds S, S+1, …; without a seed, the clock's. What a failure leaves is kept under DIRECTORY (target/chaos).";
/// EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;

struct Options {
    episodes: u64,
    seed: u64,
    keep: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(EXIT_USAGE);
    };
    match run(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<Options> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let mut options = Options { episodes: 1, seed: clock, keep: PathBuf::from("target/chaos") };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--episodes" => options.episodes = value.parse().ok()?,
            "--seed" => options.seed = value.parse().ok()?,
            "--keep" => options.keep = PathBuf::from(value),
            _ => return None,
        }
    }
    Some(options)
}

/// Returns how many episodes failed.
fn run(options: &Options) -> anyhow::Result<u64> {
    let begun = Instant::now();
    let (mut all, mut kinds_all) = (Tally::default(), Tally::default());
    let (mut passed, mut failed, mut records) = (0, 0, 0);
    let mut stages = Stages::default();
    for seed in options.seed..options.seed + options.episodes {
        let ground = Ground::of(seed);
        let Verdict { faults, kinds, failure, inputs } = episode::run(stages.get(ground)?, ground, seed, &options.keep)?;
        all.add(&faults);
        kinds.into_iter().for_each(|kind| kinds_all.count(kind, 1));
        records += inputs;
        match failure {
            None => passed += 1,
            Some(failure) => {
                failed += 1;
                println!("{failure}\nto repeat: make chaos EPISODES=1 SEED={seed}");
                stages.strike(ground);
            }
        }
    }
    println!("\nepisodes\n{kinds_all}\nfaults\n{all}{:>6}  faults in all", all.total());
    println!("\n{records} records, {:.0} s", begun.elapsed().as_secs_f64());
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}
