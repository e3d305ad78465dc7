//! Each anomaly, planted in a small case, must be named; a clean run must stay clean.

use std::collections::BTreeMap;

use super::{Anomaly, Books, Expected, Output, Report};
use crate::wire::{CommittedOffset, ReadRecord};

fn record(partition: i32, offset: i64, key: &str, value: &str) -> ReadRecord {
    ReadRecord {
        partition,
        offset,
        timestamp_ms: 1000 + offset,
        key: Some(key.into()),
        value: Some(value.into()),
        headers: vec![("h".into(), Some(b"1".to_vec())), ("h".into(), None)],
        producer_id: 1,
        producer_epoch: 0,
    }
}

fn by(producer_id: i64, record: ReadRecord) -> ReadRecord {
    ReadRecord { producer_id, ..record }
}

/// A dead letter as the product writes it.
fn dead_letter(offset: i64, source: &ReadRecord) -> ReadRecord {
    let mut headers = source.headers.clone();
    headers.push(("__streams.errors.topic".into(), Some(b"in".to_vec())));
    headers.push(("__streams.errors.partition".into(), Some(source.partition.to_string().into_bytes())));
    headers.push(("__streams.errors.offset".into(), Some(source.offset.to_string().into_bytes())));
    headers.push(("__transom.dlq.code".into(), None));
    ReadRecord { offset, headers, ..source.clone() }
}

/// Values that begin with `bad` are dead letters, `skip` is filtered, `fan` makes three, anything else is copied.
fn expected(_: &str, input: &ReadRecord) -> Expected {
    let value = String::from_utf8(input.value.clone().unwrap()).unwrap();
    if value.starts_with("bad") {
        Expected::DeadLetter
    } else if value.starts_with("skip") {
        Expected::Filtered
    } else if value.starts_with("fan") {
        let part = |n| Output::new("out", input.key.clone(), Some(format!("{value}.{n}").into_bytes()));
        Expected::Outputs((0..3).map(part).collect())
    } else {
        Expected::Outputs(vec![Output::copy("out", input)])
    }
}

fn inputs() -> Vec<ReadRecord> {
    vec![record(0, 0, "k", "a"), record(0, 1, "k", "b"), record(0, 2, "l", "c"), record(0, 3, "k", "d")]
}

/// Copies of inputs at new offsets, in the order given.
fn outputs_of(sources: &[ReadRecord]) -> Vec<ReadRecord> {
    (10..).zip(sources).map(|(offset, source)| ReadRecord { offset, ..source.clone() }).collect()
}

fn audit(inputs: Vec<ReadRecord>, outputs: Vec<ReadRecord>, dead_letters: Vec<ReadRecord>) -> Report {
    Books::new().input("in", inputs).output("out", outputs).dead_letters("dlq", dead_letters).audit(expected)
}

fn offsets(offset: i64) -> BTreeMap<(String, i32), CommittedOffset> {
    BTreeMap::from([(("in".to_owned(), 0), CommittedOffset { offset, metadata: String::new() })])
}

#[test]
fn a_clean_run_is_exact() {
    let inputs = vec![record(0, 0, "k", "a"), record(0, 1, "k", "skip"), record(0, 2, "k", "bad"), record(0, 3, "k", "fan"), record(1, 0, "k", "a")];
    let fan = |n: i64| ReadRecord { value: Some(format!("fan.{n}").into_bytes()), ..record(0, 12 + n, "k", "") };
    let mut outputs = outputs_of(&[inputs[0].clone(), inputs[4].clone()]);
    outputs.extend([fan(0), fan(1), fan(2)]);
    let letters = vec![dead_letter(0, &inputs[2])];
    let report = Books::new().input("in", inputs).output("out", outputs).dead_letters("dlq", letters).audit(expected);
    // The fifth input lies in another partition and equals the first: which output is whose, and their order, stays open.
    assert!(report.is_exact(), "{report}");
    assert_eq!(report.order_unchecked(), 2);
    assert_eq!((report.inputs(), report.outputs(), report.dead_letters()), (5, 5, 1));
}

#[test]
fn an_input_without_output_is_lost() {
    let inputs = inputs();
    let report = audit(inputs.clone(), outputs_of(&inputs[..3]), vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Lost]);
    assert_eq!(report.examples(Anomaly::Lost)[0].place.to_string(), "in:0@3");
    assert!(report.to_string().contains("lost: in:0@3"), "{report}");
    assert!(report.expect_exact().is_err());
}

