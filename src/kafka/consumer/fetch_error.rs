//! Errors that come where records should: what each says, and what it means for the partition's position.
//!
//! librdkafka puts an error between the records of a partition's queue, and moves its own position over it as if it were one
//! (`rd_kafka_q_serve_rkmessages`: offset + 1, of an entry whose offset is the next unread one). Nothing takes that back but a
//! seek. After bytes that cannot be read its parser may even go on at a wrong place: with records behind those that were
//! not read, or with an error at an offset that no log has. So behind such an error nothing is believed: what follows it is
//! thrown away unread, and the partition is fetched again from the last record that was.

use crate::disposition::code;
use std::time::{Duration, Instant};

/// What an error entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The log does not hold the position.
    OutOfRange,
    /// The log was cut below the position and may have grown again (KIP-320).
    Truncated,
    /// An ACL is missing.
    NotPermitted,
    /// The bytes at the position cannot be read.
    Corrupt,
    /// The client goes on by itself, from the same record.
    Passing,
}

/// Sorts an error entry by its code, and where one code stands for several things, by the library's words.
pub(crate) fn fetch_error(code: i32, words: &str) -> FetchError {
    match code {
        // The library resets for two reasons, and appends the words of the cause (`rd_kafka_offset_reset`).
        code::AUTO_OFFSET_RESET if words.contains("truncation") => FetchError::Truncated,
        code::AUTO_OFFSET_RESET => FetchError::OutOfRange,
        code::TOPIC_AUTHORIZATION_FAILED => FetchError::NotPermitted,
        // A checksum, a compression, a format, a length beyond reason (`rdkafka_msgset_reader.c`), and the broker's own word that its log
        // is corrupt.
        code::BAD_MSG | code::BAD_COMPRESSION | code::NOT_IMPLEMENTED | code::UNDERFLOW | code::CORRUPT_MESSAGE | code::MSG_SIZE_TOO_LARGE => {
            FetchError::Corrupt
        }
        _ => FetchError::Passing,
    }
}

/// How often the same bytes are fetched again before they are taken for corrupt in the log, and not on the way.
const TRIES_MAX: u32 = 4;
/// How long a partition with several replicas is tried for: another leader may have the bytes whole.
const PATIENCE: Duration = Duration::from_secs(30);
/// First and longest pause before another try, doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A partition whose next bytes cannot be read, and how often that was tried.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    /// The library's words at the last try.
    pub(crate) words: String,
    pub(crate) tries: u32,
    since: Instant,
    /// When it is fetched again; `None` while that is under way.
    again_at: Option<Instant>,
}

/// What is to be done with a partition whose next bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing yet.
    Wait,
    /// Fetch it again.
    Again,
    /// The bytes are the same each time; give up unless another replica may become leader.
    GiveUp,
}

impl Unreadable {
    pub(crate) fn new(words: String, now: Instant) -> Self {
        Self { words, tries: 1, since: now, again_at: Some(now + PAUSE_MIN) }
    }

    /// Takes note that fetching again brought no record either. Entries of the same answer count once.
    pub(crate) fn again(&mut self, words: String, now: Instant) {
        if self.again_at.is_some() {
            return;
        }
        self.words = words;
        self.tries += 1;
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(8)).min(PAUSE_MAX);
        self.again_at = Some(now + pause);
    }

    pub(crate) fn next(&self, now: Instant) -> Next {
        match self.again_at {
            Some(at) if now >= at && self.tries >= TRIES_MAX => Next::GiveUp,
            Some(at) if now >= at => Next::Again,
            Some(_) | None => Next::Wait,
        }
    }

    /// Takes note that records before the bytes in question were handed over: what cannot be read now is something else.
    pub(crate) const fn moved_on(&mut self) {
        self.tries = 1;
    }

    /// Takes note that it is fetched again.
    pub(crate) const fn retried(&mut self) {
        self.again_at = None;
    }

    /// Returns whether trying longer makes sense with so many replicas.
    pub(crate) fn may_heal(&self, replicas: usize, now: Instant) -> bool {
        replicas > 1 && now.duration_since(self.since) < PATIENCE
    }

    /// Returns whether records may be taken from its queue: after a try was begun.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.again_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_code_stands_for_a_position_out_of_range_and_for_a_log_that_was_cut() {
        let truncated = "Partition log truncation detected at offset 15 (leader epoch 0): broker end offset is 10 (offset leader epoch 0). \
                         Reset to INVALID.: Local: Partition log truncation detected (broker 1)";
        assert_eq!(fetch_error(code::AUTO_OFFSET_RESET, truncated), FetchError::Truncated);
        let gone = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)";
        assert_eq!(fetch_error(code::AUTO_OFFSET_RESET, gone), FetchError::OutOfRange);
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_passes() {
        for code in [-199, -198, -170, -155, 2, 10] {
            assert_eq!(fetch_error(code, ""), FetchError::Corrupt, "{code}");
        }
        for code in [-1, 1, 7, 44, 56, 87, -195, -185] {
            assert_eq!(fetch_error(code, ""), FetchError::Passing, "{code}");
        }
    }

    #[test]
    fn bytes_that_stay_unreadable_are_given_up_after_four_tries_and_later_where_there_are_replicas() {
        let start = Instant::now();
        let mut unreadable = Unreadable::new("CRC".to_owned(), start);
        assert_eq!((unreadable.next(start), unreadable.is_under_way()), (Next::Wait, false));
        let mut now = start;
        while unreadable.tries < TRIES_MAX {
            now += PAUSE_MAX;
            assert_eq!(unreadable.next(now), Next::Again);
            unreadable.retried();
            assert_eq!((unreadable.next(now), unreadable.is_under_way()), (Next::Wait, true));
            unreadable.again("CRC".to_owned(), now);
            let tries = unreadable.tries;
            unreadable.again("behind it in the same answer".to_owned(), now);
            assert_eq!((unreadable.tries, unreadable.words.as_str()), (tries, "CRC"), "one answer is one try");
        }
        assert_eq!(unreadable.next(now + PAUSE_MAX), Next::GiveUp);
        assert!(unreadable.may_heal(3, start + PATIENCE / 2));
        assert!(!unreadable.may_heal(1, start + PATIENCE / 2) && !unreadable.may_heal(3, start + PATIENCE));
    }
}
