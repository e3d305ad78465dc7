//! What follows when a transaction ends, and how a batch of unknown outcome is judged (EO-5).

use super::{ABORT_PAUSE_MS_MAX, ABORT_PAUSE_MS_MIN, Assigned, Command, FENCE_WINDOW_MS, FENCES_MAX, Outcome, Phase, Producer, Sent, Task, Worker};
use crate::batch::{Batch, BatchId};
use crate::hunt::{Hunt, Room, Suspect};
use crate::identity::OwnerRecord;
use crate::invariant::Invariant;
use crate::place::{Millis, SourcePartition};
use crate::stop::StopReason;
use transom_sdk::Offset;

impl Worker {
    pub(super) fn ended(&mut self, id: BatchId, outcome: Outcome, now: Millis, commands: &mut Vec<Command>) {
        let Some(Sent { batch, witnesses }) = self.in_flight.take() else {
            panic!("{} is broken: batch {} ended, none was in flight", Invariant::UnknownIsNotSuccess, id.0);
        };
        assert!(batch.id == id, "batch {} ended, {} was in flight", id.0, batch.id.0);
        match outcome {
            Outcome::Committed => {
                self.aborts_in_a_row = 0;
                self.merge(batch, commands);
            }
            Outcome::Poisoned { suspects, .. } => {
                self.discard_open(commands);
                self.rewind(&batch, commands);
                self.condemn(&batch, suspects, commands);
            }
            Outcome::Aborted { .. } => {
                self.pause_after_abort(now);
                self.discard_open(commands);
                self.rewind(&batch, commands);
            }
            Outcome::Replace { fenced, .. } => {
                self.pause_after_abort(now);
                self.discard_open(commands);
                if fenced {
                    self.count_fence(now);
                }
                self.replace_producer(Sent { batch, witnesses }, now, commands);
            }
            Outcome::Stop(reason) => {
                self.discard_open(commands);
                self.rewind(&batch, commands);
                self.finish(reason, now);
            }
        }
    }

    fn merge(&mut self, batch: Batch, commands: &mut Vec<Command>) {
        for (partition, interval) in batch.progress.iter() {
            if let Some(Assigned { task: Task::Active { committed, .. }, .. }) = self.tasks.get_mut(&partition) {
                Invariant::NoGap.assert(*committed == interval.start, || format!("{partition}: {interval:?} was committed after {committed}"));
                *committed = interval.end;
            }
        }
        self.hunt.committed(&batch.progress);
        commands.push(Command::Account(batch));
    }

    /// What follows for the records of a refused batch. No pause: nothing is wrong with the cluster, and each refusal brings
    /// the hunt nearer to its end.
    fn condemn(&mut self, batch: &Batch, mut suspects: Vec<Suspect>, commands: &mut Vec<Command>) {
        for suspect in &suspects {
            let interval = batch.progress.get(suspect.partition);
            let held = interval.is_some_and(|interval| interval.start <= suspect.offset && suspect.offset < interval.end);
            Invariant::NoGap.assert(held, || format!("{} offset {} was refused and not sent", suspect.partition, suspect.offset));
        }
        // One who is alone among ours may not have been alone: his neighbours went away with their partition.
        let others = suspects.len() > 1;
        suspects.retain(|suspect| self.position(suspect.partition).is_some());
        if others && suspects.len() == 1 {
            suspects.clear();
        }
        if suspects.is_empty() {
            return;
        }
        let condemned = self.hunt.refused(batch.records, suspects);
        commands.extend(condemned.into_iter().map(|(partition, offset)| Command::Condemned(partition, offset)));
    }

    /// Returns what is known of refused outputs.
    pub const fn hunt(&self) -> &Hunt {
        &self.hunt
    }

