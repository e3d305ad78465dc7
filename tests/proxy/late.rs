//! The recycle guard (EO-5, KAFKA-17754): a request of one transaction that arrives during a later one.

use std::time::{Duration, Instant};

use transom_harness::instance::{Instance, binary};
use transom_harness::proxy::{Action, Rule, kind};
use transom_tests::late::{End, late_end_txn, with_orders};

use crate::pipeline::{PIPELINE, Pipeline, SHORT, START};
use crate::{PARTITIONS, Stage};

/// Longer than one look at a group's offsets, shorter than an instance tries to start.
const LOOK: Duration = Duration::from_secs(8);
/// What the broker answers to a producer epoch that is not the newest: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED.
const FENCED: [i16; 2] = [47, 90];
/// The schedule leaves hardly anything to chance, but the broker and the library have threads of their own.
const TRIES_MAX: u32 = 5;

// Goal: EO-5. Method: the first EndTxn is kept by the network, its connection is cut, so the library sends it again; it arrives
// in the middle of the next transaction. Once the pipeline goes on after that, once it is killed and started again.
#[test]
fn a_late_end_txn_cannot_decide_a_later_transaction() {
    let stage = Stage::enter();
    let orders = Pipeline::on(&stage, "late-end");
    let mut instance = orders.start(None, &[]);
    with_orders(&orders.t, &orders.topics[0], || {
        let code = late_end_txn(&stage.proxy, &mut instance, End::GoOn);
        assert!(FENCED.contains(&code), "the late request was answered with {code}; {}", instance.log_tail());
        instance.awaits("the next transaction", SHORT, |status| status.workers[0].batches_committed > 1);
        let recycled = wait_for_recycle(&mut instance);
        assert!(recycled.contains("end_txn"), "{recycled}; {}", instance.log_tail());

        let code = late_end_txn(&stage.proxy, &mut instance, End::Kill);
        assert!(FENCED.contains(&code), "the late request was answered with {code}; {}", instance.log_tail());
        instance.restart();
        instance.awaits("records after the restart", START, |status| status.records() > 0);
    });
    println!("guard on: {}", orders.expect_exactly_once(instance));
}

// Goal: the test above proves something. Method: the same schedule on the same client with the guard switched off.
#[test]
fn without_the_recycle_guard_a_late_end_txn_decides_a_later_transaction() {
    let stage = Stage::enter();
    let program = binary().with_file_name("planted-transom");
    assert!(program.is_file(), "no program at {}: run make build first", program.display());
    for number in 1..=TRIES_MAX {
        let orders = Pipeline::on(&stage, "no-guard");
        let mut instance = orders.start(Some(program.clone()), &[("TRANSOM_PLANTED", "no_recycle_guard")]);
        let mut code = None;
        with_orders(&orders.t, &orders.topics[0], || {
            code = Some(late_end_txn(&stage.proxy, &mut instance, End::Kill));
            instance.restart();
            instance.awaits("records after the restart", START, |status| status.records() > 0);
        });
        let report = orders.report(instance);
        println!("guard off, try {number}: the late request was answered with {code:?}; {report}");
        if !report.is_exact() {
            return;
        }
    }
    panic!("{TRIES_MAX} runs without the guard were exact: the schedule proves nothing");
}

// Goal: EO-5 for the other requests of a transaction. Method: each is kept, its connection cut, and arrives while the next
// transaction writes; then the pipeline is killed and started again.
#[test]
fn no_late_request_of_one_transaction_acts_on_a_later_one() {
    let kinds = [
        ("add-partitions", kind::ADD_PARTITIONS_TO_TXN, "add_partitions"),
        // On one connection with the partitions of the same transaction, whose failure may be named instead.
        ("add-offsets", kind::ADD_OFFSETS_TO_TXN, "add_"),
        // On one connection with produce requests, whose failure may be named instead: any reason will do.
        ("offset-commit", kind::TXN_OFFSET_COMMIT, ""),
        ("produce", kind::PRODUCE, "produce"),
    ];
    let stage = Stage::enter();
    for (name, api_key, reason) in kinds {
        let orders = Pipeline::on(&stage, &format!("late-{name}"));
        let mut instance = orders.start(None, &[]);
        with_orders(&orders.t, &orders.topics[0], || {
            let late = stage.proxy.arm(Rule::next(api_key, Action::HoldAndCut));
            late.awaits_caught(SHORT);
            let end = stage.proxy.arm(Rule::next(kind::END_TXN, Action::Pass));
            end.awaits_caught(SHORT);
            let next = stage.proxy.arm(Rule::next(kind::PRODUCE, Action::Pass));
            next.awaits_answer(SHORT);
            late.release();
            let answer = late.awaits_answer(SHORT);
            let recycled = wait_for_recycle(&mut instance);
            // Each kind has its error code elsewhere; in the short answers here those two bytes stand for nothing else.
            assert!(answer.windows(2).any(|bytes| bytes == FENCED[0].to_be_bytes()), "late {name} was answered with {answer:02x?}");
            assert!(recycled.contains(reason), "late {name}: replaced for {recycled}; {}", instance.log_tail());
            instance.kill9();
            instance.restart();
            instance.awaits("records after the restart", START, |status| status.records() > 0);
        });
        println!("late {name}, guard on: {}", orders.expect_exactly_once(instance));
    }
}

