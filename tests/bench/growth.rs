//! `bench growth`: how soon it starts, how much memory it takes, and how cost per record grows with partitions, workers and size.

use anyhow::{Result, ensure};
use serde::Serialize;
use std::time::{Duration, Instant};

use crate::contest::{self, Workload};
use crate::contestant::{Contestant, FRANZ_GO, Kind, OURS, RAW_LOOP, STREAMS, Topics, Work};
use crate::ground::{self, Ground};
use crate::open_loop::{self, PARTITIONS, Stage};
use crate::ratio::{CPU, Limit, RSS, Spread, print_figure, ratio, spread};
use crate::throughput::print_table;
use crate::{Extent, save};

const OURS_2_WORKERS: Contestant = Contestant { name: "transom-2-workers", kind: Kind::Ours { guarantee: "exactly_once", workers: 2 }, ..OURS };
const OURS_4_WORKERS: Contestant = Contestant { name: "transom-4-workers", kind: Kind::Ours { guarantee: "exactly_once", workers: 4 }, ..OURS };

/// From few to as many as one instance is given in practice.
const PARTITION_COUNTS: [i32; 3] = [4, 32, 128];
const WORKER_PARTITIONS: i32 = 8;
/// Enough for a first output, few enough to be over at once.
const START_RECORDS: u64 = 1_000;
/// A JVM on a busy machine needs a tenth of it.
const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// One start of one contestant.
#[derive(Clone, Debug, Serialize)]
struct Start {
    peer: String,
    round: u32,
    /// From exec to the first committed output seen by a reader.
    seconds: f64,
}

/// Peak memory of one contestant.
#[derive(Clone, Debug, Serialize)]
struct Memory {
    peer: String,
    records_per_s: u32,
    rss_mb: f64,
    exact: bool,
}

#[derive(Debug, Serialize)]
struct Results {
    starts: Vec<Start>,
    memory: Vec<Memory>,
    runs: Vec<contest::Row>,
}

/// Measures all of it; returns whether every output was right.
///
/// # Errors
/// If the broker fails, or the results cannot be written.
pub fn run(ground: &Ground, extent: Extent) -> Result<bool> {
    let starts = starts(ground, extent.choose(3, 5))?;
    let memory = memory(ground, extent)?;
    let mut runs = Vec::new();
    for workload in workloads(extent) {
        runs.extend(contest::run(ground, &workload, extent.choose(1, 5))?);
    }
    let results = Results { starts, memory, runs };
    save("growth.json", &results)?;
    print(&results);
    let is_exact = results.runs.iter().all(|row| row.exact) && results.memory.iter().all(|memory| memory.exact);
    if !is_exact {
        println!("\nruns are VOID: their output was not exactly what it should be; logs: {}", ground::logs().display());
    }
    Ok(is_exact)
}

fn workloads(extent: Extent) -> Vec<Workload> {
    let workload = |name: String, records, record_bytes_min, partitions, contestants| Workload {
        name,
        work: Work::Clean,
        records,
        record_bytes_min,
        partitions,
        contestants,
    };
    let records = extent.choose(300_000, 3_000_000);
    let by_partitions = PARTITION_COUNTS.map(|partitions| workload(by_partitions(partitions), records, 0, partitions, vec![RAW_LOOP, OURS]));
    let by_workers = workload("workers".to_owned(), records, 0, WORKER_PARTITIONS, vec![OURS, OURS_2_WORKERS, OURS_4_WORKERS]);
    let by_size = [("1-KB", 1_000, records / 3), ("10-KB", 10_000, records / 20)];
    let by_size = by_size.map(|(name, bytes, records)| workload(name.to_owned(), records, bytes, 4, vec![RAW_LOOP, OURS]));
    by_partitions.into_iter().chain([by_workers]).chain(by_size).collect()
}

fn by_partitions(partitions: i32) -> String {
    format!("{partitions}-partitions")
}

