//! The recycle guard (EO-5, KAFKA-17754): tells whether a late request of this transaction could act on the next one.
//!
//! librdkafka speaks the old transaction protocol, in which a delayed request of one transaction is taken for one of a
//! later transaction of the same producer epoch: a late EndTxn ends it half-way, a late Produce writes into it. A
//! transaction during which such a request failed in transport, or is unanswered when the transaction is resolved, is
//! *tainted*: its producer is replaced before the next one begins. The epoch rises, and late requests die of it.
//!
//! Requests are seen by the library's interceptors. They fire twice for some kinds and always with correlation id 0
//! (measured), so nothing is counted or matched: one state a kind.

use crate::coordinator_socket::CoordinatorSocket;
use crate::ffi;
use crate::handle::lock;
use libc::{c_char, c_int, c_void, size_t};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The request kinds that can act on a later transaction, and the consumer's plain offset commit, whose late copy can take
/// back what a later transaction committed under the same membership: name and API key.
const KINDS: [(&str, i16); 6] =
    [("produce", 0), ("offset_commit", 8), ("add_partitions", 24), ("add_offsets", ADD_OFFSETS), ("end_txn", 26), ("txn_offset_commit", 28)];

/// AddOffsetsToTxn.
const ADD_OFFSETS: i16 = 25;

/// FindCoordinator, AddOffsetsToTxn and TxnOffsetCommit bring a group's offsets into a transaction; AddPartitionsToTxn shares the
/// connection of the second.
const OFFSET_STEPS: [i16; 4] = [10, 24, ADD_OFFSETS, 28];

const IDLE: u8 = 0;
const SENT: u8 = 1;
const ANSWERED: u8 = 2;
/// Ended in a transport error or time-out; stays until the next transaction begins.
const FAILED: u8 = 3;

/// Why a transaction is tainted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    /// The request kind's name.
    pub(crate) kind: &'static str,
    /// `failed` or `unanswered`.
    pub(crate) how: &'static str,
}

/// One state a request kind, written by the library's threads, read by the transact thread.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    states: [AtomicU8; KINDS.len()],
    /// Whether the coordinator's first answer to AddOffsetsToTxn was not enough.
    offsets_again: AtomicBool,
    offsets: Mutex<Progress>,
    /// Where AddOffsetsToTxn was last sent.
    pub(crate) coordinator: CoordinatorSocket,
}

/// How far the offsets are on their way into the transaction.
#[derive(Debug, Default)]
struct Progress {
    /// Which of the steps has been sent last and not answered.
    open: [bool; OFFSET_STEPS.len()],
    /// How often one was sent or answered since the transaction began.
    moves: u64,
}

impl Guard {
    fn note_offset_step(&self, api_key: i16, is_open: bool) {
        if let Some(step) = OFFSET_STEPS.iter().position(|key| *key == api_key) {
            let mut progress = lock(&self.offsets);
            progress.open[step] = is_open;
            progress.moves += 1;
        }
    }

    /// Returns whether no request is under way that could bring the offsets into the transaction, and if so a number that
    /// grows with each that is sent or answered. `None` while one is under way.
    pub(crate) fn offsets_stand_still_at(&self) -> Option<u64> {
        let progress = lock(&self.offsets);
        if progress.open.contains(&true) { None } else { Some(progress.moves) }
    }

    /// Moves a kind's state on. A failure is not forgotten because the library sends again.
    fn note(&self, api_key: i16, next: u8) {
        if let Some((_, state)) = KINDS.iter().zip(&self.states).find(|((_, key), _)| *key == api_key) {
            let before = state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| (now != FAILED).then_some(next));
            if (api_key, next) == (ADD_OFFSETS, SENT) && before == Ok(ANSWERED) {
                self.offsets_again.store(true, Ordering::SeqCst);
            }
        }
    }

    fn sent(&self, api_key: i16, socket: c_int) {
        self.note(api_key, SENT);
        self.note_offset_step(api_key, true);
        if api_key == ADD_OFFSETS {
            self.coordinator.note(socket);
        }
    }

    /// Errors of the library itself are negative: the request went out and no answer came. What the broker answered, good or
    /// bad, was executed or refused, and can do nothing later.
    fn answered(&self, api_key: i16, error: i32) {
        self.note(api_key, if error < 0 { FAILED } else { ANSWERED });
        self.note_offset_step(api_key, false);
    }

    /// Returns whether a request of this kind went out since the transaction began.
    pub(crate) fn was_sent(&self, api_key: i16) -> bool {
        KINDS.iter().zip(&self.states).any(|((_, key), state)| *key == api_key && state.load(Ordering::SeqCst) != IDLE)
    }

    /// Returns whether a request that makes something part of the transaction may still be answered.
    pub(crate) fn awaits_registration(&self) -> bool {
        let is_open = |kind: &str| matches!(kind, "add_partitions" | "add_offsets");
        KINDS.iter().zip(&self.states).any(|((kind, _), state)| is_open(kind) && matches!(state.load(Ordering::SeqCst), SENT | FAILED))
    }

    /// Returns whether AddOffsetsToTxn was answered and sent again since the transaction began: the coordinator was not ready.
    pub(crate) fn offsets_were_asked_again(&self) -> bool {
        self.offsets_again.load(Ordering::SeqCst)
    }

    /// Forgets everything: a transaction begins.
    pub(crate) fn begin(&self) {
        for state in &self.states {
            state.store(IDLE, Ordering::SeqCst);
        }
        self.offsets_again.store(false, Ordering::SeqCst);
        *lock(&self.offsets) = Progress::default();
    }

    /// Returns why the transaction that was just resolved is tainted, if it is.
    pub(crate) fn taint(&self) -> Option<Taint> {
        let states = KINDS.iter().zip(&self.states);
        states.map(|((kind, _), state)| (*kind, state.load(Ordering::SeqCst))).find_map(|(kind, state)| match state {
            SENT => Some(Taint { kind, how: "unanswered" }),
            FAILED => Some(Taint { kind, how: "failed" }),
            _ => None,
        })
    }
}

