//! The exactly-once core: who owns what, what a batch carries, what follows from each outcome.
//!
//! Owns the rules of a worker's life as a state machine: [`Worker::step`] takes an event and the time and gives commands.
//! Never does I/O, never reads a clock, never starts a thread, never sees the Kafka client. The sources of its rules are
//! KIP-98 (transactions), KIP-447 (group metadata in transactions) and the measurements in `src/decisions/`.

mod batch;
mod disposition;
mod fate;
mod hunt;
mod identity;
mod invariant;
mod place;
mod stop;
mod worker;

pub use batch::{Batch, BatchId, Interval, Progress};
pub use disposition::Disposition;
pub use fate::{Fate, FateCounts};
pub use hunt::{Hunt, Proof, Refusal, RefusalKind, Refused, Room, Sentence, Suspect};
pub use identity::{Incarnation, NameError, OwnerRecord, OwnerRecordError, Ownership, TransactionalId, check_name};
pub use invariant::Invariant;
pub use place::{Millis, SourcePartition, TopicId};
pub use stop::{Place, StopReason};
pub use worker::{Ask, Claim, CloseReason, Command, Event, Handed, Limits, Outcome, OwnerSeen, Resolved, State, Takeover, Worker};
