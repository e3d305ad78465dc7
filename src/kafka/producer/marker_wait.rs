//! How long after a commit the next transaction is held back.
//!
//! A commit is answered when the coordinator has written it down; the markers in the partitions follow. A transaction that
//! begins before they are written is refused with CONCURRENT_TRANSACTIONS, and the library asks again after
//! `retry.backoff.ms` for the offsets and after a fixed 20 ms for the partitions (`rd_kafka_txn_handle_AddPartitionsToTxn`,
//! librdkafka 2.12.1). How long the markers take is the cluster's affair: half a millisecond, or ten on a busy one. So the
//! wait follows what is met.

use std::time::Duration;

/// About one transaction in eight may still be refused: fewer would cost all of them more than it saves the one.
const STEP_UP: Duration = Duration::from_millis(1);
const STEP_DOWN: Duration = Duration::from_micros(150);
/// Markers that take longer are waited for by asking again; this long is never waited in vain then.
const MAX: Duration = Duration::from_millis(10);

/// The wait, from what the transactions before met.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkerWait(Duration);

impl MarkerWait {
    /// Takes note of a committed transaction: whether it was refused at first because of the one before.
    pub(super) fn note(&mut self, was_refused: bool) {
        self.0 = if was_refused { (self.0 + STEP_UP).min(MAX) } else { self.0.saturating_sub(STEP_DOWN) };
    }

    /// Returns how long to wait after the next commit.
    pub(super) const fn duration(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_how_long_markers_take() {
        let mut wait = MarkerWait::default();
        let mut settle_at = |markers: Duration| {
            let refused = (0..400).map(|_| {
                let was_refused = wait.duration() < markers;
                wait.note(was_refused);
                was_refused
            });
            let late = refused.skip(200).filter(|refused| *refused).count();
            (late, wait.duration())
        };
        let (refused, waits) = settle_at(Duration::from_millis(4));
        assert!((15..40).contains(&refused), "{refused} of 200");
        assert!(waits >= Duration::from_millis(3) && waits < Duration::from_millis(6), "{waits:?}");
        assert_eq!(settle_at(Duration::from_millis(500)), (200, MAX), "no longer than that");
        assert_eq!(settle_at(Duration::ZERO), (0, Duration::ZERO), "nothing to wait for");
    }
}
