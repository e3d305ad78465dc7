//! What an accepted file becomes.

use std::time::Duration;

use serde_json::json;

use super::super::{Assignor, Format, GroupProtocol, Guarantee, Property, Start, Tombstones};
use super::{SMALLEST, changed, plan_of};

/// A file with every key.
pub(super) const FULL: &str = r#"
pipeline: orders
kafka:
  bootstrap.servers: "localhost:9092"
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.password: ${ORDERS_PASSWORD}
  consumer.fetch.min.bytes: 1
  producer.linger.ms: 5
  isolation.level: read_committed
  log_level: 6
start: latest
inputs:
  - { topic: orders, format: json, partitions: 4 }
  - { topic: prices, format: bytes, partitions: 4, replication: 3 }
steps:
  - id: clean
    process: clean_orders
    tombstones: forward
    with:
      limit: 10
      ratio: 2.5e-1
      flags: [true, ~, "yes", 0x10, 007, -1]
      api_key: abc
      peer:
        name: ${NAME}
        port: ${WORKERS}
        text: "${WORKERS}"
outputs:
  lines: { topic: order_lines }
  default: { topic: orders_clean, format: json, key: /order_id, partitions: 4, replication: 1 }
  again: { topic: order_lines }
dead_letters: { topic: orders_dlq, attempts: 5, backoff: 200ms, partitions: 4, replication: 1 }
guarantee: exactly_once
workers: "${WORKERS}"
commit: { interval: "${INTERVAL}", records_max: 5, bytes_max: 1000000 }
timeouts: { send_offsets: 11s, commit: 12s, transaction: 31s, revoke: 6s, session: 11s, poll_max: 5m, drain: 20s, blocked: 70s, start: 1m }
group: { protocol: classic }
http: { listen: "[::]:80" }
"#;

#[test]
fn every_key_reaches_the_plan() {
    let plan = plan_of(FULL);
    assert_eq!(plan.pipeline, "orders");
    assert_eq!(plan.start, Start::Latest);
    let inputs: Vec<_> = plan.inputs.iter().map(|input| (input.topic.name.as_str(), input.format)).collect();
    assert_eq!(inputs, [("orders", Format::Json), ("prices", Format::Bytes)]);
    assert_eq!((plan.inputs[1].topic.partitions, plan.inputs[1].topic.replication), (4, 3));
    assert_eq!((plan.step.id.as_str(), plan.step.process.as_str()), ("clean", "clean_orders"));
    assert_eq!(plan.step.tombstones, Tombstones::Forward);
    let names: Vec<_> = plan.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["lines", "default", "again"]);
    assert_eq!(plan.outputs[1].key.as_deref(), Some("/order_id"));
    let dead_letters = plan.dead_letters.expect("written");
    assert_eq!((dead_letters.topic.name.as_str(), dead_letters.attempts), ("orders_dlq", 5));
    assert_eq!(dead_letters.backoff, Duration::from_millis(200));
    assert_eq!(plan.guarantee, Guarantee::ExactlyOnce);
    assert_eq!(plan.workers, 4);
    assert_eq!(plan.commit.interval, Duration::from_millis(250));
    assert_eq!((plan.commit.records_max, plan.commit.bytes_max), (5, 1_000_000));
    let seconds = [
        plan.timeouts.send_offsets,
        plan.timeouts.commit,
        plan.timeouts.transaction,
        plan.timeouts.revoke,
        plan.timeouts.session,
        plan.timeouts.poll_max,
        plan.timeouts.drain,
        plan.timeouts.blocked,
        plan.timeouts.start,
    ]
    .map(|timeout| timeout.as_secs());
    assert_eq!(seconds, [11, 12, 31, 6, 11, 300, 20, 70, 60]);
    assert_eq!(plan.group.protocol, GroupProtocol::Classic);
    assert_eq!(plan.http.listen.to_string(), "[::]:80");
}

