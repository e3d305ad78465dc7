//! Input topics that move under a pipeline: recreated, deleted, cut off at the front, grown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transom_harness::instance::Instance;
use transom_harness::scenario::Scenario;
use transom_harness::wire::{CommittedOffset, NewRecord, OffsetsAsked, Transaction};
use transom_tests::late::beside;
use transom_tests::orders::{Orders, cleaned, order};

use crate::{CLEAN_ORDERS, SHORT, START};

fn good(ids: std::ops::Range<u64>) -> Vec<NewRecord> {
    ids.map(|id| NewRecord::new("C-1", order(&id.to_string(), "C-1", "1.00"))).collect()
}

fn committed(t: &Scenario, input: &str) -> Option<CommittedOffset> {
    let offsets = t.client().committed_offsets(t.pipeline(), OffsetsAsked::Stable).expect("read committed offsets");
    offsets.get(&(input.to_owned(), 0)).cloned()
}

fn committed_offset(t: &Scenario, input: &str) -> Option<i64> {
    committed(t, input).map(|committed| committed.offset)
}

/// Waits for exit code 65 and looks for words in the last two lines: the reason and the hint.
#[track_caller]
fn stops_with(instance: &mut Instance, words: &[&str]) {
    assert_eq!(instance.exits_within(START), 65, "{}", instance.log_tail());
    let log = instance.log();
    let last = log.rfind("error: ").map_or("", |at| &log[at..]);
    for word in words.iter().chain(&["hint: "]) {
        assert!(last.contains(word), "{word:?} is missing in {last:?}; {}", instance.log_tail());
    }
}

/// Deletes a topic and makes another one of the same name that holds these records.
fn recreate(t: &Scenario, topic: &str, records: &[NewRecord]) {
    t.client().delete_topic(topic).expect("delete the topic");
    t.client().create_topic(topic, 1, &[]).expect("create it again");
    if !records.is_empty() {
        t.produce_to(topic, 0, records);
    }
}

/// Runs a pipeline over 100 records of one partition, and returns it when they are committed.
#[track_caller]
fn after_a_hundred(t: &Scenario) -> (Instance, String, String) {
    after_a_hundred_by(t, Some("a"))
}

#[track_caller]
fn after_a_hundred_by(t: &Scenario, name: Option<&str>) -> (Instance, String, String) {
    let (input, output) = (t.topic("in", 1), t.topic("out", 1));
    t.topic("dlq", 1);
    t.produce_to(&input, 0, &good(0..100));
    let instance = t.start_with(name, CLEAN_ORDERS, &[]);
    t.awaits_all_committed(&[&input], START);
    assert_eq!(t.read(&output).len(), 100);
    (instance, input, output)
}

// Goal: never a silent jump. Method: the new topic holds more records than were read of the old one, so that the old position
// is in range there; the client library alone goes on in the middle (decision 0011).
#[test]
fn an_input_recreated_with_more_records_stops_the_pipeline_before_any_of_them_is_processed() {
    let t = Scenario::shared("recreated");
    let (mut instance, input, output) = after_a_hundred(&t);
    recreate(&t, &input, &good(1_000..1_500));
    // It may be noticed before the new topic is filled: its end is not yet 500 then.
    stops_with(&mut instance, &[&input, "partition 0, position 100", "created again"]);
    assert_eq!(t.read(&output).len(), 100, "something of the new topic was processed");
    assert_eq!(committed_offset(&t, &input), None, "something was committed for the new topic");
}

// Goal: as above, by an instance that sees neither the deletion nor the time without the topic. Method: it is frozen meanwhile,
// for less than its session.
#[test]
fn an_instance_that_wakes_up_to_a_recreated_input_processes_nothing_of_it() {
    let t = Scenario::shared("recreated-frozen");
    let (mut instance, input, output) = after_a_hundred(&t);
    instance.freeze();
    recreate(&t, &input, &good(1_000..1_500));
    instance.thaw();
    stops_with(&mut instance, &[&input, "partition 0, position 100", "0 to 500", "created again"]);
    assert_eq!((t.read(&output).len(), committed_offset(&t, &input)), (100, None));
}

#[test]
fn an_input_recreated_with_fewer_records_is_named_as_recreated_and_not_as_out_of_range() {
    let t = Scenario::shared("recreated-short");
    let (mut instance, input, output) = after_a_hundred(&t);
    recreate(&t, &input, &good(1_000..1_010));
    stops_with(&mut instance, &[&input, "partition 0, position 100", "created again"]);
    assert_eq!((t.read(&output).len(), committed_offset(&t, &input)), (100, None));
}

