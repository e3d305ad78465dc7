//! A process that stands still between begin and commit for longer than its transaction may last.

use transom_harness::instance::Instance;
use transom_harness::proxy::{Action, Armed, Rule, kind};
use transom_tests::late::with_orders;

use crate::{Pipeline, SHORT, START, Stage, awaits};

/// What the broker answers to an end that came too late: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED.
const TOO_LATE: [i16; 3] = [47, 48, 90];

/// Lets an instance begin a transaction, keeps its commit and stops its clock, until the broker has ended the transaction.
#[track_caller]
fn freeze_past_time_out(stage: &Stage, orders: &Pipeline, name: &str, instance: &mut Instance) -> Armed {
    let kept = stage.proxy.arm(Rule::next(kind::END_TXN, Action::Hold).nth(3).from_client(name));
    kept.awaits_caught(START);
    instance.freeze();
    let id = orders.transactional_id(name);
    awaits("the broker to end the transaction", START, || {
        let open = orders.t.client().open_transactions().expect("list transactions");
        open.iter().all(|transaction| transaction.transactional_id != id)
    });
    kept
}

/// Lets the kept commit arrive: it must not count.
#[track_caller]
fn deliver(kept: &Armed) {
    kept.release();
    let answer = kept.awaits_answer(SHORT);
    let code = i16::from_be_bytes([answer[4], answer[5]]);
    assert!(TOO_LATE.contains(&code), "the late commit was answered with {code}");
}

#[track_caller]
fn expect_commits(instance: &mut Instance) {
    let before = instance.status().map_or(0, |status| status.workers[0].batches_committed);
    instance.awaits("further commits", START, |status| status.workers[0].batches_committed > before);
}

// Goal: EO-1, EO-5 when nobody takes over. Method: its commit is kept by the network, the process stands still until the broker has
// aborted its transaction (3 s), which is less than its session.
#[test]
fn a_process_frozen_past_its_transactions_time_out_goes_on_by_itself() {
    let stage = Stage::enter();
    let orders = stage.pipeline("frozen-alone", 4);
    let mut a = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        let kept = freeze_past_time_out(&stage, &orders, "a", &mut a);
        deliver(&kept);
        a.thaw();
        expect_commits(&mut a);
    });
    let ended = a.transactions();
    assert!(ended["fenced"] + ended["unknown"] >= 1, "{ended:?}; {}", a.log_tail());
    let trouble = a.status().expect("status").last_trouble();
    assert!(trouble.contains("next step: none"), "{trouble}");
    println!("frozen alone: {ended:?}; {trouble}; {}", orders.expect_exactly_once(&mut [&mut a]));
}

// Goal: the same when somebody does take over. Method: the session ends too, another instance gets everything, then the zombie and
// its commit come back.
#[test]
fn a_process_frozen_past_its_transactions_time_out_commits_nothing_once_another_took_over() {
    let stage = Stage::enter();
    let orders = stage.pipeline("frozen-taken", 4);
    let mut a = orders.start("a");
    let mut b = orders.start("b");
    a.awaits_partitions(2, START);
    b.awaits_partitions(2, START);
    with_orders(&orders.t, &orders.input, || {
        let kept = freeze_past_time_out(&stage, &orders, "a", &mut a);
        b.awaits_partitions(4, START);
        expect_commits(&mut b);
        a.thaw();
        deliver(&kept);
        a.awaits_partitions(2, START);
        expect_commits(&mut a);
        expect_commits(&mut b);
    });
    // The zombie finds the new owner in the records and leaves it alone.
    assert_eq!(b.transactions()["fenced"], 0, "the new owner was fenced; {}", b.log_tail());
    println!("frozen, taken over: {:?}; {}", a.transactions(), orders.expect_exactly_once(&mut [&mut a, &mut b]));
}
