//! One episode: fresh topics, live traffic, faults drawn from a seed, then quiet, and the verdict.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::proxy::Proxy;
use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::Transaction;
use transom_tests::orders::{Orders, cleaned};

use crate::crew::{Crew, Then};
use crate::evidence::{self, Ledger};
use crate::faults::{Fault, Tally};
use crate::network::Network;

/// How long faults are drawn.
const FAULTS_LAST: Duration = Duration::from_secs(20);
/// From the last fault until every record is committed: a dropped answer is waited for, a session ends, a transaction times out.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(120);
const START_DEADLINE: Duration = Duration::from_secs(40);
/// Between two looks at what is due.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Orders a chunk, and the pause behind it: about 1 500 a second.
const CHUNK: u64 = 75;
const CHUNK_PAUSE: Duration = Duration::from_millis(50);
/// One chunk in so many belongs to a foreign transaction that is aborted: nobody may ever see it.
const ABORTED_EVERY: u64 = 12;
const FOREIGN_TIMEOUT_MS: i32 = 10_000;
const PARTITIONS: i32 = 6;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
workers: WORKERS
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: INTERVAL }
timeouts: { session: 6s, revoke: 3s }
"#;

/// The broker and its proxy, for as many episodes as leave them well.
pub struct Stage {
    cluster: Cluster,
    proxy: Proxy,
}

impl Stage {
    pub fn set() -> anyhow::Result<Self> {
        let (cluster, proxy) = Proxy::start(ClusterOptions::default())?;
        Ok(Self { cluster, proxy })
    }
}

/// What an episode ended with.
pub struct Verdict {
    pub faults: Tally,
    pub failure: Option<String>,
    pub inputs: u64,
}

/// What a run was, once it is exact.
struct Played {
    inputs: u64,
    aborted: usize,
    recycled: u64,
}

/// Plays the episode of a seed, prints its line, and keeps what is left of it when it failed.
pub fn run(stage: &mut Stage, seed: u64, keep: &Path) -> anyhow::Result<Verdict> {
    let begun = Instant::now();
    let t = Scenario::through(&stage.proxy.bootstrap(), stage.cluster.bootstrap(), &format!("chaos-{seed}"));
    let mut ledger = Ledger::open(seed);
    let mut faults = Tally::default();
    let played = catch_unwind(AssertUnwindSafe(|| play(stage, &t, seed, &mut ledger, &mut faults)));
    let took = begun.elapsed().as_secs_f64();
    match played {
        Ok(Played { inputs, aborted, recycled }) => {
            println!(
                "seed {seed}: exact, {took:.0} s, {inputs} records, {aborted} of aborted transactions, {recycled} producers replaced; {}",
                faults.line()
            );
            Ok(Verdict { faults, failure: None, inputs })
        }
        Err(panic) => {
            let _ = stage.cluster.thaw();
            let words = words_of(panic.as_ref());
            let kept = evidence::keep(&t, &ledger, &words, &keep.join(seed.to_string()))?;
            println!("seed {seed}: FAILED after {took:.0} s; {}", faults.line());
            Ok(Verdict { faults, failure: Some(format!("{words}\nkept in {}", kept.display())), inputs: 0 })
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

fn play(stage: &mut Stage, t: &Scenario, seed: u64, ledger: &mut Ledger, faults: &mut Tally) -> Played {
    let mut random = Random::seeded(seed);
    let [input, output, letters] = ["in", "out", "dlq"].map(|topic| t.topic(topic, PARTITIONS));
    let workers = 1 + random.below(2);
    let interval = ["10ms", "50ms", "100ms", "adaptive"][usize::try_from(random.below(4)).unwrap_or(0)];
    let yaml = PIPELINE.replace("WORKERS", &workers.to_string()).replace("INTERVAL", interval);
    let up = 2 + usize::try_from(random.below(3)).unwrap_or(0);
    ledger.note(format!("{up} of {} instances, {workers} workers each, commit interval {interval}", NAMES.len()));
    let mut crew = Crew::start(NAMES.iter().map(|name| t.instance_options(Some(name), &yaml, &[])).collect(), up);
    crew.awaits_work(START_DEADLINE);

    with_traffic(t, &input, seed, || do_harm(stage, &mut crew, &mut random, ledger, faults));
    ledger.note("no more faults".to_owned());
    crew.come_together(START_DEADLINE);
    t.awaits_all_committed(&[&input], RECOVERY_DEADLINE);
    // What the network delivered last may have ended somebody meanwhile.
    crew.come_together(START_DEADLINE);
    let (recycled, happened) = crew.drain();
    happened.into_iter().for_each(|line| ledger.note(line));
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.order_unchecked(), 0, "every value is unique, so the whole order was compared");
    Played { inputs: report.inputs() as u64, aborted: t.aborted_records(&output), recycled }
}

fn do_harm(stage: &mut Stage, crew: &mut Crew, random: &mut Random, ledger: &mut Ledger, faults: &mut Tally) {
    let until = Instant::now() + FAULTS_LAST;
    let mut network = Network::default();
    let mut thaw_broker = None;
    let mut next = Instant::now();
    while Instant::now() < until {
        if thaw_broker.is_some_and(|at| at <= Instant::now()) {
            stage.cluster.thaw().expect("thaw the broker");
            thaw_broker = None;
        }
        network.go_on(&stage.proxy, faults);
        crew.go_on();
        if next <= Instant::now() {
            next = Instant::now() + random.between_ms(150, 1_000);
            let fault = Fault::draw(random);
            let number = match fault {
                Fault::Kill(pause) => u64::from(crew.kill(random, pause)),
                Fault::Freeze(lasts) => u64::from(crew.freeze(random, lasts)),
                Fault::Terminate => u64::from(crew.terminate(random, Then::ComeBack)),
                Fault::ScaleUp => crew.scale_up(),
                Fault::ScaleDown => crew.scale_down(random),
                // Counted when it ends: only then is it known what it met.
                Fault::Network(interference) => {
                    network.begin(&stage.proxy, interference);
                    0
                }
                Fault::FreezeBroker(_) if thaw_broker.is_some() => 0,
                Fault::FreezeBroker(lasts) => {
                    stage.cluster.freeze().expect("freeze the broker");
                    thaw_broker = Some(Instant::now() + lasts);
                    1
                }
            };
            ledger.note(format!("{fault:?}: {number}"));
            faults.count(fault.row(), number);
        }
        thread::sleep(LOOK_PAUSE);
    }
    if thaw_broker.is_some() {
        stage.cluster.thaw().expect("thaw the broker");
    }
    network.end_all(&stage.proxy, faults);
}

/// Runs `play` while orders flow into `topic`; they also stop when it panics.
fn with_traffic(t: &Scenario, topic: &str, seed: u64, play: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&is_over);
        scope.spawn(|| {
            let mut orders = Orders::seeded(seed);
            for number in 1.. {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                if number % ABORTED_EVERY == 0 {
                    // While the broker stands still it may fail half-way: then the broker aborts it.
                    let _ = send_aborted(t, topic, &mut orders);
                }
                t.produce(topic, orders.take(CHUNK));
                thread::sleep(CHUNK_PAUSE);
            }
        });
        play();
    });
}

fn send_aborted(t: &Scenario, topic: &str, orders: &mut Orders) -> anyhow::Result<()> {
    let mut transaction = Transaction::begin(t.client(), &t.full("foreign"), FOREIGN_TIMEOUT_MS)?;
    transaction.produce(topic, 0, &orders.take(20))?;
    transaction.abort()
}
