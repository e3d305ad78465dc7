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
    /// Asks who coordinates a group or a transactional id.
    pub const FIND_COORDINATOR: i16 = 10;
    /// Joins a group.
    pub const JOIN_GROUP: i16 = 11;
    /// A member lives.
    pub const HEARTBEAT: i16 = 12;
    /// A member joins, lives or leaves, in the `consumer` protocol.
    pub const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
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
    named: Option<String>,
}

impl Rule {
    /// Returns a rule for the next request of a kind.
    pub fn next(api_key: i16, action: Action) -> Self {
        Self { api_key, action, first: 1, every: 1, times: 1, client_id: None, named: None }
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

    /// Applies only to requests that hold this text somewhere: a transactional id for instance, or a part of one.
    #[must_use]
    pub fn naming(mut self, text: &str) -> Self {
        self.named = Some(text.to_owned());
        self
    }

    fn concerns(&self, header: &Header, frame: &[u8]) -> bool {
        let is_client = self.client_id.is_none() || self.client_id == header.client_id;
        let holds = |text: &str| text.is_empty() || frame.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        header.api_key == self.api_key && is_client && self.named.as_deref().is_none_or(holds)
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
    /// Whose the first of them was.
    caught_from: Option<String>,
    /// Bodies of the answers to them.
    answers: Vec<Vec<u8>>,
    release: Release,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Release {
    #[default]
    Waiting,
    Released,
    /// The same, and no further ones are caught: the handle is gone.
    Left,
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

    /// Counts a request and returns whether it is one that the rule waits for.
    pub(super) fn counts(&self, header: &Header, frame: &[u8]) -> bool {
        if !self.rule.concerns(header, frame) {
            return false;
        }
        let mut progress = lock(&self.progress);
        progress.seen += 1;
        let since = progress.seen.checked_sub(self.rule.first);
        since.is_some_and(|since| since.is_multiple_of(self.rule.every))
    }

    /// Returns whether the rule is still to be applied, and counts it as applied then.
    pub(super) fn takes(&self) -> bool {
        let mut progress = lock(&self.progress);
        let takes = progress.applied < self.rule.times && matches!(progress.release, Release::Waiting | Release::Released);
        progress.applied += u64::from(takes);
        takes
    }

    pub(super) fn is_over(&self) -> bool {
        let progress = lock(&self.progress);
        progress.applied >= self.rule.times || matches!(progress.release, Release::Left | Release::Discarded)
    }

    pub(super) fn caught(&self, header: &Header) {
        let mut progress = lock(&self.progress);
        if progress.caught == 0 {
            progress.caught_from.clone_from(&header.client_id);
        }
        progress.caught += 1;
        drop(progress);
        self.changed.notify_all();
    }

    pub(super) fn forwarded(&self, header: &Header) {
        if !matches!(self.rule.action, Action::Hold | Action::HoldAndCut) {
            self.caught(header);
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
        progress.release != Release::Discarded
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

    /// Returns the client id of the first request that was caught, if it gave one.
    pub fn caught_from(&self) -> Option<String> {
        lock(&self.shared.progress).caught_from.clone()
    }

    /// Lets the held requests go on to the broker, and further ones pass.
    pub fn release(&self) {
        self.shared.decide(Release::Released);
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let is_held = matches!(self.shared.action(), Action::Hold | Action::HoldAndCut);
        let is_released = lock(&self.shared.progress).release == Release::Released;
        // What was released is on its way; what comes after it is others'.
        self.shared.decide(if is_held && is_released { Release::Left } else { Release::Discarded });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(api_key: i16, client: &str) -> Header {
        Header { api_key, api_version: 0, correlation_id: 1, client_id: Some(client.to_owned()) }
    }

    #[test]
    fn a_rule_counts_the_requests_of_its_kind_client_and_text_only() {
        let rule = Shared::new(Rule::next(kind::INIT_PRODUCER_ID, Action::Hold).from_client("a").naming(":b:").nth(2));
        let cases = [
            (kind::END_TXN, "a", "orders:b:0"),
            (kind::INIT_PRODUCER_ID, "b", "orders:b:0"),
            (kind::INIT_PRODUCER_ID, "a", "orders:a:0"),
            // The first of its kind, and it waits for the second.
            (kind::INIT_PRODUCER_ID, "a", "orders:b:0"),
        ];
        for (api_key, client, id) in cases {
            assert!(!rule.counts(&header(api_key, client), id.as_bytes()), "{api_key} {client} {id}");
        }
        assert!(rule.counts(&header(kind::INIT_PRODUCER_ID, "a"), b"orders:b:1"));
    }

    // What another rule has taken is counted, and does not use the rule up.
    #[test]
    fn a_rule_is_used_up_by_what_it_takes() {
        let rule = Shared::new(Rule::next(kind::END_TXN, Action::Hold).times(2, 1));
        assert!(rule.counts(&header(kind::END_TXN, "a"), b""));
        assert!(!rule.is_over());
        assert!(rule.takes() && rule.takes());
        assert!(rule.is_over() && !rule.takes());
    }

    #[test]
    fn a_rule_that_was_released_and_dropped_takes_nothing_from_others() {
        let armed = Armed::new(Arc::new(Shared::new(Rule::next(kind::END_TXN, Action::Hold).times(u64::MAX, 1))));
        let shared = Arc::clone(&armed.shared);
        assert!(shared.counts(&header(kind::END_TXN, "a"), b"") && shared.takes());
        armed.release();
        assert!(shared.takes(), "it lets pass while it is there");
        drop(armed);
        assert!(shared.is_released(), "what it held is on its way");
        assert!(shared.is_over() && !shared.takes());
    }

    #[test]
    fn whoever_was_caught_first_is_remembered() {
        let armed = Armed::new(Arc::new(Shared::new(Rule::next(kind::END_TXN, Action::Pass).times(2, 1))));
        assert_eq!(armed.caught_from(), None);
        armed.shared.forwarded(&header(kind::END_TXN, "a"));
        armed.shared.forwarded(&header(kind::END_TXN, "b"));
        assert_eq!((armed.caught_from().as_deref(), armed.caught()), (Some("a"), 2));
    }
}
