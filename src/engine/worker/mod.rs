//! One worker's life as a state machine: `step(event, now) → commands`, per batch, never per record.
//!
//! ```text
//!                Assigned            Resolved (all of the event)
//!   (not ours) ─────► Waiting ⇄ Asked ─► Known ─► Claiming ─► Active { committed ≤ position }
//!        ▲              ▲ ▲       │         claim refused │  │ Handed: position moves, open batch grows
//!        │ GiveBack     │ └───────┼── accepted, unclaimed ┘  │ Committed: committed moves
//!        │              │         └─ another owner ► Taken   │ Aborted: position = committed, seek
//!        │              └───────── Reinitialise ◄────────────┤
//!        └─── Revoked (after its batches are resolved) ◄─────┤
//!             Lost (at once, nothing more is sent) ◄─────────┘
//!
//!   open batch ──close──► in flight ──┬─ Committed ─► merged, counted
//!                                     ├─ Aborted ───► both batches dropped, rewound
//!                                     ├─ Poisoned ──► the same, and smaller batches until the culprit is alone (`hunt`)
//!                                     └─ Replace ───► in doubt ─ new producer, owner records ─► merged | dropped
//! ```
//!
//! Invariants decided here: EO-2 (who may commit), EO-3 and EO-4 (intervals join on and never go back), EO-5 (nothing is
//! sent while a batch is in doubt), EO-7 (records are handed over in offset order).

mod assignment;
mod event;
mod outcome;
#[cfg(test)]
mod tests;

pub use assignment::{Ask, Takeover};
pub use event::{Claim, CloseReason, Command, Event, Handed, Outcome, OwnerSeen, Resolved, State};

use crate::batch::{Batch, BatchId};
use crate::hunt::Hunt;
use crate::identity::{Incarnation, TransactionalId};
use crate::invariant::Invariant;
use crate::place::{Millis, SourcePartition};
use crate::stop::StopReason;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use transom_sdk::Offset;

/// The worker's limits; `service` checks their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A batch with records closes this long after the previous one was closed.
    pub commit_interval_ms: u64,
    /// A batch that only steps over control records closes this long after it was opened.
    pub quiet_interval_ms: u64,
    /// A batch closes when it holds this many records.
    pub records_max: u64,
    /// A batch closes when input and output together hold this many bytes.
    pub bytes_max: u64,
    /// How long a revoke may wait for batches that hold the partition.
    pub revoke_budget_ms: u64,
    /// How long a drain may take.
    pub drain_budget_ms: u64,
}

/// More fences than this within [`FENCE_WINDOW_MS`] mean that somebody else lives under our id: stop, do not fight.
const FENCES_MAX: usize = 3;
const FENCE_WINDOW_MS: u64 = 60_000;
/// First and longest pause after aborted batches in a row, doubled each time, so that a broken cluster is not hammered.
const ABORT_PAUSE_MS_MIN: u64 = 50;
const ABORT_PAUSE_MS_MAX: u64 = 5_000;
/// Pause before a partition whose offset is not yet stable is asked for again.
const RESOLVE_PAUSE_MS: u64 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    /// Its offset is to be asked for, not before this time.
    Waiting { from: Millis },
    /// Its offset is being asked for.
    Asked,
    /// Its offset is known; it waits for the others of its assignment.
    Known { at: Offset },
    /// Our claim of it is being committed.
    Claiming { at: Offset },
    /// It was ours, and another owner has claimed it since: the group gave it away, and will say so.
    Taken,
    /// Invariant: `committed ≤ position`; records before `committed` are visible downstream, those before `position` handed over.
    Active { committed: Offset, position: Offset },
}