    /// Returns how much more the open batch may take while a culprit is known or looked for; `None`: as much as ever.
    pub fn room(&self) -> Option<Room<'_>> {
        self.hunt.room(self.open.as_ref().map(|open| (&open.progress, open.records)))
    }

    /// EO-5: the outcome is unknown until a new producer has closed the old one's transaction and the offsets are read
    /// again. A worker that stops anyway leaves both to its successor.
    fn replace_producer(&mut self, sent: Sent, now: Millis, commands: &mut Vec<Command>) {
        self.producer = Producer::Initialising;
        for assigned in self.tasks.values_mut().filter(|assigned| assigned.task != Task::Taken) {
            assigned.task = Task::Waiting { from: now };
        }
        if !matches!(self.phase, Phase::Running) {
            return commands.push(Command::WriteOff(sent.batch));
        }
        if sent.witnesses.is_empty() {
            commands.push(Command::WriteOff(sent.batch));
        } else {
            self.in_doubt = Some(sent);
        }
        commands.push(Command::Reinitialise);
    }

    fn count_fence(&mut self, now: Millis) {
        while self.fences.front().is_some_and(|at| now.since(*at) > FENCE_WINDOW_MS) {
            self.fences.pop_front();
        }
        self.fences.push_back(now);
        if self.fences.len() > FENCES_MAX {
            let reason = StopReason::FencedTooOften {
                times: self.fences.len(),
                window_ms: FENCE_WINDOW_MS,
                transactional_id: self.transactional_id.clone(),
                incarnation: self.incarnation,
                other: self.rival,
            };
            self.finish(reason, now);
        }
    }

    const fn pause_after_abort(&mut self, now: Millis) {
        let shift = if self.aborts_in_a_row > 10 { 10 } else { self.aborts_in_a_row };
        let pause = ABORT_PAUSE_MS_MIN << shift;
        self.hold_until = now.plus(if pause > ABORT_PAUSE_MS_MAX { ABORT_PAUSE_MS_MAX } else { pause });
        self.aborts_in_a_row += 1;
    }

    /// Judges the batch in doubt by the owner records of those of its partitions that are still ours: ours → it was
    /// committed; not ours → it was not; both → the transaction was not atomic, and we stop.
    pub(super) fn judge_in_doubt(&mut self, seen: Vec<(SourcePartition, Offset, Option<OwnerRecord>)>, now: Millis, commands: &mut Vec<Command>) {
        let Some(Sent { batch, witnesses }) = &self.in_doubt else { return };
        let unresolved = |p: &SourcePartition| self.tasks.get(p).is_some_and(|a| matches!(a.task, Task::Waiting { .. } | Task::Asked));
        if witnesses.iter().any(unresolved) {
            // Those seen so far are asked for again together with the rest, so that one look decides.
            for partition in seen.iter().map(|(partition, ..)| partition).filter(|partition| witnesses.contains(partition)) {
                if let Some(assigned) = self.tasks.get_mut(partition) {
                    assigned.task = Task::Waiting { from: now.plus(super::RESOLVE_PAUSE_MS) };
                }
            }
            return;
        }
        let (mut committed, mut not_committed) = (Vec::new(), Vec::new());
        for (partition, at, owner) in seen.into_iter().filter(|(partition, ..)| witnesses.contains(partition)) {
            let Some(interval) = batch.progress.get(partition) else { continue };
            let ours = owner.is_some_and(|owner| owner.is_by(&self.transactional_id, self.incarnation) && owner.batch == batch.id);
            let list = if ours { &mut committed } else { &mut not_committed };
            let expected = if ours { interval.end } else { interval.start };
            list.push((partition, at, expected));
        }
        let Some(Sent { batch, .. }) = self.in_doubt.take() else { return };
        let contradicts = |list: &[(SourcePartition, Offset, Offset)]| list.iter().any(|(_, at, expected)| at != expected);
        if (!committed.is_empty() && !not_committed.is_empty()) || contradicts(&committed) || contradicts(&not_committed) {
            let detail = format!("batch {}: with its record {committed:?}, without {not_committed:?} (partition, offset, expected)", batch.id.0);
            self.finish(StopReason::Disagreement { detail }, now);
        } else if !committed.is_empty() {
            commands.push(Command::Account(batch));
        }
        // Otherwise it was not committed: its records are read again, its fates were never counted.
    }

    /// Drops the open batch and rewinds its partitions to where it began.
    pub(super) fn discard_open(&mut self, commands: &mut Vec<Command>) {
        let Some(open) = self.open.take() else { return };
        commands.push(Command::DiscardOpen);
        self.rewind(&open, commands);
    }

    /// Sets the positions of a dropped batch's partitions back to its start, where they are still ours.
    pub(super) fn rewind(&mut self, batch: &Batch, commands: &mut Vec<Command>) {
        let mut seeks = Vec::new();
        for (partition, interval) in batch.progress.iter() {
            if let Some(Assigned { task: Task::Active { committed, position }, .. }) = self.tasks.get_mut(&partition) {
                Invariant::NoRewind.assert(*committed <= interval.start, || format!("{partition}: rewind to {} below {committed}", interval.start));
                *position = interval.start;
                seeks.push((partition, interval.start));
            }
        }
        if !seeks.is_empty() {
            commands.push(Command::Seek(seeks));
        }
    }
}