// Goal: a restart after the stop, or a recreation while nothing ran, begins at the new topic's beginning. Method: the broker
// deletes a group's offsets with the topic; the output is recreated too, so that the oracle judges the new topic alone.
#[test]
fn a_pipeline_started_after_its_input_was_recreated_reads_the_new_topic_from_its_beginning() {
    let t = Scenario::shared("recreated-stopped");
    let (mut instance, input, output) = after_a_hundred(&t);
    instance.drains_within(SHORT);
    assert_eq!(committed_offset(&t, &input), Some(100));
    recreate(&t, &output, &[]);
    let mut orders = Orders::seeded(51);
    recreate(&t, &input, &orders.take(500));
    assert_eq!(committed_offset(&t, &input), None, "the offsets went with the topic");
    instance.restart();
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    let letters = t.full("dlq");
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (500, 0));
}

// Goal: an offset of the old topic that was committed when the new one was already there (a transaction in flight does that) is
// not taken for one of the new topic. Method: it is put back by hand, metadata and all.
#[test]
fn an_offset_that_counts_in_the_old_topic_stops_every_start_until_somebody_decides() {
    let t = Scenario::shared("recreated-offsets");
    // Without a name: it leaves its group, which is then empty, so that offsets can be put there from outside.
    let (mut instance, input, output) = after_a_hundred_by(&t, None);
    instance.drains_within(SHORT);
    let old = committed(&t, &input).expect("a committed offset");
    assert!(old.metadata.contains(" topic="), "{}", old.metadata);
    recreate(&t, &input, &good(1_000..1_500));
    t.client().commit_offsets(t.pipeline(), &[((input.clone(), 0), old.clone())].into()).expect("commit");
    for _ in 0..2 {
        instance.restart();
        stops_with(&mut instance, &[&input, "partition 0, position 100", "0 to 500", "created again"]);
        assert_eq!((t.read(&output).len(), committed(&t, &input)), (100, Some(old.clone())));
    }
    // What `kafka-consumer-groups --reset-offsets --to-offset 400` leaves: an offset without our metadata.
    let decided = CommittedOffset { offset: 400, metadata: String::new() };
    t.client().commit_offsets(t.pipeline(), &[((input.clone(), 0), decided)].into()).expect("commit");
    instance.restart();
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    assert_eq!(t.read(&output).len(), 200);
}

