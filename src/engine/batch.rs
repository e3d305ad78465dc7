//! What one transaction carries, as progress in intervals that must join on.

use crate::fate::FateCounts;
use crate::invariant::Invariant;
use crate::place::{Millis, SourcePartition};
use std::collections::BTreeMap;
use transom_sdk::Offset;

/// The number of a batch within one incarnation of a worker, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// A stretch of one partition's log: `start` inclusive, `end` exclusive. `end` is the offset to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Position before the first record.
    pub start: Offset,
    /// Position after the last record.
    pub end: Offset,
}

/// Per partition, the interval a batch covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    intervals: BTreeMap<SourcePartition, Interval>,
}

impl Progress {
    /// Extends a partition's interval from `start` to `end`.
    ///
    /// # Panics
    /// EO-3, when `start` does not join on to what is there; EO-7, when `end` lies before `start`.
    pub fn extend(&mut self, partition: SourcePartition, start: Offset, end: Offset) {
        Invariant::Order.assert(start <= end, || format!("{partition}: interval {start}..{end} runs backwards"));
        let interval = self.intervals.entry(partition).or_insert(Interval { start, end: start });
        Invariant::NoGap.assert(interval.end == start, || format!("{partition}: {start} does not join on to {}", interval.end));
        interval.end = end;
    }

    /// Returns the interval of one partition.
    pub fn get(&self, partition: SourcePartition) -> Option<Interval> {
        self.intervals.get(&partition).copied()
    }

    /// Returns all intervals in the order of their partitions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SourcePartition, Interval)> + '_ {
        self.intervals.iter().map(|(&partition, &interval)| (partition, interval))
    }

    /// Returns whether it covers no partition.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }
}

/// A batch as the rules see it: no bytes, only what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its number.
    pub id: BatchId,
    /// What it covers. One offset goes out for each of these partitions, so it is never empty when sent (EO-2).
    pub progress: Progress,
    /// How many records were handed to it.
    pub records: u64,
    /// Their fates. Invariant at close: the total is `records`.
    pub fates: FateCounts,
    /// Bytes of input and output, for the cap.
    pub bytes: u64,
    /// When its first record was handed over.
    pub opened_at: Millis,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new(id: BatchId, opened_at: Millis) -> Self {
        Self { id, progress: Progress::default(), records: 0, fates: FateCounts::default(), bytes: 0, opened_at }
    }
}
