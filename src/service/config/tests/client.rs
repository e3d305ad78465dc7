//! Which client properties pass and which are refused.

use super::super::Mistake;
use super::{changed, expect_said, load, plan_of};

fn with_property(property: &str) -> String {
    changed(&format!("kafka:\n  bootstrap.servers: \"localhost:9092\"\n  {property}"))
}

#[test]
fn a_property_that_breaks_the_guarantee_is_refused_with_both_values() {
    let cases = [
        ("enable.auto.commit: true", "false"),
        ("auto.commit.enable: true", "false"),
        ("enable.auto.offset.store: true", "false"),
        ("isolation.level: read_uncommitted", "read_committed"),
        ("auto.offset.reset: earliest", "error"),
        ("enable.partition.eof: true", "false"),
        ("group.id: x", "orders"),
        ("group.instance.id: x", "<instance>:<worker>"),
        ("group.protocol: consumer", "classic"),
        ("partition.assignment.strategy: roundrobin", "range"),
        ("group.remote.assignor: uniform", "range"),
        ("session.timeout.ms: 6000", "10000"),
        ("heartbeat.interval.ms: 500", "1000"),
        ("max.poll.interval.ms: 1000", "300000"),
        ("transactional.id: x", "orders:<instance>:<worker>"),
        ("transaction.timeout.ms: 1000", "30000"),
        ("delivery.timeout.ms: 1000", "30000"),
        ("message.timeout.ms: 1000", "30000"),
        ("acks: 1", "all"),
        ("request.required.acks: 0", "all"),
        ("enable.idempotence: false", "true"),
        ("retries: 3", "2147483647"),
        ("message.send.max.retries: 0", "2147483647"),
        ("max.in.flight: 6", "5"),
        ("max.in.flight.requests.per.connection: 0", "5"),
        ("queuing.strategy: lifo", "fifo"),
        ("partitioner: random", "murmur2_random"),
        ("metadata.broker.list: x", "the value of bootstrap.servers"),
    ];
    for prefix in ["", "consumer.", "producer."] {
        for (property, expected) in cases {
            let problems = load(&with_property(&format!("{prefix}{property}"))).unwrap_err();
            assert_eq!(problems.iter().count(), 1, "{problems}");
            let problem = problems.iter().next().unwrap();
            let Mistake::PropertyRefused { name, asked, ours, reason, .. } = problem.mistake() else { panic!("{problems}") };
            assert_eq!(ours, expected, "{property}");
            assert_eq!(format!("{name}: {}", asked.to_string().trim_matches('"')), property);
            assert!(!reason.is_empty());
            assert_eq!(problem.path(), format!("kafka.{prefix}{name}"));
            assert!(problem.mistake().hint().is_some());
        }
    }
}

#[test]
fn a_refusal_reads_as_a_sentence() {
    let text = load(&with_property("acks: 1")).unwrap_err().to_string();
    let expected = "p.yaml:4:9: kafka.acks: acks = \"1\" was asked for, but Transom uses acks = all: a record that only \
                    the leader has is lost with it\n  hint: remove it";
    assert_eq!(text, expected);
}

#[test]
fn a_value_that_agrees_is_accepted_and_not_handed_on() {
    let cases = [
        "enable.auto.commit: false",
        "enable.auto.offset.store: \"False\"",
        "isolation.level: read_committed",
        "auto.offset.reset: error",
        "enable.partition.eof: false",
        "acks: all",
        "acks: -1",
        "enable.idempotence: true",
        "retries: 2147483647",
        "queuing.strategy: fifo",
        "partitioner: murmur2_random",
    ];
    for property in cases {
        assert_eq!(plan_of(&with_property(property)).kafka.common.len(), 1, "{property}");
    }
}

#[test]
fn everything_else_passes_through_as_written() {
    let cases = [
        ("client.id: x", "x"),
        ("log_level: 7", "7"),
        ("max.in.flight: 1", "1"),
        ("linger.ms: 0x5", "0x5"),
        ("some.unknown.name: true", "true"),
        ("client.rack: \"\"", ""),
        ("debug: \"a: b\"", "a: b"),
    ];
    for (property, expected) in cases {
        let plan = plan_of(&with_property(property));
        assert_eq!(plan.kafka.common[1].1.expose(), expected, "{property}");
    }
}

#[test]
fn the_section_has_its_own_shape() {
    expect_said(&[
        ("kafka: {}", &["2:8: kafka.bootstrap.servers: this key is required"]),
        (
            "kafka: { consumer.bootstrap.servers: a }",
            &[
                "2:8: kafka.bootstrap.servers: this key is required",
                "2:38: kafka.consumer.bootstrap.servers: bootstrap.servers cannot differ between the consumer and the \
                 producer",
            ],
        ),
        ("kafka: { bootstrap.servers: \"\" }", &["2:29: kafka.bootstrap.servers: no value is given"]),
        ("kafka: { bootstrap.servers: [a, b] }", &["2:29: kafka.bootstrap.servers: expected a single value, found a list"]),
        (
            "kafka: { bootstrap.servers: a, producer.: b, debug: }",
            &["2:43: kafka.producer.: the prefix \"producer.\" is not followed by the name of a property", "2:51: kafka.debug: no value is given"],
        ),
    ]);
}
