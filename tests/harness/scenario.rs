//! The language of the suites: one scenario is one pipeline with its topics, under names no other test has.
//!
//! Its verbs panic with what was awaited and what was seen instead: a test is a script, and a failed step ends it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::broker::Cluster;
use crate::instance::{Instance, InstanceOptions};
use crate::oracle::{Books, Expected, Report, held_back_partitions, no_open_transactions};
use crate::wire::{Client, CommittedOffset, NewRecord, OffsetsAsked, ReadRecord};

/// Repeats a run: `TRANSOM_SEED=… cargo test …`.
pub const SEED_VARIABLE: &str = "TRANSOM_SEED";

/// Pause between two looks at the cluster.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Longer than any transaction of a test may stay open once all instances have drained.
const TRANSACTIONS_DEADLINE: Duration = Duration::from_secs(10);

/// One pipeline, its topics, and the files of its instances.
pub struct Scenario {
    client: Client,
    bootstrap: String,
    unique: String,
    directory: TempDir,
    files: AtomicUsize,
}

impl Scenario {
    /// Opens a scenario on the shared broker. `name` begins all its names.
    #[track_caller]
    pub fn shared(name: &str) -> Self {
        Self::on(Cluster::shared().bootstrap(), name)
    }

    /// Opens a scenario on a broker of the test's own.
    #[track_caller]
    pub fn on(bootstrap: &str, name: &str) -> Self {
        Self::through(bootstrap, bootstrap, name)
    }

    /// Opens a scenario whose instances reach the brokers through a proxy, and the oracle does not.
    #[track_caller]
    pub fn through(proxy: &str, bootstrap: &str, name: &str) -> Self {
        let client = must(Client::connect(bootstrap));
        let random = RandomState::new().build_hasher().finish();
        let unique = format!("{name}-{:08x}", random & 0xffff_ffff);
        let directory = must(tempfile::tempdir());
        Self { client, bootstrap: proxy.to_owned(), unique, directory, files: AtomicUsize::new(0) }
    }

    /// Returns the oracle's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the bootstrap servers of the instances.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns where the files and logs of its instances lie, as long as it lives.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a short name as it is called in this scenario: `in` becomes `name-0123abcd.in`.
    pub fn full(&self, short: &str) -> String {
        format!("{}.{short}", self.unique)
    }

    /// Returns the pipeline's name, which is its group's.
    pub fn pipeline(&self) -> &str {
        &self.unique
    }

    /// Makes a topic and returns its full name.
    #[track_caller]
    pub fn topic(&self, short: &str, partitions: i32) -> String {
        self.topic_with(short, partitions, &[])
    }

    /// Makes a topic with configuration and returns its full name.
    #[track_caller]
    pub fn topic_with(&self, short: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        let name = self.full(short);
        must(self.client.create_topic(&name, partitions, configs));
        name
    }

    /// Writes a file for this scenario: `@pipeline` becomes the pipeline's name, `@bootstrap` the servers, and `@in` the full
    /// name of `in`, for every other word.
    #[track_caller]
    pub fn file(&self, yaml: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.path().join(format!("pipeline-{number}.yaml"));
        must(std::fs::write(&path, self.fill_in(yaml)));
        path
    }

