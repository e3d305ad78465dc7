//! Why a worker stops. Each reason has one exit code, given in `service`.

use crate::identity::{Incarnation, TransactionalId};
use crate::place::SourcePartition;
use transom_sdk::Offset;

/// The place of one input record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("topic {topic}, partition {partition}, offset {offset}")]
pub struct Place {
    /// Input topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Offset of the record.
    pub offset: i64,
}

fn rival(other: Option<Incarnation>) -> String {
    other.map_or_else(|| "the other has written no owner record".to_owned(), |other| format!("the last other one is {other}"))
}

/// Why a worker stops. `Display` says what happened and where; the hint is `service`'s.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// Asked to: everything handed over is committed, the partitions are given back.
    #[error("drained")]
    Drained,
    /// Asked to stop at once, or the drain budget ran out: the open batch is aborted and will be read again.
    #[error("aborted before everything was committed; nothing is lost, the open batch will be read again")]
    DrainCutShort,
    /// A bad record and no dead-letter topic to set it aside in.
    #[error("a record cannot be processed and the pipeline has no dead_letters: {place}: {reason}")]
    BadRecord {
        /// Which record; its offset is not moved.
        place: Place,
        /// What the transform said.
        reason: String,
    },
    /// The broker refuses what a record became.
    #[error("the broker refuses an output to {topic} ({reason}); its input is {place}")]
    PoisonOutput {
        /// Output topic.
        topic: String,
        /// The broker's words.
        reason: String,
        /// Which input record; its offset is not moved.
        place: Place,
    },
    /// Other producers keep taking our transactional id.
    #[error(
        "fenced {times} times within {window_ms} ms: another process uses the transactional id {transactional_id} of group {}; \
         this one is incarnation {incarnation}, {}", transactional_id.pipeline(), rival(*other)
    )]
    FencedTooOften {
        /// How often.
        times: usize,
        /// Within which time.
        window_ms: u64,
        /// The id both use.
        transactional_id: TransactionalId,
        /// Our life of it.
        incarnation: Incarnation,
        /// The other life that an owner record last named.
        other: Option<Incarnation>,
    },
    /// Another process uses our `group.instance.id`.
    #[error("another process joined the group under our instance name: {detail}")]
    InstanceFenced {
        /// The client's words.
        detail: String,
    },
    /// The partition had a committed offset once, or should have, and has none.
    #[error("{partition}: the group has no committed offset for a partition it must have known")]
    OffsetsMissing {
        /// Which one.
        partition: SourcePartition,
    },
    /// The committed offset is outside the log.
    #[error("{partition}: position {position} is out of range, the log holds {log_start} to {log_end}")]
    PositionOutOfRange {
        /// Which one.
        partition: SourcePartition,
        /// Where we would read.
        position: Offset,
        /// First offset of the log, -1 if unknown.
        log_start: i64,
        /// End of the log, -1 if unknown.
        log_end: i64,
    },
    /// The bytes at a position cannot be read: a broken checksum, compression or format.
    #[error("topic {}, partition {}: corrupt data at offset {}, read {tries} times: {reason}", place.topic, place.partition, place.offset)]
    CorruptData {
        /// The first offset that was not read.
        place: Place,
        /// How often it was fetched.
        tries: u32,
        /// The client's words.
        reason: String,
    },
    /// The log was cut below the position, and what was written since took the offsets of what was lost (KIP-320).
    #[error("topic {}, partition {}: the log was cut below offset {}, where this pipeline would go on, and holds {log_start} to {log_end} now: {reason}", place.topic, place.partition, place.offset)]
    LogTruncated {
        /// Where we would read.
        place: Place,
        /// First offset of the log, -1 if unknown.
        log_start: i64,
        /// End of the log, -1 if unknown.
        log_end: i64,
        /// The client's words.
        reason: String,
    },
    /// An input's name stands for another topic than the one the group's offsets count in.
    #[error(
        "topic {topic} was deleted and created again: partition {partition}, position {position} of the old topic (id {was}); \
         the new one (id {now}) holds {log_start} to {log_end}"
    )]
    TopicRecreated {
        /// Input topic.
        topic: String,
        /// A partition of it, -1 if none was assigned.
        partition: i32,
        /// Where we would read, -1 if none was assigned.
        position: i64,
        /// First offset of the new log, -1 if unknown.
        log_start: i64,
        /// End of the new log, -1 if unknown.
        log_end: i64,
        /// Topic id that the position counts in.
        was: String,
        /// Topic id that the name stands for now.
        now: String,
    },
    /// Equal partition numbers of several inputs went to different workers.
    #[error("partition {partition} of the input topics is split between workers")]
    SplitTask {
        /// The number.
        partition: i32,
    },
    /// After an unknown outcome the owner records contradict each other.
    #[error("after a commit of unknown outcome the owner records disagree: {detail}")]
    Disagreement {
        /// What was read.
        detail: String,
    },
    /// A coordinator is there and leaves a call unsettled, or a call of the client does not come back.
    #[error("{what}")]
    Blocked {
        /// Who has not settled what, for how long.
        what: String,
    },
    /// A service did not answer in time.
    #[error("{what}")]
    Unreachable {
        /// Which one and how it failed.
        what: String,
    },
    /// The broker or an ACL forbids it.
    #[error("{what}")]
    NotPermitted {
        /// What is forbidden.
        what: String,
    },
    /// The configuration cannot work on this cluster.
    #[error("{what}")]
    Configuration {
        /// What does not fit.
        what: String,
    },
    /// An invariant of ours is broken, or a thread of ours panicked.
    #[error("{what}")]
    Bug {
        /// What happened.
        what: String,
    },
    /// Anything else that cannot be mended here; a restart may.
    #[error("{what}")]
    Fatal {
        /// What happened.
        what: String,
    },
}
