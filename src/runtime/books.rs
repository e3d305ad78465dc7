//! The books of one worker (DESIGN 5): each record handed over is in exactly one place.

use transom_engine::FateCounts;

/// The worker's own count of what it handed over, kept apart from the engine's, so that one can check the other.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) handed: u64,
    pub(crate) dropped: u64,
    pub(crate) written_off: u64,
    pub(crate) open: u64,
    pub(crate) in_flight: u64,
    pub(crate) in_doubt: u64,
    pub(crate) committed: FateCounts,
    pub(crate) batches_committed: u64,
    pub(crate) batches_aborted: u64,
}

impl Books {
    /// Returns how many handed records are in none of the places a record can be: 0, or an alarm.
    pub(crate) fn unaccounted(&self) -> i64 {
        let settled = self.committed.total() + self.dropped + self.written_off + self.open + self.in_flight + self.in_doubt;
        i64::try_from(self.handed).unwrap_or(i64::MAX) - i64::try_from(settled).unwrap_or(i64::MAX)
    }
}
