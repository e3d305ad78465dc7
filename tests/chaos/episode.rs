//! One episode: fresh topics, live traffic, faults drawn from a seed, then quiet, and the verdict.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::Transaction;
use transom_tests::late::beside;
use transom_tests::orders::{Orders, cleaned};

use crate::crew::Crew;
use crate::evidence::{self, Ledger};
use crate::faults::{Fault, Tally};
use crate::harm;
use crate::setup::{NAMES, Setup};
use crate::stage::{Ground, Stage};

/// From the last fault until every record is committed: a dropped answer is waited for, a session ends, a transaction times out.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(120);
/// Longer than the longest freeze.
const TOGETHER_DEADLINE: Duration = Duration::from_secs(60);
const START_DEADLINE: Duration = Duration::from_secs(40);
/// Orders a second. Where the brokers are slow the chunks grow, up to a limit: what was missed while they stood still is not made up for.
const RATE: u64 = 1_500;
const CHUNK_MAX: u64 = 1_500;
const CHUNK_PAUSE: Duration = Duration::from_millis(50);
/// One chunk in so many belongs to a foreign transaction that is aborted: nobody may ever see it.
const ABORTED_EVERY: usize = 12;
const FOREIGN_TIMEOUT_MS: i32 = 10_000;
const PARTITIONS: i32 = 6;

/// What an episode ended with.
pub struct Verdict {
    pub faults: Tally,
    /// The rows of the closing table it counts in.
    pub kinds: Vec<String>,
    pub failure: Option<String>,
    pub inputs: u64,
}

/// What a run was, once it is exact.
struct Played {
    inputs: u64,
    aborted: usize,
    recycled: u64,
}

/// Draws, and writes down what came of it.
pub struct Record<'a> {
    pub random: &'a mut Random,
    pub setup: &'a Setup,
    ledger: &'a mut Ledger,
    pub faults: &'a mut Tally,
}

impl Record<'_> {
    pub fn note(&mut self, line: String) {
        self.ledger.note(line);
    }

    pub fn count(&mut self, fault: &Fault, number: u64) {
        self.faults.count(fault.row(self.setup.protocol), number);
    }
}

/// Plays the episode of a seed, prints its line, and keeps what is left of it when it failed.
pub fn run(stage: &Stage, ground: Ground, seed: u64, keep: &Path) -> anyhow::Result<Verdict> {
    let begun = Instant::now();
    let t = stage.scenario(&format!("chaos-{seed}"));
    let mut random = Random::seeded(seed);
    let setup = Setup::draw(&mut random);
    let mut ledger = Ledger::open(seed);
    ledger.note(format!("{}, {}", ground.row(), setup.words()));
    let mut faults = Tally::default();
    let mut record = Record { random: &mut random, setup: &setup, ledger: &mut ledger, faults: &mut faults };
    let played = catch_unwind(AssertUnwindSafe(|| play(stage, ground, &t, seed, &mut record)));
    let took = begun.elapsed().as_secs_f64();
    let kinds = std::iter::once(ground.row().to_owned()).chain(setup.rows()).collect();
    let verdict = |failure, inputs| Verdict { faults: faults.clone(), kinds, failure, inputs };
    match played {
        Ok(Played { inputs, aborted, recycled }) => {
            println!(
                "seed {seed}, {}: exact, {took:.0} s, {inputs} records, {aborted} of aborted transactions, {recycled} producers replaced; {}",
                ground.row(),
                faults.line()
            );
            Ok(verdict(None, inputs))
        }
        Err(panic) => {
            let words = words_of(panic.as_ref());
            let kept = evidence::keep(&t, stage, &ledger, &words, &keep.join(seed.to_string()))?;
            println!("seed {seed}, {}, {}: FAILED after {took:.0} s; {}", ground.row(), setup.words(), faults.line());
            Ok(verdict(Some(format!("{words}\nkept in {}", kept.display())), 0))
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

fn play(stage: &Stage, ground: Ground, t: &Scenario, seed: u64, record: &mut Record<'_>) -> Played {
    let setup = record.setup;
    let inputs: Vec<String> = setup.inputs.iter().map(|topic| t.topic(topic, PARTITIONS)).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let [output, letters] = ["out", "dlq"].map(|topic| t.topic(topic, PARTITIONS));
    let options = |name: &'static str| (name, t.instance_options(setup.instance_name(name), &setup.yaml(name), &[]));
    let mut crew = Crew::start(NAMES.into_iter().map(options).collect(), setup.up);
    crew.awaits_work(START_DEADLINE);

    with_traffic(t, &inputs, seed, || harm::play(stage, ground, &mut crew, record));
    record.note("no more faults".to_owned());
    crew.come_together(TOGETHER_DEADLINE);
    record.note("everybody is up".to_owned());
    t.awaits_all_committed(&inputs, RECOVERY_DEADLINE);
    // What the network delivered last may have ended somebody meanwhile.
    crew.come_together(TOGETHER_DEADLINE);
    crew.take_happened().into_iter().for_each(|line| record.note(line));
    record.note("everything is committed".to_owned());
    let recycled = crew.drain();
    record.note("everybody has drained".to_owned());
    let report = t.expect_exactly_once(&inputs, &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.order_unchecked(), 0, "every value is unique, so the whole order was compared");
    Played { inputs: report.inputs() as u64, aborted: t.aborted_records(&output), recycled }
}

/// Runs `play` while orders flow into the topics in turn; they also stop when it panics.
fn with_traffic(t: &Scenario, topics: &[&str], seed: u64, play: impl FnOnce()) {
    let flow = |is_over: &AtomicBool| {
        let mut orders = Orders::seeded(seed);
        let mut before = Instant::now();
        for (number, topic) in (1_usize..).zip(topics.iter().cycle()) {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            if number.is_multiple_of(ABORTED_EVERY) {
                // While a broker stands still it may fail half-way: then the broker aborts it.
                let _ = send_aborted(t, topic, &mut orders);
            }
            thread::sleep(CHUNK_PAUSE);
            let since_ms = u64::try_from(before.elapsed().as_millis()).unwrap_or(u64::MAX);
            before = Instant::now();
            t.produce(topic, orders.take((since_ms.saturating_mul(RATE) / 1_000).clamp(1, CHUNK_MAX)));
        }
    };
    beside(flow, play);
}

fn send_aborted(t: &Scenario, topic: &str, orders: &mut Orders) -> anyhow::Result<()> {
    let mut transaction = Transaction::begin(t.client(), &t.full("foreign"), FOREIGN_TIMEOUT_MS)?;
    transaction.produce(topic, 0, &orders.take(20))?;
    transaction.abort()
}
