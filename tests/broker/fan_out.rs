//! One record in, several out, on two topics: all of them or none.

use serde_json::{Value, json};
use transom_harness::oracle::{Expected, Output};
use transom_harness::scenario::Scenario;
use transom_harness::wire::{NewRecord, ReadRecord, partition_for_key};

use crate::{SHORT, START};

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: split, process: split_order_lines, with: { lines_max: 5 } }]
outputs:
  default: { topic: @summaries, key: /order_id }
  lines: { topic: @lines }
dead_letters: { topic: @dlq }
"#;

// Goal: EO-1 for a fan-out. Method: every third order fails at a line in its middle; it leaves a dead letter and nothing else.
#[test]
fn an_order_that_fails_in_the_middle_of_its_lines_leaves_only_its_dead_letter() {
    let t = Scenario::shared("fan-out");
    let input = t.topic("in", 4);
    let (summaries, lines, letters) = (t.topic("summaries", 3), t.topic("lines", 5), t.topic("dlq", 2));
    t.produce(&input, (1..=900).map(order).collect());
    let mut instance = t.start("a", PIPELINE);
    instance.awaits_partitions(4, START);
    t.awaits_all_committed(&[&input], SHORT);
    instance.drains_within(SHORT);

    let report = t.expect_exactly_once(&[&input], &[&summaries, &lines], &[&letters], |_, record| split(&summaries, &lines, record));
    assert_eq!((report.inputs(), report.dead_letters(), report.outputs()), (900, 300, 300 * (3 + 1) + 300 * (1 + 1)));
    for (topic, partitions) in [(&summaries, 3), (&lines, 5)] {
        for record in t.read(topic) {
            let key = record.key.expect("every output has the order's id as its key");
            assert_eq!(record.partition, partition_for_key(&key, partitions), "{}", key.escape_ascii());
        }
    }
    for letter in t.read(&letters) {
        let source: i32 = header(&letter, "__streams.errors.partition").parse().expect("a number");
        assert_eq!(letter.partition, source % 2);
        assert_eq!((header(&letter, "__transom.dlq.step").as_str(), header(&letter, "__transom.dlq.code").as_str()), ("split", "order_line"));
        assert!(header(&letter, "__streams.errors.message").contains("line 2 of 3"), "{}", header(&letter, "__streams.errors.message"));
    }
}

fn header(record: &ReadRecord, name: &str) -> String {
    String::from_utf8_lossy(record.last_header(name).unwrap_or_else(|| panic!("no header {name}"))).into_owned()
}

/// Three lines, three lines with the middle one wrong, one line, and so on.
fn order(id: u64) -> NewRecord {
    let item = |line: u64, qty: u64| json!({ "sku": format!("SKU-{id}-{line}"), "qty": qty });
    let items = match id % 3 {
        0 => vec![item(1, 2), item(2, 0), item(3, 1)],
        1 => vec![item(1, 2), item(2, 3), item(3, 1)],
        _ => vec![item(1, 7)],
    };
    let value = json!({ "order_id": id, "event_time": "2026-01-22T00:00:00Z", "items": items });
    NewRecord::new(format!("C-{}", id % 50), value.to_string()).with_header("trace", id.to_string())
}

fn split(summaries: &str, lines: &str, record: &ReadRecord) -> Expected {
    let order: Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default()).expect("orders here are JSON");
    let items = order["items"].as_array().expect("orders here have items");
    if items.iter().any(|item| item["qty"] == 0) {
        return Expected::DeadLetter;
    }
    let (id, time) = (&order["order_id"], &order["event_time"]);
    let key = Some(id.to_string().into_bytes());
    let mut outputs = Vec::new();
    for (item, line) in items.iter().zip(1..) {
        let value = format!(r#"{{"order_id":{id},"line":{line},"sku":{},"qty":{},"event_time":{time}}}"#, item["sku"], item["qty"]);
        let mut headers = record.headers.clone();
        headers.push(("line_count".to_owned(), Some(items.len().to_string().into_bytes())));
        outputs.push(Output { key: key.clone(), value: Some(value.into_bytes()), headers: Some(headers), ..Output::copy(lines, record) });
    }
    let quantity: u64 = items.iter().filter_map(|item| item["qty"].as_u64()).sum();
    let value = format!(r#"{{"order_id":{id},"lines":{},"quantity":{quantity}}}"#, items.len());
    outputs.push(Output { key, value: Some(value.into_bytes()), ..Output::copy(summaries, record) });
    Expected::Outputs(outputs)
}
