//! The file's mirror: every key, read and checked alone.
//!
//! Defaults live here, beside the keys that they belong to; their reasons are in `README.md`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use super::free_form;
use super::mistake::{Mistake, Shown};
use super::name::is_name;
use super::plan::{Format, GroupProtocol, Guarantee, ProcessorConfig, Start, Tombstones};
use super::problem::Report;
use super::scalar::{self, Words, choice, duration, integer, size};
use super::section::{Absent, At, Field, Section, list_of, mapping_of, scalar_of};
use super::tree::{Content, Entry, Node, Scalar, path_of};

const STARTS: Words<Start> = &[("earliest", Start::Earliest), ("latest", Start::Latest)];
const FORMATS: Words<Format> = &[("json", Format::Json), ("bytes", Format::Bytes)];
const PROTOCOLS: Words<GroupProtocol> = &[("classic", GroupProtocol::Classic), ("consumer", GroupProtocol::Consumer)];
const GUARANTEES: Words<Guarantee> =
    &[("exactly_once", Guarantee::ExactlyOnce), ("at_least_once", Guarantee::AtLeastOnce), ("at_most_once", Guarantee::AtMostOnce)];
const TOMBSTONES: Words<Tombstones> = &[("dead_letter", Tombstones::DeadLetter), ("forward", Tombstones::Forward), ("filter", Tombstones::Filter)];
const OPERATORS_LATER: [&str; 5] = ["dedup", "latest", "sequence", "window", "join"];

/// Each worker costs two threads, two clients and their buffers; more work goes into more instances.
const WORKERS: RangeInclusive<u16> = 1..=64;
/// Far above what a cluster carries for one topic; catches a slipped digit.
const PARTITIONS: RangeInclusive<u32> = 1..=10_000;
const REPLICATION: RangeInclusive<u16> = 1..=100;
/// A record that fails a hundred times does not fail by chance.
const ATTEMPTS: RangeInclusive<u32> = 1..=100;
const RECORDS: RangeInclusive<u64> = 1..=10_000_000;
/// From one small record to the most memory that two batches of one worker should take.
const BYTES: RangeInclusive<u64> = 1024..=1024 * 1024 * 1024;
const INTERVAL: RangeInclusive<Duration> = ms(1)..=ms(60_000);
/// `commit.interval: adaptive`: a batch closes as soon as the previous one is done, at most this often. Small batches when
/// it is quiet, big ones under load.
const ADAPTIVE_INTERVAL: Duration = ms(5);
const BACKOFF: RangeInclusive<Duration> = ms(1)..=ms(60_000);
/// Below a tenth of a second a busy broker looks like a dead one; above an hour nobody waits.
const DEADLINE: RangeInclusive<Duration> = ms(100)..=ms(3_600_000);
/// Lower and upper limit of `transaction.timeout.ms` and `session.timeout.ms` in the client library, the upper one of
/// the former cut to an hour: so long a dead transaction may block readers.
const SECONDS: RangeInclusive<Duration> = ms(1_000)..=ms(3_600_000);
/// The client library's limit for `max.poll.interval.ms` is one day.
const POLL: RangeInclusive<Duration> = ms(1_000)..=ms(86_400_000);

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(super) struct Mirror {
    pub(super) pipeline: Field<String>,
    pub(super) kafka: MirrorKafka,
    pub(super) start: Field<Start>,
    pub(super) inputs: Vec<MirrorInput>,
    pub(super) steps: MirrorSteps,
    pub(super) outputs: MirrorOutputs,
    pub(super) dead_letters: Option<MirrorDeadLetters>,
    pub(super) guarantee: Field<Guarantee>,
    pub(super) workers: Field<u16>,
    pub(super) commit: MirrorCommit,
    pub(super) timeouts: MirrorTimeouts,
    pub(super) protocol: Field<GroupProtocol>,
    pub(super) listen: Field<SocketAddr>,
}

pub(super) struct MirrorKafka {
    pub(super) at: At,
    pub(super) properties: Vec<MirrorProperty>,
    /// Every key that is written, with those whose value has been reported.
    pub(super) keys: Vec<String>,
    /// The section is there and is a mapping.
    pub(super) readable: bool,
}

pub(super) struct MirrorProperty {
    /// The name as written, with its prefix.
    pub(super) key: String,
    pub(super) text: String,
    pub(super) at: At,
}

