//! Data that stops a pipeline: the exit code, the words, and that nothing moved.

use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::{NewRecord, OffsetsAsked};
use transom_tests::orders::{cleaned, order};

use crate::{CLEAN_ORDERS, SHORT, START};

fn good(id: u64) -> NewRecord {
    NewRecord::new("C-1", order(&id.to_string(), "C-1", "1.00"))
}

pub(crate) fn committed_offset(t: &Scenario, input: &str) -> Option<i64> {
    let offsets = t.client().committed_offsets(t.pipeline(), OffsetsAsked::Stable).expect("read committed offsets");
    offsets.get(&(input.to_owned(), 0)).map(|committed| committed.offset)
}

// Goal: EO-3 without a dead-letter topic: stop at the bad record, behind everything before it, and say which it is.
#[test]
fn without_dead_letters_the_first_bad_record_stops_the_pipeline_with_65_and_keeps_its_offset() {
    let t = Scenario::shared("bad-record");
    let (input, output) = (t.topic("in", 1), t.topic("out", 1));
    let mut records: Vec<NewRecord> = (0..50).map(good).collect();
    records.push(NewRecord::new("C-1", order("50", "C-1", "N/A")));
    records.extend((51..100).map(good));
    t.produce(&input, records);

    let mut instance = t.start("a", &CLEAN_ORDERS.replace("dead_letters: { topic: @dlq }", ""));
    assert_eq!(instance.exits_within(START), 65, "{}", instance.log_tail());
    let log = instance.log();
    for words in [input.as_str(), "partition 0", "offset 50", r#"amount "N/A" is not like"#, "dead_letters"] {
        assert!(log.contains(words), "{words:?} is missing; {}", instance.log_tail());
    }
    assert_eq!(committed_offset(&t, &input), Some(50));
    let written = t.read(&output);
    assert_eq!(written.len(), 50);

    // Again, and it stops at the same place, twice nothing.
    instance.restart();
    assert_eq!(instance.exits_within(START), 65, "{}", instance.log_tail());
    assert_eq!((committed_offset(&t, &input), t.read(&output)), (Some(50), written));

    // With dead letters it goes on where it stood.
    let letters = t.topic("dlq", 1);
    let mut instance = t.start("a", CLEAN_ORDERS);
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
}

// Goal: without dead letters the pipeline stops in front of the record that the output topic refuses, and names it. Method: 2 MB
// fit the input, not the output; the record stands among others of its batch.
#[test]
fn without_dead_letters_a_record_too_large_for_the_output_stops_the_pipeline_with_65_and_is_named() {
    let t = Scenario::shared("too-large");
    let input = t.topic_with("in", 1, &[("max.message.bytes", "5000000")]);
    let output = t.topic("out", 1);
    t.produce(&input, (0..20).map(good).collect());
    // Letters without a pattern: the limit is one of compressed bytes.
    let mut random = Random::seeded(1);
    let mut letter = || b'a' + u8::try_from(random.below(26)).expect("below 26");
    let customer = String::from_utf8((0..2_000_000).map(|_| letter()).collect()).expect("letters");
    t.produce(&input, vec![NewRecord::new("C-1", order("20", &customer, "1.00"))]);
    t.produce(&input, (21..30).map(good).collect());

    let yaml = CLEAN_ORDERS.replace("dead_letters: { topic: @dlq }", "");
    let mut instance = t.start("a", &yaml);
    assert_eq!(instance.exits_within(START), 65, "{}", instance.log_tail());
    let log = instance.log();
    for words in [output.as_str(), input.as_str(), "partition 0", "offset 20", "max.message.bytes", "MSG_SIZE_TOO_LARGE"] {
        assert!(log.contains(words), "{words:?} is missing; {}", instance.log_tail());
    }
    assert!(log.len() < 100_000, "a log of {} bytes holds the record itself", log.len());
    assert_eq!(committed_offset(&t, &input), Some(20), "everything before it is committed");
    assert_eq!(t.read(&output).len(), 20);

    // The hint helps.
    t.client().set_topic_config(&output, "max.message.bytes", "5000000").expect("raise the limit");
    let mut instance = t.start("a", &yaml);
    t.awaits_all_committed(&[&input], START);
    instance.drains_within(SHORT);
    t.expect_exactly_once(&[&input], &[&output], &[], |_, record| cleaned(&output, record));
}
