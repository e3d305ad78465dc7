//! References, and that nothing secret is ever printed.

use std::fs;

use super::super::{Mistake, Property};
use super::{changed, expect_said, load, plan_of, said_about};

const SECRET: &str = "hunter2";

fn with_kafka(properties: &str) -> String {
    changed(&format!("kafka:\n  bootstrap.servers: \"localhost:9092\"\n  {properties}"))
}

#[test]
fn references_are_put_in_once_and_only_as_values() {
    let cases = [
        ("${ORDERS_PASSWORD}", "hunter2"),
        ("a-${NAME}-b-${NAME}", "a-orders-b-orders"),
        ("\"${NAME}\"", "orders"),
        ("'${NAME}'", "orders"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME $", "$NAME $"),
        ("${NESTED}", "${WORD}"),
        ("x${EMPTY}", "x"),
    ];
    for (written, expected) in cases {
        let plan = plan_of(&with_kafka(&format!("client.id: {written}")));
        assert_eq!(plan.kafka.common[1].1.expose(), expected, "{written}");
    }
}

#[test]
fn a_secret_file_is_read_without_its_last_line_break() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    for (content, expected) in [("hunter2", "hunter2"), ("hunter2\n", "hunter2"), ("a\nb\r\n", "a\nb"), ("a\n\n", "a\n")] {
        fs::write(&path, content).unwrap();
        let plan = plan_of(&with_kafka(&format!("sasl.password: ${{file:{}}}", path.display())));
        assert_eq!(plan.kafka.common[1].1.expose(), expected);
    }
    fs::write(&path, "x".repeat(256 * 1024 + 1)).unwrap();
    let problems = load(&with_kafka(&format!("sasl.password: ${{file:{}}}", path.display()))).unwrap_err();
    assert!(matches!(problems.iter().next().unwrap().mistake(), Mistake::SecretFileTooLarge { .. }), "{problems}");
}

#[test]
fn a_reference_that_leads_nowhere_is_reported_once_with_its_place() {
    expect_said(&[
        ("workers: ${MISSING}", &["6:10: workers: the environment variable MISSING is not set"]),
        ("pipeline: a-${MISSING}", &["1:11: pipeline: the environment variable MISSING is not set"]),
        ("start: ${NAME", &["6:8: start: the reference that begins with \"${\" has no closing brace"]),
        ("start: ${NAME:-x}", &["6:8: start: the reference is neither ${NAME} nor ${file:/path}"]),
        ("start: ${file:a/b}", &["6:8: start: the path of ${file:a/b} is not absolute"]),
        ("input: { topic: \"${MISSING}\" }", &["3:17: input.topic: the environment variable MISSING is not set"]),
        (
            "steps: [ { id: a, process: clean_orders, with: { a: [\"${MISSING}\"] } } ]",
            &["4:54: steps[0].with.a[0]: the environment variable MISSING is not set"],
        ),
    ]);
    let said = said_about(&changed("start: ${file:/nowhere/x}"));
    assert!(said[0].starts_with("6:8: start: the file /nowhere/x cannot be read: "), "{said:?}");
}

#[test]
fn a_property_is_secret_by_its_origin_or_by_its_name() {
    let secret = [
        "client.id: ${NAME}",
        "client.id: a${NAME}",
        "sasl.password: x",
        "SASL.Password: x",
        "ssl.key.pem: x",
        "consumer.ssl.key.password: x",
        "sasl.oauthbearer.client.secret: x",
        "sasl.jaas.config: x",
        "my.token: x",
    ];
    for property in secret {
        let kafka = plan_of(&with_kafka(property)).kafka;
        let properties: Vec<_> = kafka.common.iter().skip(1).chain(&kafka.consumer).collect();
        assert!(matches!(properties[..], [(_, Property::Secret(_))]), "{property}");
    }
    for property in ["client.id: x", "sasl.username: x", "ssl.ca.location: /x"] {
        let kafka = plan_of(&with_kafka(property)).kafka;
        assert!(matches!(kafka.common[1].1, Property::Plain(_)), "{property}");
    }
}

