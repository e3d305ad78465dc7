//! Where records come from: foreign transactions, several workers, several topics, new partitions, either group protocol.

use std::time::Duration;

use transom_harness::scenario::Scenario;
use transom_harness::wire::Transaction;
use transom_tests::orders::{Orders, cleaned};

use crate::{CLEAN_ORDERS, SHORT, START};

// Goal: EO-1 starts at the input: what was aborted there never was. Method: a foreign producer commits and aborts in turn; one
// partition holds nothing but an aborted transaction, the other ends with one, so only control records lead to the end.
#[test]
fn aborted_records_of_a_foreign_producer_are_never_processed_and_lag_ends_at_0() {
    let t = Scenario::shared("foreign");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(2, START);
    let mut orders = Orders::seeded(11);
    for number in 0..30 {
        let mut transaction = Transaction::begin(t.client(), &t.full("foreign"), 30_000).expect("begin");
        let partition = i32::from(number == 29);
        transaction.produce(&input, partition, &orders.take(40)).expect("produce");
        let ended = if number % 3 == 0 { transaction.commit() } else { transaction.abort() };
        ended.expect("end the transaction");
    }
    t.awaits_all_committed(&[&input], SHORT);
    let status = instance.awaits("lag 0", SHORT, |status| status.lag == Some(0));
    assert_eq!((status.records(), status.unaccounted_records), (400, 0), "{status:?}");
    instance.drains_within(SHORT);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (400, 0));
}

#[test]
fn four_workers_share_the_partitions_of_one_process() {
    let t = Scenario::shared("workers");
    let (input, output, letters) = (t.topic("in", 8), t.topic("out", 8), t.topic("dlq", 8));
    let mut instance = t.start("a", &CLEAN_ORDERS.replace("input:", "workers: 4\ninput:"));
    let shared = instance.awaits("two partitions each", START, |status| status.workers.iter().all(|worker| worker.partitions.len() == 2));
    assert_eq!(shared.workers.len(), 4);
    t.produce(&input, Orders::seeded(12).take(10_000));
    t.awaits_all_committed(&[&input], SHORT);
    let status = instance.awaits("all records counted", SHORT, |status| status.records() == 10_000);
    assert_eq!(status.unaccounted_records, 0);
    assert!(status.workers.iter().all(|worker| worker.batches_committed > 0), "{status:?}");
    let metrics = instance.metrics().expect("metrics");
    // One order in fifty is poison.
    for line in
        [r#"transom_records_total{fate="produced"} 9800"#, r#"transom_records_total{fate="dead_lettered"} 200"#, "transom_unaccounted_records 0"]
    {
        assert!(metrics.lines().any(|found| found == line), "{line:?} is missing in:\n{metrics}");
    }
    instance.drains_within(SHORT);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (10_000, 0));
}

#[test]
fn two_input_topics_keep_equal_partition_numbers_together() {
    let t = Scenario::shared("two-inputs");
    let (left, right) = (t.topic("left", 4), t.topic("right", 4));
    let (output, letters) = (t.topic("out", 4), t.topic("dlq", 4));
    let yaml = CLEAN_ORDERS.replace("input: { topic: @in }", "inputs: [{ topic: @left }, { topic: @right }]");
    let mut instances = [t.start("a", &yaml), t.start("b", &yaml)];
    for instance in &mut instances {
        let status = instance.awaits_partitions(4, START);
        let numbers = |topic: &str| {
            let of_topic = status.workers[0].partitions.iter().filter(|partition| partition.topic == topic);
            let mut numbers: Vec<i32> = of_topic.map(|partition| partition.partition).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(&left), numbers(&right));
    }
    t.produce(&left, Orders::seeded(13).take(3_000));
    t.produce(&right, Orders::seeded(13).skip(3_000).take(3_000));
    t.awaits_all_committed(&[&left, &right], SHORT);
    for instance in &mut instances {
        instance.drains_within(SHORT);
    }
    let report = t.expect_exactly_once(&[&left, &right], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (6_000, 0));
}

// Goal: EO-3 for partitions that are younger than the group. Method: `start: latest`, which is for new groups and must not skip
// what lies in a new partition; records are there before anybody can have seen it.
#[test]
fn a_partition_added_while_running_is_read_from_its_beginning() {
    let t = Scenario::shared("growth");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let refresh = r#"kafka: { topic.metadata.refresh.interval.ms: 2000, "#;
    let yaml = CLEAN_ORDERS.replace("kafka: { ", refresh).replace("input:", "start: latest\ninput:");
    let mut instance = t.start("a", &yaml);
    let is_claimed = |partition: &transom_harness::instance::Partition| partition.committed.is_some();
    instance.awaits("two claimed partitions", START, |status| {
        status.partitions() == 2 && status.workers.iter().flat_map(|worker| &worker.partitions).all(is_claimed)
    });
    let mut orders = Orders::seeded(14);
    t.produce(&input, orders.take(500));
    t.client().create_partitions(&input, 4).expect("add partitions");
    for partition in 0..4 {
        t.produce_to(&input, partition, &orders.take(500));
    }
    instance.awaits_partitions(4, Duration::from_secs(20));
    t.awaits_all_committed(&[&input], SHORT);
    instance.drains_within(SHORT);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs(), 2_500);
}

// Goal: the other group protocol is as exact. Method: a member leaves and comes back in the middle of the work. A dynamic one:
// the partitions of a named one wait for it until its session ends, 45 s here.
#[test]
fn the_consumer_group_protocol_is_exact_while_a_member_leaves_and_returns() {
    let t = Scenario::shared("consumer");
    let (input, output, letters) = (t.topic("in", 4), t.topic("out", 4), t.topic("dlq", 4));
    let yaml = CLEAN_ORDERS.replace("input:", "group: { protocol: consumer }\ncommit: { records_max: 100 }\ninput:");
    let mut named = t.start("named", &yaml);
    let mut dynamic = t.start_with(None, &yaml, &[]);
    named.awaits_partitions(2, START);
    dynamic.awaits_partitions(2, START);
    let mut orders = Orders::seeded(15);
    t.produce(&input, orders.take(5_000));
    dynamic.drains_within(SHORT);
    t.produce(&input, orders.take(5_000));
    named.awaits_partitions(4, START);
    dynamic.restart();
    t.produce(&input, orders.take(5_000));
    dynamic.awaits_partitions(2, START);
    t.awaits_all_committed(&[&input], SHORT);
    named.drains_within(SHORT);
    dynamic.drains_within(SHORT);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (15_000, 0));
}
