//! Outputs that the broker refuses: the culprit is found and set aside, everything else is exact, nothing waits for long.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use transom_harness::oracle::{Anomaly, Expected};
use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::{NewRecord, ReadRecord};
use transom_tests::orders::{Orders, cleaned, order};

use crate::stops::committed_offset;
use crate::{CLEAN_ORDERS, SHORT, START};

/// A partition moves on within 10 s; these tests have several culprits and share their machine.
const MOVES_ON: Duration = Duration::from_secs(30);
/// More than the limit below, of random letters: limits count compressed bytes.
const LARGE: u64 = 300_000;
/// Far above an ordinary batch, far below [`LARGE`].
const SMALL_LIMIT: (&str, &str) = ("max.message.bytes", "200000");

fn letters(random: &mut Random, count: u64) -> String {
    let letters = (0..count).map(|_| b'a' + u8::try_from(random.below(26)).expect("below 26")).collect();
    String::from_utf8(letters).expect("letters")
}

/// An order that is fine for the transform and too large for the output.
fn large_order(seed: u64, id: u64) -> NewRecord {
    NewRecord::new("C-1", order(&id.to_string(), &letters(&mut Random::seeded(seed), LARGE), "1.00"))
}

fn is_large(record: &ReadRecord) -> bool {
    record.value.as_ref().is_some_and(|value| value.len() as u64 > LARGE)
}

fn set_aside_if(is_culprit: bool, output: &str, record: &ReadRecord) -> Expected {
    if is_culprit { Expected::DeadLetter } else { cleaned(output, record) }
}