pub(super) struct MirrorTopic {
    pub(super) name: Field<String>,
    pub(super) partitions: Field<u32>,
    pub(super) replication: Field<u16>,
}

pub(super) struct MirrorInput {
    pub(super) topic: MirrorTopic,
    pub(super) format: Field<Format>,
}

pub(super) struct MirrorOutputs {
    pub(super) at: At,
    pub(super) outputs: Vec<MirrorOutput>,
    pub(super) readable: bool,
}

pub(super) struct MirrorOutput {
    pub(super) name: String,
    pub(super) topic: MirrorTopic,
    pub(super) format: Field<Format>,
    pub(super) key: Field<Option<String>>,
}

pub(super) struct MirrorSteps {
    pub(super) at: At,
    pub(super) steps: Vec<MirrorStep>,
    pub(super) readable: bool,
}

pub(super) struct MirrorStep {
    pub(super) at: At,
    pub(super) id: Field<String>,
    pub(super) process: Field<Scalar>,
    pub(super) tombstones: Field<Tombstones>,
    pub(super) with: Option<ProcessorConfig>,
}

pub(super) struct MirrorDeadLetters {
    pub(super) topic: MirrorTopic,
    pub(super) attempts: Field<u32>,
    pub(super) backoff: Field<Duration>,
}

pub(super) struct MirrorCommit {
    pub(super) interval: Field<Duration>,
    pub(super) records_max: Field<u64>,
    pub(super) bytes_max: Field<u64>,
}

pub(super) struct MirrorTimeouts {
    pub(super) send_offsets: Field<Duration>,
    pub(super) commit: Field<Duration>,
    pub(super) transaction: Field<Duration>,
    pub(super) revoke: Field<Duration>,
    pub(super) session: Field<Duration>,
    pub(super) poll_max: Field<Duration>,
    pub(super) drain: Field<Duration>,
    pub(super) blocked: Field<Duration>,
    pub(super) start: Field<Duration>,
}

impl Mirror {
    /// Returns the mirror of the tree, or `None` if its root is no mapping.
    pub(super) fn read(root: &Node, report: &mut Report) -> Option<Self> {
        let mut section = Section::open(root, "", report);
        if !section.is_written() {
            return None;
        }
        let mirror = Self {
            pipeline: section.value("pipeline", Absent::Mistake, scalar::name, report),
            kafka: kafka(&mut section, report),
            start: section.value("start", Absent::Default(Start::Earliest), choice(STARTS), report),
            inputs: inputs(&mut section, report),
            steps: steps(&mut section, report),
            outputs: outputs(&mut section, report),
            dead_letters: dead_letters(&mut section, report),
            guarantee: section.value("guarantee", Absent::Default(Guarantee::ExactlyOnce), choice(GUARANTEES), report),
            workers: section.value("workers", Absent::Default(1), integer(WORKERS), report),
            commit: commit(&mut section, report),
            timeouts: timeouts(&mut section, report),
            protocol: protocol(&mut section, report),
            listen: listen(&mut section, report),
        };
        section.close(report);
        Some(mirror)
    }
}

fn kafka(root: &mut Section<'_>, report: &mut Report) -> MirrorKafka {
    let Some((entry, path)) = root.entry("kafka") else {
        let at = At::absent(root.at(), "kafka");
        report.add(at.place, &at.path, Mistake::Missing);
        return MirrorKafka { at, properties: Vec::new(), keys: Vec::new(), readable: false };
    };
    let at = At::written(&entry.value, &path);
    let entries = mapping_of(&entry.value, &at.path, report);
    let mut properties = Vec::new();
    for entry in entries.unwrap_or_default() {
        let path = path_of(&at.path, &entry.key);
        if let Some(scalar) = scalar_of(&entry.value, &path, report) {
            properties.push(MirrorProperty {
                key: entry.key.clone(),
                text: scalar.text.clone(),
                at: At { referenced: scalar.referenced, ..At::written(&entry.value, &path) },
            });
        }
    }
    let keys = entries.unwrap_or_default().iter().map(|entry| entry.key.clone()).collect();
    MirrorKafka { at, properties, keys, readable: entries.is_some() }
}

