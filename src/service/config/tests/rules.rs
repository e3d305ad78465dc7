//! Rules that look at several keys at once.

use super::super::Mistake;
use super::{SMALLEST, changed, expect_said, load, said_about};

#[test]
fn time_outs_stand_in_their_order_and_both_sides_are_named() {
    expect_said(&[
        (
            "commit: { interval: 10s }",
            &[
                "6:21: commit.interval: commit.interval = 10s (line 6) must be shorter than timeouts.send_offsets = 10s \
                 (default): a batch must be closed before the deadline for writing it ends",
                "6:21: commit.interval: commit.interval = 10s (line 6) must be shorter than timeouts.commit = 10s \
                 (default): a batch must be closed before the deadline for writing it ends",
            ],
        ),
        (
            "timeouts:\n  transaction: 20s\n  send_offsets: 20s",
            &["8:17: timeouts.send_offsets: timeouts.send_offsets = 20s (line 8) must be shorter than \
                 timeouts.transaction = 20s (line 7): the broker would abort the transaction while this deadline still runs"],
        ),
        (
            "timeouts: { commit: 30s }",
            &["6:21: timeouts.commit: timeouts.commit = 30s (line 6) must be shorter than timeouts.transaction = 30s \
                 (default): the broker would abort the transaction while this deadline still runs"],
        ),
        (
            "timeouts: { session: 5s }",
            &["6:22: timeouts.session: timeouts.revoke = 5s (default) must be shorter than timeouts.session = 5s \
                 (line 6): the group would give the member up while it still finishes its batch"],
        ),
        (
            "timeouts: { session: 5m }",
            &["6:22: timeouts.session: timeouts.session = 5m (line 6) must be shorter than timeouts.poll_max = 5m \
                 (default): the client library refuses it otherwise"],
        ),
        (
            "timeouts: { poll_max: 20s }",
            &["6:23: timeouts.poll_max: commit.interval = 100ms (default), timeouts.send_offsets = 10s (default) and \
                 timeouts.commit = 10s (default) are together 20100ms, which must be shorter than timeouts.poll_max = \
                 20s (line 6): a batch must end before the group gives the member up"],
        ),
        ("timeouts: { poll_max: 20101ms }", &[]),
    ]);
}

#[test]
fn a_time_out_that_is_wrong_by_itself_is_not_compared() {
    expect_said(&[("timeouts: { session: 5 }", &["6:22: timeouts.session: expected a duration, found \"5\""])]);
}

#[test]
fn with_the_consumer_protocol_the_session_belongs_to_the_broker() {
    let said = said_about(&changed("group: { protocol: consumer }\ntimeouts: { session: 12s }\n"));
    let expected = "7:22: timeouts.session: with the consumer protocol the broker decides the session time-out; \
                    timeouts.session = 12s (line 7) would have no effect";
    assert_eq!(said, [expected]);
    expect_said(&[("group: { protocol: consumer }\ntimeouts: { revoke: 20s }", &[])]);
}

#[test]
fn a_pipeline_has_exactly_one_process_step() {
    expect_said(&[
        ("steps: []", &["4:8: steps: a pipeline needs one process step; the list is empty"]),
        (
            "steps: [ { id: a, process: clean_orders }, { id: b, process: count_words } ]",
            &["4:44: steps[1]: only one step is possible for now; this is number 2"],
        ),
        (
            "steps: [ { id: a, process: clean_orders }, { id: a, process: count_words } ]",
            &[
                "4:44: steps[1]: only one step is possible for now; this is number 2",
                "4:50: steps[1].id: the step id \"a\" is used twice; it was first used on line 4",
            ],
        ),
        (
            "steps: [ { id: dedup, dedup: { by: /order_id, window: 5m } } ]",
            &["4:23: steps[0].dedup: the built-in step \"dedup\" is not available yet"],
        ),
    ]);
}

#[test]
fn an_unknown_processor_is_reported_with_those_that_are_registered() {
    let problems = load(&changed("steps: [ { id: a, process: split_line } ]")).unwrap_err();
    let Mistake::UnknownProcessor { nearest, registered, .. } = problems.iter().next().unwrap().mistake() else { panic!("{problems}") };
    assert_eq!(nearest.as_deref(), Some("split_lines"));
    assert_eq!(registered.len(), 3);
}

#[test]
fn no_topic_is_read_and_written() {
    expect_said(&[
        (
            "output: { topic: orders }",
            &["5:18: output.topic: the topic \"orders\" is read by input.topic (line 3) and written here: an endless loop"],
        ),
        (
            "dead_letters: { topic: orders }",
            &["6:24: dead_letters.topic: the topic \"orders\" is read by input.topic (line 3) and written here: an \
                 endless loop"],
        ),
        (
            "dead_letters: { topic: orders_clean }",
            &["6:24: dead_letters.topic: the dead letters would go to \"orders_clean\", the topic of output.topic \
                 (line 5)"],
        ),
    ]);
}

#[test]
fn inputs_are_several_topics_with_one_number_of_partitions() {
    let cases: [(&str, &[&str]); 4] = [
        ("inputs: []", &["3:9: inputs: a pipeline needs at least one input; the list is empty"]),
        ("inputs: [ { topic: a }, { topic: a } ]", &["3:34: inputs[1].topic: the input topic \"a\" is given twice; it was first given on line 3"]),
        (
            "inputs: [ { topic: a, partitions: 4 }, { topic: b } ]",
            &["3:35: inputs[0].partitions: inputs[1].partitions = 1 (default) but inputs[0].partitions = 4 (line 3): a \
                 task reads one partition number of all input topics"],
        ),
        ("inputs: [ { topic: a, partitions: 4 }, { topic: b, partitions: 4 } ]", &[]),
    ];
    for (line, expected) in cases {
        assert_eq!(said_about(&SMALLEST.replace("input: { topic: orders }", line)), expected, "{line}");
    }
}

#[test]
fn outputs_have_names_and_one_is_the_default() {
    let cases: [(&str, &[&str]); 5] = [
        ("outputs: { default: { topic: a }, lines: { topic: a } }", &[]),
        ("outputs: { lines: { topic: a } }", &["5:10: outputs: no output has the name \"default\""]),
        ("outputs: {}", &["5:10: outputs: no output has the name \"default\""]),
        ("outputs: { default: { topic: a }, \"L:1\": { topic: b } }", &["5:35: outputs.L:1: \"L:1\" is not a valid name"]),
        (
            "outputs: { default: { topic: a }, lines: { topic: a, partitions: 2 } }",
            &["5:66: outputs.lines.partitions: outputs.lines.partitions = 2 (line 5) but outputs.default.partitions = \
                 1 (default): both outputs are one topic"],
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(said_about(&SMALLEST.replace("output: { topic: orders_clean }", line)), expected, "{line}");
    }
}

#[test]
fn a_key_needs_a_value_it_can_point_into() {
    expect_said(&[("output: { topic: a, format: bytes, key: /a }", &["5:41: output.key: a key cannot be taken from a value of format \"bytes\""])]);
}
