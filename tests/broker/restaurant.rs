//! Published data with published answers.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use transom_harness::scenario::Scenario;
use transom_harness::wire::{NewRecord, ReadRecord};

use crate::{SHORT, START};

const DATA: &str = "../processors/clean_restaurant_orders/data/restaurant-orders.tsv";

// Goal: real data gives the known answers, and gives them twice. Method: two fresh groups read one topic into one topic each.
#[test]
fn a_restaurants_orders_give_the_known_sums_byte_for_byte_twice() {
    let t = Scenario::shared("restaurant");
    let input = t.topic("in", 4);
    t.produce(&input, order_lines());
    let first = run(&t, "first", &input);
    let second = run(&t, "second", &input);

    let values: Vec<Value> = first.iter().map(|record| serde_json::from_slice(&record.4).expect("an output is JSON")).collect();
    let cents = |value: &Value| value["item_price_cents"].as_u64().expect("cents are whole");
    let order_ids: HashSet<u64> = values.iter().map(|value| value["order_id"].as_u64().expect("an id is a number")).collect();
    assert_eq!(values.len(), 4_622);
    assert_eq!(values.iter().map(cents).sum::<u64>(), 3_450_016);
    assert_eq!(values.iter().filter(|value| value.get("choices").is_none()).count(), 1_246);
    assert_eq!(order_ids.len(), 1_834);
    for record in &first {
        let id = serde_json::from_slice::<Value>(&record.4).expect("an output is JSON")["order_id"].to_string();
        assert_eq!(record.3.as_deref(), Some(id.as_bytes()), "the key is /order_id");
    }
    assert!(first == second, "two runs differ");
}

/// Partition, timestamp, headers, key, value: all but the offset, which counts control records too.
type Written = (i32, i64, Vec<(String, Option<Vec<u8>>)>, Option<Vec<u8>>, Vec<u8>);

fn run(t: &Scenario, name: &str, input: &str) -> Vec<Written> {
    let (output, letters) = (t.topic(&format!("{name}_out"), 4), t.topic(&format!("{name}_dlq"), 4));
    let yaml = r#"
pipeline: @RUN
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_restaurant_orders }]
output: { topic: @RUN_out, key: /order_id }
dead_letters: { topic: @RUN_dlq }
"#;
    let mut instance = t.start("a", &yaml.replace("RUN", name));
    instance.awaits_partitions(4, START);
    t.awaits_all_committed_by(&t.full(name), &[input], SHORT);
    instance.drains_within(SHORT);
    assert!(t.read(&letters).is_empty());
    let written = |record: ReadRecord| (record.partition, record.timestamp_ms, record.headers, record.key, record.value.unwrap_or_default());
    t.read(&output).into_iter().map(written).collect()
}

/// The table as it was published: every column a text. An order's lines have one key and so one order.
fn order_lines() -> Vec<NewRecord> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DATA);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let names = lines.next().expect("the table has a head");
    lines
        .map(|columns| {
            assert_eq!(columns.len(), names.len());
            let row: serde_json::Map<String, Value> = names.iter().zip(&columns).map(|(name, column)| ((*name).to_owned(), json!(column))).collect();
            NewRecord::new(columns[0], Value::Object(row).to_string())
        })
        .collect()
}
