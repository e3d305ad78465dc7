//! The resolved pipeline: what the rest of the service is told.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::secret::Property;

/// One pipeline, resolved and checked: one file, one consumer group, one deployment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The name of the pipeline, which is also its group id and the first part of its transactional ids.
    pub pipeline: String,
    /// What the author wants of the Kafka clients, less what Transom sets itself.
    pub kafka: ClientProperties,
    /// Where a new group begins.
    pub start: Start,
    /// The topics read, in the order of the file; at least one, no topic twice.
    pub inputs: Vec<Input>,
    /// The one process step.
    pub step: Step,
    /// The topics written, in the order of the file; names are unique and one of them is `default`.
    pub outputs: Vec<Output>,
    /// Where records go that cannot be processed. `None`: the pipeline stops at such a record.
    pub dead_letters: Option<DeadLetters>,
    /// What holds for every record.
    pub guarantee: Guarantee,
    /// Pairs of threads in each instance, each with a consumer and a transactional producer; 1 to 64.
    pub workers: u16,
    /// When a batch is closed.
    pub commit: Commit,
    /// Deadlines; their order has been checked.
    pub timeouts: Timeouts,
    /// How the instances share the partitions.
    pub group: Group,
    /// Which partitions a member gets. Follows from the number of input topics.
    pub assignor: Assignor,
    /// The HTTP server for health, metrics and status.
    pub http: Http,
}

/// Kafka's own properties by name, for both clients or for one of them. A property of one client goes before the same
/// property of both. Within one list no name stands twice, and none is there that Transom sets itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientProperties {
    /// For every client: consumers, producers and admin clients.
    pub common: Vec<(String, Property)>,
    /// Written with the prefix `consumer.`, which is taken away.
    pub consumer: Vec<(String, Property)>,
    /// Written with the prefix `producer.`, which is taken away.
    pub producer: Vec<(String, Property)>,
}

/// Where a group begins that has committed no offset yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first record that the topic still holds.
    Earliest,
    /// After the last record present when the group begins.
    Latest,
}

/// The form of a record's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One JSON value.
    Json,
    /// Bytes, handed on as they are.
    Bytes,
}

/// A topic, and how `transom topics create` makes it if it does not exist. Nothing else looks at the two numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topic {
    /// The name of the topic.
    pub name: String,
    /// The number of partitions to create it with, from 1.
    pub partitions: u32,
    /// The number of copies of each partition to create it with, from 1.
    pub replication: u16,
}

/// One topic read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Input {
    /// The topic.
    pub topic: Topic,
    /// The form of its values.
    pub format: Format,
}

/// One topic written, under the name by which a processor calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// The name; `default` for what a processor returns without naming an output.
    pub name: String,
    /// The topic. Two outputs may share one.
    pub topic: Topic,
    /// The form of its values.
    pub format: Format,
    /// JSON pointer (RFC 6901) to the key in the value. `None`: the input's key, unless the processor sets one.
    pub key: Option<String>,
}

/// One process step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The name of the step in metrics, dead letters and logs.
    pub id: String,
    /// The registered name of the processor.
    pub process: String,
    /// What becomes of a record whose value is null.
    pub tombstones: Tombstones,
    /// The processor's own options.
    pub with: ProcessorConfig,
}

/// What becomes of a record whose value is null, which a processor of values cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// It is set aside like any record that cannot be processed.
    DeadLetter,
    /// It is written to the default output as it is: the delete goes on to readers of a compacted topic.
    Forward,
    /// It is counted as filtered and goes nowhere.
    Filter,
}

/// The `with:` mapping of a step: any JSON object. Prints itself without its secrets.
#[derive(Clone, PartialEq)]
pub struct ProcessorConfig {
    pub(super) value: Value,
    // Invariant: of the same shape as `value`, with every secret replaced.
    pub(super) redacted: Value,
}

impl ProcessorConfig {
    /// Returns the options with their secrets, for the processor.
    #[must_use]
    pub fn expose(&self) -> &Value {
        &self.value
    }
}

impl fmt::Debug for ProcessorConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.redacted)
    }
}

/// Where records go that cannot be processed, and after how many attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetters {
    /// The topic.
    pub topic: Topic,
    /// How often a record is tried when its processor calls the error transient, from 1: the first try counts.
    pub attempts: u32,
    /// The wait before the second attempt.
    pub backoff: Duration,
}

/// What holds for every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// Outputs, dead letters and offset become visible together, once, or not at all.
    ExactlyOnce,
    /// Outputs first, then the offset: a crash between them repeats records.
    AtLeastOnce,
    /// The offset first, then outputs: a crash between them loses records.
    AtMostOnce,
}

impl Guarantee {
    /// Returns the word used in files, logs and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly_once",
            Self::AtLeastOnce => "at_least_once",
            Self::AtMostOnce => "at_most_once",
        }
    }
}

/// A batch is closed when one of these is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// The time since the previous batch was closed; `adaptive` is 5 ms.
    pub interval: Duration,
    /// The most input records of a batch, inclusive.
    pub records_max: u64,
    /// The most bytes that a batch writes, inclusive.
    pub bytes_max: u64,
}

/// Deadlines. Invariant: `commit.interval` < `send_offsets`, `commit` < `transaction`, `blocked`; `revoke` < `session` <
/// `poll_max`; `commit.interval` + `send_offsets` + `commit` < `poll_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// For handing the offsets to the transaction.
    pub send_offsets: Duration,
    /// For the commit of a transaction, repeats included. After it the outcome is unknown (EO-5).
    pub commit: Duration,
    /// `transaction.timeout.ms`: after it the broker aborts the transaction by itself.
    pub transaction: Duration,
    /// For finishing the batch in flight when partitions are asked back.
    pub revoke: Duration,
    /// `session.timeout.ms` of a classic group; of no effect with the consumer protocol.
    pub session: Duration,
    /// `max.poll.interval.ms`.
    pub poll_max: Duration,
    /// For finishing, committing and leaving after a signal to stop.
    pub drain: Duration,
    /// For a coordinator that leaves a call unsettled; then the process ends with 75.
    pub blocked: Duration,
    /// For reaching the brokers and checking the topics at start.
    pub start: Duration,
}

/// How the instances share the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The protocol spoken with the group coordinator.
    pub protocol: GroupProtocol,
}

/// The protocol spoken with the group coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// Members assign; a restarted static member gets its partitions back at once.
    Classic,
    /// The broker assigns (KIP-848).
    Consumer,
}

/// Which partitions a member gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Equal partition numbers of all input topics to one member. Needed as soon as there are several inputs; with the
    /// consumer protocol it is `group.remote.assignor=range`.
    Range,
    /// Even shares and few moves; the consumer protocol's own.
    Uniform,
}

/// The HTTP server for health, metrics and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Where it listens.
    pub listen: SocketAddr,
}
