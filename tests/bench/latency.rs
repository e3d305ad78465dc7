//! `bench latency`: from scheduled send to committed read, at three rates, for commit intervals of ours, of the bare loop and of Kafka Streams.

use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

use crate::contest;
use crate::contestant::{Contestant, OURS, OURS_ADAPTIVE, RAW_LOOP_5_MS, STREAMS, STREAMS_10_MS, Topics, Work};
use crate::ground::{self, Ground};
use crate::open_loop::{self, PARTITIONS, Stage, percentile};
use crate::ratio::{Limit, Spread, print_figure};
use crate::{Extent, save};

const CONTESTANTS: [Contestant; 5] = [OURS, OURS_ADAPTIVE, RAW_LOOP_5_MS, STREAMS, STREAMS_10_MS];
const RATES: [u32; 3] = [1_000, 10_000, 30_000];
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// More records than any run sends: a peer goes on until it is stopped.
const ENDLESS: u64 = 1_000_000_000_000;

/// One contestant at one rate.
#[derive(Clone, Debug, Serialize)]
struct Row {
    peer: String,
    interval: String,
    records_per_s: u32,
    round: u32,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    records: usize,
    exact: bool,
}

/// Runs all contestants at all rates; returns whether every output was right.
///
/// # Errors
/// If the broker fails, or the results cannot be written.
pub fn run(ground: &Ground, extent: Extent) -> Result<bool> {
    let mut contestants = Vec::new();
    for contestant in CONTESTANTS {
        match contestant.missing(Work::Clean)? {
            None => contestants.push(contestant),
            Some(reason) => eprintln!("bench: latency: {} is not available: {reason}", contestant.name),
        }
    }
    // A broker that was just started is slow, whoever asks; the first contestant would pay for all.
    for contestant in &contestants {
        if let Err(error) = measure(ground, contestant, 0, extent, &[]) {
            eprintln!("bench: latency, before the rounds: {} failed: {error:#}", contestant.name);
        }
    }
    let mut rows = Vec::new();
    for round in 1..=extent.choose(1, 3) {
        for contestant in &contestants {
            match measure(ground, contestant, round, extent, &RATES) {
                Ok(measured) => rows.extend(measured),
                Err(error) => {
                    eprintln!("bench: latency, round {round}: {} failed: {error:#}", contestant.name);
                    rows.push(Row::void(contestant, round));
                }
            }
        }
        let step = usize::from(!contestants.is_empty());
        contestants.rotate_left(step);
    }
    save("latency.json", &rows)?;
    print(&rows);
    Ok(rows.iter().all(|row| row.exact))
}

fn measure(ground: &Ground, contestant: &Contestant, round: u32, extent: Extent, rates: &[u32]) -> Result<Vec<Row>> {
    let input = ground.new_name("in");
    ground.client.create_topic(&input, PARTITIONS, &[])?;
    let topics = Topics::create(ground, &input, PARTITIONS, contestant)?;
    let mut program = contestant.start(ground, &topics, Work::Clean, ENDLESS)?;
    // It does not count: a process starts, joins its group and, where it has a JVM, warms up.
    let warm_up = Stage { number: 0, records_per_s: 10_000, seconds: extent.choose(5, 10) };
    let mut whole = open_loop::drive(ground, &topics.input, &topics.output, warm_up)?;
    let mut measured = Vec::new();
    for (&records_per_s, number) in rates.iter().zip(1..) {
        let stage = Stage { number, records_per_s, seconds: extent.choose(5, 15) };
        let driven = open_loop::drive(ground, &topics.input, &topics.output, stage)?;
        program.expect_running()?;
        whole.outputs = whole.outputs.beside(driven.outputs);
        whole.is_complete &= driven.is_complete;
        measured.push((records_per_s, driven.latencies_us));
    }
    program.stop(STOP_DEADLINE)?;
    let exact = whole.is_complete && contest::read(ground, &topics.output)? == whole.outputs;
    ground.remove_topics(&[&topics.input, &topics.output, &topics.dead_letters]);

    let rows = measured.iter().map(|(records_per_s, latencies)| {
        let ms = |per_mille| percentile(latencies, per_mille).map_or(f64::NAN, |us| us as f64 / 1000.0);
        let row = Row {
            records_per_s: *records_per_s,
            p50_ms: ms(500),
            p99_ms: ms(990),
            p999_ms: ms(999),
            max_ms: ms(1000),
            records: latencies.len(),
            exact,
            ..Row::void(contestant, round)
        };
        eprintln!(
            "bench: latency round {round}  {:<18} {:>6}/s  p50 {:>7.1}  p99 {:>7.1}  p99.9 {:>7.1} ms{}",
            row.peer,
            row.records_per_s,
            row.p50_ms,
            row.p99_ms,
            row.p999_ms,
            if exact { "" } else { "  VOID" }
        );
        row
    });
    Ok(rows.collect())
}

