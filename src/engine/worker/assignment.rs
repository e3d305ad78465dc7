//! Partitions given, asked back and lost; committed offsets read.

use super::{Assigned, Claim, Command, OwnerSeen, Phase, Producer, RESOLVE_PAUSE_MS, Resolved, Task, Worker};
use crate::batch::Batch;
use crate::invariant::Invariant;
use crate::place::{Millis, SourcePartition};
use crate::stop::StopReason;
use std::collections::BTreeSet;

/// What is asked about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which partition.
    pub partition: SourcePartition,
    /// The assignment it is asked for; goes back with the answer.
    pub assignment: u64,
    /// Whether another owner may be in the way.
    pub takeover: Takeover,
}

/// Whether an id that still holds a partition is to be fenced before its offset is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The partition was just gained: whoever holds it lost it to us.
    Fence,
    /// Its offset was seen before in this assignment: whoever holds it now, if not we, took it from us.
    Leave,
}

impl Worker {
    pub(super) fn assigned(&mut self, partitions: Vec<SourcePartition>, now: Millis) {
        let assigning = self.assigning.get_or_insert_with(BTreeSet::new);
        for partition in partitions {
            let assigned = Assigned { assignment: self.next_assignment, task: Task::Waiting { from: now }, takeover: Takeover::Fence };
            self.next_assignment += 1;
            let earlier = self.tasks.insert(partition, assigned);
            Invariant::OneOwner.assert(earlier.is_none(), || format!("{partition} was assigned twice without being given back"));
            assigning.insert(partition);
        }
    }

    /// Somebody else owns these already: whatever is open for them is dropped; what is in flight carries its own metadata
    /// and is judged by the broker.
    pub(super) fn lost(&mut self, partitions: Vec<SourcePartition>, commands: &mut Vec<Command>) {
        let lost: BTreeSet<_> = partitions.into_iter().collect();
        if let Some(revoking) = &mut self.revoking {
            revoking.partitions.retain(|partition| !lost.contains(partition));
            if revoking.partitions.is_empty() {
                self.revoking = None;
            }
        }
        self.remove(&lost, commands);
    }

    /// Says that partitions are held no more, where nothing of ours is on its way for them: what is in flight may still
    /// move their offset, and a plain commit behind it would take it back (EO-4).
    pub(super) fn release(&self, partitions: &BTreeSet<SourcePartition>, commands: &mut Vec<Command>) {
        let busy = |partition: SourcePartition| [&self.in_flight, &self.in_doubt].into_iter().flatten().any(|sent| sent.holds(partition));
        let mut released = Vec::new();
        for &partition in partitions {
            let task = self.tasks.get(&partition).map(|assigned| &assigned.task);
            if let (Some(Task::Active { committed, .. }), false) = (task, busy(partition)) {
                released.push((partition, *committed));
            }
        }
        if !released.is_empty() {
            commands.push(Command::Release(released));
        }
    }

    /// A revoke waits, within its budget, until every batch that holds one of its partitions is resolved.
    pub(super) fn advance_revoke(&mut self, now: Millis, commands: &mut Vec<Command>) {
        let Some(revoking) = &self.revoking else { return };
        let holds = |batch: &Batch| batch.progress.iter().any(|(partition, _)| revoking.partitions.contains(&partition));
        let in_flight = self.in_flight.as_ref().is_some_and(|sent| holds(&sent.batch));
        let open = self.open.as_ref().is_some_and(holds);
        if now < revoking.by {
            if in_flight || (open && self.in_flight.is_some()) {
                return;
            }
            if open && self.may_send() {
                self.close(super::CloseReason::Revoke, now, commands);
                return;
            }
        }
        if let Some(revoking) = self.revoking.take() {
            self.release(&revoking.partitions, commands);
            self.remove(&revoking.partitions, commands);
        }
    }

    /// The partitions are not ours from here on (EO-2): an open batch that holds one is dropped whole.
    fn remove(&mut self, partitions: &BTreeSet<SourcePartition>, commands: &mut Vec<Command>) {
        let touched = self.open.as_ref().is_some_and(|open| open.progress.iter().any(|(p, _)| partitions.contains(&p)));
        for partition in partitions {
            self.tasks.remove(partition);
            self.unclaimed.remove(partition);
            if let Some(assigning) = &mut self.assigning {
                assigning.remove(partition);
            }
        }
        if touched {
            self.discard_open(commands);
        }
        self.hunt.forget(partitions);
        commands.push(Command::GiveBack(partitions.iter().copied().collect()));
        self.forget_witnesses(partitions, commands);
    }

    /// These partitions cannot tell any more what became of a batch of ours; without a witness nobody here can.
    fn forget_witnesses(&mut self, partitions: &BTreeSet<SourcePartition>, commands: &mut Vec<Command>) {
        for sent in [&mut self.in_flight, &mut self.in_doubt].into_iter().flatten() {
            sent.witnesses.retain(|partition| !partitions.contains(partition));
        }
        if let Some(in_doubt) = self.in_doubt.take_if(|in_doubt| in_doubt.witnesses.is_empty()) {
            commands.push(Command::WriteOff(in_doubt.batch));
        }
    }

    /// Asks for the offsets of all tasks that wait for them. Only with an initialised producer: before that, an offset may
    /// still be pending in a transaction that this very id left open.
    pub(super) fn ask_for_offsets(&mut self, now: Millis, commands: &mut Vec<Command>) {
        if self.producer != Producer::Ready || !matches!(self.phase, Phase::Running) {
            return;
        }
        let mut ask = Vec::new();
        for (&partition, assigned) in &mut self.tasks {
            if matches!(assigned.task, Task::Waiting { from } if now >= from) {
                assigned.task = Task::Asked;
                ask.push(Ask { partition, assignment: assigned.assignment, takeover: assigned.takeover });
            }
        }
        if !ask.is_empty() {
            commands.push(Command::Resolve(ask));
        }
    }

