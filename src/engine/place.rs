//! Where a record comes from, and when something happened.

use std::fmt;
use transom_sdk::PartitionId;

/// The place of an input topic in the pipeline's list of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u16);

/// One partition of one input topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePartition {
    /// Which input topic.
    pub topic: TopicId,
    /// Which partition of it.
    pub partition: PartitionId,
}

impl fmt::Display for SourcePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input {} partition {}", self.topic.0, self.partition)
    }
}

/// Monotonic milliseconds since the process began; the engine's only notion of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// Returns the time `milliseconds` later.
    #[must_use]
    pub const fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Returns how long after `earlier` this is, 0 if it is not after.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
