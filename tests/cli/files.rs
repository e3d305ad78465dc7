//! Mistakes in a pipeline's file: all of them at once, each with its place.

use tempfile::TempDir;
use transom_harness::instance::{Ended, run_to_end};

use crate::{ANSWER, expect_refusal};

const GOOD: &str = r#"pipeline: orders
kafka: { bootstrap.servers: "127.0.0.1:1" }
input: { topic: orders }
steps: [{ id: clean, process: clean_orders }]
output: { topic: orders_clean }
dead_letters: { topic: orders_dlq }
"#;

/// Validates a file; `run` has to say the same, so it is asked too.
#[track_caller]
fn validate(yaml: &str, variables: &[(&str, &str)]) -> Ended {
    let directory = TempDir::new().expect("make a directory");
    let path = directory.path().join("pipeline.yaml");
    std::fs::write(&path, yaml).expect("write the file");
    let path = path.display().to_string();
    let validated = run_to_end(&["validate", &path], variables, ANSWER);
    if validated.code != 0 {
        let ran = run_to_end(&["run", &path, "--listen", "127.0.0.1:0"], variables, ANSWER);
        assert_eq!((ran.code, &ran.stderr), (validated.code, &validated.stderr), "run and validate differ");
    }
    validated
}

#[test]
fn a_good_file_is_valid() {
    let ended = validate(GOOD, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("valid"), "{}", ended.stdout);
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_with_line_and_column() {
    let yaml = r#"pipeline: Orders!
kafka: { bootstrap.servers: "127.0.0.1:1" }
input: { topic: orders, fromat: json }
steps: [{ id: clean, process: clean_orders }]
output: { topic: orders }
commit: { interval: 100 }
workers: 0
"#;
    let ended = validate(yaml, &[]);
    // The name, the unknown key with what was meant, an output that is an input, a duration without a unit, a number out of range.
    expect_refusal(&ended, 78, &["1:11", "3:25", "fromat", "format", "5:18", "6:21", "7:10"]);
}

#[test]
fn text_that_is_no_yaml_is_refused_with_its_place() {
    expect_refusal(&validate("pipeline: [orders\nkafka: {", &[]), 78, &["2:"]);
    expect_refusal(&validate("", &[]), 78, &[]);
}

#[test]
fn an_unknown_processor_is_answered_with_the_nearest() {
    let ended = validate(&GOOD.replace("clean_orders", "clean_order"), &[]);
    expect_refusal(&ended, 78, &["clean_order", "clean_orders", "4:31"]);
}

#[test]
fn client_properties_that_break_the_guarantee_are_refused_with_both_values() {
    let broken = r#"kafka: { enable.auto.commit: true, isolation.level: read_uncommitted, transactional.id: mine, acks: 1, "#;
    let ended = validate(&GOOD.replace("kafka: { ", broken), &[]);
    let words = ["enable.auto.commit", "true", "false", "read_uncommitted", "read_committed", "transactional.id", "mine", "acks", "all"];
    expect_refusal(&ended, 78, &words);
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_place() {
    let yaml = GOOD.replace(r#""127.0.0.1:1""#, r#""${TRANSOM_TESTS_NOT_SET}""#);
    expect_refusal(&validate(&yaml, &[]), 78, &["TRANSOM_TESTS_NOT_SET", "2:29"]);
    assert_eq!(validate(&yaml, &[("TRANSOM_TESTS_NOT_SET", "127.0.0.1:1")]).code, 0);
}

#[test]
fn the_printed_plan_has_defaults_and_no_secret() {
    let directory = TempDir::new().expect("make a directory");
    let secret_file = directory.path().join("secret");
    std::fs::write(&secret_file, "from-a-file-4711\n").expect("write the secret");
    let properties = format!(
        r#"kafka: {{ sasl.username: me, sasl.password: "${{SECRET}}", ssl.key.password: in-the-file-4711, ssl.keystore.password: "${{file:{}}}", "#,
        secret_file.display()
    );
    let path = directory.path().join("pipeline.yaml");
    std::fs::write(&path, GOOD.replace("kafka: { ", &properties)).expect("write the file");
    let path = path.display().to_string();
    let ended = run_to_end(&["validate", "--print", &path], &[("SECRET", "from-the-environment-4711")], ANSWER);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stdout.contains("4711") && !ended.stderr.contains("4711"), "a secret is printed:\n{}{}", ended.stdout, ended.stderr);
    let plan: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the plan is JSON");
    let text = plan.to_string();
    assert_eq!(text.matches("<redacted>").count(), 3, "{}", ended.stdout);
    assert!(text.contains("earliest") && text.contains("orders_dlq"), "{}", ended.stdout);
}

#[test]
fn options_that_do_not_fit_the_processor_are_refused() {
    let yaml = GOOD.replace("process: clean_orders", "process: split_order_lines, with: { lines_max: 0 }");
    expect_refusal(&validate(&yaml, &[]), 78, &["lines_max", "clean"]);
}
