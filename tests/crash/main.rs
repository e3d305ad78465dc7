//! Instances die, freeze, come and go while orders flow; the oracle finds the same as without.

mod kills;
mod rebalance;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom_harness::scenario::Scenario;
use transom_tests::orders::Orders;

/// Partitions of every topic here.
const PARTITIONS: i32 = 4;
/// A pause between two chunks of orders: short against a transaction's life, so that there is always one to hit.
const CHUNK_PAUSE: Duration = Duration::from_millis(50);

/// Process start, group join, first batch; a drain under load.
const START: Duration = Duration::from_secs(30);
/// A request, an answer.
const SHORT: Duration = Duration::from_secs(20);

/// Sends orders at a steady rate until it is over, and returns how many.
fn send_orders_until(t: &Scenario, topic: &str, is_over: &AtomicBool, per_second: u64) -> u64 {
    let chunk = per_second / 20;
    let (mut orders, mut sent) = (Orders::seeded(7), 0);
    while !is_over.load(Ordering::SeqCst) {
        t.produce(topic, orders.take(chunk));
        sent += chunk;
        thread::sleep(CHUNK_PAUSE);
    }
    sent
}

/// Sends orders at a steady rate until `count` are sent.
fn send_orders(t: &Scenario, topic: &str, count: u64, per_second: u64) {
    let chunk = per_second / 20;
    let mut orders = Orders::seeded(7);
    let started = Instant::now();
    for number in 1..=u32::try_from(count / chunk).expect("few chunks") {
        t.produce(topic, orders.take(chunk));
        thread::sleep((CHUNK_PAUSE * number).saturating_sub(started.elapsed()));
    }
}
