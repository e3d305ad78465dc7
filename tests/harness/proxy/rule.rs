//! Which request, and what becomes of it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::frame::Header;
use super::lock;

/// API keys by name.
pub mod kind {
    /// Writes records.
    pub const PRODUCE: i16 = 0;
    /// Reads records.
    pub const FETCH: i16 = 1;
    /// Offsets outside a transaction.
    pub const OFFSET_COMMIT: i16 = 8;
    /// Joins a group.
    pub const JOIN_GROUP: i16 = 11;
    /// A member lives.
    pub const HEARTBEAT: i16 = 12;
    /// Takes a transactional id over.
    pub const INIT_PRODUCER_ID: i16 = 22;
    /// Partitions become part of a transaction.
    pub const ADD_PARTITIONS_TO_TXN: i16 = 24;
    /// A group's offsets become part of a transaction.
    pub const ADD_OFFSETS_TO_TXN: i16 = 25;
    /// Commits or aborts a transaction.
    pub const END_TXN: i16 = 26;
    /// Offsets of a transaction.
    pub const TXN_OFFSET_COMMIT: i16 = 28;
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the test only wants to know of it.
    Pass,
    /// It is forwarded later.
    Delay(Duration),
    /// It is kept until released; the client's connection stays open.
    Hold,
    /// It is kept until released; the client's connection is cut at once.
    HoldAndCut,
    /// It is never forwarded and the client's connection is cut.
    Cut,
    /// It is carried out; its answer never comes, the connection stays open.
    DropAnswer,
    /// It is carried out; the connection is cut instead of an answer.
    CutAnswer,
    /// It is never forwarded; the proxy answers it with this error code.
    Refuse(i16),
}

/// Which requests, counted from the moment the rule is armed, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Rule {
    api_key: i16,
    action: Action,
    first: u64,
    every: u64,
    times: u64,
    client_id: Option<String>,
}

impl Rule {
    /// Returns a rule for the next request of a kind.
    pub fn next(api_key: i16, action: Action) -> Self {
        Self { api_key, action, first: 1, every: 1, times: 1, client_id: None }
    }

    /// Waits for the n-th request, counted from 1.
    #[must_use]
    pub fn nth(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// Applies to so many requests instead of one, and to every n-th only.
    #[must_use]
    pub fn times(mut self, times: u64, every: u64) -> Self {
        (self.times, self.every) = (times, every.max(1));
        self
    }

    /// Applies to the requests of one client id only.
    #[must_use]
    pub fn from_client(mut self, client_id: &str) -> Self {
        self.client_id = Some(client_id.to_owned());
        self
    }
}

/// How far a rule is. Written by the proxy's threads and the test.
#[derive(Debug, Default)]
struct Progress {
    /// Requests of the kind since it was armed.
    seen: u64,
    /// Requests it was applied to.
    applied: u64,
    /// Requests that reached its action's point: held, cut, or forwarded.
    caught: u64,
    /// Bodies of the answers to them.
    answers: Vec<Vec<u8>>,
    release: Release,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Release {
    #[default]
    Waiting,
    Released,
    /// Held requests are thrown away, no further ones are caught.
    Discarded,
}

#[derive(Debug)]
pub(super) struct Shared {
    rule: Rule,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, progress: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn action(&self) -> Action {
        self.rule.action
    }

    /// Counts a request and returns whether the rule is for it.
    pub(super) fn wants(&self, header: &Header) -> bool {
        let is_client = self.rule.client_id.is_none() || self.rule.client_id == header.client_id;
        if header.api_key != self.rule.api_key || !is_client {
            return false;
        }
        let mut progress = lock(&self.progress);
        progress.seen += 1;
        let since = progress.seen.checked_sub(self.rule.first);
        let is_due = since.is_some_and(|since| since.is_multiple_of(self.rule.every));
        let wanted = is_due && progress.applied < self.rule.times && progress.release != Release::Discarded;
        progress.applied += u64::from(wanted);
        wanted
    }

    pub(super) fn is_over(&self) -> bool {
        let progress = lock(&self.progress);
        progress.applied >= self.rule.times || progress.release == Release::Discarded
    }

    pub(super) fn caught(&self) {
        lock(&self.progress).caught += 1;
        self.changed.notify_all();
    }

    pub(super) fn forwarded(&self) {
        if !matches!(self.rule.action, Action::Hold | Action::HoldAndCut) {
            self.caught();
        }
    }

    pub(super) fn answered(&self, body: &[u8]) {
        lock(&self.progress).answers.push(body.to_vec());
        self.changed.notify_all();
    }

    /// Waits for the test's decision; returns whether the request goes on.
    pub(super) fn is_released(&self) -> bool {
        let mut progress = lock(&self.progress);
        while progress.release == Release::Waiting {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        progress.release == Release::Released
    }

    fn decide(&self, release: Release) {
        lock(&self.progress).release = release;
        self.changed.notify_all();
    }

    pub(super) fn discard(&self) {
        self.decide(Release::Discarded);
    }

    fn awaits(&self, deadline: Duration, wished: impl Fn(&Progress) -> bool) -> bool {
        let until = Instant::now() + deadline;
        let mut progress = lock(&self.progress);
        while !wished(&progress) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// A rule that is armed. Dropped, it applies to nothing more, and what it holds is thrown away.
#[derive(Debug)]
pub struct Armed {
    shared: Arc<Shared>,
}

impl Armed {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits until the first request is caught: held, cut, or forwarded.
    #[track_caller]
    pub fn awaits_caught(&self, deadline: Duration) {
        assert!(self.is_caught_within(deadline), "after {deadline:?} no request for {:?}", self.shared.rule);
    }

    /// The same, for a test that goes on without.
    #[must_use]
    pub fn is_caught_within(&self, deadline: Duration) -> bool {
        self.shared.awaits(deadline, |progress| progress.caught > 0)
    }

    /// Waits until the broker has answered the first request, and returns the answer's body.
    #[track_caller]
    pub fn awaits_answer(&self, deadline: Duration) -> Vec<u8> {
        let is_answered = self.shared.awaits(deadline, |progress| !progress.answers.is_empty());
        assert!(is_answered, "after {deadline:?} no answer for {:?}", self.shared.rule);
        lock(&self.shared.progress).answers.first().cloned().unwrap_or_default()
    }

    /// Returns how many requests were caught so far.
    pub fn caught(&self) -> u64 {
        lock(&self.shared.progress).caught
    }

    /// Lets the held requests go on to the broker, and further ones pass.
    pub fn release(&self) {
        self.shared.decide(Release::Released);
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let is_held = matches!(self.shared.action(), Action::Hold | Action::HoldAndCut);
        // What was released is on its way.
        if !(is_held && lock(&self.shared.progress).release == Release::Released) {
            self.shared.discard();
        }
    }
}