    /// Returns a text with its names filled in, as [`Scenario::file`] does.
    pub fn fill_in(&self, text: &str) -> String {
        let mut parts = text.split('@');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(part.len());
            match &part[..end] {
                "bootstrap" => filled.push_str(&self.bootstrap),
                "pipeline" => filled.push_str(&self.unique),
                short => filled.push_str(&self.full(short)),
            }
            filled.push_str(&part[end..]);
        }
        filled
    }

    /// Starts an instance with a name: static membership.
    #[track_caller]
    pub fn start(&self, name: &str, yaml: &str) -> Instance {
        self.start_with(Some(name), yaml, &[])
    }

    /// Starts an instance with or without a name, and with environment variables.
    #[track_caller]
    pub fn start_with(&self, name: Option<&str>, yaml: &str, variables: &[(&str, &str)]) -> Instance {
        Instance::start(self.instance_options(name, yaml, variables))
    }

    /// Returns what [`Scenario::start_with`] starts, for a test that wants it otherwise.
    #[track_caller]
    pub fn instance_options(&self, name: Option<&str>, yaml: &str, variables: &[(&str, &str)]) -> InstanceOptions {
        let pipeline = self.file(yaml);
        let log = pipeline.with_extension("log");
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        InstanceOptions { name: name.map(str::to_owned), pipeline, log, variables, program: None }
    }

    /// Writes records to the partitions of their keys; returns partition and offset of each.
    #[track_caller]
    pub fn produce(&self, topic: &str, records: Vec<NewRecord>) -> Vec<(i32, i64)> {
        must(self.client.produce_keyed(topic, records))
    }

    /// Writes records to one partition; returns their offsets.
    #[track_caller]
    pub fn produce_to(&self, topic: &str, partition: i32, records: &[NewRecord]) -> Vec<i64> {
        must(self.client.produce(topic, partition, records))
    }

    /// Waits until the group has committed the end of every partition of these topics, and returns its offsets.
    #[track_caller]
    pub fn awaits_all_committed(&self, topics: &[&str], deadline: Duration) -> BTreeMap<(String, i32), CommittedOffset> {
        self.awaits_all_committed_by(self.pipeline(), topics, deadline)
    }

    /// The same for another group than the scenario's.
    #[track_caller]
    pub fn awaits_all_committed_by(&self, group: &str, topics: &[&str], deadline: Duration) -> BTreeMap<(String, i32), CommittedOffset> {
        let until = Instant::now() + deadline;
        loop {
            let committed = must(self.client.committed_offsets(group, OffsetsAsked::EvenIfPending));
            let mut behind = String::new();
            for topic in topics {
                for (partition, ends) in must(self.client.end_offsets(topic)) {
                    let offset = committed.get(&((*topic).to_owned(), partition)).map(|committed| committed.offset);
                    if offset.unwrap_or(0) != ends.high_watermark {
                        let _ = write!(behind, "\n  {topic}:{partition} committed {offset:?}, {ends:?}");
                    }
                }
            }
            if behind.is_empty() {
                return committed;
            }
            if Instant::now() >= until {
                panic!("after {deadline:?} the group {group} is still behind:{behind}\n{:?}", self.client.describe_group(group));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Reads a topic as read-committed, once the markers of what has been committed are there (see [`Self::awaits_markers`]).
    #[track_caller]
    pub fn read(&self, topic: &str) -> Vec<ReadRecord> {
        self.awaits_markers(&[topic]);
        must(self.client.read_committed(topic))
    }

    /// Waits until nothing in these topics is held back from readers. A commit is decided before its markers are written, and
    /// each partition gets its own: the group's offsets may be there before an output is. What is left open on purpose is
    /// waited for in vain, ten seconds long, and is no failure.
    #[track_caller]
    pub fn awaits_markers(&self, topics: &[&str]) {
        let until = Instant::now() + TRANSACTIONS_DEADLINE;
        while Instant::now() < until && !must(held_back_partitions(&self.client, topics)).is_empty() {
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Returns how many records of aborted transactions lie in a topic: what crashes left behind.
    #[track_caller]
    pub fn aborted_records(&self, topic: &str) -> usize {
        must(self.client.read_uncommitted(topic)).len() - self.read(topic).len()
    }

    /// Judges the run: every input has exactly its outputs or its dead letter, in order; the group has committed the end of
    /// the inputs; no transaction is open. To be called when everything has drained and nobody writes any more.
    #[track_caller]
    pub fn expect_exactly_once(
        &self,
        inputs: &[&str],
        outputs: &[&str],
        dead_letters: &[&str],
        expected: impl Fn(&str, &ReadRecord) -> Expected,
    ) -> Report {
        self.expect_exactly_once_by(self.pipeline(), inputs, outputs, dead_letters, expected)
    }

    /// The same for another group than the scenario's.
    #[track_caller]
    pub fn expect_exactly_once_by(
        &self,
        group: &str,
        inputs: &[&str],
        outputs: &[&str],
        dead_letters: &[&str],
        expected: impl Fn(&str, &ReadRecord) -> Expected,
    ) -> Report {
        let touched: Vec<&str> = outputs.iter().chain(dead_letters).copied().collect();
        must(no_open_transactions(&self.client, &touched, TRANSACTIONS_DEADLINE));
        let report = self.audit(group, inputs, outputs, dead_letters, expected);
        must(report.expect_exact());
        report
    }

    /// Compares without a verdict, for tests that mean to find something.
    #[track_caller]
    pub fn audit(
        &self,
        group: &str,
        inputs: &[&str],
        outputs: &[&str],
        dead_letters: &[&str],
        expected: impl Fn(&str, &ReadRecord) -> Expected,
    ) -> Report {
        let committed = self.awaits_all_committed_by(group, inputs, TRANSACTIONS_DEADLINE);
        self.awaits_markers(&[outputs, dead_letters].concat());
        must(Books::read(&self.client, inputs, outputs, dead_letters)).committed(&committed).audit(expected)
    }
}

/// Ends the test with the whole chain of causes.
#[track_caller]
fn must<T, E: Into<anyhow::Error>>(result: Result<T, E>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{:#}", error.into()),
    }
}

/// Random numbers that a seed repeats. SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a source seeded by `TRANSOM_SEED`, else by chance, and prints the line that repeats it.
    pub fn from_environment() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish() & 0xffff_ffff);
        println!("to repeat: {SEED_VARIABLE}={seed}");
        Self(seed)
    }

    /// Returns a source with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which is not 0. Its bias is far below anything a test could see.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Returns a duration from `low` up to `high` (exclusive), in whole milliseconds.
    pub fn between_ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(low + self.below(high - low))
    }
}