#[derive(Debug)]
struct Assigned {
    assignment: u64,
    task: Task,
    takeover: Takeover,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Producer {
    Initialising,
    Ready,
}

#[derive(Debug)]
enum Phase {
    Running,
    /// Finish by the deadline, then stop for the reason.
    Draining {
        by: Millis,
        reason: StopReason,
    },
    Stopped,
}

#[derive(Debug)]
struct Revoking {
    partitions: BTreeSet<SourcePartition>,
    by: Millis,
}

/// A batch that was sent: in flight, or of unknown outcome (EO-5).
#[derive(Debug)]
struct Sent {
    batch: Batch,
    /// Its partitions that were ours all the time since it was closed. If its outcome is unknown, only their owner records
    /// can tell; a partition that was away meanwhile says what its other owner did. Invariant in doubt: not empty.
    witnesses: BTreeSet<SourcePartition>,
}

impl Sent {
    fn holds(&self, partition: SourcePartition) -> bool {
        self.batch.progress.get(partition).is_some()
    }
}

/// The state machine of one worker.
#[derive(Debug)]
pub struct Worker {
    limits: Limits,
    transactional_id: TransactionalId,
    incarnation: Incarnation,
    phase: Phase,
    producer: Producer,
    tasks: BTreeMap<SourcePartition, Assigned>,
    /// Partitions of an assignment that is not accepted yet. Invariant: each has a task.
    assigning: Option<BTreeSet<SourcePartition>>,
    /// Partitions of an accepted assignment whose claim was refused. Invariant: each has a task, none is active.
    unclaimed: BTreeSet<SourcePartition>,
    revoking: Option<Revoking>,
    open: Option<Batch>,
    in_flight: Option<Sent>,
    in_doubt: Option<Sent>,
    next_batch: u64,
    next_assignment: u64,
    hunt: Hunt,
    fences: VecDeque<Millis>,
    /// The last other life of our id that an owner record named, for the message about fences.
    rival: Option<Incarnation>,
    aborts_in_a_row: u32,
    hold_until: Millis,
    last_closed: Millis,
}

impl Worker {
    /// Returns a worker that owns nothing, and its first command: initialise the producer.
    pub fn new(limits: Limits, transactional_id: TransactionalId, incarnation: Incarnation) -> (Self, Command) {
        let worker = Self {
            limits,
            transactional_id,
            incarnation,
            phase: Phase::Running,
            producer: Producer::Initialising,
            tasks: BTreeMap::new(),
            assigning: None,
            unclaimed: BTreeSet::new(),
            revoking: None,
            open: None,
            in_flight: None,
            in_doubt: None,
            next_batch: 1,
            next_assignment: 1,
            hunt: Hunt::default(),
            fences: VecDeque::new(),
            rival: None,
            aborts_in_a_row: 0,
            hold_until: Millis(0),
            last_closed: Millis(0),
        };
        (worker, Command::Reinitialise)
    }

    /// Takes one event and appends what follows from it to `commands`.
    ///
    /// # Panics
    /// When an invariant is broken; the message starts with its id.
    pub fn step(&mut self, event: Event, now: Millis, commands: &mut Vec<Command>) {
        if matches!(self.phase, Phase::Stopped) {
            return;
        }
        match event {
            Event::ProducerReady => self.producer = Producer::Ready,
            Event::Assigned(partitions) => self.assigned(partitions, now),
            Event::Revoked(partitions) => {
                let by = now.plus(self.limits.revoke_budget_ms);
                self.revoking = Some(Revoking { partitions: partitions.into_iter().collect(), by });
            }
            Event::Lost(partitions) => self.lost(partitions, commands),
            Event::Resolved(answers) => self.resolved(answers, now, commands),
            Event::Claimed(claim) => self.claimed(claim, now, commands),
            // Nothing may close the batch between two of these: the runtime hands over a round's outputs before its intervals.
            Event::Handed(handed) => return self.handed(handed, now),
            Event::Tick => {}
            Event::Ended(id, outcome) => self.ended(id, outcome, now, commands),
            Event::Finish(reason) => self.finish(reason, now),
            Event::Halt(reason) => {
                self.discard_open(commands);
                self.finish(reason, now);
            }
        }
        self.advance(now, commands);
    }

    /// Returns whether records may be handed over now.
    pub fn wants_records(&self, now: Millis) -> bool {
        matches!(self.phase, Phase::Running)
            && self.producer == Producer::Ready
            && self.in_doubt.is_none()
            && self.revoking.is_none()
            && now >= self.hold_until
            && !(self.hunt.is_on() && self.in_flight.is_some())
            && !self.open_is_full()
    }

