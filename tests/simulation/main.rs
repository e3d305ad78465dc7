//! `transom-simulation`: one schedule with its trace, or many.

use std::time::Duration;
use transom_simulation::{Rules, planted, run, search};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("planted") => std::process::exit(planted::make_and_run().unwrap_or_else(|error| {
            eprintln!("the copy with planted mistakes: {error}");
            1
        })),
        Some("judge-planted") => {
            let (passed, failed) = planted::judge();
            println!("{passed} passed, {failed} failed");
            std::process::exit(i32::from(failed > 0));
        }
        _ => {}
    }
    let value = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1)?.parse::<u64>().ok());
    let without = arguments.iter().position(|argument| argument == "--without").and_then(|at| arguments.get(at + 1));
    let mut rules = without.map_or_else(Rules::default, |name| {
        Rules::without(name).unwrap_or_else(|| {
            eprintln!("no rule is called {name}; there are {}", Rules::NAMES.join(", "));
            std::process::exit(64)
        })
    });
    rules.planted = value("--planted").and_then(|number| number.try_into().ok()).unwrap_or(0);
    if let Some(seed) = value("--seed") {
        let verdict = run(seed, &rules, arguments.iter().any(|argument| argument == "--trace"));
        println!("seed {seed}: {} happenings", verdict.happenings);
        for anomaly in &verdict.anomalies {
            println!("{anomaly}");
        }
        std::process::exit(i32::from(!verdict.anomalies.is_empty()));
    }
    let (from, count) = (value("--from").unwrap_or(0), value("--count").unwrap_or(100_000));
    let found = search(from..from + count, &rules, 20, Duration::from_secs(600));
    for verdict in &found.failures {
        println!("{}", verdict.repeat());
        for anomaly in verdict.anomalies.iter().take(3) {
            println!("  {anomaly}");
        }
    }
    println!("{} schedules, {} happenings, {:.1} s, {} failed", found.schedules, found.happenings, found.took.as_secs_f64(), found.failures.len());
    std::process::exit(i32::from(!found.failures.is_empty()));
}
