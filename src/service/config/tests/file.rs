//! Syntax, shapes and single values: where each mistake is said to be.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::super::{Guarantee, Mistake, load as load_file};
use super::plan::FULL;
use super::{PROCESSORS, SMALLEST, changed, environment, expect_said, load, said_about};

#[test]
fn text_that_is_no_yaml_is_reported_with_its_place() {
    let cases = [
        ("", "1:1: the file is empty"),
        ("# nothing\n", "1:1: the file is empty"),
        ("pipeline: orders\n---\npipeline: two\n", "2:1: a second document begins here; a pipeline file holds exactly one"),
        ("pipeline: &a orders\n", "1:14: pipeline: anchors and aliases (& and *) are not supported"),
        ("pipeline: !x orders\n", "1:14: pipeline: tags (!) are not supported"),
        ("? [a]\n: b\n", "1:3: a key must be plain text, not a list or a mapping"),
        ("- a\n", "1:1: expected a mapping, found a list"),
        ("orders\n", "1:1: expected a mapping, found a single value"),
    ];
    for (text, expected) in cases {
        let said = said_about(text);
        assert!(said.iter().any(|line| line == expected), "{text}\n{said:?}");
    }
    for (text, place) in [("pipeline: [a\nkafka: b\n", "2:6:"), ("a: b\n\tc: d\n", "1:4:"), ("a: {b: ${C}}\n", "1:9:")] {
        let said = said_about(text);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(&format!("{place} not valid YAML: ")), "{text}\n{said:?}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let deep = format!("{}: {}{}", "a", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(said_about(&deep).len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_of_its_own() {
    let problems = load_file(Path::new("/nowhere/p.yaml"), &PROCESSORS, &environment).unwrap_err();
    let problem = problems.iter().next().unwrap();
    assert!(matches!(problem.mistake(), Mistake::FileUnreadable { .. }));
    assert!(problem.to_string().starts_with("/nowhere/p.yaml:1:1: the pipeline file cannot be read: "), "{problem}");
}

#[test]
fn a_file_is_read_up_to_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.yaml");
    fs::write(&path, SMALLEST).unwrap();
    assert!(load_file(&path, &PROCESSORS, &environment).is_ok());
    fs::write(&path, "#".repeat(1024 * 1024 + 1)).unwrap();
    let problems = load_file(&path, &PROCESSORS, &environment).unwrap_err();
    assert!(matches!(problems.iter().next().unwrap().mistake(), Mistake::FileTooLarge { .. }));
}

#[test]
fn an_unknown_key_is_reported_at_each_level() {
    expect_said(&[
        ("pipelin: orders", &["6:1: pipelin: unknown key \"pipelin\""]),
        ("input: { topic: orders, event_time: /t }", &["3:25: input.event_time: unknown key \"event_time\""]),
        ("steps: [ { id: clean, process: clean_orders, wiht: {} } ]", &["4:46: steps[0].wiht: unknown key \"wiht\""]),
        (
            "outputs: { default: { topic: a, kye: /a } }",
            &["6:1: outputs: \"outputs\" is given beside \"output\" (line 5); only one of the two may be"],
        ),
        ("output: { topic: a, kye: /a }", &["5:21: output.kye: unknown key \"kye\""]),
        ("dead_letters: { topic: d, atempts: 3 }", &["6:27: dead_letters.atempts: unknown key \"atempts\""]),
        ("commit: { intervall: 5s }", &["6:11: commit.intervall: unknown key \"intervall\""]),
        ("timeouts: { sesion: 5s }", &["6:13: timeouts.sesion: unknown key \"sesion\""]),
        ("group: { id: x }", &["6:10: group.id: unknown key \"id\""]),
        ("http: { port: 1 }", &["6:9: http.port: unknown key \"port\""]),
    ]);
}

#[test]
fn a_key_given_twice_is_reported_with_both_lines() {
    expect_said(&[
        ("workers: 1\nworkers: 2", &["7:1: workers: the key \"workers\" is given twice; it was first given on line 6"]),
        ("input: { topic: a, topic: b }", &["3:20: input.topic: the key \"topic\" is given twice; it was first given on line 3"]),
    ]);
}

