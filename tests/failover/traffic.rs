//! Orders at a steady rate, with breaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::NewRecord;
use transom_tests::orders::order;

/// Every partition gets records all the time.
const CUSTOMERS: u64 = 500;
/// 10 every 25 ms: 400 a second.
const CHUNK: u64 = 10;
const CHUNK_PAUSE: Duration = Duration::from_millis(25);
const SEED: u64 = 3;

/// Orders that all can be processed: dead letters have nothing to do with who owns what.
#[derive(Debug, Default)]
pub struct Traffic {
    is_over: AtomicBool,
    /// Written by the test.
    is_to_pause: AtomicBool,
    /// Written by the writer: nothing is under way.
    is_paused: AtomicBool,
}

impl Traffic {
    /// Runs `play` while orders flow into `topic`; they also stop when it panics.
    pub fn flows<T>(&self, t: &Scenario, topic: &str, play: impl FnOnce() -> T) -> T {
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        thread::scope(|scope| {
            let _stop = Stop(&self.is_over);
            scope.spawn(|| self.write(t, topic));
            play()
        })
    }

    /// Stops the orders, and returns when the last of them is in the topic.
    pub fn pauses(&self) {
        self.is_to_pause.store(true, Ordering::SeqCst);
        while !self.is_paused.load(Ordering::SeqCst) {
            thread::sleep(CHUNK_PAUSE);
        }
    }

    /// Lets them flow again.
    pub fn goes_on(&self) {
        self.is_to_pause.store(false, Ordering::SeqCst);
    }

    fn write(&self, t: &Scenario, topic: &str) {
        let mut random = Random::seeded(SEED);
        let mut next_id = 1;
        while !self.is_over.load(Ordering::SeqCst) {
            let is_to_pause = self.is_to_pause.load(Ordering::SeqCst);
            self.is_paused.store(is_to_pause, Ordering::SeqCst);
            if !is_to_pause {
                t.produce(topic, (next_id..next_id + CHUNK).map(|id| one(id, &mut random)).collect());
                next_id += CHUNK;
            }
            thread::sleep(CHUNK_PAUSE);
        }
    }
}

fn one(id: u64, random: &mut Random) -> NewRecord {
    let customer = format!("C-{:05}", random.below(CUSTOMERS));
    let amount = format!("{}.{:02}", random.below(1000), random.below(100));
    let order = order(&id.to_string(), &customer, &amount);
    NewRecord::new(customer, order)
}