#[test]
fn a_bad_input_without_dead_letter_is_lost() {
    let report = audit(vec![record(0, 0, "k", "bad")], vec![], vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Lost]);
}

#[test]
fn a_lost_input_below_the_committed_offset_is_skipped() {
    let inputs = inputs();
    let books = || Books::new().input("in", inputs.clone()).output("out", outputs_of(&inputs[..3]));
    let passed = books().committed(&offsets(4)).audit(expected);
    assert_eq!(passed.anomalies(), [Anomaly::Lost, Anomaly::Skipped]);
    let ahead = books().committed(&offsets(3)).audit(expected);
    assert_eq!(ahead.anomalies(), [Anomaly::Lost]);
}

#[test]
fn a_part_of_a_fan_out_is_torn() {
    let part = |n: i64| ReadRecord { value: Some(format!("fan.{n}").into_bytes()), ..record(0, 10 + n, "k", "") };
    let report = audit(vec![record(0, 0, "k", "fan")], vec![part(0), part(2)], vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Torn]);
    assert_eq!(report.count(Anomaly::Torn), 1);
}

#[test]
fn outputs_without_their_committed_offset_are_torn() {
    let inputs = inputs();
    let report = Books::new().input("in", inputs.clone()).output("out", outputs_of(&inputs)).committed(&offsets(2)).audit(expected);
    assert_eq!(report.anomalies(), [Anomaly::Torn]);
    assert_eq!(report.count(Anomaly::Torn), 2);
}

#[test]
fn a_second_output_is_a_duplicate() {
    let inputs = inputs();
    let mut sources = inputs.clone();
    sources.push(inputs[1].clone());
    let report = audit(inputs, outputs_of(&sources), vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Duplicate]);
    assert_eq!(report.examples(Anomaly::Duplicate)[0].place.to_string(), "out:0@14");
}

#[test]
fn a_second_dead_letter_is_a_duplicate() {
    let input = record(0, 0, "k", "bad");
    let letters = vec![dead_letter(0, &input), dead_letter(1, &input)];
    let report = audit(vec![input], vec![], letters);
    assert_eq!(report.anomalies(), [Anomaly::Duplicate]);
}

/// Goal: A writes, B takes over and goes on, A comes back and writes what B wrote: a zombie. Had B replayed A: not.
#[test]
fn a_copy_by_a_former_owner_is_a_zombie_write_and_a_replay_is_not() {
    let inputs = inputs();
    let [a, b, c, d] = inputs.clone().try_into().unwrap();
    let zombie = [by(1, a.clone()), by(2, b.clone()), by(2, c.clone()), by(1, b.clone()), by(2, d.clone())];
    let report = audit(inputs.clone(), outputs_of(&zombie), vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Duplicate, Anomaly::ZombieWrite]);
    assert_eq!(report.examples(Anomaly::ZombieWrite)[0].place.to_string(), "out:0@13");
    let replay = [by(1, a), by(1, b.clone()), by(2, b), by(2, c), by(2, d)];
    assert_eq!(audit(inputs, outputs_of(&replay), vec![]).anomalies(), [Anomaly::Duplicate]);
}

#[test]
fn outputs_of_one_key_in_another_order_are_reordered() {
    let [a, b, c, d] = inputs().try_into().unwrap();
    let report = audit(inputs(), outputs_of(&[b.clone(), a.clone(), c.clone(), d.clone()]), vec![]);
    assert_eq!(report.anomalies(), [Anomaly::Reordered]);
    // Another key may overtake.
    assert!(audit(inputs(), outputs_of(&[c, a, b, d]), vec![]).is_exact());
}

#[test]
fn equal_records_of_one_partition_keep_their_order() {
    let inputs = vec![record(0, 0, "k", "a"), record(0, 1, "k", "b"), record(0, 2, "k", "a")];
    let at = |offset, source: &ReadRecord| ReadRecord { offset, ..source.clone() };
    let same = vec![at(10, &inputs[0]), at(11, &inputs[1]), at(12, &inputs[2])];
    let report = audit(inputs.clone(), same, vec![]);
    assert!(report.is_exact() && report.order_unchecked() == 0, "{report}");
    let plain = |_: &str, input: &ReadRecord| Expected::Outputs(vec![Output::new("out", input.key.clone(), input.value.clone())]);
    let swapped = vec![at(10, &inputs[0]), at(11, &inputs[2]), at(12, &inputs[1])];
    let report = Books::new().input("in", inputs).output("out", swapped).audit(plain);
    assert_eq!(report.anomalies(), [Anomaly::Reordered]);
}

