//! Partitions change hands: by joining and leaving, by silence, by a polite end.

use std::thread;
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::scenario::Scenario;
use transom_tests::orders::{Orders, cleaned};

use crate::{PARTITIONS, send_orders};

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: 20ms }
timeouts: { session: 6s, revoke: 3s }
"#;

// Goal: EO-2 and EO-7 over many rebalances. Method: for a minute a third instance comes for five seconds and leaves for five.
#[test]
fn two_instances_survive_a_third_that_joins_and_leaves_every_five_seconds() {
    const MINUTE: Duration = Duration::from_secs(60);
    const TURN: Duration = Duration::from_secs(5);
    let t = Scenario::shared("third");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let mut instances = [t.start("a", PIPELINE), t.start("b", PIPELINE)];
    for instance in &mut instances {
        instance.awaits_partitions(2, Duration::from_secs(30));
    }

    let mut joined = 0;
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_orders(&t, &input, 60_000, 1_000));
        let started = Instant::now();
        // The turns are the subject, so they go by the clock.
        while started.elapsed() < MINUTE && !sending.is_finished() {
            let mut third = t.start("c", PIPELINE);
            third.awaits("a partition", TURN * 2, |status| status.partitions() > 0);
            thread::sleep(TURN);
            third.drains_within(Duration::from_secs(15));
            joined += 1;
            thread::sleep(TURN);
        }
    });
    assert!(joined >= 5, "the third instance joined {joined} times");

    t.awaits_all_committed(&[&input], Duration::from_secs(30));
    for instance in &mut instances {
        instance.awaits("no record unaccounted for", Duration::from_secs(5), |status| status.unaccounted_records == 0);
        instance.drains_within(Duration::from_secs(15));
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (60_000, 0));
}

// Goal: EO-2. Method: freeze A with work in hand past its session, let B take over and finish, thaw A.
#[test]
fn an_instance_frozen_past_its_session_commits_nothing_stale() {
    let t = Scenario::shared("frozen");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let mut a = t.start("a", PIPELINE);
    let mut b = t.start("b", PIPELINE);
    a.awaits_partitions(2, Duration::from_secs(30));
    b.awaits_partitions(2, Duration::from_secs(30));

    thread::scope(|scope| {
        scope.spawn(|| send_orders(&t, &input, 60_000, 3_000));
        a.awaits("records", Duration::from_secs(10), |status| status.records() > 1_000);
        a.freeze();
        b.awaits_partitions(4, Duration::from_secs(30));
        b.awaits("records of all partitions", Duration::from_secs(10), |status| status.lag.is_some());
        a.thaw();
    });
    // A comes back as a member and does its share.
    a.awaits("a partition again", Duration::from_secs(30), |status| status.partitions() > 0);
    let before = a.status().map_or(0, |status| status.records());
    t.produce(&input, Orders::seeded(8).skip(60_000).take(2_000));
    a.awaits("records again", Duration::from_secs(20), |status| status.records() > before);

    t.awaits_all_committed(&[&input], Duration::from_secs(30));
    for instance in [&mut a, &mut b] {
        instance.awaits("no record unaccounted for", Duration::from_secs(5), |status| status.unaccounted_records == 0);
        instance.drains_within(Duration::from_secs(15));
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (62_000, 0));
}

// Goal: the end of a dynamic member costs nobody a session. Method: SIGTERM, and the clock until the other one has all.
#[test]
fn a_dynamic_instance_gives_its_partitions_back_on_sigterm() {
    let t = Scenario::shared("dynamic");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let mut dynamic = t.start_with(None, PIPELINE, &[]);
    let mut named = t.start("named", PIPELINE);
    dynamic.awaits_partitions(2, Duration::from_secs(30));
    named.awaits_partitions(2, Duration::from_secs(30));
    t.produce(&input, Orders::seeded(7).take(1_000));
    t.awaits_all_committed(&[&input], Duration::from_secs(20));

    // Less than the session of 6 s: given back, not timed out.
    dynamic.drains_within(Duration::from_secs(10));
    named.awaits_partitions(4, Duration::from_secs(5));

    t.produce(&input, Orders::seeded(7).skip(1_000).take(1_000));
    t.awaits_all_committed(&[&input], Duration::from_secs(20));
    named.drains_within(Duration::from_secs(10));
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs(), 2_000);
}

// Goal: whoever will not wait for a drain need not. Method: a broker that answers nothing, so that no drain can end.
#[test]
fn a_second_sigterm_aborts_at_once() {
    let mut cluster = Cluster::start(ClusterOptions::default()).expect("start a broker");
    let t = Scenario::on(cluster.bootstrap(), "twice");
    let (input, output, letters) = (t.topic("in", 1), t.topic("out", 1), t.topic("dlq", 1));
    let mut instance = t.start("a", PIPELINE);
    instance.awaits_partitions(1, Duration::from_secs(30));
    t.produce(&input, Orders::seeded(7).take(1_000));
    instance.awaits("records", Duration::from_secs(10), |status| status.records() > 0);
    t.produce(&input, Orders::seeded(7).skip(1_000).take(1_000));

    cluster.freeze().expect("freeze the broker");
    instance.terminate();
    instance.awaits_log("asked to stop", Duration::from_secs(2));
    instance.terminate();
    let code = instance.exits_within(Duration::from_secs(5));
    assert_eq!(code, 75, "{}", instance.log_tail());

    cluster.thaw().expect("thaw the broker");
    instance.restart();
    t.awaits_all_committed(&[&input], Duration::from_secs(60));
    instance.drains_within(Duration::from_secs(10));
    t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
}
