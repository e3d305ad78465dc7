//! The invariants, by id. They are asserted where they are decided, checked again by the test oracle and quoted by id in
//! comments, tests and runbook. Ids are never reused.

use std::fmt;

/// What must hold at every moment. A breach is our mistake: the process ends, which EO-1 makes safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// EO-1: a record's outputs, its state changes and its input offset become visible together or not at all.
    Atomic,
    /// EO-2: once a topic-partition is given back, lost or fenced, this instance commits nothing for it.
    OneOwner,
    /// EO-3: a committed offset is the position after the last record processed, dead-lettered or dropped and counted.
    NoGap,
    /// EO-4: a committed offset never goes back, except by an operator's explicit reset.
    NoRewind,
    /// EO-5: after a commit of unknown outcome nothing is sent until the outcome is known.
    UnknownIsNotSuccess,
    /// EO-6: before its first record a task's store equals the replay of its committed changelog.
    StateFollowsTheLog,
    /// EO-7: records of one topic-partition reach a processor in offset order.
    Order,
    /// EO-8: stream time never falls; a record beyond grace is counted and routed, never silently gone.
    Time,
}

impl Invariant {
    /// Returns the id, as quoted everywhere.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Atomic => "EO-1",
            Self::OneOwner => "EO-2",
            Self::NoGap => "EO-3",
            Self::NoRewind => "EO-4",
            Self::UnknownIsNotSuccess => "EO-5",
            Self::StateFollowsTheLog => "EO-6",
            Self::Order => "EO-7",
            Self::Time => "EO-8",
        }
    }

    /// Ends the process with the invariant's id when `holds` is false.
    ///
    /// # Panics
    /// When `holds` is false.
    #[track_caller]
    pub fn assert(self, holds: bool, what: impl FnOnce() -> String) {
        assert!(holds, "{self} is broken: {}", what());
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
