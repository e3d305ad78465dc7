//! The evidence of a run, and what each input record should have become.

use std::collections::{BTreeMap, HashSet};

use crate::wire::{CommittedOffset, Headers, ReadRecord};

use super::audit::Audit;
use super::report::Report;

/// One output record an input should have led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where it goes.
    pub topic: String,
    /// Its key, or null.
    pub key: Option<Vec<u8>>,
    /// Its value, or null.
    pub value: Option<Vec<u8>>,
    /// Its header list; not looked at if `None`.
    pub headers: Option<Headers>,
    /// Its timestamp; not looked at if `None`.
    pub timestamp_ms: Option<i64>,
}

impl Output {
    /// Returns an output of which only key and value matter.
    pub fn new(topic: &str, key: Option<Vec<u8>>, value: Option<Vec<u8>>) -> Self {
        Self { topic: topic.to_owned(), key, value, headers: None, timestamp_ms: None }
    }

    /// Returns the exact copy of an input: key, value, headers and timestamp.
    pub fn copy(topic: &str, input: &ReadRecord) -> Self {
        Self {
            headers: Some(input.headers.clone()),
            timestamp_ms: Some(input.timestamp_ms),
            ..Self::new(topic, input.key.clone(), input.value.clone())
        }
    }
}

/// What one input record should have become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// These records, in this order; an empty list is the same as `Filtered`.
    Outputs(Vec<Output>),
    /// A dead letter that names this record as its origin.
    DeadLetter,
    /// Nothing.
    Filtered,
}

#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) name: String,
    /// Sorted by partition and offset.
    pub(super) records: Vec<ReadRecord>,
}

impl Topic {
    fn new(name: &str, mut records: Vec<ReadRecord>) -> Self {
        records.sort_by_key(|record| (record.partition, record.offset));
        Self { name: name.to_owned(), records }
    }
}

/// The evidence of a run.
#[derive(Debug, Default)]
pub struct Books {
    pub(super) inputs: Vec<Topic>,
    pub(super) inputs_uncommitted: Vec<Topic>,
    pub(super) outputs: Vec<Topic>,
    pub(super) dead_letters: Vec<Topic>,
    /// `None`: not given, so nothing is said of offsets.
    pub(super) committed: Option<BTreeMap<(String, i32), i64>>,
}

impl Books {
    /// Returns empty books.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input topic, as read-committed.
    #[must_use]
    pub fn input(mut self, topic: &str, records: Vec<ReadRecord>) -> Self {
        self.inputs.push(Topic::new(topic, records));
        self
    }

    /// Adds an input topic as read-uncommitted, so that aborted reads can be told from other unexpected records.
    #[must_use]
    pub fn input_uncommitted(mut self, topic: &str, records: Vec<ReadRecord>) -> Self {
        self.inputs_uncommitted.push(Topic::new(topic, records));
        self
    }

    /// Adds an output topic, as read-committed.
    #[must_use]
    pub fn output(mut self, topic: &str, records: Vec<ReadRecord>) -> Self {
        self.outputs.push(Topic::new(topic, records));
        self
    }

    /// Adds a dead-letter topic, as read-committed.
    #[must_use]
    pub fn dead_letters(mut self, topic: &str, records: Vec<ReadRecord>) -> Self {
        self.dead_letters.push(Topic::new(topic, records));
        self
    }

    /// Adds the group's committed offsets: outputs and offsets must then stand for the same inputs.
    #[must_use]
    pub fn committed(mut self, offsets: &BTreeMap<(String, i32), CommittedOffset>) -> Self {
        self.committed = Some(offsets.iter().map(|(place, committed)| (place.clone(), committed.offset)).collect());
        self
    }

    /// Compares the evidence with what every input should have become. Linear in the number of records.
    pub fn audit(&self, expected: impl Fn(&str, &ReadRecord) -> Expected) -> Report {
        Audit::of(self, expected)
    }

    /// The input records that belong to no committed transaction, with their topics.
    pub(super) fn aborted_inputs(&self) -> Vec<(&str, &ReadRecord)> {
        let committed: HashSet<(&str, i32, i64)> =
            self.inputs.iter().flat_map(|topic| topic.records.iter().map(|record| (topic.name.as_str(), record.partition, record.offset))).collect();
        self.inputs_uncommitted
            .iter()
            .flat_map(|topic| topic.records.iter().map(|record| (topic.name.as_str(), record)))
            .filter(|(topic, record)| !committed.contains(&(*topic, record.partition, record.offset)))
            .collect()
    }
}
