//! Partitions that cannot be fetched: counted, said once in a while, and shown until they can.

use super::WorkerLoop;
use crate::broker::Source;
use crate::next_step;
use std::collections::BTreeMap;
use transom_engine::{Millis, SourcePartition};
use transom_sdk::Offset;

/// How often the same trouble of one partition is said.
const SAY_INTERVAL_MS: u64 = 30_000;
/// A trouble that is over within this is counted and said, and changes no state.
const SHOWN_AFTER_MS: u64 = 2_000;

/// The state of a worker that cannot fetch a partition.
pub(super) const FETCH_FAILING: &str = "fetch_failing";

/// A partition that cannot be fetched.
#[derive(Debug)]
struct Failing {
    since: Millis,
    said_at: Millis,
    /// Errors since it was said.
    unsaid: u64,
    error: String,
    reason: String,
}

/// The partitions that cannot be fetched.
#[derive(Debug, Default)]
pub(super) struct FetchTroubles {
    failing: BTreeMap<SourcePartition, Failing>,
}

impl FetchTroubles {
    /// Notes an error. Returns how many were not said before this one, if it is to be said.
    fn note(&mut self, partition: SourcePartition, (error, reason): (&str, String), now: Millis) -> Option<u64> {
        let is_new = !self.failing.contains_key(&partition);
        let failing = self.failing.entry(partition).or_insert_with(|| Failing {
            since: now,
            said_at: now,
            unsaid: 0,
            error: error.to_owned(),
            reason: String::new(),
        });
        let is_to_be_said = is_new || failing.error != error || now.since(failing.said_at) >= SAY_INTERVAL_MS;
        failing.reason = reason;
        if !is_to_be_said {
            failing.unsaid += 1;
            return None;
        }
        error.clone_into(&mut failing.error);
        failing.said_at = now;
        Some(std::mem::take(&mut failing.unsaid))
    }

    /// Returns for how long it failed, if it did.
    fn end(&mut self, partition: SourcePartition, now: Millis) -> Option<u64> {
        self.failing.remove(&partition).map(|failing| now.since(failing.since))
    }

    /// Forgets partitions that are not ours any more.
    pub(super) fn forget(&mut self, partitions: &[SourcePartition]) {
        self.failing.retain(|partition, _| !partitions.contains(partition));
    }

    /// Returns the reason of the trouble that lasts longest, if it is one to be shown.
    pub(super) fn shown(&self, now: Millis) -> Option<&str> {
        let longest = self.failing.values().min_by_key(|failing| failing.since)?;
        (now.since(longest.since) >= SHOWN_AFTER_MS).then_some(longest.reason.as_str())
    }
}

impl<S: Source + Send + 'static> WorkerLoop<S> {
    pub(super) fn fetch_failed(&mut self, partition: SourcePartition, position: Offset, (error, why): (String, String)) {
        let topic = self.topic(partition).to_owned();
        self.around.metrics.fetch_failed(&topic, &error);
        let reason = format!("topic {topic}, partition {}: nothing is read from offset {position} on: {error}: {why}", partition.partition);
        let Some(unsaid) = self.fetch_troubles.note(partition, (&error, reason.clone()), self.around.clock.now()) else { return };
        let (number, position) = (partition.partition.get(), position.get());
        tracing::warn!(worker = self.number, topic, partition = number, position, error, reason = %why, unsaid, "fetch failed; it is tried again from the same record");
        self.note_trouble("fetch_failed", &reason, next_step::FETCH_FAILING);
    }

    pub(super) fn fetch_recovered(&mut self, partition: SourcePartition) {
        let Some(milliseconds) = self.fetch_troubles.end(partition, self.around.clock.now()) else { return };
        tracing::info!(worker = self.number, topic = self.topic(partition), partition = partition.partition.get(), milliseconds, "fetched again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::TopicId;
    use transom_sdk::PartitionId;

    fn place(number: i32) -> SourcePartition {
        SourcePartition { topic: TopicId(0), partition: PartitionId::new(number).unwrap() }
    }

    #[test]
    fn the_same_trouble_is_said_once_in_half_a_minute_and_every_error_is_counted() {
        let mut troubles = FetchTroubles::default();
        let mut note = |partition, error, at| troubles.note(place(partition), (error, format!("{error} at {at}")), Millis(at));
        assert_eq!(note(0, "UNKNOWN", 0), Some(0));
        assert_eq!(note(0, "UNKNOWN", 500), None);
        assert_eq!(note(1, "UNKNOWN", 600), Some(0), "another partition");
        assert_eq!(note(0, "CORRUPT_MESSAGE", 1_000), Some(1), "another error");
        assert_eq!(note(0, "CORRUPT_MESSAGE", 2_000), None);
        assert_eq!(note(0, "CORRUPT_MESSAGE", 31_000), Some(1));
    }

    #[test]
    fn a_trouble_is_shown_when_it_lasts_and_until_it_ends() {
        let mut troubles = FetchTroubles::default();
        let _ = troubles.note(place(0), ("UNKNOWN", "first".to_owned()), Millis(1_000));
        let _ = troubles.note(place(1), ("UNKNOWN", "second".to_owned()), Millis(1_500));
        assert_eq!(troubles.shown(Millis(2_999)), None, "it may be over at once");
        assert_eq!(troubles.shown(Millis(3_000)), Some("first"));
        assert_eq!(troubles.end(place(0), Millis(4_000)), Some(3_000));
        assert_eq!(troubles.end(place(0), Millis(4_000)), None);
        assert_eq!(troubles.shown(Millis(4_000)), Some("second"));
        troubles.forget(&[place(1)]);
        assert_eq!(troubles.shown(Millis(9_000)), None);
    }
}
