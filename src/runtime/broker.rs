//! The broker as the runtime sees it: blocking calls in two halves, one for each of a worker's threads.

use crate::watch::Watch;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use transom_engine::{Ask, Batch, Outcome, OwnerRecord, Resolved, SourcePartition, StopReason};
use transom_sdk::{Offset, OutputBuffer, OutputId, Record};

/// A worker's standing in its consumer group at one moment. Read once when a batch is closed and never again for that
/// batch: the broker checks membership, not who owns a partition, so newer metadata would let a zombie commit (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Consumer group.
    pub group_id: String,
    /// Generation (classic) or member epoch (`consumer` protocol). Invariant: such that the broker checks it (EO-2).
    pub generation: i32,
    /// Member id. Invariant: not empty (EO-2).
    pub member_id: String,
    /// Static members' name.
    pub group_instance_id: Option<String>,
}

/// A closed batch, complete: it can be handed to another thread and needs nothing from the consumer any more.
#[derive(Debug)]
pub struct SealedBatch {
    /// What it stands for.
    pub batch: Batch,
    /// What it sends.
    pub outputs: OutputBuffer,
    /// Which of the outputs are dead letters.
    pub dead_letters: OutputId,
    /// For each input record, by its index, where it came from.
    pub sources: Vec<(SourcePartition, Offset)>,
    /// For each partition, the offset to commit and the owner record that goes with it. Never empty (EO-2).
    pub offsets: Vec<(SourcePartition, Offset, OwnerRecord)>,
    /// The metadata captured at close.
    pub membership: Membership,
}

/// What the consumer reports beside records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceEvent {
    /// Partitions were given to us; answer with [`Source::assign`].
    Assigned(Vec<SourcePartition>),
    /// Partitions are asked back; answer with [`Source::give_back`].
    Revoked(Vec<SourcePartition>),
    /// Partitions are gone; acknowledge with [`Source::give_back`].
    Lost(Vec<SourcePartition>),
    /// A partition cannot be fetched; it is tried again from the same record.
    FetchFailed {
        /// Which one.
        partition: SourcePartition,
        /// The first offset that is not read yet.
        position: Offset,
        /// Name of the error, such as `CORRUPT_MESSAGE`; one of the client's or the broker's.
        error: String,
        /// The client's words.
        why: String,
    },
    /// What stood in the way of fetching a partition is over.
    FetchRecovered(SourcePartition),
    /// Something is wrong and the client goes on trying.
    Trouble {
        /// What, for people.
        why: String,
        /// What people can do.
        next_step: &'static str,
    },
    /// Something is wrong for good.
    Stop(StopReason),
}

/// A call on the consumer that did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct SourceError {
    /// Which call and how it failed.
    pub what: String,
}

/// The consumer's half, used by the worker's first thread only.
pub trait Source {
    /// Joins the group.
    ///
    /// # Errors
    /// When the client refuses the subscription.
    fn subscribe(&mut self) -> Result<(), SourceError>;

    /// Returns what happened since the last call, without waiting.
    fn poll(&mut self) -> Vec<SourceEvent>;

    /// Hands over at most `records_max` fetched records in offset order per partition, until `handler` breaks; a record
    /// whose handling broke counts as handed over. Records that were not handed over come again with the next call.
    ///
    /// # Errors
    /// A reason to stop, such as a position out of range.
    fn fetch(&mut self, records_max: usize, handler: &mut dyn FnMut(SourcePartition, &Record<'_>) -> ControlFlow<()>) -> Result<usize, StopReason>;

    /// Waits for records, an event or a wake-up, at most `limit`.
    fn wait(&mut self, limit: Duration);

    /// Returns a handle that ends a [`Source::wait`] from another thread.
    fn waker(&self) -> Box<dyn Fn() + Send>;

    /// Commits offsets with their owner records for the group, outside any transaction, under our present membership.
    ///
    /// # Errors
    /// When we have none, the group refuses, or it does not answer within `timeout`.
    fn commit(&mut self, offsets: &[(SourcePartition, Offset, OwnerRecord)], timeout: Duration) -> Result<(), SourceError>;

    /// Accepts the assignment last reported and fetches from these positions.
    ///
    /// # Errors
    /// When the client refuses.
    fn assign(&mut self, positions: &[(SourcePartition, Offset)]) -> Result<(), SourceError>;

    /// Drops what was fetched for these partitions and fetches from these positions.
    ///
    /// # Errors
    /// When the client refuses.
    fn seek(&mut self, positions: &[(SourcePartition, Offset)]) -> Result<(), SourceError>;

    /// Agrees to a revoke or acknowledges a loss.
    ///
    /// # Errors
    /// When the client refuses.
    fn give_back(&mut self, partitions: &[SourcePartition]) -> Result<(), SourceError>;

    /// Takes note that these offsets are about to be committed, before the next record is handed over: what belongs to them
    /// travels with them.
    ///
    /// # Panics
    /// EO-3: when one lies beyond the end of its log.
    fn will_commit(&mut self, offsets: &[(SourcePartition, Offset, OwnerRecord)]);

    /// Returns our standing in the group, or `None` when the broker would not check it (EO-2).
    fn membership(&mut self) -> Option<Membership>;

    /// Returns the position behind control records, if nothing fetched waits for this partition and nothing but control records
    /// can have moved it there: an error that came from its queue is no record, and moves nothing.
    fn quiet_position(&mut self, partition: SourcePartition) -> Option<Offset>;

    /// Leaves the group, unless a static member, and closes.
    fn close(&mut self);
}

/// Why a producer is not initialised yet, or never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitError {
    /// Not yet: the broker or its coordinator cannot be reached or is busy. Try again.
    NotYet(String),
    /// Never, in this set-up.
    Stop(StopReason),
}

/// The producer's half, used by the worker's second thread only.
pub trait Transactor: Send {
    /// Makes a new producer, after the old one is gone, and initialises its transactional id: one bounded attempt.
    ///
    /// # Errors
    /// [`InitError`].
    fn initialise(&mut self) -> Result<(), InitError>;

