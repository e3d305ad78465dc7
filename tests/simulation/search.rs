//! Runs schedules: one, or many until one fails.

use crate::anomaly::{Anomaly, Kind};
use crate::rules::Rules;
use crate::world::World;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What one schedule came to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Its seed.
    pub seed: u64,
    /// What was wrong; nothing, if all is well.
    pub anomalies: Vec<Anomaly>,
    /// How many things happened.
    pub happenings: u64,
}

impl Verdict {
    /// Returns the line that repeats this schedule.
    pub fn repeat(&self) -> String {
        format!("cargo run --release -p transom-simulation -- --seed {} --trace", self.seed)
    }
}

/// Runs one schedule. With `trace` every step goes to stdout.
#[must_use]
pub fn run(seed: u64, rules: &Rules, trace: bool) -> Verdict {
    plant(rules);
    hush();
    let mut world = World::new(seed, rules, trace);
    // A broken invariant ends the process in earnest; here it is what the schedule came to.
    IS_HUSHED.set(!trace);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    IS_HUSHED.set(false);
    let (mut anomalies, happenings) = (std::mem::take(&mut world.anomalies), world.happenings);
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        anomalies.push(Anomaly { kind: Kind::Broken, detail: text.unwrap_or_default() });
    }
    Verdict { seed, anomalies, happenings }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Search {
    /// How many schedules ran.
    pub schedules: u64,
    /// How many things happened in them.
    pub happenings: u64,
    /// How long it took.
    pub took: Duration,
    /// The failures, by seed; the search ends at the limit.
    pub failures: Vec<Verdict>,
}

/// Runs the schedules of these seeds on all processors until so many have failed or the time is over.
#[must_use]
pub fn search(seeds: Range<u64>, rules: &Rules, failures_max: usize, budget: Duration) -> Search {
    let begun = Instant::now();
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let (mut schedules, mut happenings, mut failures) = (0, 0, Vec::new());
        while !stop.load(Ordering::Relaxed) && begun.elapsed() < budget {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let verdict = run(seed, rules, false);
            schedules += 1;
            happenings += verdict.happenings;
            if !verdict.anomalies.is_empty() {
                failures.push(verdict);
                if failures.len() >= failures_max {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        (schedules, happenings, failures)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let mut found = Search { schedules: 0, happenings: 0, took: begun.elapsed(), failures: Vec::new() };
    for (schedules, happenings, failures) in parts {
        found.schedules += schedules;
        found.happenings += happenings;
        found.failures.extend(failures);
    }
    found.failures.sort_by_key(|verdict| verdict.seed);
    found
}

thread_local!(static IS_HUSHED: Cell<bool> = const { Cell::new(false) });

/// Keeps panics inside of a schedule off the terminal, and no others.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_HUSHED.get() {
                hook(panic);
            }
        }));
    });
}

/// Puts a planted mistake in force: in the copy that has them (`planted`).
const fn plant(_: &Rules) {}