fn inputs(root: &mut Section<'_>, report: &mut Report) -> Vec<MirrorInput> {
    let Some((entry, path)) = one_of(root, "input", "inputs", report) else { return Vec::new() };
    if entry.key == "input" {
        return vec![input(&entry.value, &path, report)];
    }
    let Some(items) = list_of(&entry.value, &path, report) else { return Vec::new() };
    if items.is_empty() {
        report.add(entry.value.place, &path, Mistake::NoInput);
    }
    items.iter().enumerate().map(|(index, item)| input(item, &format!("{path}[{index}]"), report)).collect()
}

fn input(node: &Node, path: &str, report: &mut Report) -> MirrorInput {
    let mut section = Section::open(node, path, report);
    let name = section.value("topic", Absent::Mistake, scalar::topic_name, report);
    let format = section.value("format", Absent::Default(Format::Json), choice(FORMATS), report);
    let topic = topic(name, &mut section, report);
    section.close(report);
    MirrorInput { topic, format }
}

fn topic(name: Field<String>, section: &mut Section<'_>, report: &mut Report) -> MirrorTopic {
    MirrorTopic {
        name,
        partitions: section.value("partitions", Absent::Default(1), integer(PARTITIONS), report),
        replication: section.value("replication", Absent::Default(1), integer(REPLICATION), report),
    }
}

fn outputs(root: &mut Section<'_>, report: &mut Report) -> MirrorOutputs {
    let Some((entry, path)) = one_of(root, "output", "outputs", report) else {
        return MirrorOutputs { at: root.at().clone(), outputs: Vec::new(), readable: false };
    };
    let at = At::written(&entry.value, &path);
    if entry.key == "output" {
        let outputs = vec![output("default", &entry.value, &at.path, report)];
        return MirrorOutputs { at, outputs, readable: true };
    }
    let entries = mapping_of(&entry.value, &at.path, report);
    let mut outputs = Vec::new();
    for entry in entries.unwrap_or_default() {
        let path = path_of(&at.path, &entry.key);
        check_output_name(entry, &path, report);
        outputs.push(output(&entry.key, &entry.value, &path, report));
    }
    MirrorOutputs { at, outputs, readable: entries.is_some() }
}

fn check_output_name(entry: &Entry, path: &str, report: &mut Report) {
    if !is_name(&entry.key) {
        let found = Shown::plain(&entry.key);
        report.add(entry.key_place, path, Mistake::NotAName { found });
    }
}

fn output(name: &str, node: &Node, path: &str, report: &mut Report) -> MirrorOutput {
    let mut section = Section::open(node, path, report);
    let topic_name = section.value("topic", Absent::Mistake, scalar::topic_name, report);
    let format = section.value("format", Absent::Default(Format::Json), choice(FORMATS), report);
    let key = section.value("key", Absent::Default(None), |found| scalar::pointer(found).map(Some), report);
    let topic = topic(topic_name, &mut section, report);
    section.close(report);
    MirrorOutput { name: name.to_owned(), topic, format, key }
}

/// Returns the entry of `one` or of `many`, exactly one of which must be written.
fn one_of<'tree>(root: &mut Section<'tree>, one: &'static str, many: &'static str, report: &mut Report) -> Option<(&'tree Entry, String)> {
    match (root.entry(one), root.entry(many)) {
        (Some((first, _)), Some((second, path))) => {
            let line_one = first.key_place.line;
            report.add(second.key_place, &path, Mistake::BothGiven { one, many, line_one });
            None
        }
        (Some(found), None) | (None, Some(found)) => Some(found),
        (None, None) => {
            report.add(root.at().place, "", Mistake::NeitherGiven { one, many });
            None
        }
    }
}

fn steps(root: &mut Section<'_>, report: &mut Report) -> MirrorSteps {
    let Some((entry, path)) = root.entry("steps") else {
        let at = At::absent(root.at(), "steps");
        report.add(at.place, &at.path, Mistake::Missing);
        return MirrorSteps { at, steps: Vec::new(), readable: false };
    };
    let at = At::written(&entry.value, &path);
    let items = list_of(&entry.value, &at.path, report);
    let mut steps = Vec::new();
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        steps.push(step(item, &format!("{}[{index}]", at.path), report));
    }
    MirrorSteps { at, steps, readable: items.is_some() }
}

