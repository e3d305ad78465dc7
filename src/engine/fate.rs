//! Fates: what became of each input record. Every record handed to a batch gets exactly one, and the books balance.

/// What became of an input record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// One or more outputs.
    Produced,
    /// The transform emitted nothing, on purpose.
    Filtered,
    /// Its id was seen within the dedup window.
    Deduplicated,
    /// A newer version had been seen.
    Superseded,
    /// It came after its window's grace.
    Late,
    /// It went to the dead-letter topic.
    DeadLettered,
    /// It went into an aggregate that is emitted later.
    Aggregated,
}

impl Fate {
    /// All fates, in the order of their metrics.
    pub const ALL: [Self; 7] =
        [Self::Produced, Self::Filtered, Self::Deduplicated, Self::Superseded, Self::Late, Self::DeadLettered, Self::Aggregated];

    /// Returns the word used in metrics and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Produced => "produced",
            Self::Filtered => "filtered",
            Self::Deduplicated => "deduplicated",
            Self::Superseded => "superseded",
            Self::Late => "late",
            Self::DeadLettered => "dead_lettered",
            Self::Aggregated => "aggregated",
        }
    }
}

/// How many records met each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FateCounts([u64; Fate::ALL.len()]);

impl FateCounts {
    /// Counts one record.
    pub const fn add(&mut self, fate: Fate) {
        self.0[fate as usize] += 1;
    }

    /// Adds another batch's counts.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns the count of one fate.
    pub const fn get(&self, fate: Fate) -> u64 {
        self.0[fate as usize]
    }

    /// Returns how many records have a fate.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