#[test]
fn what_is_missing_is_reported_where_it_belongs() {
    let said = said_about("workers: 1\n");
    let expected = [
        "1:1: pipeline: this key is required",
        "1:1: kafka: this key is required",
        "1:1: one of \"input\" and \"inputs\" is required",
        "1:1: steps: this key is required",
        "1:1: one of \"output\" and \"outputs\" is required",
    ];
    assert_eq!(said, expected);
    expect_said(&[
        ("input: { format: json }", &["3:8: input.topic: this key is required"]),
        ("output: {}", &["5:9: output.topic: this key is required"]),
        ("dead_letters: {}", &["6:15: dead_letters.topic: this key is required"]),
        ("steps: [ {} ]", &["4:10: steps[0].id: this key is required", "4:10: steps[0].process: this key is required"]),
    ]);
}

#[test]
fn a_wrong_shape_is_reported_once() {
    expect_said(&[
        ("pipeline:", &["1:9: pipeline: no value is given"]),
        ("pipeline: [a]", &["1:11: pipeline: expected a single value, found a list"]),
        ("kafka: x", &["2:8: kafka: expected a mapping, found a single value"]),
        ("kafka:", &["2:6: kafka: no value is given"]),
        ("input: [ { topic: a } ]", &["3:8: input: expected a mapping, found a list"]),
        ("steps: { id: clean }", &["4:8: steps: expected a list, found a mapping"]),
        ("steps: [ clean ]", &["4:10: steps[0]: expected a mapping, found a single value"]),
        ("commit: 5s", &["6:9: commit: expected a mapping, found a single value"]),
        ("timeouts: []", &["6:11: timeouts: expected a mapping, found a list"]),
        ("steps: [ { id: clean, process: clean_orders, with: 5 } ]", &["4:52: steps[0].with: expected a mapping, found a single value"]),
    ]);
}

#[test]
fn each_kind_of_value_has_its_rule() {
    expect_said(&[
        ("workers: four", &["6:10: workers: expected a whole number, found \"four\""]),
        ("workers: \"4\"", &["6:10: workers: expected a whole number, found \"4\""]),
        ("workers: 1.5", &["6:10: workers: expected a whole number, found \"1.5\""]),
        ("workers: 0", &["6:10: workers: \"0\" is out of range: 1 to 64, both inclusive"]),
        ("workers: 65", &["6:10: workers: \"65\" is out of range: 1 to 64, both inclusive"]),
        ("workers: -1", &["6:10: workers: \"-1\" is out of range: 1 to 64, both inclusive"]),
        ("workers: 99999999", &["6:10: workers: \"99999999\" is out of range: 1 to 64, both inclusive"]),
        ("commit: { interval: 100 }", &["6:21: commit.interval: expected a duration, found \"100\""]),
        ("commit: { interval: 0ms }", &["6:21: commit.interval: \"0ms\" is out of range: 1ms to 1m, both inclusive"]),
        ("commit: { records_max: 0 }", &["6:24: commit.records_max: \"0\" is out of range: 1 to 10000000, both inclusive"]),
        ("commit: { bytes_max: 16MB }", &["6:22: commit.bytes_max: expected a size in bytes, found \"16MB\""]),
        ("commit: { bytes_max: 2GiB }", &["6:22: commit.bytes_max: \"2GiB\" is out of range: 1KiB to 1GiB, both inclusive"]),
        ("start: earlyest", &["6:8: start: \"earlyest\" is not one of the known values"]),
        ("input: { topic: a, format: avro }", &["3:28: input.format: \"avro\" is not one of the known values"]),
        ("input: { topic: a, partitions: 0 }", &["3:32: input.partitions: \"0\" is out of range: 1 to 10000, both inclusive"]),
        ("input: { topic: \"a b\" }", &["3:17: input.topic: \"a b\" is not a topic name that Kafka accepts"]),
        ("input: { topic: .. }", &["3:17: input.topic: \"..\" is not a topic name that Kafka accepts"]),
        ("output: { topic: __consumer_offsets }", &["5:18: output.topic: \"__consumer_offsets\" is not a topic name that Kafka accepts"]),
        ("output: { topic: a, key: id }", &["5:26: output.key: \"id\" is not a JSON pointer into the output value"]),
        ("output: { topic: a, key: /a~2 }", &["5:26: output.key: \"/a~2\" is not a JSON pointer into the output value"]),
        ("http: { listen: \"localhost:9464\" }", &["6:17: http.listen: \"localhost:9464\" is not a socket address"]),
        ("group: { protocol: clasic }", &["6:20: group.protocol: \"clasic\" is not one of the known values"]),
        ("guarantee: once", &["6:12: guarantee: \"once\" is not one of the known values"]),
        (
            "dead_letters: { topic: d, attempts: 0, backoff: 2m }",
            &[
                "6:37: dead_letters.attempts: \"0\" is out of range: 1 to 100, both inclusive",
                "6:49: dead_letters.backoff: \"2m\" is out of range: 1ms to 1m, both inclusive",
            ],
        ),
    ]);
}

