//! Partitions given, asked back and lost; committed offsets read.

use super::{Assigned, Claim, Command, OwnerSeen, Phase, Producer, RESOLVE_PAUSE_MS, Resolved, Task, Worker};
use crate::batch::Batch;
use crate::invariant::Invariant;
use crate::place::{Millis, SourcePartition};
use crate::stop::StopReason;
use std::collections::BTreeSet;

impl Worker {
    pub(super) fn assigned(&mut self, partitions: Vec<SourcePartition>, now: Millis) {
        let assigning = self.assigning.get_or_insert_with(BTreeSet::new);
        for partition in partitions {
            let assigned = Assigned { assignment: self.next_assignment, task: Task::Waiting { from: now } };
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
        let busy = |partition: SourcePartition| {
            let in_flight = self.in_flight.as_ref().is_some_and(|batch| batch.progress.get(partition).is_some());
            in_flight || self.in_doubt.as_ref().is_some_and(|in_doubt| in_doubt.batch.progress.get(partition).is_some())
        };
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
        let holds = |batch: &Option<Batch>| batch.as_ref().is_some_and(|b| b.progress.iter().any(|(p, _)| revoking.partitions.contains(&p)));
        let (in_flight, open) = (holds(&self.in_flight), holds(&self.open));
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
            if let Some(assigning) = &mut self.assigning {
                assigning.remove(partition);
            }
        }
        if touched {
            self.discard_open(commands);
        }
        commands.push(Command::GiveBack(partitions.iter().copied().collect()));
        if let Some(in_doubt) = &mut self.in_doubt {
            in_doubt.witnesses.retain(|partition| !partitions.contains(partition));
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
                ask.push((partition, assigned.assignment));
            }
        }
        if !ask.is_empty() {
            commands.push(Command::Resolve(ask));
        }
    }

    pub(super) fn resolved(&mut self, answers: Vec<Resolved>, now: Millis, commands: &mut Vec<Command>) {
        let mut seen_owner = Vec::new();
        for answer in answers {
            let Some(assigned) = self.tasks.get_mut(&answer.partition) else { continue };
            if assigned.assignment != answer.assignment || assigned.task != Task::Asked {
                continue;
            }
            match answer.seen {
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
        self.judge_in_doubt(seen_owner, now, commands);
        self.resume_known(commands);
    }

    /// Partitions that were fetched before the producer was replaced go on from their committed offset.
    fn resume_known(&mut self, commands: &mut Vec<Command>) {
        let mut seeks = Vec::new();
        for (&partition, assigned) in &mut self.tasks {
            let waits = self.assigning.as_ref().is_some_and(|assigning| assigning.contains(&partition));
            if let (Task::Known { at }, false) = (&assigned.task, waits) {
                let at = *at;
                assigned.task = Task::Active { committed: at, position: at };
                seeks.push((partition, at));
            }
        }
        if !seeks.is_empty() {
            commands.push(Command::Seek(seeks));
        }
    }

    /// Claims an assignment when all its offsets are known: fetching never starts from a guess, nor before the claim.
    pub(super) fn accept_assignment(&mut self, commands: &mut Vec<Command>) {
        let Some(assigning) = &self.assigning else { return };
        let known = |partition: &SourcePartition| match self.tasks.get(partition).map(|assigned| &assigned.task) {
            Some(Task::Known { at }) => Some((*partition, *at)),
            Some(Task::Waiting { .. } | Task::Asked | Task::Claiming { .. } | Task::Active { .. }) | None => None,
        };
        let Some(positions) = assigning.iter().map(known).collect::<Option<Vec<_>>>() else { return };
        if positions.is_empty() {
            self.assigning = None;
            commands.push(Command::Assign(positions));
            return;
        }
        for (partition, at) in &positions {
            if let Some(assigned) = self.tasks.get_mut(partition) {
                assigned.task = Task::Claiming { at: *at };
            }
        }
        commands.push(Command::Claim(positions));
    }

    pub(super) fn claimed(&mut self, claim: Claim, now: Millis, commands: &mut Vec<Command>) {
        let mut positions = Vec::new();
        for (&partition, assigned) in &mut self.tasks {
            let Task::Claiming { at } = assigned.task else { continue };
            assigned.task = match claim {
                Claim::Committed => Task::Active { committed: at, position: at },
                Claim::Refused => Task::Waiting { from: now.plus(RESOLVE_PAUSE_MS) },
            };
            positions.push((partition, at));
        }
        if claim == Claim::Committed && !positions.is_empty() {
            self.assigning = None;
            commands.push(Command::Assign(positions));
        }
    }
}