// Goal: an input that is gone is a state with words, not an exit and not silence; when a topic of that name comes, it is another one.
#[test]
fn a_deleted_input_is_waited_for_and_named_and_its_successor_stops_the_pipeline() {
    let t = Scenario::shared("deleted");
    let (mut instance, input, output) = after_a_hundred(&t);
    t.client().delete_topic(&input).expect("delete the topic");
    let status = instance.awaits("the topic to be missed", START, |status| status.reason.contains(&input));
    for words in ["does not exist", "create it again"] {
        assert!(status.reason.contains(words), "{status:?}");
    }
    assert_eq!(status.state, "waiting_for_topic", "{status:?}");
    let metrics = instance.metrics().expect("metrics");
    assert!(metrics.contains(r#"transom_worker_state{worker="0",state="waiting_for_topic"} 1"#), "{metrics}");
    assert_eq!(instance.exit_code(), None);
    assert_eq!(instance.log().matches("does not exist").count(), 1, "one line; {}", instance.log_tail());
    t.client().create_topic(&input, 1, &[]).expect("create it again");
    t.produce_to(&input, 0, &good(1_000..1_500));
    stops_with(&mut instance, &[&input, "created again"]);
    assert_eq!((t.read(&output).len(), committed_offset(&t, &input)), (100, None));
}

// Goal: EO-3 where records are gone that were never read: stop and say where, move nothing.
#[test]
fn records_deleted_beyond_our_position_while_stopped_end_every_start_with_65() {
    let t = Scenario::shared("deleted-records");
    let (mut instance, input, output) = after_a_hundred(&t);
    instance.drains_within(SHORT);
    t.produce_to(&input, 0, &good(100..200));
    t.client().delete_records(&input, 0, 150).expect("delete records");
    for _ in 0..2 {
        instance.restart();
        stops_with(&mut instance, &[&input, "partition 0", "position 100 is out of range", "150 to 200"]);
        assert_eq!((t.read(&output).len(), committed_offset(&t, &input)), (100, Some(100)));
    }
}

// Goal: the same while it runs and is behind. Method: a foreign transaction holds it at 100 until the records behind that are gone.
#[test]
fn records_deleted_beyond_our_position_while_running_stop_the_pipeline_with_65() {
    let t = Scenario::shared("deleted-behind");
    let (mut instance, input, output) = after_a_hundred(&t);
    let mut foreign = Transaction::begin(t.client(), &t.full("foreign"), 60_000).expect("begin");
    foreign.produce(&input, 0, &good(100..200)).expect("produce");
    t.client().delete_records(&input, 0, 150).expect("delete records");
    stops_with(&mut instance, &[&input, "partition 0", "position 100 is out of range", "150 to 200"]);
    assert_eq!((t.read(&output).len(), committed_offset(&t, &input)), (100, Some(100)));
    foreign.abort().expect("abort");
}

#[test]
fn records_deleted_below_our_position_change_nothing() {
    let t = Scenario::shared("deleted-below");
    let (mut instance, input, output) = after_a_hundred(&t);
    t.client().delete_records(&input, 0, 60).expect("delete records");
    t.produce_to(&input, 0, &good(100..150));
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    t.client().delete_records(&input, 0, 150).expect("delete records");
    t.produce_to(&input, 0, &good(150..200));
    instance.restart();
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    let ids = t.read(&output).into_iter().map(|record| {
        let value: serde_json::Value = serde_json::from_slice(&record.value.unwrap_or_default()).expect("JSON");
        value["order_id"].as_u64().expect("an id")
    });
    assert_eq!(ids.collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
}

// Goal: EO-3 for partitions that come while records do. Method: a producer writes all the time, by key and straight into
// the newest partition, which it finds before the pipeline can; the oracle judges everything, but for the order of a
// key across the growth, which moves keys to other partitions.
#[track_caller]
fn grows_under_load(name: &str, instance_names: &[Option<&str>], workers: i32, seed: u64) {
    let t = Scenario::shared(name);
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let refresh = r#"kafka: { topic.metadata.refresh.interval.ms: 2000, "#;
    let settings = format!("workers: {workers}\ncommit: {{ records_max: 200 }}\ninput:");
    let yaml = CLEAN_ORDERS.replace("kafka: { ", refresh).replace("input:", &settings);
    let mut instances: Vec<Instance> = instance_names.iter().map(|name| t.start_with(*name, &yaml, &[])).collect();
    let share = 2 / instances.len();
    for instance in &mut instances {
        instance.awaits_partitions(share, START);
    }
    let mut written = 0;
    let load = |is_over: &AtomicBool| {
        let mut orders = Orders::seeded(seed);
        while !is_over.load(Ordering::SeqCst) {
            t.produce(&input, orders.take(100));
            let newest = t.client().partition_count(&input).expect("count partitions") - 1;
            t.produce_to(&input, newest, &orders.take(20));
            written += 120;
        }
    };
    beside(load, || {
        for total in [4, 6] {
            t.client().create_partitions(&input, total).expect("add partitions");
            for instance in &mut instances {
                let own = usize::try_from(total / 2).expect("a small number") * share;
                instance.awaits(&format!("{own} claimed partitions"), START, |status| {
                    let claimed = status.workers.iter().flat_map(|worker| &worker.partitions).filter(|partition| partition.committed.is_some());
                    claimed.count() == own
                });
            }
        }
    });
    // The load has no limit but the broker's.
    t.awaits_all_committed(&[&input], Duration::from_secs(60));
    for instance in &mut instances {
        instance.drains_within(SHORT);
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs(), written);
    let beginning = |instance: &Instance, partition: i32| instance.log().contains(&format!("partition={partition} offset=0"));
    for partition in 2..6 {
        assert!(instances.iter().any(|instance| beginning(instance, partition)), "partition {partition} was not begun at its beginning");
    }
}

#[test]
fn partitions_added_under_load_to_static_members_are_read_from_their_beginning() {
    grows_under_load("growth-static", &[Some("a"), Some("b")], 1, 52);
}

#[test]
fn partitions_added_under_load_to_dynamic_members_are_read_from_their_beginning() {
    grows_under_load("growth-dynamic", &[None], 2, 53);
}