#[test]
fn an_output_of_an_aborted_input_is_an_aborted_read() {
    let aborted = record(0, 4, "k", "never");
    let mut all = inputs();
    all.push(aborted.clone());
    let bad = record(0, 5, "k", "bad");
    all.push(bad.clone());
    let report = Books::new()
        .input("in", inputs())
        .input_uncommitted("in", all.clone())
        .output("out", outputs_of(&all[..5]))
        .dead_letters("dlq", vec![dead_letter(0, &bad)])
        .audit(expected);
    assert_eq!(report.anomalies(), [Anomaly::AbortedRead]);
    assert_eq!(report.count(Anomaly::AbortedRead), 2);
}

#[test]
fn other_bytes_under_the_right_key_are_wrong_bytes() {
    let inputs = inputs();
    let mut outputs = outputs_of(&inputs);
    outputs[1].value = Some(b"B".to_vec());
    let report = audit(inputs, outputs, vec![]);
    assert_eq!(report.anomalies(), [Anomaly::WrongBytes]);
    assert_eq!(report.count(Anomaly::WrongBytes), 1);
}

#[test]
fn changed_headers_and_times_are_wrong_bytes() {
    let inputs = inputs();
    let mut outputs = outputs_of(&inputs);
    outputs[0].headers.pop();
    outputs[1].timestamp_ms += 1;
    let report = audit(inputs, outputs, vec![]);
    assert_eq!(report.anomalies(), [Anomaly::WrongBytes]);
    assert_eq!(report.count(Anomaly::WrongBytes), 2);
}

/// Goal: a dead letter repeats key, value and header list of its source, to the duplicate, the null and the order.
#[test]
fn a_dead_letter_that_changed_its_source_is_wrong_bytes() {
    let input = record(0, 0, "k", "bad");
    let spoil: [fn(&mut ReadRecord); 5] = [
        |letter| letter.key = None,
        |letter| letter.value = Some(b"bad ".to_vec()),
        |letter| drop(letter.headers.remove(1)),
        |letter| letter.headers.swap(0, 1),
        |letter| letter.headers.push(("x".into(), None)),
    ];
    for spoil in spoil {
        let mut letter = dead_letter(0, &input);
        spoil(&mut letter);
        assert_eq!(audit(vec![input.clone()], vec![], vec![letter]).anomalies(), [Anomaly::WrongBytes]);
    }
}

#[test]
fn a_dead_letter_of_a_replayed_dead_letter_keeps_the_older_headers() {
    let first = dead_letter(7, &record(0, 0, "k", "bad"));
    let letter = dead_letter(0, &first);
    assert_eq!(letter.last_header("__streams.errors.offset"), Some(b"7".as_slice()));
    assert!(audit(vec![first.clone()], vec![], vec![letter.clone()]).is_exact());
}

#[test]
fn records_no_input_accounts_for_are_unexpected() {
    let mut outputs = outputs_of(&inputs());
    outputs.push(record(0, 90, "nobody", "x"));
    let mut nameless = dead_letter(0, &record(0, 0, "k", "a"));
    nameless.headers.clear();
    let good = dead_letter(1, &record(0, 77, "k", "a"));
    let report = audit(inputs(), outputs, vec![nameless, good]);
    assert_eq!(report.anomalies(), [Anomaly::Unexpected]);
    assert_eq!(report.count(Anomaly::Unexpected), 3);
}

#[test]
fn a_dead_letter_of_a_good_input_is_unexpected_and_not_also_lost() {
    let inputs = inputs();
    let letter = dead_letter(0, &inputs[3]);
    let report = audit(inputs.clone(), outputs_of(&inputs[..3]), vec![letter]);
    assert_eq!(report.anomalies(), [Anomaly::Unexpected]);
}

/// Goal: the audit stays usable on large runs, and the report stays short when everything is wrong.
#[test]
fn three_hundred_thousand_records_are_compared_at_once() {
    let inputs: Vec<_> = (0..300_000).map(|n| record(0, n, &format!("k{}", n % 1000), &format!("v{n}"))).collect();
    let report = audit(inputs.clone(), outputs_of(&inputs), vec![]);
    assert!(report.is_exact());
    let report = audit(inputs, vec![], vec![]);
    assert_eq!(report.count(Anomaly::Lost), 300_000);
    assert!(report.to_string().lines().count() < 30);
}
