//! The broker that coordinates the group stands still or goes away for good, in the middle of transactions. On three brokers: a lone
//! one is no fair judge of its own death.

use std::time::{Duration, Instant};

use transom_harness::broker::{ClusterOptions, Replicated};
use transom_harness::instance::Instance;
use transom_harness::scenario::Scenario;
use transom_tests::orders::Orders;

use crate::{PARTITIONS, Pipeline, START};

/// Time-outs of a production pipeline in their order, shorter.
const TIMEOUTS: &str = "{ session: 6s, revoke: 1s, send_offsets: 2s, commit: 2s, transaction: 15s }";
/// The deadline of a call and one second more, and what a busy machine adds.
const TELL_DEADLINE: Duration = Duration::from_secs(3 + 4);
/// Longer than the brokers wait for one of them: the others take its partitions over.
const FROZEN: Duration = Duration::from_secs(10);
/// A new leader, a new coordinator, the transactions of the old one.
const RECOVERY: Duration = Duration::from_secs(60);
/// Several hundred transactions on three brokers that share two cores.
const ALL: Duration = Duration::from_secs(180);

/// In batches of 100 so many last for longer than a test: it is always in the middle of a transaction.
const RECORDS: u64 = 40_000;

fn yaml() -> String {
    let (head, _) = crate::ORDERS.split_once("commit:").expect("the commit interval and the time-outs stand last");
    format!("{head}commit: {{ interval: 100ms, records_max: 100 }}\ntimeouts: {TIMEOUTS}\n")
}

/// Starts three brokers, a pipeline, and waits until it works; returns which broker coordinates its group.
fn working(name: &str) -> (Replicated, Pipeline, Instance, usize) {
    let brokers = Replicated::start(&ClusterOptions::default(), None).expect("start three brokers");
    let orders = Pipeline::of(Scenario::on(&brokers.bootstrap(), name), PARTITIONS);
    orders.t.produce(&orders.input, Orders::seeded(51).take(RECORDS));
    let mut instance = orders.start_with("a", &yaml());
    awaits_more_records(&mut instance);
    let id = orders.t.client().coordinator_of_group(orders.t.pipeline()).expect("look for the coordinator");
    (brokers, orders, instance, usize::try_from(id - 1).expect("broker ids begin at 1"))
}

/// Waits for records, and starts the instance again when it asks for that: a coordinator that comes back may take its own late
/// request to join for a second process of its name.
fn awaits_more_records(instance: &mut Instance) {
    let until = Instant::now() + RECOVERY;
    let mut before = instance.status().map_or(0, |status| status.records());
    loop {
        match instance.exit_code() {
            None => {}
            Some(75) => {
                println!("ended with 75, started again");
                instance.restart();
                before = 0;
            }
            Some(code) => panic!("ended with {code}; {}", instance.log_tail()),
        }
        if instance.status().is_ok_and(|status| status.state == "running" && status.records() > before + 500) {
            return;
        }
        assert!(Instant::now() < until, "no more records within {RECOVERY:?}; {}", instance.log_tail());
        std::thread::sleep(crate::LOOK_PAUSE);
    }
}

// Goal: whoever looks is told within the deadline and a second, nobody has to restart anything, nothing is lost. Method: the
// group's coordinator is frozen under load for longer than the brokers wait for it, then thawed.
#[test]
fn a_coordinator_that_stands_still_in_mid_transaction_is_told_and_survived() {
    let (mut brokers, orders, mut instance, coordinator) = working("frozen-coordinator");
    brokers.node(coordinator).freeze().expect("freeze the coordinator");
    let since = Instant::now();
    let status = instance.awaits("a state that says so", TELL_DEADLINE, |status| !["running", "backing_off"].contains(&status.state.as_str()));
    println!("after {:.1} s: {}: {}", since.elapsed().as_secs_f64(), status.state, status.reason);
    assert_eq!(instance.get("/readyz").expect("ask for readiness").0, 503, "{}", status.state);
    std::thread::sleep(FROZEN.saturating_sub(since.elapsed()));
    brokers.node(coordinator).thaw().expect("thaw the coordinator");
    awaits_more_records(&mut instance);
    println!("records again {:.1} s after the coordinator stood still", since.elapsed().as_secs_f64());
    orders.t.awaits_all_committed(&[&orders.input], ALL);
    println!("{}", orders.expect_exactly_once(&mut [&mut instance]));
}

// Goal: a coordinator that never comes back, whose address the client remembers (librdkafka #5511), stops nobody. Method: its broker
// is killed under load and stays away; two of three are enough.
#[test]
fn a_coordinator_that_is_gone_for_good_is_replaced_by_another() {
    let (mut brokers, orders, mut instance, coordinator) = working("gone-coordinator");
    brokers.node(coordinator).kill().expect("kill the coordinator");
    let since = Instant::now();
    instance.awaits("that it is noticed", START, |status| status.state != "running" || !status.reason.is_empty());
    awaits_more_records(&mut instance);
    println!("records again {:.1} s after the coordinator was killed", since.elapsed().as_secs_f64());
    assert_eq!(instance.exit_code(), None, "{}", instance.log_tail());
    orders.t.awaits_all_committed(&[&orders.input], ALL);
    println!("{}", orders.expect_exactly_once(&mut [&mut instance]));
}
