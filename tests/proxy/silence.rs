//! Coordinators that leave a call unsettled: our own deadlines, the state they lead to, and how it ends.

use std::time::{Duration, Instant};

use transom_harness::instance::{Instance, Status};
use transom_harness::proxy::{Action, Armed, Rule, kind};
use transom_tests::orders::Orders;

use crate::Stage;
use crate::pipeline::{Pipeline, SHORT, START};

/// The deadlines of the pipelines here are 3 s; the state must tell within one second more.
const TELL_DEADLINE: Duration = Duration::from_secs(4);
/// What this machine may need on top to start a thread, draw a breath and answer.
const GENEROUS: Duration = Duration::from_secs(4);
/// Never.
const ALWAYS: u64 = u64::MAX;
/// A coordinator that has not finished the id's last transaction.
const CONCURRENT_TRANSACTIONS: i16 = 51;
/// A group whose coordinator has gone and whose next one is not there yet.
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
/// Twice as often as librdkafka asks, less one.
const LOOKUPS: u64 = 5;

const TIMEOUTS: &str = "{ session: 6s, revoke: 3s, send_offsets: 3s, commit: 3s, transaction: 30s, blocked: BLOCKED }";

fn timeouts(blocked: &str) -> String {
    TIMEOUTS.replace("BLOCKED", blocked)
}

/// A blocked instance says so within the deadline, is not ready, and is still a member of its group.
#[track_caller]
fn expect_blocked(instance: &mut Instance, since: Instant, words: &[&str]) -> Status {
    let status = instance.awaits("the blocked state", TELL_DEADLINE + GENEROUS, |status| status.state == "blocked_by_coordinator");
    println!("blocked {:.1} s after the request was caught: {}", since.elapsed().as_secs_f64(), status.reason);
    // Which of two requests that wait for each other is named first is chance; the call that fell silent last is named in the end.
    let said: Vec<&str> = ["transactional id", "producer id"].iter().chain(words).copied().collect();
    let status = instance.awaits(&format!("all of {said:?} in the reason"), START, |status| {
        status.state == "blocked_by_coordinator" && said.iter().all(|word| status.reason.contains(word))
    });
    let (code, body) = instance.get("/readyz").expect("ask for readiness");
    assert_eq!((code, body.starts_with("blocked_by_coordinator: ")), (503, true), "{body}");
    assert!(instance.metrics().expect("metrics").contains("state=\"blocked_by_coordinator\"} 1"));
    assert!(!status.workers[0].partitions.is_empty(), "it keeps its membership");
    status
}

/// The client tells its producer id once a second only.
#[track_caller]
fn awaits_producer(instance: &mut Instance) {
    instance.awaits("the producer id", START, |status| status.workers[0].producer_id.is_some());
}

/// Sends orders until the rule has caught a request.
fn caught(pipeline: &Pipeline, orders: &mut Orders, rule: &Armed) -> Instant {
    pipeline.t.produce(pipeline.input(), orders.take(500));
    rule.awaits_caught(SHORT);
    Instant::now()
}

// Goal: a silent coordinator is told within the deadline and a second, costs no membership, and ends by itself. Method: the network
// holds one kind of request of a transaction, then lets it go.
#[test]
fn a_silent_coordinator_is_told_and_waited_for() {
    let cases = [
        // While the client waits it does not tell for which of the two requests; once it has given up it does.
        ("offsets", kind::TXN_OFFSET_COMMIT, "offsets"),
        ("add-offsets", kind::ADD_OFFSETS_TO_TXN, "to the transaction"),
        ("add-partitions", kind::ADD_PARTITIONS_TO_TXN, "the transaction coordinator has not settled adding output partitions"),
        ("end", kind::END_TXN, "the transaction coordinator has not settled"),
    ];
    let stage = Stage::enter();
    for (name, api_key, words) in cases {
        let pipeline = Pipeline::with_timeouts(&stage, &format!("silent-{name}"), &timeouts("60s"));
        let mut instance = pipeline.start(None, &[]);
        let mut orders = Orders::seeded(31);
        awaits_producer(&mut instance);
        let silence = stage.proxy.arm(Rule::next(api_key, Action::Hold).times(ALWAYS, 1));
        let since = caught(&pipeline, &mut orders, &silence);
        expect_blocked(&mut instance, since, &[words]);
        silence.release();
        drop(silence);
        instance.awaits("work again", START, |status| status.state == "running" && status.records() > 0);
        pipeline.t.produce(pipeline.input(), orders.take(500));
        println!("silent {name}: {}", pipeline.expect_exactly_once(instance));
    }
}

// Goal: CONCURRENT_TRANSACTIONS for ever is bounded. Method: the proxy answers in the coordinator's place, for as long as the test
// wants, then no more.
#[test]
fn concurrent_transactions_for_ever_is_a_state_and_ends_with_its_cause() {
    let stage = Stage::enter();
    let pipeline = Pipeline::with_timeouts(&stage, "concurrent", &timeouts("60s"));
    let mut instance = pipeline.start(None, &[]);
    let mut orders = Orders::seeded(32);
    awaits_producer(&mut instance);
    for (api_key, words) in
        [(kind::ADD_PARTITIONS_TO_TXN, "adding output partitions"), (kind::END_TXN, "the transaction coordinator has not settled")]
    {
        let refused = stage.proxy.arm(Rule::next(api_key, Action::Refuse(CONCURRENT_TRANSACTIONS)).times(ALWAYS, 1));
        let since = caught(&pipeline, &mut orders, &refused);
        expect_blocked(&mut instance, since, &[words]);
        drop(refused);
        instance.awaits("work again", START, |status| status.state == "running");
    }
    println!("concurrent: {}", pipeline.expect_exactly_once(instance));
}