    /// Returns the next offset to hand over, if the partition is ours and its offset is known.
    pub fn position(&self, partition: SourcePartition) -> Option<Offset> {
        match self.tasks.get(&partition)?.task {
            Task::Active { position, .. } => Some(position),
            Task::Waiting { .. } | Task::Asked | Task::Known { .. } | Task::Claiming { .. } | Task::Taken => None,
        }
    }

    /// Returns the assigned partitions with committed offset and position, where known.
    pub fn partitions(&self) -> impl Iterator<Item = (SourcePartition, Option<(Offset, Offset)>)> + '_ {
        self.tasks.iter().map(|(&partition, assigned)| match assigned.task {
            Task::Active { committed, position } => (partition, Some((committed, position))),
            Task::Waiting { .. } | Task::Asked | Task::Known { .. } | Task::Claiming { .. } | Task::Taken => (partition, None),
        })
    }

    /// Returns the number the open batch has or would have.
    pub fn open_batch(&self) -> BatchId {
        self.open.as_ref().map_or(BatchId(self.next_batch), |batch| batch.id)
    }

    /// Returns whether a transaction is on its way.
    pub const fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns what the worker is doing.
    pub fn state(&self, now: Millis) -> State {
        match self.phase {
            Phase::Stopped => State::Stopped,
            Phase::Draining { .. } => State::Draining,
            Phase::Running if self.in_doubt.is_some() => State::InDoubt,
            Phase::Running if self.producer == Producer::Initialising => State::Initialising,
            Phase::Running if now < self.hold_until => State::BackingOff,
            Phase::Running if self.hunt.is_on() => State::Hunting,
            Phase::Running if self.tasks.is_empty() => State::WaitingForPartitions,
            Phase::Running if self.tasks.values().any(|assigned| matches!(assigned.task, Task::Active { .. })) => State::Running,
            Phase::Running => State::ResolvingOffsets,
        }
    }

    /// Returns when [`Event::Tick`] is due at the latest, if nothing else happens before.
    pub fn due(&self, now: Millis) -> Option<Millis> {
        let close = self.open.as_ref().filter(|_| self.may_send()).map(|open| self.closes_at(open));
        let asks = self.producer == Producer::Ready && matches!(self.phase, Phase::Running);
        let resolve = self.tasks.values().filter_map(|assigned| match assigned.task {
            Task::Waiting { from } if asks => Some(from),
            Task::Waiting { .. } | Task::Asked | Task::Known { .. } | Task::Claiming { .. } | Task::Taken | Task::Active { .. } => None,
        });
        let drain = match &self.phase {
            Phase::Draining { by, .. } => Some(*by),
            Phase::Running | Phase::Stopped => None,
        };
        let hold = Some(self.hold_until).filter(|until| *until > now);
        let revoke = self.revoking.as_ref().map(|revoking| revoking.by);
        resolve.chain(close).chain(drain).chain(hold).chain(revoke).min()
    }

    fn handed(&mut self, handed: Handed, now: Millis) {
        let partition = handed.partition;
        let Some(Assigned { task: Task::Active { position, .. }, .. }) = self.tasks.get_mut(&partition) else {
            panic!("{} is broken: records of {partition} were handed over, which is not ours", Invariant::OneOwner);
        };
        let start = *position;
        if let Some(first) = handed.first {
            Invariant::Order.assert(first >= start && handed.next > first, || format!("{partition}: {first}..{} after {start}", handed.next));
        }
        Invariant::NoGap.assert(handed.fates.total() == handed.records, || format!("{partition}: {} records, {:?}", handed.records, handed.fates));
        *position = handed.next;
        if self.open.is_none() {
            self.open = Some(Batch::new(BatchId(self.next_batch), now));
            self.next_batch += 1;
        }
        if let Some(open) = &mut self.open {
            if open.records == 0 && handed.records > 0 {
                open.opened_at = now;
            }
            open.progress.extend(partition, start, handed.next);
            open.records += handed.records;
            open.fates.merge(&handed.fates);
            open.bytes += handed.bytes;
        }
    }

