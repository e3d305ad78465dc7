//! `planted`: switches one rule of the client after the other off, on a real broker, and expects the oracle to notice; with
//! all rules on, the same harm must leave nothing to find.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::instance::{Instance, InstanceOptions, binary};
use transom_harness::oracle::{Books, Report};
use transom_harness::proxy::{Action, Proxy, Rule, kind};
use transom_harness::scenario::Scenario;
use transom_harness::wire::OffsetsAsked;
use transom_tests::late::{End, late_end_txn, with_orders};
use transom_tests::orders::cleaned;

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: 100ms }
timeouts: { session: 6s, revoke: 3s, commit: 3s }
"#;
const PARTITIONS: i32 = 4;
/// Process start, group join, first batch.
const START: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(20);
/// A client with a rule switched off may never reach the end; then what is there is judged.
const END_DEADLINE: Duration = Duration::from_secs(10);
/// The product reaches it.
const PRODUCT_END_DEADLINE: Duration = Duration::from_secs(60);
/// A rule may not be needed in a run: whether a late commit finds something to commit is chance.
const TRIES_MAX: u32 = 5;

/// What is done to an instance while orders flow.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Nothing.
    Nothing,
    /// It is killed at some moment and started again.
    Restart,
    /// It is killed after the offsets were sent and before the commit arrives.
    KillBeforeCommit,
    /// The answer to a commit is lost.
    LostAnswer,
    /// A commit arrives in the middle of the next transaction, and it is killed.
    LateCommit,
}

/// `unknown_is_aborted` is not among them: the library refuses to abort after an unanswered commit ("conflicting API call"), so the
/// producer is replaced and the run stays exact, rule or no rule. Its harm is one of the product's own trials all the same.
const RULES: [(&str, &[Harm]); 6] = [
    ("nothing", &[Harm::Restart, Harm::KillBeforeCommit, Harm::LostAnswer, Harm::LateCommit]),
    ("last_output_forgotten", &[Harm::Nothing]),
    ("first_output_twice", &[Harm::Nothing]),
    ("offsets_one_ahead", &[Harm::Restart]),
    ("offsets_outside_transaction", &[Harm::KillBeforeCommit]),
    ("no_recycle_guard", &[Harm::LateCommit]),
];

fn main() -> ExitCode {
    let program = binary().with_file_name("planted-transom");
    if !program.is_file() {
        eprintln!("planted: no program at {}: run make build first", program.display());
        return ExitCode::FAILURE;
    }
    let (cluster, proxy) = match Proxy::start(ClusterOptions::default()) {
        Ok(started) => started,
        Err(error) => {
            eprintln!("planted: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for (rule, harms) in RULES {
        let begun = Instant::now();
        // The product must be exact at once, every other must not be.
        let is_product = rule == "nothing";
        let mut tries = 0;
        let (found, as_expected) = loop {
            tries += 1;
            let found = catch_unwind(AssertUnwindSafe(|| play(&cluster, &proxy, &program, rule, harms)));
            let as_expected = found.as_ref().is_ok_and(|(report, _)| report.is_exact() == is_product);
            if as_expected || is_product || found.is_err() || tries == TRIES_MAX {
                break (found, as_expected);
            }
        };
        *(if as_expected { &mut passed } else { &mut failed }) += 1;
        let what = match &found {
            Ok((report, _)) if as_expected => report.to_string().lines().next().unwrap_or_default().to_owned(),
            Ok((report, log)) => format!("{report}; {log}"),
            Err(panic) => words_of(panic.as_ref()),
        };
        let verdict = if as_expected { "as expected" } else { "FAILED" };
        println!("{rule}: {verdict} after {:.0} s; {what}", begun.elapsed().as_secs_f64());
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

fn play(cluster: &Cluster, proxy: &Proxy, program: &Path, rule: &str, harms: &[Harm]) -> (Report, String) {
    let t = Scenario::through(&proxy.bootstrap(), cluster.bootstrap(), &format!("planted-{}", rule.replace('_', "-")));
    let [input, output, letters] = ["in", "out", "dlq"].map(|topic| t.topic(topic, PARTITIONS));
    let options = t.instance_options(Some("a"), PIPELINE, &[("TRANSOM_PLANTED", rule)]);
    let mut instance = Instance::start(InstanceOptions { program: Some(PathBuf::from(program)), ..options });
    instance.awaits_partitions(PARTITIONS as usize, START);
    with_orders(&t, &input, || {
        for harm in harms {
            instance.awaits("records", START, |status| status.records() > 0);
            do_harm(*harm, proxy, &mut instance);
        }
        instance.awaits("records", START, |status| status.records() > 0);
    });
    awaits_end(&t, &input, if rule == "nothing" { PRODUCT_END_DEADLINE } else { END_DEADLINE });
    instance.terminate();
    instance.exits_within(SHORT);
    let committed = t.client().committed_offsets(t.pipeline(), OffsetsAsked::EvenIfPending).expect("read committed offsets");
    t.awaits_markers(&[&output, &letters]);
    let books = Books::read(t.client(), &[&input], &[&output], &[&letters]).expect("read the topics");
    (books.committed(&committed).audit(|_, record| cleaned(&output, record)), instance.log_tail())
}

fn do_harm(harm: Harm, proxy: &Proxy, instance: &mut Instance) {
    match harm {
        Harm::Nothing => {}
        Harm::Restart => {
            instance.kill9();
            instance.restart();
        }
        Harm::KillBeforeCommit => {
            let held = proxy.arm(Rule::next(kind::END_TXN, Action::Hold));
            held.awaits_caught(SHORT);
            instance.kill9();
            instance.restart();
        }
        Harm::LostAnswer => {
            let lost = proxy.arm(Rule::next(kind::END_TXN, Action::DropAnswer));
            lost.awaits_answer(SHORT);
            let before = instance.status().map_or(0, |status| status.records());
            instance.awaits("records after the lost answer", START, |status| status.records() > before);
        }
        Harm::LateCommit => {
            late_end_txn(proxy, instance, End::Kill);
            instance.restart();
        }
    }
}

/// Waits until the group has committed all there is, or longer than that takes.
fn awaits_end(t: &Scenario, input: &str, deadline: Duration) {
    let until = Instant::now() + deadline;
    while Instant::now() < until {
        let committed = t.client().committed_offsets(t.pipeline(), OffsetsAsked::EvenIfPending).expect("read committed offsets");
        let ends = t.client().end_offsets(input).expect("read end offsets");
        let is_done = |partition: &i32, end: i64| committed.get(&(input.to_owned(), *partition)).is_some_and(|committed| committed.offset >= end);
        if ends.iter().all(|(partition, ends)| is_done(partition, ends.high_watermark)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