fn header(record: &ReadRecord, name: &str) -> Option<String> {
    record.last_header(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn refused_by_reason(metrics: &str, reason: &str) -> u64 {
    let name = format!("transom_outputs_refused_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{name} is missing in:\n{metrics}"));
    line.parse().expect("a number")
}

// Goal: one culprit among thousands is found, wherever it stands, and two in one batch as well. Method: the output topic takes
// less than the client would send, so that whole requests fail; culprits first, last, in the middle and side by side.
#[test]
fn outputs_too_large_among_five_thousand_are_set_aside_and_everything_else_is_exact() {
    let t = Scenario::shared("poison-large");
    let input = t.topic("in", 4);
    let (output, dead) = (t.topic_with("out", 4, &[SMALL_LIMIT]), t.topic("dlq", 2));
    let mut orders = Orders::seeded(41);
    // Records come once both workers have theirs: a culprit that was found may have to be found again after a rebalance.
    let mut instance = t.start("a", &CLEAN_ORDERS.replace("input:", "workers: 2\ninput:"));
    instance.awaits("two partitions each", START, |status| status.workers.iter().filter(|worker| worker.partitions.len() == 2).count() == 2);
    let begun = Instant::now();
    t.produce_to(&input, 0, &[large_order(1, 1)]);
    t.produce(&input, orders.take(2_500));
    t.produce_to(&input, 1, &[large_order(2, 2), large_order(3, 3)]);
    t.produce(&input, orders.take(2_500));
    t.produce_to(&input, 2, &[large_order(4, 4)]);
    t.awaits_all_committed(&[&input], MOVES_ON);
    println!("four culprits among 5,004 records: all committed {} ms after the first was sent", begun.elapsed().as_millis());
    let status = instance.awaits("all records counted", SHORT, |status| status.records() == 5_004 && status.state == "running");
    assert_eq!(status.unaccounted_records, 0);
    let metrics = instance.metrics().expect("metrics");
    instance.drains_within(SHORT);

    let report = t.expect_exactly_once(&[&input], &[&output], &[&dead], |_, record| set_aside_if(is_large(record), &output, record));
    assert_eq!(report.inputs(), 5_004);
    let refused: Vec<ReadRecord> = t.read(&dead).into_iter().filter(is_large).collect();
    assert_eq!(refused.len(), 4);
    for letter in &refused {
        assert_eq!(header(letter, "__transom.dlq.code").as_deref(), Some("output_refused"));
        assert_eq!(header(letter, "__transom.dlq.class").as_deref(), Some("permanent"));
        let message = header(letter, "__streams.errors.message").unwrap_or_default();
        assert!(message.contains(&output) && message.contains("MSG_SIZE_TOO_LARGE"), "{message}");
    }
    assert_eq!(refused_by_reason(&metrics, "too_large"), 4);
    assert_eq!(instance.log().matches("an output of this record is refused").count(), 4, "one line each; {}", instance.log_tail());
}

// Goal: a topic's limit is one of batches; small records must not be refused for being many. Method: 600 records of 2 KB that no
// compression makes smaller, for a topic that takes 20 KB.
#[test]
fn a_topic_that_takes_small_batches_gets_small_ones() {
    let t = Scenario::shared("poison-batches");
    let input = t.topic("in", 1);
    let (output, dead) = (t.topic_with("out", 1, &[("max.message.bytes", "20000")]), t.topic("dlq", 1));
    let mut random = Random::seeded(8);
    t.produce(&input, (1..=600).map(|id: u64| NewRecord::new("C-1", order(&id.to_string(), &letters(&mut random, 2_000), "1.00"))).collect());
    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(1, START);
    t.awaits_all_committed(&[&input], SHORT);
    let log = instance.log();
    instance.drains_within(SHORT);
    assert!(!log.contains("the broker refuses an output"), "{}", instance.log_tail());
    t.expect_exactly_once(&[&input], &[&output], &[&dead], |_, record| cleaned(&output, record));
}

// Goal: a timestamp beyond the broker's limit. Method: the input topic takes it, output and dead-letter topic by default do not.
#[test]
fn timestamps_beyond_the_brokers_limit_are_set_aside_under_todays_with_their_own_in_a_header() {
    let t = Scenario::shared("poison-time");
    let input = t.topic_with("in", 2, &[("message.timestamp.after.max.ms", "9223372036854775807")]);
    let (output, dead) = (t.topic("out", 2), t.topic("dlq", 2));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    let ahead = i64::try_from(now.as_millis()).expect("before the year 292 million") + 3 * 3_600_000;
    let late = |id: u64| NewRecord::new("C-1", order(&id.to_string(), "C-1", "1.00")).at_ms(ahead);
    let mut orders = Orders::seeded(42);
    t.produce_to(&input, 0, &orders.take(1_000));
    t.produce_to(&input, 0, &[late(1_000_001)]);
    t.produce_to(&input, 0, &orders.take(500));
    t.produce_to(&input, 1, &[late(1_000_002), late(1_000_003)]);

    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(2, START);
    t.awaits_all_committed(&[&input], MOVES_ON);
    let metrics = instance.metrics().expect("metrics");
    instance.drains_within(SHORT);
    let is_late = |record: &ReadRecord| record.timestamp_ms == ahead;
    t.expect_exactly_once(&[&input], &[&output], &[&dead], |_, record| set_aside_if(is_late(record), &output, record));
    let named = |letter: &ReadRecord| header(letter, "__transom.dlq.timestamp").is_some_and(|text| text == ahead.to_string());
    let refused: Vec<ReadRecord> = t.read(&dead).into_iter().filter(named).collect();
    // Named by itself or with others of its request: the client tells the two apart.
    let counted = refused_by_reason(&metrics, "timestamp") + refused_by_reason(&metrics, "invalid");
    assert_eq!((refused.len(), counted), (3, 3), "{metrics}");
    assert!(refused.iter().all(|letter| letter.timestamp_ms < ahead && header(letter, "__transom.dlq.code").as_deref() == Some("output_refused")));
}

// Goal: a dead letter that does not fit its topic is a stub that names its record. Method: one record that the output refuses,
// one that the transform refuses; the dead-letter topic takes neither whole.
#[test]
fn a_dead_letter_too_large_for_its_topic_is_a_stub_with_origin_and_hash() {
    let t = Scenario::shared("poison-stub");
    let input = t.topic("in", 2);
    let (output, dead) = (t.topic_with("out", 2, &[SMALL_LIMIT]), t.topic_with("dlq", 2, &[SMALL_LIMIT]));
    let mut orders = Orders::seeded(43);
    t.produce_to(&input, 0, &orders.take(600));
    let bad = order("7", &letters(&mut Random::seeded(5), LARGE), "N/A");
    t.produce_to(&input, 0, &[large_order(6, 1_000_001).with_header("a", "1"), NewRecord::new("C-2", bad)]);
    t.produce_to(&input, 0, &orders.take(600));
    t.produce_to(&input, 1, &orders.take(600));

    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(2, START);
    t.awaits_all_committed(&[&input], MOVES_ON);
    instance.drains_within(SHORT);
    let (stubs, whole): (Vec<_>, Vec<_>) = t.read(&dead).into_iter().partition(|letter| header(letter, "__transom.dlq.stub").is_some());
    let sources: Vec<ReadRecord> = t.read(&input).into_iter().filter(is_large).collect();
    assert_eq!((stubs.len(), sources.len(), whole.len()), (2, 2, 1_800 / 50));
    for (source, code) in sources.iter().zip(["output_refused", "amount"]) {
        let offset = source.offset.to_string();
        let stub = stubs.iter().find(|stub| header(stub, "__streams.errors.offset").as_ref() == Some(&offset)).expect("its stub");
        let value = source.value.as_deref().unwrap_or_default();
        for (name, wanted) in [
            ("__streams.errors.topic", input.clone()),
            ("__streams.errors.partition", "0".to_owned()),
            ("__transom.dlq.code", code.to_owned()),
            ("__transom.dlq.value_bytes", value.len().to_string()),
            ("__transom.dlq.value_sha256", sha256(value)),
            ("__transom.dlq.headers", source.headers.len().to_string()),
        ] {
            assert_eq!(header(stub, name), Some(wanted), "{name}");
        }
        assert_eq!((stub.value.as_deref(), &stub.key), (None, &source.key));
    }
    // The stubs lack their values on purpose; everything else is judged as ever.
    let report = t.audit(t.pipeline(), &[&input], &[&output], &[&dead], |_, record| set_aside_if(is_large(record), &output, record));
    assert_eq!((report.anomalies(), report.count(Anomaly::WrongBytes)), (vec![Anomaly::WrongBytes], 2), "{report}");
}

// Goal: the culprit is found among thousands without dead letters, too, and everything before it is committed.
#[test]
fn without_dead_letters_the_right_one_of_thousands_stops_the_pipeline_with_65() {
    let t = Scenario::shared("poison-stop");
    let (input, output) = (t.topic("in", 1), t.topic_with("out", 1, &[SMALL_LIMIT]));
    let good = |id: u64| NewRecord::new(format!("C-{}", id % 50), order(&id.to_string(), "C-1", "1.00"));
    t.produce(&input, (0..3_000).map(good).collect());
    t.produce(&input, vec![large_order(7, 3_000)]);
    t.produce(&input, (3_001..4_000).map(good).collect());
    let mut instance = t.start("a", &CLEAN_ORDERS.replace("dead_letters: { topic: @dlq }", ""));
    assert_eq!(instance.exits_within(START), 65, "{}", instance.log_tail());
    let log = instance.log();
    let last = log.lines().rfind(|line| line.starts_with("error:")).unwrap_or_default();
    assert!(last.contains("offset 3000") && last.contains(&input) && last.contains(&output), "{last}");
    let written = t.read(&output);
    assert_eq!((written.len(), committed_offset(&t, &input)), (3_000, Some(3_000)));
}

// Goal: a topic that is deleted is nobody's fault: nothing is set aside, nothing lost, nothing doubled. Method: the output topic
// goes away in mid-run and comes back; what the old one held is read before.
#[test]
fn an_output_topic_deleted_in_mid_run_is_waited_for_by_name_and_then_everything_goes_on() {
    let t = Scenario::shared("poison-gone");
    let (input, output, dead) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let mut orders = Orders::seeded(44);
    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(2, START);
    t.produce(&input, orders.take(1_000));
    t.awaits_all_committed(&[&input], SHORT);
    assert_eq!(t.read(&output).len(), 980);

    t.client().delete_topic(&output).expect("delete the topic");
    t.produce(&input, orders.take(1_000));
    let status = instance.awaits("the topic's name in the reason", START, |status| status.reason.contains(&output));
    assert!(status.reason.contains("topics create"), "the next step is named: {}", status.reason);
    assert_eq!(t.read(&dead).len(), 20, "nothing is set aside because of a topic");

    t.topic("out", 2);
    t.produce(&input, orders.take(1_000));
    t.awaits_all_committed(&[&input], Duration::from_secs(40));
    let status = instance.awaits("all records counted", SHORT, |status| status.records() == 3_000);
    assert_eq!(status.unaccounted_records, 0);
    instance.drains_within(SHORT);
    // The first thousand went with the old topic; the other two are there once, each in its order.
    let ids: Vec<u64> = t.read(&output).iter().map(id_of).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    let wanted: Vec<u64> = (1_001..=3_000).filter(|id| id % 50 != 0).collect();
    assert!(sorted == wanted, "{} outputs of {}", sorted.len(), wanted.len());
    assert_eq!(t.read(&dead).len(), 60);
}

fn id_of(record: &ReadRecord) -> u64 {
    let value: serde_json::Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default()).expect("outputs are JSON");
    value["order_id"].as_u64().expect("an id is a number")
}

/// As `sha256sum` says it: no code in common with the product's.
fn sha256(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("make a file");
    std::fs::write(file.path(), bytes).expect("write the file");
    let ended = std::process::Command::new("sha256sum").arg(file.path()).output().expect("run sha256sum");
    String::from_utf8_lossy(&ended.stdout).split(' ').next().unwrap_or_default().to_owned()
}
