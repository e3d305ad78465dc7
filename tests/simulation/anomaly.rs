//! What can be wrong, by name.

use std::fmt;

/// The anomalies, in the house's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An input record has no visible output, and its offset is committed.
    Lost,
    /// An output is visible twice.
    Duplicate,
    /// Outputs of one input partition are visible in another order.
    Reordered,
    /// Some outputs of a record are visible and others not.
    Torn,
    /// An output that no input asks for, or at a place where it does not belong.
    Unexpected,
    /// A committed offset went back (EO-4).
    Rewound,
    /// A batch was counted as committed and is not.
    Phantom,
    /// Records and fates do not add up.
    Unbalanced,
    /// Nothing goes wrong any more, and yet not everything is processed.
    Stuck,
    /// A worker stopped for a reason that must not exist here.
    Stopped,
    /// The engine found an invariant broken and ended the process.
    Broken,
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which.
    pub kind: Kind,
    /// Where.
    pub detail: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = format!("{:?}", self.kind).to_lowercase();
        write!(f, "{kind}: {}", self.detail)
    }
}
