//! The other verbs: their output is data, and the same every time.

use std::collections::HashSet;

use transom_harness::scenario::Scenario;
use transom_harness::wire::partition_for_key;

use crate::transom;

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in, partitions: 3 }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out, partitions: 5 }
dead_letters: { topic: @dlq }
"#;

#[test]
fn the_processors_are_listed_one_a_line() {
    let ended = transom(&["processors"]);
    let names: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code, names), (0, vec!["clean_orders", "clean_restaurant_orders", "split_order_lines"]));
}

#[test]
fn usage_mistakes_end_with_2_and_help_names_the_exit_codes() {
    assert_eq!(transom(&["walk"]).code, 2);
    assert_eq!(transom(&["run"]).code, 2);
    assert_eq!(transom(&["gen", "orders", "--count", "many"]).code, 2);
    let help = transom(&["--help"]);
    assert_eq!(help.code, 0);
    for code in ["65 ", "69 ", "70 ", "75 ", "77 ", "78 "] {
        assert!(help.stdout.contains(code), "{code} is missing in:\n{}", help.stdout);
    }
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_of_configuration() {
    let ended = transom(&["validate", "no-such-file.yaml"]);
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("no-such-file.yaml"), "{}", ended.stderr);
}

#[test]
fn one_seed_generates_the_same_orders_every_time() {
    let generate = |seed: &str| transom(&["gen", "orders", "--count", "2000", "--seed", seed]);
    let (first, again, other) = (generate("7"), generate("7"), generate("8"));
    assert_eq!((first.code, again.code, other.code), (0, 0, 0), "{}", first.stderr);
    assert_eq!(first.stdout.lines().count(), 2_000);
    assert!(first.stdout == again.stdout && first.stdout != other.stdout);
    let poison = first.stdout.lines().nth(174).expect("order 175");
    assert!(poison.starts_with(r#"{"order_id":175,"amount":"N/A","#), "{poison}");
}

#[test]
fn generated_orders_lie_in_the_input_topic_with_their_customer_as_key() {
    let t = Scenario::shared("generated");
    let topic = t.topic("in", 3);
    let file = t.file(PIPELINE).display().to_string();
    let ended = transom(&["gen", "orders", "--pipeline", &file, "--count", "3000", "--poison-share", "0.1", "--duplicate-share", "0.2"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for words in ["3000 orders", topic.as_str(), "300 poison", "600 duplicates", "seed 1"] {
        assert!(ended.stdout.contains(words), "{words:?} is missing in: {}", ended.stdout);
    }
    let records = t.read(&topic);
    assert_eq!(records.len(), 3_000);
    for record in &records {
        let key = record.key.as_deref().expect("the customer");
        assert_eq!(record.partition, partition_for_key(key, 3), "{}", key.escape_ascii());
    }
    let to_stdout = transom(&["gen", "orders", "--count", "3000", "--poison-share", "0.1", "--duplicate-share", "0.2"]);
    let values: HashSet<&[u8]> = records.iter().map(|record| record.value.as_deref().unwrap_or_default()).collect();
    assert!(to_stdout.stdout.lines().all(|line| values.contains(line.as_bytes())), "topic and stdout differ");
}

#[test]
fn topics_are_created_once_and_then_left_as_they_are() {
    let t = Scenario::shared("created");
    let file = t.file(PIPELINE).display().to_string();
    let first = transom(&["topics", "create", &file]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(first.stdout.matches(": created").count(), 3, "{}", first.stdout);
    for (short, partitions) in [("in", 3), ("out", 5), ("dlq", 1)] {
        assert_eq!(t.client().partition_count(&t.full(short)).expect("count partitions"), partitions);
    }
    let second = transom(&["topics", "create", &file]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert_eq!(second.stdout.matches(": exists, left as it is").count(), 3, "{}", second.stdout);
}