    fn finish(&mut self, reason: StopReason, now: Millis) {
        match &mut self.phase {
            Phase::Running => self.phase = Phase::Draining { by: now.plus(self.limits.drain_budget_ms), reason },
            // The first real trouble is the reason to give; a drain that was asked for yields to it.
            Phase::Draining { reason: earlier, .. } if *earlier == StopReason::Drained => *earlier = reason,
            Phase::Draining { .. } | Phase::Stopped => {}
        }
    }

    /// Everything that may follow without a further event.
    fn advance(&mut self, now: Millis, commands: &mut Vec<Command>) {
        self.advance_revoke(now, commands);
        if let Some(reason) = self.close_reason(now) {
            self.close(reason, now, commands);
        }
        self.ask_for_offsets(now, commands);
        self.claim_known(commands);
        self.advance_drain(now, commands);
    }

    fn open_is_full(&self) -> bool {
        let is_full = |open: &Batch| open.records >= self.limits.records_max || open.bytes >= self.limits.bytes_max;
        self.open.as_ref().is_some_and(is_full) || self.room().is_some_and(|room| room.is_full())
    }

    const fn closes_at(&self, open: &Batch) -> Millis {
        if open.records == 0 {
            return open.opened_at.plus(self.limits.quiet_interval_ms);
        }
        // Measured from close to close: the first records after a quiet time need not wait.
        self.last_closed.plus(self.limits.commit_interval_ms)
    }

    fn close_reason(&self, now: Millis) -> Option<CloseReason> {
        let open = self.open.as_ref()?;
        if !self.may_send() {
            return None;
        }
        if let Phase::Draining { .. } = self.phase {
            return Some(CloseReason::Drain);
        }
        if self.open_is_full() {
            return Some(CloseReason::Cap);
        }
        (now >= self.closes_at(open)).then_some(CloseReason::Interval)
    }

    /// EO-5: one transaction at a time, none while an outcome is unknown or the producer is being replaced.
    fn may_send(&self) -> bool {
        self.in_flight.is_none() && self.in_doubt.is_none() && self.producer == Producer::Ready
    }

    fn close(&mut self, reason: CloseReason, now: Millis, commands: &mut Vec<Command>) {
        let Some(batch) = self.open.take() else { return };
        self.last_closed = now;
        Invariant::OneOwner.assert(!batch.progress.is_empty(), || "a transaction without offsets would commit unfenced".to_owned());
        Invariant::NoGap.assert(batch.fates.total() == batch.records, || format!("{} records, {:?}", batch.records, batch.fates));
        for (partition, interval) in batch.progress.iter() {
            let owned = self.tasks.get(&partition).map(|assigned| &assigned.task);
            let Some(Task::Active { committed, position }) = owned else {
                panic!("{} is broken: the batch holds {partition}, which is not ours", Invariant::OneOwner);
            };
            Invariant::NoGap.assert(*committed == interval.start && *position == interval.end, || {
                format!("{partition}: {interval:?} against committed {committed} and position {position}")
            });
        }
        let witnesses = batch.progress.iter().map(|(partition, _)| partition).collect();
        self.in_flight = Some(Sent { batch: batch.clone(), witnesses });
        commands.push(Command::Transact(batch, reason));
    }

    fn advance_drain(&mut self, now: Millis, commands: &mut Vec<Command>) {
        let Phase::Draining { by, reason } = &self.phase else { return };
        let (late, reason) = (now >= *by, reason.clone());
        let busy = self.open.is_some() || self.in_flight.is_some();
        if busy && !late {
            return;
        }
        self.discard_open(commands);
        let all: BTreeSet<_> = self.tasks.keys().copied().collect();
        self.release(&all, commands);
        let cut_short = busy && reason == StopReason::Drained;
        self.phase = Phase::Stopped;
        commands.push(Command::Stop(if cut_short { StopReason::DrainCutShort } else { reason }));
    }
}
