//! What the worker says of itself: its row of the status, in words.

use super::fetching::FETCH_FAILING;
use super::{Joined, WorkerLoop};
use crate::broker::Source;
use crate::next_step;
use crate::status::{PartitionStatus, Readiness};
use crate::watch::Blocked;
use transom_engine::{Fate, SourcePartition, State};

impl<S: Source + Send + 'static> WorkerLoop<S> {
    pub(super) fn show_books(&self) {
        let unaccounted = self.books.unaccounted();
        if unaccounted != 0 {
            tracing::error!(worker = self.number, unaccounted, "records without a fate");
        }
        self.around.board.update(self.number, |row| {
            row.fates = Fate::ALL.iter().map(|fate| (fate.as_str(), self.books.committed.get(*fate))).collect();
            row.batches_committed = self.books.batches_committed;
            row.batches_aborted = self.books.batches_aborted;
            row.unaccounted_records = unaccounted;
            row.generation = self.generation;
        });
    }

    /// Returns who has not settled what, for whom, and what happens next.
    pub(super) fn describe(&self, blocked: &Blocked) -> String {
        let id = &self.transactional_id;
        let producer = self.watch.producer().map_or_else(String::new, |(id, epoch)| format!(", producer id {id}, epoch {epoch}"));
        let next = if blocked.is_by_coordinator() {
            format!("goes on by itself, or ends with exit code 75 after {} s", self.around.options.blocked_budget.as_secs())
        } else {
            "goes on by itself".to_owned()
        };
        format!("{} (transactional id {id}{producer}); {next}", blocked.describe())
    }

    pub(super) fn show(&mut self, blocked: Option<&Blocked>) {
        let state = self.engine.state(self.around.clock.now());
        let is_failing = |state| matches!(state, State::Running | State::ResolvingOffsets | State::BackingOff | State::Hunting);
        let failing = self.fetch_troubles.shown(self.around.clock.now()).filter(|_| blocked.is_none() && is_failing(state)).map(str::to_owned);
        let word = match (blocked, &failing) {
            (Some(blocked), _) => blocked.state(),
            (None, Some(_)) => FETCH_FAILING,
            (None, None) => state.as_str(),
        };
        if state == State::Hunting && self.trouble.is_empty() {
            self.trouble = "an output was refused; smaller batches until its input is found".to_owned();
        }
        let is_troubled = blocked.is_some() || failing.is_some();
        let (reason, next_step) = match (blocked, failing) {
            (Some(blocked), _) => (self.describe(blocked), next_step::of_blocked(blocked)),
            (None, Some(reason)) => (reason, next_step::FETCH_FAILING),
            (None, None) if self.trouble.is_empty() => (String::new(), next_step::of_state(state)),
            (None, None) => (self.trouble.clone(), self.next_step),
        };
        if self.shown != Some(word) {
            match is_troubled {
                true => tracing::warn!(worker = self.number, state = word, reason = %reason, next_step, "state changed"),
                false => tracing::info!(worker = self.number, state = word, reason = %reason, next_step, "state changed"),
            }
            self.shown = Some(word);
        }
        let readiness = match state {
            _ if is_troubled => Readiness::Troubled,
            State::WaitingForPartitions if self.joined == Joined::No => Readiness::Starting,
            State::WaitingForPartitions if self.joined == Joined::Lost => Readiness::Troubled,
            State::Running | State::WaitingForPartitions | State::ResolvingOffsets | State::Hunting => Readiness::Ready,
            State::Initialising | State::BackingOff | State::InDoubt => Readiness::Troubled,
            State::Draining | State::Stopped => Readiness::Stopping,
        };
        let partitions: Vec<_> = self.engine.partitions().collect();
        let producer = self.watch.producer();
        self.around.board.update(self.number, |row| {
            row.state = word;
            row.reason = reason;
            row.next_step = next_step;
            row.producer_id = producer.map(|(id, _)| id);
            row.producer_epoch = producer.map(|(_, epoch)| epoch);
            row.ready = readiness;
            if row.transactional_id.is_empty() {
                row.transactional_id = self.transactional_id.to_string();
                row.incarnation = self.incarnation.to_string();
            }
            let mut old = std::mem::take(&mut row.partitions);
            row.partitions.extend(partitions.iter().map(|(place, offsets)| {
                let topic = self.topic(*place);
                let kept = old.iter_mut().find(|row| row.partition == place.partition.get() && row.topic == topic).map(std::mem::take);
                let mut status = kept.unwrap_or_default();
                if status.topic.is_empty() {
                    status = PartitionStatus { topic: topic.to_owned(), partition: place.partition.get(), ..PartitionStatus::default() };
                }
                status.committed = offsets.map(|(committed, _)| committed.get());
                status.position = offsets.map(|(_, position)| position.get());
                status.work_out_lag();
                status
            }));
        });
    }

    pub(super) fn names(&self, partitions: &[SourcePartition]) -> Vec<String> {
        partitions.iter().map(|place| format!("{}/{}", self.topic(*place), place.partition)).collect()
    }

    pub(super) fn topic(&self, place: SourcePartition) -> &str {
        self.around.options.inputs.get(usize::from(place.topic.0)).map_or("?", String::as_str)
    }
}