    /// Sends a batch: begin, produce, offsets, commit. Returns only when the outcome is known or never will be.
    fn transact(&mut self, sealed: &SealedBatch) -> Outcome;

    /// Waits after a commit, milliseconds at most, as long as the next transaction would only be refused. The worker hears of the
    /// outcome after it, so that the open batch takes records meanwhile.
    fn rest(&mut self);

    /// Reads committed offsets and owner records. An owner that still holds a partition that was just gained, and is not of
    /// this process, is fenced first, so that its open transaction ends now and not at its time-out.
    fn resolve(&mut self, asked: &[Ask]) -> Vec<Resolved>;

    /// Serves logs and errors while nothing else is to do.
    fn serve(&mut self);

    /// Returns why the producer was replaced by a new one since the last call, if it was: the request kind whose late copy
    /// could have acted on a later transaction.
    fn take_recycled(&mut self) -> Option<&'static str>;

    /// Returns producer id and epoch, where known, for status.
    fn producer(&self) -> Option<(i64, i32)>;

    /// Returns what says, from another thread, which call this half is in and for how long: every call that waits for the
    /// cluster is made within it.
    fn watch(&self) -> Arc<Watch>;
}

/// Where a partition ends, for readers of committed records and for its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Last stable offset, exclusive end.
    pub last_stable: i64,
    /// High watermark, exclusive end.
    pub high_watermark: i64,
}

/// A transaction that holds up the readers of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Whose it is.
    pub producer_id: i64,
    /// Its name, if some coordinator lists it and we may see it.
    pub transactional_id: Option<String>,
    /// How long it has been open; since its last record, if its begin is not known.
    pub age: Option<Duration>,
    /// How long after its begin its coordinator ends it, if one lists it.
    pub timeout: Option<Duration>,
}

/// Looks at the input topics from outside the stream, on a thread of its own.
pub trait Watcher: Send {
    /// Returns the ends of each partition that answered.
    ///
    /// # Errors
    /// When nothing answered.
    fn ends(&mut self, partitions: &[SourcePartition]) -> Result<Vec<(SourcePartition, Ends)>, SourceError>;

    /// Returns the input topics that the cluster says do not exist.
    ///
    /// # Errors
    /// When nothing answered.
    fn missing(&mut self) -> Result<Vec<String>, SourceError>;

    /// Returns the transaction that holds a partition's last stable offset back.
    ///
    /// # Errors
    /// When it cannot be found out, with the reason in words.
    fn open_transaction(&mut self, partition: SourcePartition) -> Result<OpenTransaction, SourceError>;

    /// Returns how Kafka's own tools are told of this cluster, for commands in messages.
    fn tool(&self) -> String;
}

/// A cluster that workers can be connected to.
pub trait Broker: Sync {
    /// The consumer's half.
    type Source: Source + Send + 'static;
    /// The producer's half.
    type Transactor: Transactor + 'static;

    /// Makes the two halves of one worker.
    ///
    /// # Errors
    /// When the client refuses its configuration.
    fn connect(&self, worker: u16) -> Result<(Self::Source, Self::Transactor), StopReason>;
}