extern "C" fn on_request_sent(
    _: *mut ffi::rd_kafka_t,
    socket: c_int,
    _: *const c_char,
    _: i32,
    api_key: i16,
    _: i16,
    _: i32,
    _: size_t,
    opaque: *mut c_void,
) -> i32 {
    // SAFETY: the opaque pointer is the guard in the mailbox of a living handle. Nothing in here can panic.
    unsafe { &*opaque.cast::<Guard>() }.sent(api_key, socket);
    0
}

extern "C" fn on_response_received(
    _: *mut ffi::rd_kafka_t,
    _: c_int,
    _: *const c_char,
    _: i32,
    api_key: i16,
    _: i16,
    _: i32,
    _: size_t,
    _: i64,
    error: i32,
    opaque: *mut c_void,
) -> i32 {
    // SAFETY: as above.
    unsafe { &*opaque.cast::<Guard>() }.answered(api_key, error);
    0
}

extern "C" fn on_new(rk: *mut ffi::rd_kafka_t, _: *const ffi::rd_kafka_conf_t, opaque: *mut c_void, _: *mut c_char, _: size_t) -> i32 {
    // SAFETY: called once by rd_kafka_new with the new client; the library allows adding interceptors here and only here.
    unsafe {
        let sent = ffi::rd_kafka_interceptor_add_on_request_sent(rk, NAME.as_ptr(), on_request_sent, opaque);
        let received = ffi::rd_kafka_interceptor_add_on_response_received(rk, NAME.as_ptr(), on_response_received, opaque);
        if sent == 0 { received } else { sent }
    }
}

const NAME: &std::ffi::CStr = c"transom-recycle-guard";

/// Attaches the guard to a configuration.
///
/// # Safety
/// `conf` is valid; `guard` outlives the client made from it.
pub(crate) unsafe fn attach(conf: *mut ffi::rd_kafka_conf_t, guard: *const Guard) -> i32 {
    // SAFETY: promised by the caller.
    unsafe { ffi::rd_kafka_conf_interceptor_add_on_new(conf, NAME.as_ptr(), on_new, guard.cast_mut().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_or_unanswered_request_taints_the_transaction() {
        let guard = Guard::default();
        guard.begin();
        assert_eq!(guard.taint(), None);
        guard.sent(26, 7);
        assert_eq!(guard.taint(), Some(Taint { kind: "end_txn", how: "unanswered" }));
        assert!(!guard.awaits_registration());
        guard.sent(24, 7);
        assert!(guard.awaits_registration());
        guard.answered(24, 51);
        assert!(!guard.awaits_registration());
        guard.answered(26, 0);
        assert_eq!(guard.taint(), None);
        guard.sent(0, 7);
        guard.answered(0, -185);
        guard.sent(0, 7);
        guard.answered(0, 0);
        assert_eq!(guard.taint(), Some(Taint { kind: "produce", how: "failed" }), "sending again does not heal it");
        guard.begin();
        assert_eq!(guard.taint(), None);
    }

    #[test]
    fn offsets_asked_for_again_are_noticed() {
        let guard = Guard::default();
        for _ in 0..2 {
            guard.begin();
            guard.sent(25, 7);
            guard.sent(25, 7);
            guard.answered(25, 0);
            guard.answered(25, 0);
            assert!(!guard.offsets_were_asked_again(), "seen twice, sent once");
            guard.sent(25, 7);
            assert!(guard.offsets_were_asked_again());
        }
        guard.begin();
        guard.answered(24, 51);
        guard.sent(24, 7);
        assert!(!guard.offsets_were_asked_again(), "partitions may be added in two requests");
    }

    #[test]
    fn offsets_stand_still_when_every_request_is_answered_or_failed_and_none_follows() {
        let guard = Guard::default();
        guard.begin();
        let mut last = guard.offsets_stand_still_at().unwrap();
        guard.sent(0, 7);
        assert_eq!(guard.offsets_stand_still_at(), Some(last), "outputs are another matter");
        for (api_key, answer) in [(24, 0), (25, 0), (10, 15), (10, 0), (28, -195), (28, 0)] {
            guard.sent(api_key, 7);
            guard.sent(api_key, 7);
            assert_eq!(guard.offsets_stand_still_at(), None);
            guard.answered(api_key, answer);
            guard.answered(api_key, answer);
            let now = guard.offsets_stand_still_at().unwrap();
            assert!(now > last);
            last = now;
        }
        guard.begin();
        assert_eq!(guard.offsets_stand_still_at(), Some(0));
    }

    #[test]
    fn what_the_broker_refused_or_what_is_harmless_taints_nothing() {
        let guard = Guard::default();
        guard.sent(28, 7);
        guard.answered(28, 22);
        guard.sent(3, 7);
        assert_eq!(guard.taint(), None);
    }
}
