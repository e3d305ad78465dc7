//! Leader epochs of offsets: with one, a broker can tell a log that only grew from one that was cut and grew again (KIP-320).
//!
//! An unclean election may take acknowledged records away while a pipeline is stopped; later records then have offsets below
//! its committed one and would never be read. An offset that is committed with the epoch of the record before it shows it: the
//! log's end of that epoch lies below the offset. The client asks when it seeks to an offset with an epoch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Offsets remembered for each partition: committed, in flight, open, and one that was read by another owner.
const REMEMBERED_MAX: usize = 4;

/// Of each topic's partition, offsets with the epoch of the record before.
type Known = BTreeMap<(String, i32), VecDeque<(i64, i32)>>;

/// The epochs that belong to offsets, as they were read from the group or from records. Shared by a worker's two threads.
#[derive(Debug, Default)]
pub(crate) struct Epochs(Mutex<Known>);

impl Epochs {
    /// Remembers the epoch of the record before an offset; below 0 is none.
    pub(crate) fn note(&self, topic: &str, partition: i32, offset: i64, epoch: i32) {
        if epoch < 0 {
            return;
        }
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.entry((topic.to_owned(), partition)).or_default();
        known.retain(|(at, _)| *at != offset);
        known.push_front((offset, epoch));
        known.truncate(REMEMBERED_MAX);
    }

    /// Returns the epoch that goes with an offset.
    pub(crate) fn of(&self, topic: &str, partition: i32, offset: i64) -> Option<i32> {
        let epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.get(&(topic.to_owned(), partition))?;
        known.iter().find(|(at, _)| *at == offset).map(|(_, epoch)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::Epochs;

    #[test]
    fn an_epoch_belongs_to_one_offset_and_old_ones_are_forgotten() {
        let epochs = Epochs::default();
        epochs.note("orders", 0, 10, 3);
        epochs.note("orders", 1, 10, 4);
        epochs.note("orders", 0, 11, -1);
        assert_eq!((epochs.of("orders", 0, 10), epochs.of("orders", 1, 10)), (Some(3), Some(4)));
        assert_eq!((epochs.of("orders", 0, 11), epochs.of("payments", 0, 10)), (None, None));
        epochs.note("orders", 0, 10, 5);
        assert_eq!(epochs.of("orders", 0, 10), Some(5), "the newer one");
        for offset in 20..24 {
            epochs.note("orders", 0, offset, 5);
        }
        assert_eq!(epochs.of("orders", 0, 10), None);
    }
}
