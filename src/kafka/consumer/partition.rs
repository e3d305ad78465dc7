//! One assigned partition: its queue, where reading goes on, and how far the client's own position can be believed.

use super::fetch_error::{FetchError, Unreadable, fetch_error};
use crate::ffi;
use crate::handle::owned;
use crate::message::Message;
use crate::queue::Queue;
use std::time::Instant;
use transom_engine::SourcePartition;
use transom_sdk::Offset;

/// What the last look at a partition's queue brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLook {
    Nothing,
    Something,
}

/// An error entry, as it came.
pub(crate) struct Entry {
    pub(crate) code: i32,
    pub(crate) words: String,
    pub(crate) kind: FetchError,
}

/// What outlives a partition that is assigned anew. Its queue and records must be gone by then.
pub(crate) struct Past {
    pub(crate) place: SourcePartition,
    next: Offset,
    unreadable: Option<Unreadable>,
    is_failing: bool,
    log_end: i64,
}

pub(crate) struct Partition {
    pub(crate) place: SourcePartition,
    pub(crate) queue: Queue,
    /// Taken from the queue, not handed over yet; in reverse order, so that the next one is popped.
    waiting: Vec<Message>,
    /// Where reading goes on: the position after the last record, and after control records that are known to be such.
    pub(crate) next: Offset,
    /// Leader epoch of what stands before `next`, -1 if not known.
    pub(crate) leader_epoch: i32,
    last_look: LastLook,
    /// Where an error entry moved the client's own position. Until a record or a seek is past it, that position is not ours.
    moved_by_error: i64,
    /// The highest end of the log that was seen, exclusive.
    log_end: i64,
    unreadable: Option<Unreadable>,
    /// Whether an error was met and nothing has shown since that it is over.
    is_failing: bool,
    /// Whether an error was met since the last quiet look.
    failed_since_look: bool,
    /// Whether it is still to be checked that the log was not cut below `next`. No record is taken before.
    pub(crate) needs_check: bool,
}

impl Partition {
    pub(crate) const fn new(place: SourcePartition, queue: Queue, next: Offset, leader_epoch: Option<i32>) -> Self {
        Self {
            place,
            queue,
            waiting: Vec::new(),
            next,
            leader_epoch: match leader_epoch {
                Some(epoch) => epoch,
                None => -1,
            },
            last_look: LastLook::Something,
            moved_by_error: i64::MIN,
            log_end: next.get(),
            unreadable: None,
            is_failing: false,
            failed_since_look: false,
            needs_check: leader_epoch.is_some(),
        }
    }

    /// Returns whether its queue may be read: everything was handed over, and nothing is known to be wrong at `next`.
    pub(crate) fn may_be_read(&self) -> bool {
        self.waiting.is_empty() && !self.needs_check && self.unreadable.as_ref().is_none_or(Unreadable::is_under_way)
    }

    /// Sorts what its queue gave, in order. Returns the errors. Behind bytes that cannot be read nothing is kept: it comes
    /// again when they are fetched again.
    pub(crate) fn sort(&mut self, taken: impl Iterator<Item = Message>, now: impl Fn() -> Instant) -> Vec<Entry> {
        let mut errors = Vec::new();
        self.last_look = LastLook::Nothing;
        for message in taken {
            self.last_look = LastLook::Something;
            let is_held_back = self.unreadable.as_ref().is_some_and(|unreadable| !unreadable.is_under_way());
            let code = message.raw().err;
            if code == 0 {
                if !is_held_back {
                    self.waiting.push(message);
                }
                continue;
            }
            // SAFETY: the message is alive.
            let words = unsafe { owned(ffi::rd_kafka_message_errstr(message.raw())) };
            let kind = fetch_error(code, &words);
            self.moved_by_error = self.moved_by_error.max(message.raw().offset.saturating_add(1));
            (self.is_failing, self.failed_since_look) = (true, true);
            if kind == FetchError::Corrupt {
                match &mut self.unreadable {
                    Some(unreadable) => unreadable.again(words.clone(), now()),
                    None => self.unreadable = Some(Unreadable::new(words.clone(), now())),
                }
            }
            errors.push(Entry { code, words, kind });
        }
        self.waiting.reverse();
        errors
    }

    /// Returns the next record that was taken and not handed over.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.waiting.pop()
    }

    /// Takes note that a record was handed over. Returns whether that ends a trouble.
    pub(crate) fn handed_over(&mut self, offset: Offset, leader_epoch: i32) -> bool {
        self.next = offset.next();
        self.leader_epoch = leader_epoch;
        self.log_end = self.log_end.max(self.next.get());
        if !self.is_failing {
            return false;
        }
        match &mut self.unreadable {
            Some(unreadable) if unreadable.is_under_way() => self.unreadable = None,
            Some(unreadable) => {
                unreadable.moved_on();
                return false;
            }
            None => {}
        }
        self.is_failing = self.is_doubtful();
        !self.is_failing
    }

    /// Takes note that it is fetched from here: a seek resets the client's own position, and an answer of before is thrown away.
    pub(crate) fn sought(&mut self, next: Offset, leader_epoch: Option<i32>, taken: bool) {
        if self.next != next {
            self.unreadable = None;
        }
        self.waiting.clear();
        self.next = next;
        self.leader_epoch = leader_epoch.unwrap_or(-1);
        self.needs_check &= !taken;
        self.last_look = LastLook::Something;
        self.moved_by_error = i64::MIN;
        self.log_end = self.log_end.max(next.get());
    }

    /// Returns what stands in the way of reading, when it may be tried again.
    pub(crate) fn unreadable(&mut self) -> Option<&mut Unreadable> {
        self.unreadable.as_mut().filter(|_| self.waiting.is_empty())
    }

    /// Ends it and returns what is known of it, for the same partition assigned anew.
    pub(crate) fn into_past(self) -> Past {
        Past { place: self.place, next: self.next, unreadable: self.unreadable, is_failing: self.is_failing, log_end: self.log_end }
    }

    /// Goes on with the trouble of the partition it was before.
    pub(crate) fn inherit(&mut self, past: Past) {
        if past.next == self.next {
            self.unreadable = past.unreadable;
        }
        self.is_failing = past.is_failing;
        self.log_end = self.log_end.max(past.log_end);
    }

    /// Returns whether nothing fetched waits and the last look brought nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.last_look == LastLook::Nothing && self.waiting.is_empty() && self.unreadable.is_none() && !self.needs_check
    }

    /// Returns whether an error entry may have moved the client's own position past records that were never read.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.moved_by_error > self.next.get()
    }

    /// Takes note of the log's end as the last answer had it; below 0 is none.
    pub(crate) fn saw_end(&mut self, end: i64) {
        self.log_end = self.log_end.max(end);
    }

    pub(crate) const fn log_end(&self) -> i64 {
        self.log_end
    }

    /// Takes note that a quiet look found nothing wrong since the last one. Returns whether that ends a trouble.
    pub(crate) fn looked_at(&mut self) -> bool {
        let has_ended = self.is_failing && !self.failed_since_look;
        self.is_failing &= !has_ended;
        self.failed_since_look = false;
        has_ended
    }
}
