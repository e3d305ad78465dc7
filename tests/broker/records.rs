//! What becomes of one record: its bytes, headers, timestamp and place, as an output and as a dead letter.

use std::time::{SystemTime, UNIX_EPOCH};

use transom_harness::oracle::{Expected, Output};
use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::{NewRecord, ReadRecord, partition_for_key};
use transom_tests::orders::{Orders, cleaned, order};

use crate::{CLEAN_ORDERS, SHORT, START};

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

/// Runs the pipeline over what lies in `in` and ends it.
fn run_through(t: &Scenario, yaml: &str, group: &str, partitions: usize) {
    let mut instance = t.start("a", yaml);
    instance.awaits_partitions(partitions, START);
    t.awaits_all_committed_by(group, &[&t.full("in")], SHORT);
    instance.drains_within(SHORT);
}

#[test]
fn headers_and_timestamps_pass_through_and_keys_choose_javas_partition() {
    let t = Scenario::shared("pass");
    let (input, output, letters) = (t.topic("in", 4), t.topic("out", 7), t.topic("dlq", 1));
    let orders = Orders::seeded(3).take(2_000);
    let minute = |number: usize| i64::try_from(number).expect("a small number") * 60_000;
    let marked = |(number, record): (usize, NewRecord)| {
        let record = record.at_ms(now_ms() - minute(number));
        match number % 3 {
            0 => record,
            1 => record.with_header("trace", number.to_string()),
            _ => record.with_header("a", "1").with_null_header("a").with_header("a", "").with_header("ü", [0xff, 0x00]),
        }
    };
    t.produce(&input, orders.into_iter().enumerate().map(marked).collect());
    run_through(&t, CLEAN_ORDERS, t.pipeline(), 4);

    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (2_000, 0));
    for record in t.read(&output) {
        let key = record.key.expect("orders here have keys");
        assert_eq!(record.partition, partition_for_key(&key, 7), "{}", key.escape_ascii());
    }
}

// Goal: no header is overlooked or made up, whatever stands before it. Method: every kind of key before values on both sides of each
// length at which the record format's length of a value grows by a byte, with headers and without, as dead letters.
#[test]
fn headers_are_seen_behind_keys_and_values_of_any_length() {
    let t = Scenario::shared("behind");
    let (input, output, letters) = (t.topic("in", 1), t.topic("out", 1), t.topic("dlq", 1));
    let keys = [None, Some(Vec::new()), Some(b"k".to_vec()), Some(vec![0x80; 300])];
    let lengths = [None, Some(0), Some(1), Some(63), Some(64), Some(8_191), Some(8_192), Some(300_000)];
    let sent: Vec<NewRecord> = keys
        .iter()
        .flat_map(|key| lengths.iter().map(move |length| (key.clone(), *length)))
        .flat_map(|(key, length)| {
            // Zeros: what looks like "no headers" wherever one looks by mistake.
            let bare = NewRecord { key, value: length.map(|length| vec![0; length]), ..NewRecord::keyless("") };
            [bare.clone().with_header("trace", "1"), bare.clone(), bare.with_null_header("").with_header("a", [0])]
        })
        .collect();
    t.produce_to(&input, 0, &sent);
    run_through(&t, CLEAN_ORDERS, t.pipeline(), 1);

    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    let read = t.read(&letters);
    assert_eq!((report.dead_letters(), read.len()), (96, 96));
    for (letter, sent) in read.iter().zip(&sent) {
        assert_eq!((&letter.key, &letter.value), (&sent.key, &sent.value));
        assert_eq!(letter.headers[..sent.headers.len()], sent.headers);
        assert_eq!(letter.headers[sent.headers.len()].0, "__streams.errors.exception");
    }
}

