//! What a worker's state machine takes and gives: events, commands and what they are made of.

use super::Ask;
use crate::batch::{Batch, BatchId};
use crate::fate::FateCounts;
use crate::hunt::Suspect;
use crate::identity::OwnerRecord;
use crate::place::SourcePartition;
use crate::stop::StopReason;
use transom_sdk::Offset;

/// Records of one partition that were handed to the open batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Which partition.
    pub partition: SourcePartition,
    /// Offset of the first record; `None` when only control records were stepped over.
    pub first: Option<Offset>,
    /// Position after the last record.
    pub next: Offset,
    /// How many records.
    pub records: u64,
    /// Their fates; the total is `records`.
    pub fates: FateCounts,
    /// Input and output bytes.
    pub bytes: u64,
}

/// What a partition's committed offset looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerSeen {
    /// A stable offset, with the owner record if it is one of ours.
    At(Offset, Option<OwnerRecord>),
    /// A transaction that holds an offset for it is still open.
    Pending,
    /// The group has none, and must have had one.
    Missing,
    /// The coordinator did not answer; ask again.
    Unanswered,
}

/// The answer to one partition of [`Command::Resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Which partition.
    pub partition: SourcePartition,
    /// The assignment it was asked for; an older one is stale and ignored.
    pub assignment: u64,
    /// What was seen.
    pub seen: OwnerSeen,
}

/// What became of a [`Command::Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is in the group's offsets.
    Committed,
    /// It is not: the group moves on, or did not answer. The offsets are read again.
    Refused,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Outputs and offsets are visible together.
    Committed,
    /// Neither is, for sure.
    Aborted {
        /// The cause, for people.
        why: String,
    },
    /// Neither is, for sure: outputs were refused.
    Poisoned {
        /// The input records whose outputs failed.
        suspects: Vec<Suspect>,
        /// The cause, for people.
        why: String,
    },
    /// The producer must be replaced, and only then can be told which of the two it was (EO-5).
    Replace {
        /// The cause, for people.
        why: String,
        /// Whether a newer producer holds our id.
        fenced: bool,
    },
    /// Neither is; the worker cannot go on.
    Stop(StopReason),
}

/// Why a batch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The commit interval is over.
    Interval,
    /// The record or byte cap is reached.
    Cap,
    /// A partition it holds is being revoked.
    Revoke,
    /// The worker drains.
    Drain,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The producer is initialised: whatever this id left open before is decided.
    ProducerReady,
    /// The group gave us these partitions.
    Assigned(Vec<SourcePartition>),
    /// The group asks for these back; they are ours until we agree.
    Revoked(Vec<SourcePartition>),
    /// These are somebody else's already.
    Lost(Vec<SourcePartition>),
    /// Answers to [`Command::Resolve`].
    Resolved(Vec<Resolved>),
    /// The claim was committed, or the group refused it.
    Claimed(Claim),
    /// Records were processed into the open batch. It never closes the batch; the next other event does.
    Handed(Handed),
    /// Time passed.
    Tick,
    /// The transaction of this batch ended.
    Ended(BatchId, Outcome),
    /// Commit what is open, give everything back, then stop for this reason.
    Finish(StopReason),
    /// Drop what is open, then stop for this reason.
    Halt(StopReason),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make the producer (again) and initialise it.
    Reinitialise,
    /// Read the committed offsets and owner records of these partitions, each for its assignment.
    Resolve(Vec<Ask>),
    /// Say in the group's offsets that these partitions are ours: a plain offset commit of their start, never a
    /// transaction, so that it cannot stay pending. Answer with [`Event::Claimed`].
    Claim(Vec<(SourcePartition, Offset)>),
    /// Say that these partitions are held no more. A failure costs a later owner one needless fence, no more.
    Release(Vec<(SourcePartition, Offset)>),
    /// Accept an assignment: fetch from these positions.
    Assign(Vec<(SourcePartition, Offset)>),
    /// Fetch from these positions instead.
    Seek(Vec<(SourcePartition, Offset)>),
    /// Capture the group metadata now, then send this batch.
    Transact(Batch, CloseReason),
    /// Forget the open batch's outputs.
    DiscardOpen,
    /// This record's output was refused: from now on it is read as its sentence says (`Hunt::sentence`).
    Condemned(SourcePartition, Offset),
    /// The batch is committed: count its fates.
    Account(Batch),
    /// The batch's outcome will never be known here, and its partitions are not ours any more.
    WriteOff(Batch),
    /// Agree to a revoke, or acknowledge a loss.
    GiveBack(Vec<SourcePartition>),
    /// Leave the group (a static member stays) and stop.
    Stop(StopReason),
}

/// What the worker is doing, for status and health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The producer is being initialised, for the first time or again.
    Initialising,
    /// No partition is assigned.
    WaitingForPartitions,
    /// Committed offsets are being read.
    ResolvingOffsets,
    /// Records flow.
    Running,
    /// Aborts in a row: pausing.
    BackingOff,
    /// A batch's outcome is unknown; nothing is sent until it is known.
    InDoubt,
    /// An output was refused; the input record it came from is looked for.
    Hunting,
    /// Finishing.
    Draining,
    /// Done.
    Stopped,
}

impl State {
    /// Returns the word used in `/status` and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialising => "initialising",
            Self::WaitingForPartitions => "waiting_for_partitions",
            Self::ResolvingOffsets => "resolving_offsets",
            Self::Running => "running",
            Self::BackingOff => "backing_off",
            Self::InDoubt => "in_doubt",
            Self::Hunting => "hunting_refused_output",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
        }
    }
}