#[test]
fn a_pipeline_name_keeps_the_separator_out() {
    expect_said(&[
        ("pipeline: \"a:b\"", &["1:11: pipeline: the name \"a:b\" contains ':'"]),
        ("pipeline: Orders", &["1:11: pipeline: \"Orders\" is not a valid name"]),
        ("pipeline: -a", &["1:11: pipeline: \"-a\" is not a valid name"]),
        ("pipeline: 2024", &[]),
        ("pipeline: a.b_c-d", &[]),
    ]);
    assert!(load(&changed(&format!("pipeline: {}", "x".repeat(100)))).is_ok());
    assert!(load(&changed(&format!("pipeline: {}", "x".repeat(101)))).is_err());
    let reason = load(&changed("pipeline: \"a:b\"")).unwrap_err().to_string();
    assert!(reason.contains("transactional id") && reason.contains("ACL prefix"), "{reason}");
}

#[test]
fn a_weaker_guarantee_is_had_only_by_its_name() {
    assert_eq!(load(&changed("")).unwrap().guarantee, Guarantee::ExactlyOnce);
    assert_eq!(load(&changed("guarantee: at_least_once")).unwrap().guarantee, Guarantee::AtLeastOnce);
    assert_eq!(load(&changed("guarantee: at_most_once")).unwrap().guarantee, Guarantee::AtMostOnce);
    let problems = load(&changed("guarantee: at_least_onec")).unwrap_err().to_string();
    assert!(problems.contains("at_least_once"), "{problems}");
}

#[test]
fn an_adaptive_commit_interval_is_the_shortest_pause_between_batches() {
    assert_eq!(load(&changed("commit: { interval: adaptive }")).unwrap().commit.interval, Duration::from_millis(5));
}

#[test]
fn a_problem_shows_place_path_sentence_line_caret_and_hint() {
    let problems = load(&changed("steps: [ { id: clean, process: clean_ordrs } ]")).unwrap_err();
    let expected = "\
p.yaml:4:32: steps[0].process: unknown processor \"clean_ordrs\"
  4 | steps: [ { id: clean, process: clean_ordrs } ]
    |                                ^
  hint: did you mean \"clean_orders\"? registered: clean_orders, count_words, split_lines";
    assert_eq!(problems.to_string(), expected);
}

#[test]
fn hints_name_the_nearest_known_word_and_all_of_them() {
    let cases = [
        ("workerss: 1", "did you mean \"workers\"? known: pipeline, kafka, start, input, inputs, steps"),
        ("input: { topic: a, format: jsn }", "did you mean \"json\"? known: json, bytes"),
        ("input: { topic: a, format: avro }", "hint: known: json, bytes"),
        ("commit: { interval: 5 }", "hint: a whole number and a unit: 100ms"),
    ];
    for (lines, expected) in cases {
        let text = load(&changed(lines)).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text = "\
pipeline: \"Or:ders\"
kafka: { acks: 1 }
input: { topic: orders, format: avro }
steps: [ { id: clean, process: clean_ordrs } ]
output: { topic: orders }
workers: 100
";
    let places: Vec<String> = said_about(text).iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "1:11 pipeline",
        "2:8 kafka.bootstrap.servers",
        "2:16 kafka.acks",
        "3:33 input.format",
        "4:32 steps[0].process",
        "5:18 output.topic",
        "6:10 workers",
    ];
    assert_eq!(places, expected);
}

// Goal: no text ends the process, and none makes a secret appear. Method: cut the full file at each place, and take each
// character out of it or double it.
#[test]
fn no_slip_of_the_pen_panics_or_shows_a_secret() {
    let places: Vec<usize> = FULL.char_indices().map(|(place, _)| place).collect();
    for place in places {
        let (before, after) = FULL.split_at(place);
        let (slip, rest) = after.split_at(1);
        for text in [before.to_owned(), format!("{before}{rest}"), format!("{before}{slip}{slip}{rest}")] {
            let printed = match load(&text) {
                Ok(plan) => format!("{plan:?} {}", plan.redacted_summary()),
                Err(problems) => format!("{problems} {problems:?}"),
            };
            assert!(!printed.contains("hunter2"), "{text}\n{printed}");
        }
    }
}
