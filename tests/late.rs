//! The schedule of KAFKA-17754: an EndTxn that the network keeps until the next transaction has begun to write.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use transom_harness::instance::Instance;
use transom_harness::proxy::{Action, Proxy, Rule, kind};
use transom_harness::scenario::Scenario;

use crate::orders::Orders;

/// A request or an answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Short against a commit interval, so that every transaction writes to several partitions, each by a request of its own.
const CHUNK_PAUSE: Duration = Duration::from_millis(20);
const CHUNK: u64 = 40;

/// What comes after the late request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL, while the transaction has written a part.
    Kill,
    /// Nothing more.
    GoOn,
}

/// Holds the EndTxn of one transaction, cuts its connection, so that the library sends it again, and lets it arrive when one
/// of several produce requests of the next transaction has been answered and the others have not arrived. Then `end` comes.
/// Returns the error code that the late request was answered with.
#[track_caller]
pub fn late_end_txn(proxy: &Proxy, instance: &mut Instance, end: End) -> i16 {
    let late = proxy.arm(Rule::next(kind::END_TXN, Action::HoldAndCut));
    late.awaits_caught(PATIENCE);
    // The transaction's own produce requests are all answered by now, so these are the next one's.
    let others = proxy.arm(Rule::next(kind::PRODUCE, Action::Hold).nth(2));
    let first = proxy.arm(Rule::next(kind::PRODUCE, Action::Pass));
    first.awaits_answer(PATIENCE);
    late.release();
    let answer = late.awaits_answer(PATIENCE);
    match end {
        End::Kill => instance.kill9(),
        End::GoOn => others.release(),
    }
    // Behind the throttle time.
    i16::from_be_bytes([answer[4], answer[5]])
}

/// Runs `play` while orders flow into `topic`; they also stop when it panics.
#[track_caller]
pub fn with_orders(t: &Scenario, topic: &str, play: impl FnOnce()) {
    let flow = |is_over: &AtomicBool| {
        let mut orders = Orders::seeded(21);
        while !is_over.load(Ordering::SeqCst) {
            t.produce(topic, orders.take(CHUNK));
            thread::sleep(CHUNK_PAUSE);
        }
    };
    beside(flow, play);
}

/// Runs `play` beside `flow`, which goes on until its flag is set: when `play` is over, also by a panic. A panic of its own is passed on.
#[track_caller]
pub fn beside(flow: impl FnOnce(&AtomicBool) + Send, play: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = Stop(&is_over);
        let flowing = scope.spawn(|| flow(&is_over));
        play();
        drop(stop);
        if let Err(panic) = flowing.join() {
            resume_unwind(panic);
        }
    });
}
