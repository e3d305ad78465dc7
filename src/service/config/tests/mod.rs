//! Tables of pipeline files and what is said about them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod file;
mod plan;
mod rules;
mod secrets;

use super::{Plan, Problems, parse};

const PROCESSORS: [&str; 3] = ["clean_orders", "count_words", "split_lines"];

/// The smallest file that is accepted. Tests replace one line of it or add lines after it.
const SMALLEST: &str = "\
pipeline: orders
kafka: { bootstrap.servers: \"localhost:9092\" }
input: { topic: orders }
steps: [ { id: clean, process: clean_orders } ]
output: { topic: orders_clean }
";

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "ORDERS_PASSWORD" => "hunter2",
        "BROKERS" => "hunter2:9092",
        "WORKERS" => "4",
        "INTERVAL" => "250ms",
        "WORD" => "hunter2",
        "NAME" => "orders",
        "NESTED" => "${WORD}",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

fn load(text: &str) -> Result<Plan, Problems> {
    parse("p.yaml", text, &PROCESSORS, &environment)
}

/// Returns `SMALLEST` with the line that begins with the same key replaced, or with new lines at its end.
fn changed(lines: &str) -> String {
    let key = |line: &str| line.split(':').next().map(str::to_owned);
    let first = key(lines);
    let mut text: String = SMALLEST.lines().map(|line| if key(line) == first { lines } else { line }).map(|line| format!("{line}\n")).collect();
    if !SMALLEST.lines().any(|line| key(line) == first) {
        text.push_str(lines);
    }
    text
}

fn plan_of(text: &str) -> Plan {
    load(text).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// Returns the first line of each problem, less the file's name.
fn said_about(text: &str) -> Vec<String> {
    let Err(problems) = load(text) else { return Vec::new() };
    let first_line = |problem: &super::Problem| problem.to_string().lines().next().unwrap_or_default().to_owned();
    problems.iter().map(|problem| first_line(problem).trim_start_matches("p.yaml:").to_owned()).collect()
}

/// Each case: lines for `changed`, and all that must be said about them.
fn expect_said(cases: &[(&str, &[&str])]) {
    for (lines, expected) in cases {
        let said = said_about(&changed(lines));
        assert_eq!(&said, expected, "\n{lines}");
    }
}