impl Row {
    fn void(contestant: &Contestant, round: u32) -> Self {
        let (peer, interval) = (contestant.name.to_owned(), contestant.interval.to_owned());
        Self { peer, interval, records_per_s: 0, round, p50_ms: 0.0, p99_ms: 0.0, p999_ms: 0.0, max_ms: 0.0, records: 0, exact: false }
    }
}

fn spread(rows: &[Row], peer: &str, records_per_s: u32, measure: fn(&Row) -> f64) -> Option<Spread> {
    Spread::of(rows.iter().filter(|row| row.exact && row.peer == peer && row.records_per_s == records_per_s).map(measure))
}

fn print(rows: &[Row]) {
    println!("\n{:<20} {:>9} {:>9}  {:>24} {:>24} {:>24}", "peer", "commit", "records/s", "p50 ms", "p99 ms", "p99.9 ms");
    for contestant in CONTESTANTS {
        for rate in RATES {
            let show = |measure| spread(rows, contestant.name, rate, measure).map_or_else(|| "–".to_owned(), |spread| spread.to_string());
            let (p50, p99, p999) = (show(|row| row.p50_ms), show(|row| row.p99_ms), show(|row| row.p999_ms));
            println!("{:<20} {:>9} {rate:>9}  {p50:>24} {p99:>24} {p999:>24}", contestant.name, contestant.interval);
        }
    }
    println!();
    let figure = |what: &str, contestant: Contestant, rate, measure: fn(&Row) -> f64, limit| {
        let spread = spread(rows, contestant.name, rate, measure);
        print_figure(what, spread.map(|spread| spread.median), &spread.map(|spread| spread.to_string()).unwrap_or_default(), limit);
    };
    figure("p99 at 10 k/s, 100 ms", OURS, 10_000, |row| row.p99_ms, Limit::AtMost(130.0));
    figure("p50 at 1 k/s, adaptive", OURS_ADAPTIVE, 1_000, |row| row.p50_ms, Limit::AtMost(25.0));
    figure("p99 at 1 k/s, adaptive", OURS_ADAPTIVE, 1_000, |row| row.p99_ms, Limit::AtMost(90.0));
    let p50 = |peer: &'static str| rows.iter().filter(move |row| row.exact && row.peer == peer && row.records_per_s == 1_000);
    let cycles = Spread::of(p50(OURS_ADAPTIVE.name).filter_map(|ours| {
        let raw_loop = p50(RAW_LOOP_5_MS.name).find(|row| row.round == ours.round)?;
        Some(ours.p50_ms / raw_loop.p50_ms)
    }));
    let range = cycles.map(|cycles| cycles.to_string()).unwrap_or_default();
    print_figure("p50 at 1 k/s, adaptive / raw loop's own cycle", cycles.map(|cycles| cycles.median), &range, Limit::AtMost(2.0));
    if rows.iter().any(|row| !row.exact) {
        println!("\nruns are VOID: their output was not exactly what it should be; logs: {}", ground::logs().display());
    }
}