#[test]
fn the_smallest_file_gets_every_default() {
    let plan = plan_of(SMALLEST);
    assert_eq!(plan.start, Start::Earliest);
    assert_eq!(plan.inputs[0].format, Format::Json);
    assert_eq!((plan.inputs[0].topic.partitions, plan.inputs[0].topic.replication), (1, 1));
    assert_eq!(plan.step.tombstones, Tombstones::DeadLetter);
    assert_eq!(plan.step.with.expose(), &json!({}));
    assert_eq!((plan.outputs[0].name.as_str(), plan.outputs[0].key.as_deref()), ("default", None));
    assert!(plan.dead_letters.is_none());
    assert_eq!(plan.workers, 1);
    assert_eq!(plan.commit.interval, Duration::from_millis(100));
    assert_eq!((plan.commit.records_max, plan.commit.bytes_max), (100_000, 16 * 1024 * 1024));
    let seconds = [
        plan.timeouts.send_offsets,
        plan.timeouts.commit,
        plan.timeouts.transaction,
        plan.timeouts.revoke,
        plan.timeouts.session,
        plan.timeouts.poll_max,
        plan.timeouts.drain,
        plan.timeouts.blocked,
        plan.timeouts.start,
    ]
    .map(|timeout| timeout.as_secs());
    assert_eq!(seconds, [10, 10, 30, 5, 10, 300, 25, 60, 30]);
    assert_eq!(plan.group.protocol, GroupProtocol::Classic);
    assert_eq!(plan.http.listen.to_string(), "127.0.0.1:9464");
}

#[test]
fn dead_letters_have_defaults_of_their_own() {
    let section = plan_of(&changed("dead_letters: { topic: d }")).dead_letters.expect("written");
    assert_eq!((section.attempts, section.backoff), (3, Duration::from_millis(100)));
}

#[test]
fn client_properties_are_sorted_to_their_clients_less_those_that_transom_sets() {
    let properties = plan_of(FULL).kafka;
    let names = |list: &[(String, Property)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let common = ["bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.password", "log_level"];
    assert_eq!(names(&properties.common), common);
    assert_eq!(names(&properties.consumer), ["fetch.min.bytes"]);
    assert_eq!(names(&properties.producer), ["linger.ms"]);
    assert_eq!(properties.common[3].1.expose(), "hunter2");
    assert_eq!(properties.producer[0].1, Property::Plain("5".to_owned()));
}

#[test]
fn the_processors_options_are_json_by_the_core_schema() {
    let expected = json!({
        "limit": 10, "ratio": 0.25, "flags": [true, null, "yes", 16, 7, -1], "api_key": "abc",
        "peer": { "name": "orders", "port": 4, "text": "4" },
    });
    assert_eq!(plan_of(FULL).step.with.expose(), &expected);
}

#[test]
fn several_input_topics_force_the_range_assignor() {
    let consumer = format!("{SMALLEST}\ngroup: {{ protocol: consumer }}\n");
    assert_eq!(plan_of(&consumer).assignor, Assignor::Uniform);
    assert_eq!(plan_of(FULL).assignor, Assignor::Range);
    let two = consumer.replace("input: { topic: orders }", "inputs: [ { topic: orders }, { topic: returns } ]");
    assert_eq!(plan_of(&two).assignor, Assignor::Range);
}

#[test]
fn the_classic_protocol_always_gets_the_range_assignor() {
    assert_eq!(plan_of(SMALLEST).assignor, Assignor::Range);
}

#[test]
fn the_summary_reads_back_as_the_same_plan() {
    let mut summary = plan_of(&changed("workers: 2")).redacted_summary();
    summary.as_object_mut().expect("an object").remove("assignor");
    let text = serde_json::to_string_pretty(&summary).expect("json");
    let again = plan_of(&text).redacted_summary();
    assert_eq!(again["assignor"], "range");
    assert_eq!(again["workers"], 2);
    assert_eq!(again["timeouts"], summary["timeouts"]);
    assert_eq!(again["outputs"], summary["outputs"]);
}
