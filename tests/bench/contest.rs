//! One input, several contestants, interleaved rounds; every output is checked.
//!
//! A run whose output is not exactly what it should be is void: its numbers are kept, marked, and used for nothing.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::process::Command;
use std::time::Duration;
use transom_harness::oracle::no_open_transactions;
use transom_harness::wire::ReadRecord;

use crate::contestant::{Contestant, Topics, Work};
use crate::digest::{Digest, Sequences};
use crate::expected;
use crate::ground::{self, Ground};
use crate::program::Program;

const FILL_DEADLINE: Duration = Duration::from_secs(300);
/// For the markers of the last transaction, in all partitions.
const MARKERS_DEADLINE: Duration = Duration::from_secs(30);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in results.
    pub name: String,
    /// What becomes of a record.
    pub work: Work,
    /// How many records.
    pub records: u64,
    /// Bytes of a record at least; 0 for an order with one item, about 200.
    pub record_bytes_min: usize,
    /// Of every topic.
    pub partitions: i32,
    /// Who takes part, in the order of the first round.
    pub contestants: Vec<Contestant>,
}

/// One run of one contestant.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// [`Workload::name`].
    pub workload: String,
    /// [`Contestant::name`].
    pub peer: String,
    /// From 1.
    pub round: u32,
    /// By the broker's clock, from the first output appended to the last.
    pub records_per_s: f64,
    /// The whole process, from exec to exit.
    pub cpu_s_per_million: f64,
    /// Peak resident set.
    pub rss_mb: f64,
    /// The broker's share, where its process is visible.
    pub broker_cpu_s_per_million: Option<f64>,
    /// Whether the output was right; a run that failed has zeros and `false`.
    pub exact: bool,
}

/// A filled input topic and what should become of it.
struct Input {
    topic: String,
    outputs: Digest,
    dead_letters: Digest,
}

/// Runs all rounds of a workload, and one before them that does not count: a broker's first megabytes are slow for everybody.
///
/// # Errors
/// If the broker fails or the input cannot be filled. A contestant's failure is a void row.
pub fn run(ground: &Ground, workload: &Workload, rounds: u32) -> Result<Vec<Row>> {
    let mut contestants = Vec::new();
    for contestant in &workload.contestants {
        match contestant.missing(workload.work)? {
            None => contestants.push(*contestant),
            Some(reason) => eprintln!("bench: {}: {} is not available: {reason}", workload.name, contestant.name),
        }
    }
    let input = Input::fill(ground, workload)?;
    let mut rows = Vec::new();
    if let Some(first) = contestants.first() {
        run_once(ground, workload, &input, first, 0);
    }
    for round in 1..=rounds {
        for contestant in &contestants {
            rows.push(run_once(ground, workload, &input, contestant, round));
        }
        // The next round begins with another one: whoever always followed the slowest would find the quietest broker.
        let step = usize::from(!contestants.is_empty());
        contestants.rotate_left(step);
    }
    ground.remove_topics(&[&input.topic]);
    Ok(rows)
}

fn run_once(ground: &Ground, workload: &Workload, input: &Input, contestant: &Contestant, round: u32) -> Row {
    let row = measure(ground, workload, input, contestant, round).unwrap_or_else(|error| {
        eprintln!("bench: {}, round {round}: {} failed: {error:#}", workload.name, contestant.name);
        Row {
            workload: workload.name.clone(),
            peer: contestant.name.to_owned(),
            round,
            records_per_s: 0.0,
            cpu_s_per_million: 0.0,
            rss_mb: 0.0,
            broker_cpu_s_per_million: None,
            exact: false,
        }
    });
    eprintln!(
        "bench: {:<9} round {round}  {:<22} {:>9.0} records/s  {:>6.2} CPU s per 1 M  {:>6.0} MB{}",
        row.workload,
        row.peer,
        row.records_per_s,
        row.cpu_s_per_million,
        row.rss_mb,
        if row.exact { "" } else { "  VOID" }
    );
    row
}