// Goal: a group without a coordinator for a moment, as while a broker restarts, costs seconds. Method: the producer's first lookups
// are answered with "not available"; librdkafka 2.12.1 asks three times in a row and then never again
// (`rd_kafka_coord_req_handle_FindCoordinator`).
#[test]
fn a_group_without_a_coordinator_for_a_moment_costs_seconds() {
    let stage = Stage::enter();
    let pipeline = Pipeline::with_timeouts(&stage, "no-coordinator", &timeouts("60s"));
    let mut instance = pipeline.start(None, &[]);
    awaits_producer(&mut instance);
    let refused = stage.proxy.arm(Rule::next(kind::FIND_COORDINATOR, Action::Refuse(COORDINATOR_NOT_AVAILABLE)).times(LOOKUPS, 1));
    pipeline.t.produce(pipeline.input(), Orders::seeded(36).take(500));
    let begun = Instant::now();
    pipeline.t.awaits_all_committed(&[pipeline.input()], START);
    println!("no coordinator: committed after {:.1} s", begun.elapsed().as_secs_f64());
    assert_eq!(refused.caught(), LOOKUPS);
    println!("no coordinator: {}", pipeline.expect_exactly_once(instance));
}

// Goal: a drain ends although nobody lets the member go. Method: the group's coordinator hears nothing any more, neither heartbeats nor
// the wish to leave, of which the client library waits for the answers when it is closed.
#[test]
fn a_drain_ends_although_the_group_does_not_answer() {
    let stage = Stage::enter();
    let pipeline = Pipeline::with_timeouts(&stage, "deaf-group", "{ revoke: 3s, send_offsets: 3s, commit: 3s }\ngroup: { protocol: consumer }");
    let mut instance = pipeline.start(None, &[]);
    pipeline.t.produce(pipeline.input(), Orders::seeded(35).take(500));
    pipeline.t.awaits_all_committed(&[pipeline.input()], START);
    let deaf = stage.proxy.arm(Rule::next(kind::CONSUMER_GROUP_HEARTBEAT, Action::Hold).times(ALWAYS, 1));
    deaf.awaits_caught(SHORT);
    let begun = Instant::now();
    instance.drains_within(START);
    println!("drained within {:.1} s", begun.elapsed().as_secs_f64());
}

// Goal: a request that was carried out and is never answered costs a producer and no process: librdkafka asserts on its failure once
// the transaction has ended. Method: the answer is dropped, the transaction ends, its producer is destroyed.
#[test]
fn an_answer_that_never_comes_ends_no_process() {
    let stage = Stage::enter();
    for (name, api_key) in [("add-partitions", kind::ADD_PARTITIONS_TO_TXN), ("add-offsets", kind::ADD_OFFSETS_TO_TXN)] {
        let pipeline = Pipeline::with_timeouts(&stage, &format!("dropped-{name}"), &timeouts("60s"));
        let mut instance = pipeline.start(None, &[]);
        let mut orders = Orders::seeded(34);
        let dropped = stage.proxy.arm(Rule::next(api_key, Action::DropAnswer));
        caught(&pipeline, &mut orders, &dropped);
        instance.awaits("work again", START, |status| status.state == "running" && status.records() >= 500);
        assert_eq!(instance.exit_code(), None, "{}", instance.log_tail());
        println!("dropped {name}: {}", pipeline.expect_exactly_once(instance));
    }
}

// Goal: a coordinator that never settles ends the process with 75, and the next process goes on without loss. Method: as above, for
// longer than the pipeline waits; the id cannot be initialised either.
#[test]
fn a_coordinator_that_stays_silent_ends_the_process_with_75() {
    let stage = Stage::enter();
    let pipeline = Pipeline::with_timeouts(&stage, "for-ever", &timeouts("8s"));
    let mut orders = Orders::seeded(33);
    for (name, api_key, action) in
        [("silent", kind::TXN_OFFSET_COMMIT, Action::Hold), ("concurrent", kind::INIT_PRODUCER_ID, Action::Refuse(CONCURRENT_TRANSACTIONS))]
    {
        let mut instance = pipeline.start(None, &[]);
        let end = stage.proxy.arm(Rule::next(kind::END_TXN, Action::Hold).times(if api_key == kind::INIT_PRODUCER_ID { ALWAYS } else { 0 }, 1));
        let rule = stage.proxy.arm(Rule::next(api_key, action).times(ALWAYS, 1));
        pipeline.t.produce(pipeline.input(), orders.take(500));
        rule.awaits_caught(START);
        let since = Instant::now();
        assert_eq!(instance.exits_within(START), 75, "{name}; {}", instance.log_tail());
        println!("{name}: ended {:.1} s after the first request was caught", since.elapsed().as_secs_f64());
        let log = instance.log();
        assert!(log.contains("has not settled") && log.contains("start it again"), "{name}; {}", instance.log_tail());
        drop((rule, end));
    }
    let instance = pipeline.start(None, &[]);
    println!("for ever: {}", pipeline.expect_exactly_once(instance));
}