// Goal: EO-4. A claim is a plain offset commit, which no producer epoch guards: a late copy of it would take back what transactions
// committed since. Method: a claim is kept, its connection cut, and it arrives when records have been committed.
#[test]
fn a_late_claim_cannot_take_offsets_back() {
    let stage = Stage::enter();
    let orders = Pipeline::on(&stage, "late-claim");
    let mut instance = orders.start(None, &[]);
    // The group is known from here on, so that the next plain offset commit is a claim.
    instance.awaits("claims", START, |status| status.workers[0].partitions.iter().all(|partition| partition.committed.is_some()));
    instance.drains_within(SHORT);
    let late = stage.proxy.arm(Rule::next(kind::OFFSET_COMMIT, Action::HoldAndCut));
    instance.restart();
    late.awaits_caught(START);
    // The membership is given up before any record is processed under it, and a supervisor starts the instance again.
    assert_eq!(instance.exits_within(START), 75, "{}", instance.log_tail());
    instance.restart();
    with_orders(&orders.t, &orders.topics[0], || {
        instance.awaits("records of several transactions", START, |status| status.workers[0].batches_committed > 5);
        late.release();
        late.awaits_answer(SHORT);
        instance.kill9();
        instance.restart();
        instance.awaits("records after the restart", START, |status| status.records() > 0);
    });
    println!("late claim: {}", orders.expect_exactly_once(instance));
}

// Goal: EO-4 for a new group. Its first plain offset commit must be a member's claim: one made before there are members is taken by
// the broker whenever the group is empty. Method: that commit is kept, its connection cut, so it is sent again; it arrives when the
// only member, a dynamic one, has processed records and left.
#[test]
fn late_start_offsets_of_a_new_group_cannot_take_offsets_back() {
    let stage = Stage::enter();
    let orders = Pipeline::on(&stage, "late-start");
    let late = stage.proxy.arm(Rule::next(kind::OFFSET_COMMIT, Action::HoldAndCut));
    let mut instance = orders.t.start_with(None, PIPELINE, &[]);
    late.awaits_caught(START);
    assert_eq!(instance.exits_within(START), 75, "{}", instance.log_tail());
    instance.restart();
    with_orders(&orders.t, &orders.topics[0], || {
        instance.awaits("records of several transactions", START, |status| status.workers[0].batches_committed > 5);
        instance.drains_within(SHORT);
        late.release();
        late.awaits_answer(SHORT);
        instance.restart();
        instance.awaits("records after the restart", START, |status| status.records() > 0);
    });
    println!("late start offsets: {}", orders.expect_exactly_once(instance));
}

// Goal: a coordinator that is found after nobody waits for it any more harms nobody: librdkafka would release the question twice. Method:
// the first look at the group's offsets asks for the coordinator, after the consumer itself has (the first request of the kind); that
// question is kept for longer than the look takes, then it goes on. Freed memory is filled at once, so that using it shows (glibc).
#[test]
fn a_coordinator_that_is_found_late_ends_nobody() {
    let stage = Stage::enter();
    let orders = Pipeline::on(&stage, "late-coordinator");
    let mut instance = orders.start(None, &[("MALLOC_PERTURB_", "255"), ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")]);
    instance.drains_within(SHORT);
    let late = stage.proxy.arm(Rule::next(kind::FIND_COORDINATOR, Action::Hold).nth(2));
    instance.restart();
    late.awaits_caught(START);
    // Each attempt is answered with a time-out of its own; the instance looks again.
    let begun = Instant::now();
    while begun.elapsed() < LOOK {
        assert_eq!(instance.exit_code(), None, "{}", instance.log_tail());
        std::thread::sleep(Duration::from_millis(50));
    }
    late.release();
    late.awaits_answer(SHORT);
    instance.awaits_partitions(PARTITIONS as usize, START);
    with_orders(&orders.t, &orders.topics[0], || {
        instance.awaits("records", START, |status| status.records() > 0);
    });
    println!("late coordinator: {}", orders.expect_exactly_once(instance));
}

/// Waits until a producer was replaced and returns the reasons.
#[track_caller]
fn wait_for_recycle(instance: &mut Instance) -> String {
    let mut reasons = String::new();
    // Nothing else changes the metrics' answer, so the status paces the look.
    for _ in 0..200 {
        let recycled: Vec<String> = instance.recycled().into_iter().filter(|(_, count)| *count > 0).map(|(reason, _)| reason).collect();
        reasons = recycled.join(", ");
        if !reasons.is_empty() {
            return reasons;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no producer was replaced ({reasons}); {}", instance.log_tail());
}