/// Starts each contestant on an input that is there already. The first round does not count: in it a new broker makes its own topics.
fn starts(ground: &Ground, rounds: u32) -> Result<Vec<Start>> {
    let input = ground.new_name("in");
    contest::fill(ground, &input, 1, START_RECORDS, 0)?;
    let mut starts = Vec::new();
    for round in 0..=rounds {
        for contestant in [OURS, RAW_LOOP, FRANZ_GO, STREAMS] {
            if let Some(reason) = contestant.missing(Work::Clean)? {
                eprintln!("bench: start: {} is not available: {reason}", contestant.name);
                continue;
            }
            let topics = Topics::create(ground, &input, 1, &contestant)?;
            let began = Instant::now();
            let mut program = contestant.start(ground, &topics, Work::Clean, START_RECORDS)?;
            // A fetch waits for data: the reader learns of it as soon as it is committed.
            let mut position = 0;
            let seconds = loop {
                let (records, next) = ground.client.read_committed_from(&topics.output, 0, position)?;
                if !records.is_empty() {
                    break began.elapsed().as_secs_f64();
                }
                position = next;
                ensure!(began.elapsed() < START_DEADLINE, "{} wrote nothing in {} s", contestant.name, START_DEADLINE.as_secs());
                if let Kind::Ours { .. } = contestant.kind {
                    program.expect_running()?;
                }
            };
            eprintln!("bench: start round {round}  {:<22} {seconds:.2} s", contestant.name);
            contestant.finish(program, START_RECORDS)?;
            ground.remove_topics(&[&topics.output, &topics.dead_letters]);
            if round > 0 {
                starts.push(Start { peer: contestant.name.to_owned(), round, seconds });
            }
        }
    }
    ground.remove_topics(&[&input]);
    Ok(starts)
}

/// Peak memory at 10 k records/s; that of a full drain stands in the runs.
fn memory(ground: &Ground, extent: Extent) -> Result<Vec<Memory>> {
    let stage = Stage { number: 0, records_per_s: 10_000, seconds: extent.choose(10, 30) };
    let mut memory = Vec::new();
    for contestant in [OURS, STREAMS] {
        if contestant.missing(Work::Clean)?.is_some() {
            continue;
        }
        let input = ground.new_name("in");
        ground.client.create_topic(&input, PARTITIONS, &[])?;
        let topics = Topics::create(ground, &input, PARTITIONS, &contestant)?;
        // More records than are sent: a peer goes on until it is stopped.
        let mut program = contestant.start(ground, &topics, Work::Clean, u64::from(u32::MAX))?;
        let driven = open_loop::drive(ground, &topics.input, &topics.output, stage)?;
        program.expect_running()?;
        let rss_mb = program.rss_mb();
        program.stop(STOP_DEADLINE)?;
        let exact = driven.is_complete && contest::read(ground, &topics.output)? == driven.outputs;
        ground.remove_topics(&[&topics.input, &topics.output, &topics.dead_letters]);
        eprintln!("bench: memory at 10 k records/s  {:<22} {rss_mb:.0} MB{}", contestant.name, if exact { "" } else { "  VOID" });
        memory.push(Memory { peer: contestant.name.to_owned(), records_per_s: 10_000, rss_mb, exact });
    }
    Ok(memory)
}

fn print(results: &Results) {
    let Results { starts, memory, runs } = results;
    println!("\n{:<22} {:>26} {:>22}", "peer", "exec to first output, s", "MB at 10 k records/s");
    for contestant in [OURS, RAW_LOOP, FRANZ_GO, STREAMS] {
        let seconds = spread_of_starts(starts, contestant.name).map_or_else(|| "–".to_owned(), |spread| spread.to_string());
        let held = memory.iter().find(|memory| memory.peer == contestant.name);
        println!("{:<22} {seconds:>26} {:>22}", contestant.name, held.map_or_else(|| "–".to_owned(), |memory| format!("{:.0}", memory.rss_mb)));
    }
    print_table(runs);
    println!();
    let show = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.2}"));
    let start = spread_of_starts(starts, OURS.name);
    print_figure("cold start, s", start.map(|spread| spread.median), &start.map(|spread| spread.to_string()).unwrap_or_default(), Limit::AtMost(1.0));
    let held = memory.iter().find(|memory| memory.exact && memory.peer == OURS.name).map(|memory| memory.rss_mb);
    print_figure("RSS at 10 k records/s, MB", held, &show(held), Limit::AtMost(64.0));
    let drain = spread(runs, &by_partitions(4), OURS.name, RSS).map(|spread| spread.max);
    print_figure("RSS in a full drain, 4 partitions, MB", drain, &show(drain), Limit::AtMost(150.0));
    let against_raw_loop = |partitions| {
        let workload = by_partitions(partitions);
        ratio(runs, (&workload, OURS.name), (&workload, RAW_LOOP.name), CPU).map(|spread| spread.median)
    };
    let base = against_raw_loop(PARTITION_COUNTS[0]);
    for partitions in &PARTITION_COUNTS[1..] {
        let grown = against_raw_loop(*partitions).zip(base).map(|(many, few)| many / few);
        // A twentieth is what one and the same program differs from run to run.
        print_figure(&format!("CPU growth from 4 to {partitions} partitions / rawloop's growth"), grown, &show(grown), Limit::AtMost(1.05));
    }
}

fn spread_of_starts(starts: &[Start], peer: &str) -> Option<Spread> {
    Spread::of(starts.iter().filter(|start| start.peer == peer).map(|start| start.seconds))
}