    pub(super) fn resolved(&mut self, answers: Vec<Resolved>, now: Millis, commands: &mut Vec<Command>) {
        let (mut seen_owner, mut taken) = (Vec::new(), BTreeSet::new());
        for answer in answers {
            let Some(assigned) = self.tasks.get_mut(&answer.partition) else { continue };
            if assigned.assignment != answer.assignment || assigned.task != Task::Asked {
                continue;
            }
            let expects_ours =
                !self.unclaimed.contains(&answer.partition) && self.assigning.as_ref().is_none_or(|new| !new.contains(&answer.partition));
            if let OwnerSeen::At(_, owner) = &answer.seen {
                assigned.takeover = Takeover::Leave;
                let namesake = owner.as_ref().filter(|owner| owner.transactional_id == self.transactional_id);
                self.rival = namesake.map(|owner| owner.incarnation).filter(|incarnation| *incarnation != self.incarnation).or(self.rival);
            }
            match answer.seen {
                // Asking again would fence its new owner each time, and its record says nothing of our batch.
                OwnerSeen::At(_, Some(owner)) if expects_ours && !owner.is_by(&self.transactional_id, self.incarnation) => {
                    assigned.task = Task::Taken;
                    taken.insert(answer.partition);
                }
                OwnerSeen::At(at, owner) => {
                    assigned.task = Task::Known { at };
                    seen_owner.push((answer.partition, at, owner));
                }
                OwnerSeen::Pending | OwnerSeen::Unanswered => assigned.task = Task::Waiting { from: now.plus(RESOLVE_PAUSE_MS) },
                OwnerSeen::Missing => {
                    self.discard_open(commands);
                    return self.finish(StopReason::OffsetsMissing { partition: answer.partition }, now);
                }
            }
        }
        self.forget_witnesses(&taken, commands);
        self.judge_in_doubt(seen_owner, now, commands);
        self.resume_known(commands);
    }

    /// Partitions that were claimed before the producer was replaced go on from their committed offset.
    fn resume_known(&mut self, commands: &mut Vec<Command>) {
        let mut seeks = Vec::new();
        for (&partition, assigned) in &mut self.tasks {
            let waits = self.unclaimed.contains(&partition) || self.assigning.as_ref().is_some_and(|assigning| assigning.contains(&partition));
            if let (Task::Known { at }, false) = (&assigned.task, waits) {
                let at = *at;
                assigned.task = Task::Active { committed: at, position: at };
                self.hunt.resumed(partition, at);
                seeks.push((partition, at));
            }
        }
        if !seeks.is_empty() {
            commands.push(Command::Seek(seeks));
        }
    }

    /// Claims an assignment when all its offsets are known: fetching never starts from a guess, nor before the claim. What
    /// could not be claimed before is claimed as soon as its offset is known again.
    pub(super) fn claim_known(&mut self, commands: &mut Vec<Command>) {
        if self.tasks.values().any(|assigned| matches!(assigned.task, Task::Claiming { .. })) {
            return;
        }
        let known = |partition: &SourcePartition| match self.tasks.get(partition).map(|assigned| &assigned.task) {
            Some(Task::Known { at }) => Some((*partition, *at)),
            Some(Task::Waiting { .. } | Task::Asked | Task::Claiming { .. } | Task::Taken | Task::Active { .. }) | None => None,
        };
        let assigned = self.assigning.as_ref().and_then(|assigning| assigning.iter().map(known).collect::<Option<Vec<_>>>());
        if assigned.as_ref().is_some_and(Vec::is_empty) {
            self.assigning = None;
            commands.push(Command::Assign(Vec::new()));
        }
        let positions: Vec<_> = assigned.unwrap_or_default().into_iter().chain(self.unclaimed.iter().filter_map(known)).collect();
        for (partition, at) in &positions {
            if let Some(assigned) = self.tasks.get_mut(partition) {
                assigned.task = Task::Claiming { at: *at };
            }
        }
        if !positions.is_empty() {
            commands.push(Command::Claim(positions));
        }
    }

    /// A refused claim accepts the assignment all the same: until then the client reports nothing else, not even that the
    /// membership is gone, which is the usual reason. Its records are not taken before the claim stands.
    pub(super) fn claimed(&mut self, claim: Claim, now: Millis, commands: &mut Vec<Command>) {
        let (mut assign, mut seek) = (Vec::new(), Vec::new());
        for (&partition, assigned) in &mut self.tasks {
            let Task::Claiming { at } = assigned.task else { continue };
            let was_unclaimed = self.unclaimed.remove(&partition);
            match claim {
                Claim::Committed => assigned.task = Task::Active { committed: at, position: at },
                Claim::Refused => {
                    assigned.task = Task::Waiting { from: now.plus(RESOLVE_PAUSE_MS) };
                    self.unclaimed.insert(partition);
                }
            }
            let list = if was_unclaimed { &mut seek } else { &mut assign };
            list.push((partition, at));
        }
        if !assign.is_empty() {
            self.assigning = None;
            commands.push(Command::Assign(assign));
        }
        if claim == Claim::Committed && !seek.is_empty() {
            commands.push(Command::Seek(seek));
        }
    }
}
