//! Commits whose answer never comes, and transactions that carry offsets alone.

use std::time::{Duration, Instant};

use transom_harness::oracle::Expected;
use transom_harness::proxy::{Action, Rule, kind};
use transom_harness::wire::NewRecord;
use transom_tests::late::with_orders;

use crate::{ORDERS, Pipeline, SHORT, START, Stage, awaits};

// Goal: EO-5, the commit was carried out. Method: its answer is dropped; the deadline of 1 s passes, the owner records tell.
#[test]
fn a_commit_whose_answer_is_dropped_counts_once_and_only_when_it_is_known() {
    let stage = Stage::enter();
    let orders = stage.pipeline("dropped", 4);
    let mut a = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        let dropped = stage.proxy.arm(Rule::next(kind::END_TXN, Action::DropAnswer).nth(3));
        dropped.awaits_answer(START);
        awaits("the unknown outcome", SHORT, || a.transactions().get("unknown") == Some(&1));
        let before = a.status().expect("status").workers[0].batches_committed;
        a.awaits("further commits", START, |status| status.workers[0].batches_committed > before + 1);
    });
    orders.t.awaits_all_committed(&[&orders.input], START);
    let written = orders.t.read(&orders.input).len() as u64;
    // Neither more nor less: what was committed without an answer is counted, once.
    a.awaits("every record counted once", SHORT, |status| status.records() == written && status.unaccounted_records == 0);
    println!("answer dropped: {:?}; {}", a.transactions(), orders.expect_exactly_once(&mut [&mut a]));
}

// Goal: EO-5, the commit was not carried out. Method: the network keeps it and every copy of it until the deadline is over, then
// forgets them; meanwhile nothing is counted that no reader sees.
#[test]
fn a_commit_that_never_arrives_is_not_counted_and_its_records_are_read_again() {
    let stage = Stage::enter();
    let orders = stage.pipeline("never", 4);
    let mut a = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        a.awaits("commits", START, |status| status.workers[0].batches_committed > 0);
        let kept = stage.proxy.arm(Rule::next(kind::END_TXN, Action::Hold).times(1_000, 1));
        kept.awaits_caught(START);
        let until = Instant::now() + Duration::from_secs(3);
        // As it is now: the transaction that is kept open ends when this is over.
        let read = |topic: &str| orders.t.client().read_committed(topic).expect("read").len();
        while Instant::now() < until {
            let Ok(status) = a.status() else { continue };
            let visible = read(&orders.output) + read(&orders.letters);
            assert!(status.records() <= visible as u64, "{} counted, {visible} visible; {}", status.records(), a.log_tail());
        }
        let status = a.awaits("the unknown outcome as the last trouble", SHORT, |status| {
            let trouble = status.last_trouble();
            trouble.starts_with("unknown: ") && trouble.contains("owner records say what became")
        });
        assert!(a.transactions()["unknown"] >= 1, "{:?}; {}", a.transactions(), a.log_tail());
        drop(kept);
        let before = status.workers[0].batches_committed;
        a.awaits("further commits", START, |status| status.workers[0].batches_committed > before + 1);
    });
    orders.t.awaits_all_committed(&[&orders.input], START);
    let written = orders.t.read(&orders.input).len() as u64;
    a.awaits("every record counted once", SHORT, |status| status.records() == written && status.unaccounted_records == 0);
    println!("never arrived: {:?}; {}", a.transactions(), orders.expect_exactly_once(&mut [&mut a]));
}

// Goal: EO-3 where a transaction writes nothing. Method: every record is filtered; once a process dies in the middle of it.
#[test]
fn transactions_with_offsets_alone_are_exact_over_a_kill() {
    let orders = Pipeline::shared("offsets-only", 4);
    let yaml = ORDERS.replace("process: clean_orders", "process: clean_orders, tombstones: filter");
    let mut a = orders.start_with("a", &yaml);
    a.awaits_partitions(4, START);
    let tombstones = |from: u64| (from..from + 5_000).map(|id| NewRecord::tombstone(format!("C-{id}"))).collect::<Vec<_>>();
    orders.t.produce(&orders.input, tombstones(0));
    a.awaits("some of them", START, |status| status.records() > 0);
    orders.t.produce(&orders.input, tombstones(5_000));
    a.kill9();
    a.restart();
    orders.t.produce(&orders.input, tombstones(10_000));
    orders.t.awaits_all_committed(&[&orders.input], START);
    let status = a.awaits("all counted", SHORT, |status| status.lag == Some(0) && status.unaccounted_records == 0);
    assert_eq!(status.records(), status.fates["filtered"], "{status:?}");
    a.drains_within(SHORT);
    let t = &orders.t;
    let report = t.expect_exactly_once(&[&orders.input], &[&orders.output], &[&orders.letters], |_, _| Expected::Filtered);
    assert_eq!(report.inputs(), 15_000);
    println!("offsets only: {report}");
}