fn step(node: &Node, path: &str, report: &mut Report) -> MirrorStep {
    if let Content::Mapping(entries) = &node.content
        && let Some(entry) = entries.iter().find(|entry| OPERATORS_LATER.contains(&entry.key.as_str()))
    {
        let mistake = Mistake::OperatorUnavailable { operator: entry.key.clone() };
        report.add(entry.key_place, &path_of(path, &entry.key), mistake);
        let at = At::written(node, path);
        return MirrorStep { at, id: None, process: None, tombstones: None, with: None };
    }
    let mut section = Section::open(node, path, report);
    let id = section.value("id", Absent::Mistake, scalar::name, report);
    let process = section.value("process", Absent::Mistake, process, report);
    let tombstones = section.value("tombstones", Absent::Default(Tombstones::DeadLetter), choice(TOMBSTONES), report);
    let with = with(&mut section, report);
    let at = section.at().clone();
    section.close(report);
    MirrorStep { at, id, process, tombstones, with }
}

/// The scalar itself, since what is registered is checked later, and a problem must know whether it may show it.
fn process(found: &Scalar) -> Result<Scalar, Mistake> {
    let text = scalar::text(found)?;
    Ok(Scalar { text, plain: found.plain, referenced: found.referenced, broken: false })
}

fn with(step: &mut Section<'_>, report: &mut Report) -> Option<ProcessorConfig> {
    let Some((entry, path)) = step.entry("with") else {
        let empty = Value::Object(Map::new());
        return Some(ProcessorConfig { value: empty.clone(), redacted: empty });
    };
    mapping_of(&entry.value, &path, report)?;
    free_form::json(&entry.value, &path, report)
}

fn dead_letters(root: &mut Section<'_>, report: &mut Report) -> Option<MirrorDeadLetters> {
    let (entry, path) = root.entry("dead_letters")?;
    let mut section = Section::open(&entry.value, &path, report);
    let name = section.value("topic", Absent::Mistake, scalar::topic_name, report);
    let attempts = section.value("attempts", Absent::Default(3), integer(ATTEMPTS), report);
    let backoff = section.value("backoff", Absent::Default(ms(100)), duration(BACKOFF), report);
    let topic = topic(name, &mut section, report);
    section.close(report);
    Some(MirrorDeadLetters { topic, attempts, backoff })
}

/// `adaptive`, or a duration.
fn interval(found: &Scalar) -> Result<Duration, Mistake> {
    if found.text == "adaptive" { Ok(ADAPTIVE_INTERVAL) } else { duration(INTERVAL)(found) }
}

fn commit(root: &mut Section<'_>, report: &mut Report) -> MirrorCommit {
    let mut section = root.section("commit", report);
    let commit = MirrorCommit {
        interval: section.value("interval", Absent::Default(ms(100)), interval, report),
        records_max: section.value("records_max", Absent::Default(100_000), integer(RECORDS), report),
        bytes_max: section.value("bytes_max", Absent::Default(16 * 1024 * 1024), size(BYTES), report),
    };
    section.close(report);
    commit
}

fn timeouts(root: &mut Section<'_>, report: &mut Report) -> MirrorTimeouts {
    let mut section = root.section("timeouts", report);
    let mut timeout = |key, default, range| section.value(key, Absent::Default(ms(default)), duration(range), report);
    let timeouts = MirrorTimeouts {
        send_offsets: timeout("send_offsets", 10_000, DEADLINE),
        commit: timeout("commit", 10_000, DEADLINE),
        transaction: timeout("transaction", 30_000, SECONDS),
        revoke: timeout("revoke", 5_000, DEADLINE),
        session: timeout("session", 10_000, SECONDS),
        poll_max: timeout("poll_max", 300_000, POLL),
        drain: timeout("drain", 25_000, DEADLINE),
        blocked: timeout("blocked", 60_000, SECONDS),
        start: timeout("start", 30_000, DEADLINE),
    };
    section.close(report);
    timeouts
}

fn protocol(root: &mut Section<'_>, report: &mut Report) -> Field<GroupProtocol> {
    let mut section = root.section("group", report);
    let protocol = section.value("protocol", Absent::Default(GroupProtocol::Classic), choice(PROTOCOLS), report);
    section.close(report);
    protocol
}

fn listen(root: &mut Section<'_>, report: &mut Report) -> Field<SocketAddr> {
    let mut section = root.section("http", report);
    let listen = section.value("listen", Absent::Default(LISTEN), scalar::address, report);
    section.close(report);
    listen
}
