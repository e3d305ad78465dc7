//! `failover`: kill -9 at named points, and how long a committed reader of the output then waits.

mod combination;
mod crew;
mod evidence;
mod lane;
mod point;
mod streams;
mod table;
mod traffic;
mod watch;

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use transom_harness::broker::ClusterOptions;
use transom_harness::proxy::Proxy;

use combination::{Combination, DEFAULT, OURS, STREAMS_THAT_WAIT, STREAMS_TUNED};
use lane::Stage;
use table::{Row, Trial};

const USAGE: &str = "\
Usage: failover [--repeats N] [--quick] [--only NAME]
Each named point N times (5; of Kafka Streams 3); --quick: 2 times and without Kafka Streams; --only: combinations whose name holds NAME.";
/// EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
const REPEATS: u32 = 5;
/// A kill of Kafka Streams takes up to a minute and a half.
const REPEATS_OF_STREAMS: u32 = 3;
const REPEATS_QUICK: u32 = 2;

struct Options {
    repeats: Option<u32>,
    is_quick: bool,
    only: String,
}

/// What is written to `failover.json`.
#[derive(Serialize)]
struct Results<'a> {
    broker: String,
    rows: &'a [Row],
    trials: &'a [Trial],
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(EXIT_USAGE);
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("failover: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { repeats: None, is_quick: false, only: String::new() };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--repeats" => options.repeats = Some(arguments.next()?.parse().ok().filter(|repeats| *repeats > 0)?),
            "--quick" => options.is_quick = true,
            "--only" => options.only = arguments.next()?.clone(),
            _ => return None,
        }
    }
    Some(options)
}

/// Returns whether every run was exact and every promise kept.
fn run(options: &Options) -> anyhow::Result<bool> {
    let begun = Instant::now();
    std::fs::create_dir_all(evidence::results()).context("make the folder of results")?;
    let (cluster, proxy) = Proxy::start(ClusterOptions { properties: broker_properties(), ..ClusterOptions::default() })?;
    let stage = Stage { cluster, proxy };
    let ours = options.repeats.unwrap_or(if options.is_quick { REPEATS_QUICK } else { REPEATS });
    let theirs = options.repeats.unwrap_or(REPEATS_OF_STREAMS);
    let mut trials = Vec::new();
    let mut void = 0;
    let mut play = |combinations: &[Combination], repeats: u32| {
        let chosen: Vec<&Combination> = combinations.iter().filter(|combination| combination.name.contains(&options.only)).collect();
        for played in beside(&stage, &chosen, repeats) {
            void += u32::from(played.is_none());
            trials.extend(played.into_iter().flatten());
        }
    };
    play(&[DEFAULT], ours);
    play(&OURS, ours);
    if options.is_quick {
        eprintln!("failover: a quick run leaves Kafka Streams out");
    } else if !streams::is_built() {
        eprintln!("failover: Kafka Streams is not built (make bench-peers) and left out");
    } else {
        play(&STREAMS_THAT_WAIT, theirs);
        play(&STREAMS_TUNED, theirs);
    }
    let rows = rows(&trials);
    let results = Results { broker: stage.cluster.description(), rows: &rows, trials: &trials };
    let file = evidence::results().join("failover.json");
    std::fs::write(&file, serde_json::to_string_pretty(&results)?).with_context(|| format!("write {}", file.display()))?;
    println!("\n{}\nmedian (maximum); {:.0} s in all, {}", table::markdown(&rows), begun.elapsed().as_secs_f64(), file.display());
    let misses: Vec<String> = rows.iter().filter_map(Row::miss).collect();
    misses.iter().for_each(|miss| println!("MISSED: {miss}"));
    if void > 0 {
        println!("VOID: {void} combinations failed or were not exact; logs: {}", evidence::results().join("logs").display());
    }
    Ok(void == 0 && misses.is_empty())
}

/// The session of the `consumer` protocol is the broker's; 45 s, and a word every 5 s, by default. As of the classic groups here.
fn broker_properties() -> Vec<(String, String)> {
    [("group.consumer.session.timeout.ms", "6000"), ("group.consumer.heartbeat.interval.ms", "1000")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// Runs combinations side by side; `None` for one that failed, after its words were printed.
fn beside(stage: &Stage, combinations: &[&Combination], repeats: u32) -> Vec<Option<Vec<Trial>>> {
    thread::scope(|scope| {
        let lanes: Vec<_> = combinations.iter().map(|combination| scope.spawn(move || lane::run(stage, combination, repeats))).collect();
        lanes.into_iter().map(|lane| lane.join().ok()).collect()
    })
}

fn rows(trials: &[Trial]) -> Vec<Row> {
    let all = std::iter::once(&DEFAULT).chain(&OURS).chain(&STREAMS_THAT_WAIT).chain(&STREAMS_TUNED);
    all.flat_map(|combination| combination.points().iter().map(move |point| (combination, point)))
        .filter_map(|(combination, point)| {
            let its = |trial: &&Trial| trial.combination == combination.title && trial.point == point.title();
            Row::of(&trials.iter().filter(its).collect::<Vec<_>>(), combination.limit_s)
        })
        .collect()
}
