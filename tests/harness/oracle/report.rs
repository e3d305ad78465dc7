//! What an audit found: one word an anomaly, a count, and the first examples.

use std::collections::BTreeMap;
use std::fmt;

/// How many examples of one anomaly are kept: enough to see a pattern, little enough to read.
const EXAMPLES_MAX: usize = 20;

/// What can be wrong. One observation may carry two names: a zombie write is a duplicate too, a skipped record is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// An input has nothing to show: no output, no dead letter.
    Lost,
    /// A lost input below the group's committed offset: no restart will ever bring it (EO-3).
    Skipped,
    /// A part is visible without the rest: some outputs of a fan-out, or outputs without their input offset (EO-1).
    Torn,
    /// The same output or dead letter stands in the log more often than its inputs.
    Duplicate,
    /// A duplicate by a producer that had the input partition before the one that wrote the original (EO-2).
    ZombieWrite,
    /// Outputs of one input partition and key stand in another order than their inputs (EO-7).
    Reordered,
    /// An output or dead letter of an input that belongs to no committed transaction.
    AbortedRead,
    /// The record is there, with other bytes than it should have.
    WrongBytes,
    /// A record no input accounts for.
    Unexpected,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Torn => "torn",
            Self::Duplicate => "duplicate",
            Self::ZombieWrite => "zombie write",
            Self::Reordered => "reordered",
            Self::AbortedRead => "aborted read",
            Self::WrongBytes => "wrong bytes",
            Self::Unexpected => "unexpected",
        })
    }
}

/// Where a record lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.topic, self.partition, self.offset)
    }
}

/// One example of an anomaly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The record concerned: an input if something is missing, else an output or dead letter.
    pub place: Place,
    /// What is wrong with it.
    pub detail: String,
}

#[derive(Debug, Clone, Default)]
struct Tally {
    count: usize,
    examples: Vec<Finding>,
}

/// The result of an audit.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub(super) inputs: usize,
    pub(super) filtered: usize,
    pub(super) outputs_expected: usize,
    pub(super) outputs_found: usize,
    pub(super) dead_letters_expected: usize,
    pub(super) dead_letters_found: usize,
    pub(super) order_unchecked: usize,
    tallies: BTreeMap<Anomaly, Tally>,
}

impl Report {
    /// Returns whether nothing was found: every input has exactly its outputs or its dead letter, in order.
    pub fn is_exact(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Returns how often an anomaly was found.
    pub fn count(&self, anomaly: Anomaly) -> usize {
        self.tallies.get(&anomaly).map_or(0, |tally| tally.count)
    }

    /// Returns the anomalies found, in the order of [`Anomaly`].
    pub fn anomalies(&self) -> Vec<Anomaly> {
        self.tallies.keys().copied().collect()
    }

    /// Returns the first examples of an anomaly.
    pub fn examples(&self, anomaly: Anomaly) -> &[Finding] {
        self.tallies.get(&anomaly).map_or(&[], |tally| &tally.examples)
    }

    /// Returns the number of input records.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of output records found.
    pub fn outputs(&self) -> usize {
        self.outputs_found
    }

    /// Returns the number of dead letters found.
    pub fn dead_letters(&self) -> usize {
        self.dead_letters_found
    }

    /// Returns how many outputs the order check left out because equal records could not be told apart.
    ///
    /// A test that means to prove order makes its values unique and asserts that this is zero.
    pub fn order_unchecked(&self) -> usize {
        self.order_unchecked
    }

    /// Fails with the whole report unless it is exact.
    ///
    /// # Errors
    /// If anything was found.
    pub fn expect_exact(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.is_exact(), "{self}");
        Ok(())
    }

    pub(super) fn add(&mut self, anomaly: Anomaly, place: Place, detail: impl FnOnce() -> String) {
        let tally = self.tallies.entry(anomaly).or_default();
        tally.count += 1;
        if tally.examples.len() < EXAMPLES_MAX {
            tally.examples.push(Finding { place, detail: detail() });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: Vec<String> = self.tallies.iter().map(|(anomaly, tally)| format!("{} {anomaly}", tally.count)).collect();
        let verdict = if found.is_empty() { "exact".to_owned() } else { format!("not exact: {}", found.join(", ")) };
        writeln!(f, "{verdict}")?;
        write!(
            f,
            "  inputs {}, filtered {}, outputs {} of {}, dead letters {} of {}, order unchecked {}",
            self.inputs,
            self.filtered,
            self.outputs_found,
            self.outputs_expected,
            self.dead_letters_found,
            self.dead_letters_expected,
            self.order_unchecked
        )?;
        for (anomaly, tally) in &self.tallies {
            for example in &tally.examples {
                write!(f, "\n  {anomaly}: {} {}", example.place, example.detail)?;
            }
            if tally.count > tally.examples.len() {
                write!(f, "\n  {anomaly}: and {} more", tally.count - tally.examples.len())?;
            }
        }
        Ok(())
    }
}