#[test]
fn a_dead_letter_is_the_record_byte_for_byte_and_says_why_and_from_where() {
    let t = Scenario::shared("letter");
    let (input, output, letters) = (t.topic("in", 4), t.topic("out", 1), t.topic("dlq", 3));
    let before = now_ms();
    let bad = order("7", "C-1", "N/A");
    let record = NewRecord::keyless(bad.clone()).with_header("a", "1").with_null_header("a").with_header("b", "").with_header("a", "1");
    t.produce_to(&input, 3, &[NewRecord::new("C-1", order("6", "C-1", "1.00")), record.at_ms(before - 5_000)]);
    run_through(&t, CLEAN_ORDERS, t.pipeline(), 4);

    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.outputs(), report.dead_letters()), (1, 1));
    let [letter] = &t.read(&letters)[..] else { panic!("one dead letter") };
    assert_eq!((letter.partition, letter.timestamp_ms), (0, before - 5_000), "source partition 3 modulo 3, the source's timestamp");
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (None, Some(bad.as_bytes())));
    let text = |name: &str, value: Option<&str>| (name.to_owned(), value.map(|value| value.as_bytes().to_vec()));
    let source = [text("a", Some("1")), text("a", None), text("b", Some("")), text("a", Some("1"))];
    assert_eq!(letter.headers[..4], source);
    let expected = [
        ("__streams.errors.exception", "transom_processors::clean_orders::Rejection"),
        ("__streams.errors.message", r#"amount "N/A" is not like 12, 12.3 or 12.34"#),
        ("__streams.errors.topic", input.as_str()),
        ("__streams.errors.partition", "3"),
        ("__streams.errors.offset", "1"),
        ("__transom.dlq.pipeline", t.pipeline()),
        ("__transom.dlq.step", "clean"),
        ("__transom.dlq.code", "amount"),
        ("__transom.dlq.class", "permanent"),
        ("__transom.dlq.attempts", "1"),
        ("__transom.dlq.replay_count", "0"),
    ];
    let value = |name: &str| String::from_utf8_lossy(letter.last_header(name).unwrap_or_else(|| panic!("no header {name}"))).into_owned();
    for (name, wanted) in expected {
        assert_eq!(value(name), wanted, "{name}");
    }
    assert_eq!(value("__transom.dlq.fingerprint").len(), 16);
    let failed_at: i64 = value("__transom.dlq.failed_at").parse().expect("milliseconds");
    assert!((before..=now_ms()).contains(&failed_at), "{failed_at}");
    // Fingerprint and failed_at beside the eleven, and nothing unannounced.
    assert_eq!(letter.headers.len(), 4 + expected.len() + 2, "{:?}", letter.headers);
}

// Goal: no bytes whatever harm the pipeline. Method: a thousand random keys and values, half of them after a good beginning.
#[test]
fn random_bytes_become_dead_letters() {
    let mut random = Random::from_environment();
    let t = Scenario::shared("garbage");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let mut bytes = |length_max: u64| (0..=random.below(length_max)).map(|_| random.number().to_le_bytes()[0]).collect::<Vec<u8>>();
    let garbage = |number: usize| {
        let start = if number.is_multiple_of(2) { &b"{\"order_id\":1,"[..] } else { &[] };
        NewRecord::new(bytes(30), [start, &bytes(400)].concat())
    };
    t.produce(&input, (0..1_000).map(garbage).collect());
    t.produce(&input, vec![NewRecord::new("C-1", order("1", "C-1", "1.00"))]);
    run_through(&t, CLEAN_ORDERS, t.pipeline(), 2);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.outputs(), report.dead_letters()), (1, 1_000));
}

#[test]
fn a_tombstone_is_set_aside_or_forwarded_or_counted_as_the_pipeline_chose() {
    let t = Scenario::shared("tombstones");
    let input = t.topic("in", 2);
    let mut records = Orders::seeded(5).take(40);
    records.extend((0..10).map(|number| NewRecord::tombstone(format!("C-{number}")).with_header("why", "gone")));
    t.produce(&input, records);
    for policy in ["dead_letter", "forward", "filter"] {
        let (output, letters) = (t.topic(&format!("{policy}_out"), 2), t.topic(&format!("{policy}_dlq"), 2));
        let yaml = r#"
pipeline: @POLICY
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders, tombstones: POLICY }]
output: { topic: @POLICY_out }
dead_letters: { topic: @POLICY_dlq }
"#;
        let group = t.full(policy);
        run_through(&t, &yaml.replace("POLICY", policy), &group, 2);
        let fate = |record: &ReadRecord| match (record.value.is_some(), policy) {
            (true, _) => cleaned(&output, record),
            (false, "dead_letter") => Expected::DeadLetter,
            (false, "forward") => Expected::Outputs(vec![Output::copy(&output, record)]),
            (false, _) => Expected::Filtered,
        };
        t.expect_exactly_once_by(&group, &[&input], &[&output], &[&letters], |_, record| fate(record));
    }
}
