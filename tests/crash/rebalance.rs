//! Partitions change hands: by joining and leaving, by silence, by a polite end.

use std::thread;
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::scenario::Scenario;
use transom_tests::late::beside;
use transom_tests::orders::{Orders, cleaned};

use crate::{PARTITIONS, SHORT, START, send_orders, send_orders_until};

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
        instance.awaits_partitions(2, START);
    }

    let mut sent = 0;
    let turns = || {
        let started = Instant::now();
        // The turns are the subject, so they go by the clock; where each takes longer, it takes longer until there were enough.
        let mut joined = 0;
        while joined < 5 || started.elapsed() < MINUTE {
            let mut third = t.start("c", PIPELINE);
            third.awaits("a partition", START, |status| status.partitions() > 0);
            thread::sleep(TURN);
            third.drains_within(START);
            joined += 1;
            thread::sleep(TURN);
        }
    };
    beside(|is_over| sent = send_orders_until(&t, &input, is_over, 1_000), turns);

    t.awaits_all_committed(&[&input], Duration::from_secs(60));
    for instance in &mut instances {
        instance.awaits("no record unaccounted for", SHORT, |status| status.unaccounted_records == 0);
        instance.drains_within(START);
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs() as u64, report.order_unchecked()), (sent, 0));
}

// Goal: EO-2. Method: freeze A with work in hand past its session, let B take over and finish, thaw A.
#[test]
fn an_instance_frozen_past_its_session_commits_nothing_stale() {
    let t = Scenario::shared("frozen");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let mut a = t.start("a", PIPELINE);
    let mut b = t.start("b", PIPELINE);
    a.awaits_partitions(2, START);
    b.awaits_partitions(2, START);

    thread::scope(|scope| {
        scope.spawn(|| send_orders(&t, &input, 60_000, 3_000));
        a.awaits("records", SHORT, |status| status.records() > 1_000);
        a.freeze();
        b.awaits_partitions(4, START);
        b.awaits("records of all partitions", SHORT, |status| status.lag.is_some());
        a.thaw();
    });
    // A comes back as a member and does its share.
    a.awaits("a partition again", START, |status| status.partitions() > 0);
    let before = a.status().map_or(0, |status| status.records());
    t.produce(&input, Orders::seeded(8).skip(60_000).take(2_000));
    a.awaits("records again", SHORT, |status| status.records() > before);

    t.awaits_all_committed(&[&input], START);
    for instance in [&mut a, &mut b] {
        instance.awaits("no record unaccounted for", SHORT, |status| status.unaccounted_records == 0);
        instance.drains_within(START);
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (62_000, 0));
}

// Goal: the end of a dynamic member costs nobody a session. Method: SIGTERM, and the clock until the other one has all.
#[test]
fn a_dynamic_instance_gives_its_partitions_back_on_sigterm() {
    let t = Scenario::shared("dynamic");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let yaml = PIPELINE.replace("session: 6s", "session: 60s");
    let mut dynamic = t.start_with(None, &yaml, &[]);
    let mut named = t.start("named", &yaml);
    dynamic.awaits_partitions(2, START);
    named.awaits_partitions(2, START);
    t.produce(&input, Orders::seeded(7).take(1_000));
    t.awaits_all_committed(&[&input], SHORT);

    // Less than the session: given back, not timed out.
    dynamic.drains_within(SHORT);
    named.awaits_partitions(4, START);

    t.produce(&input, Orders::seeded(7).skip(1_000).take(1_000));
    t.awaits_all_committed(&[&input], SHORT);
    named.drains_within(SHORT);
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
    instance.awaits_partitions(1, START);
    t.produce(&input, Orders::seeded(7).take(1_000));
    instance.awaits("records", SHORT, |status| status.records() > 0);
    t.produce(&input, Orders::seeded(7).skip(1_000).take(1_000));

    cluster.freeze().expect("freeze the broker");
    instance.terminate();
    instance.awaits_log("asked to stop", SHORT);
    instance.terminate();
    // Less than a drain may take.
    let code = instance.exits_within(SHORT);
    assert_eq!(code, 75, "{}", instance.log_tail());

    cluster.thaw().expect("thaw the broker");
    instance.restart();
    t.awaits_all_committed(&[&input], Duration::from_secs(60));
    instance.drains_within(SHORT);
    t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
}
