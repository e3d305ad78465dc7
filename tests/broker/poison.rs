//! Outputs that the broker refuses: the culprit is found and set aside, everything else is exact, nothing waits for long.

use std::time::Duration;

use transom_harness::oracle::{Expected, Output};
use transom_harness::scenario::{Random, Scenario};
use transom_harness::wire::{NewRecord, ReadRecord};
use transom_tests::orders::{Orders, cleaned, order};

use crate::{CLEAN_ORDERS, SHORT, START};

/// What the issue asks for: the partition moves on within this time.
const MOVES_ON: Duration = Duration::from_secs(10);
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
    t.produce_to(&input, 0, &[large_order(1, 1)]);
    t.produce(&input, orders.take(2_500));
    t.produce_to(&input, 1, &[large_order(2, 2), large_order(3, 3)]);
    t.produce(&input, orders.take(2_500));
    t.produce_to(&input, 2, &[large_order(4, 4)]);

    let mut instance = t.start("a", &CLEAN_ORDERS.replace("input:", "workers: 2\ninput:"));
    instance.awaits("partitions", START, |status| status.partitions() == 4);
    t.awaits_all_committed(&[&input], MOVES_ON);
    let metrics = instance.metrics().expect("metrics");
    let status = instance.awaits("all records counted", SHORT, |status| status.records() == 5_004);
    assert_eq!((status.unaccounted_records, status.state.as_str()), (0, "running"));
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