fn measure(ground: &Ground, workload: &Workload, input: &Input, contestant: &Contestant, round: u32) -> Result<Row> {
    let topics = Topics::create(ground, &input.topic, workload.partitions, contestant)?;
    let broker_before_s = ground.broker_cpu_s();
    let program = contestant.start(ground, &topics, workload.work, workload.records)?;
    let used = contestant.finish(program, workload.records)?;
    let broker_s = ground.broker_cpu_s().zip(broker_before_s).map(|(after, before)| after - before);

    let mut span = Span::default();
    let outputs = read_timed(ground, &topics.output, &mut span)?;
    let dead_letters = read_timed(ground, &topics.dead_letters, &mut span)?;
    ground.remove_topics(&[&topics.output, &topics.dead_letters]);
    let exact = (outputs, dead_letters) == (input.outputs, input.dead_letters);
    if !exact {
        eprintln!(
            "bench: {}: {} wrote {} outputs and {} dead letters, right are {} and {}, or their contents or order differ",
            workload.name, contestant.name, outputs.records, dead_letters.records, input.outputs.records, input.dead_letters.records
        );
    }
    let millions = workload.records as f64 / 1e6;
    Ok(Row {
        workload: workload.name.clone(),
        peer: contestant.name.to_owned(),
        round,
        records_per_s: workload.records as f64 / span.seconds(),
        cpu_s_per_million: used.cpu_s / millions,
        rss_mb: used.rss_mb,
        broker_cpu_s_per_million: broker_s.map(|seconds| seconds / millions),
        exact,
    })
}

impl Input {
    /// Fills a new topic and reads it back, to know what should become of each record.
    fn fill(ground: &Ground, workload: &Workload) -> Result<Self> {
        let topic = ground.new_name("in");
        fill(ground, &topic, workload.partitions, workload.records, workload.record_bytes_min)?;
        let (mut outputs, mut dead_letters) = (Sequences::default(), Sequences::default());
        for partition in 0..workload.partitions {
            each_committed(ground, &topic, partition, |record| {
                let (key, value) = (record.key.as_deref(), record.value.as_deref());
                match workload.work {
                    Work::Copy => outputs.add(key, value),
                    Work::Clean => match value.and_then(expected::clean) {
                        Some(clean) => outputs.add(key, Some(&clean)),
                        None => dead_letters.add(key, value),
                    },
                }
            })?;
        }
        let (outputs, dead_letters) = (outputs.digest(), dead_letters.digest());
        let records = outputs.records + dead_letters.records;
        ensure!(records == workload.records, "{topic} holds {records} of {} records", workload.records);
        Ok(Self { topic, outputs, dead_letters })
    }
}

/// Makes a topic and fills it with the generator's orders.
///
/// # Errors
/// If the broker refuses or the generator fails.
pub fn fill(ground: &Ground, topic: &str, partitions: i32, records: u64, record_bytes_min: usize) -> Result<()> {
    ground.client.create_topic(topic, partitions, &[])?;
    let mut command = Command::new(ground::built("rawloop")?);
    command.args(["gen", &ground.bootstrap, topic, &records.to_string(), &record_bytes_min.to_string()]);
    let log = ground::logs().join(format!("{topic}.log"));
    Program::start("the generator", &mut command, &log)?.ends_within(FILL_DEADLINE).context("fill the input")?;
    Ok(())
}

/// When the first and the last record of a topic were appended.
#[derive(Debug, Default)]
struct Span(Option<(i64, i64)>);

impl Span {
    fn add(&mut self, timestamp_ms: i64) {
        let (first, last) = self.0.unwrap_or((timestamp_ms, timestamp_ms));
        self.0 = Some((first.min(timestamp_ms), last.max(timestamp_ms)));
    }

    fn seconds(&self) -> f64 {
        // The clock's resolution, for a run that is over within it.
        self.0.map_or(0.001, |(first, last)| ((last - first) as f64 / 1000.0).max(0.001))
    }
}

/// Returns the digest of what a topic shows to a reader of committed data.
///
/// # Errors
/// If the broker fails, or a transaction is still open.
pub fn read(ground: &Ground, topic: &str) -> Result<Digest> {
    read_timed(ground, topic, &mut Span::default())
}

fn read_timed(ground: &Ground, topic: &str, span: &mut Span) -> Result<Digest> {
    // A commit is decided before its markers are written, and a peer may be gone by then.
    no_open_transactions(&ground.client, &[topic], MARKERS_DEADLINE)?;
    let mut sequences = Sequences::default();
    for partition in 0..ground.client.partition_count(topic)? {
        each_committed(ground, topic, partition, |record| {
            span.add(record.timestamp_ms);
            sequences.add(record.key.as_deref(), record.value.as_deref());
        })?;
    }
    Ok(sequences.digest())
}

/// Shows each committed record of a partition, up to its last stable offset, without holding them all in memory.
fn each_committed(ground: &Ground, topic: &str, partition: i32, mut show: impl FnMut(&ReadRecord)) -> Result<()> {
    let ends = ground.client.end_offsets_of(topic, partition)?;
    let mut position = ends.log_start;
    while position < ends.last_stable {
        let (records, next) = ground.client.read_committed_from(topic, partition, position)?;
        ensure!(next > position, "{topic}:{partition} gives nothing at {position}, the end is {}", ends.last_stable);
        records.iter().for_each(&mut show);
        position = next;
    }
    Ok(())
}