#[test]
fn an_accepted_plan_prints_no_secret() {
    let text = format!(
        "{}steps:\n  - id: a\n    process: clean_orders\n    with:\n      word: ${{WORD}}\n      list: [\"a-${{WORD}}\"]\n      \
         db: {{ password: {SECRET}, api_key: [{SECRET}] }}\n      auth_token: {{ deep: {SECRET} }}\n      plain: shown\n",
        with_kafka(&format!("sasl.password: {SECRET}\n  client.id: ${{BROKERS}}\n  producer.ssl.key.pem: |\n    {SECRET}"))
            .replace("steps: [ { id: clean, process: clean_orders } ]\n", "")
    );
    let plan = plan_of(&text);
    let summary = plan.redacted_summary();
    for printed in [format!("{plan:?}"), format!("{plan:#?}"), summary.to_string()] {
        assert!(!printed.contains(SECRET), "{printed}");
        assert!(printed.contains("<redacted>") && printed.contains("shown"), "{printed}");
    }
    assert_eq!(plan.step.with.expose()["db"]["password"], SECRET);
    assert_eq!(summary["kafka"]["sasl.password"], "<redacted>");
    assert_eq!(summary["kafka"]["producer.ssl.key.pem"], "<redacted>");
}

#[test]
fn no_problem_prints_a_secret() {
    let cases = [
        // From a reference: the value is wrong wherever it stands.
        "pipeline: Hunter2:${WORD}".replace("Hunter2", "x"),
        "workers: ${WORD}".to_owned(),
        "start: ${WORD}".to_owned(),
        "commit: { interval: \"${WORD}\", bytes_max: \"${WORD}\" }".to_owned(),
        "http: { listen: \"${WORD}\" }".to_owned(),
        "guarantee: ${WORD}".to_owned(),
        "input: { topic: \"${WORD} \", format: \"${WORD}\", partitions: \"${WORD}\" }".to_owned(),
        "output: { topic: a, key: \"${WORD}\" }".to_owned(),
        "output: { topic: \"${WORD}\" }\ndead_letters: { topic: \"${WORD}\" }".to_owned(),
        "steps: [ { id: \"${WORD}\", process: \"${WORD}\" }, { id: \"${WORD}\", process: a } ]".to_owned(),
        "kafka: { acks: \"${WORD}\" }".to_owned(),
        "pipeline: ${WORD}\nkafka: { group.id: a, transactional.id: b }".to_owned(),
        // Written in plain: on the line of the mistake, of a mistake nearby, in a part that is not understood.
        format!("kafka: {{ acks: 1, sasl.password: {SECRET} }}"),
        format!("kafka: {{ sasl.pasword: {SECRET}, acks: 1 }}"),
        format!("kafka: {SECRET}"),
        format!("kafka: [ {SECRET} ]"),
        format!("kafak: {{ sasl.password: {SECRET} }}"),
        format!("steps: [ {{ id: a, process: b, with: {{ x: {SECRET} }} }} ]"),
        format!("steps: [ {{ id: a, process: clean_orders, with: {{ password: .inf, x: {SECRET} }} }} ]"),
        format!("workers: 1\nworkers: {{ password: {SECRET} }}"),
        format!("workers: 0\n--- {{ x: {SECRET} }}"),
        format!("? {{ x: {SECRET} }}\n: 1"),
        format!("zzz: [ {{ x: {SECRET}"),
        format!("zzz: \"{SECRET}"),
        format!("kafka: {{ sasl.password: !{SECRET} }}"),
        format!("kafka: {{ sasl.password: !{SECRET}!x }}"),
        format!("kafka: {{ sasl.password: !<{SECRET} }}"),
        format!("kafka: {{ sasl.password: *{SECRET} }}"),
        format!("kafka: {{ sasl.password: &{SECRET} }}"),
        format!("kafka: {{ sasl.password: @{SECRET} }}"),
        format!("kafka: {{ sasl.password: \"\\{SECRET}\" }}"),
        format!("kafka:\n  sasl.password: %{SECRET}: {SECRET}"),
        format!("kafka:\n  sasl.password: |{SECRET}"),
        format!("kafka:\n  acks: 1\n  ssl.key.pem: |\n    {SECRET}\n    {SECRET}\n  {SECRET}"),
        format!("start: x\rworkers: 0 # {SECRET}\r"),
        format!("zzz: {{ password: &a {SECRET}, q: *a }}"),
    ];
    for lines in cases {
        let problems = load(&changed(&lines)).expect_err(&lines);
        let printed = format!("{problems}");
        assert!(!printed.to_lowercase().contains(SECRET), "{lines}\n{printed}");
        assert!(!format!("{problems:?}").contains(SECRET), "{lines}\n{problems:?}");
    }
}
