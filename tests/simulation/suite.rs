//! The suite: many schedules without an anomaly, and every rule shown to be needed.

use std::time::Duration;
use transom_simulation::{Kind, Rules, Search, planted, run, search};

/// How many schedules must pass; `TRANSOM_SIMULATION_SEEDS` asks for more.
const SEEDS: u64 = 100_000;
/// Far more than it takes: a search that does not end is a failure too.
const BUDGET: Duration = Duration::from_secs(900);
/// A broken rule must be noticed within these seeds.
const SEEDS_WITH_BROKEN_RULE: u64 = 50_000;

fn told(found: &Search) -> String {
    let lines = found.failures.iter().map(|verdict| {
        let anomalies: Vec<_> = verdict.anomalies.iter().take(3).map(ToString::to_string).collect();
        format!("{}\n    {}", verdict.repeat(), anomalies.join("\n    "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

// Goal: EO-1 to EO-5 and EO-7 under everything the model can do. Method: as many seeds as fit into a minute or two.
#[test]
fn a_hundred_thousand_schedules_show_no_anomaly() {
    let seeds = std::env::var("TRANSOM_SIMULATION_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let found = search(0..seeds, &Rules::default(), 5, BUDGET);
    println!("{} schedules, {} happenings, {:.1} s", found.schedules, found.happenings, found.took.as_secs_f64());
    assert!(found.failures.is_empty(), "\n{}", told(&found));
    assert_eq!(found.schedules, seeds, "the time was over before all schedules ran");
}

#[test]
fn a_seed_repeats_itself() {
    for rules in [Rules::default(), Rules::without("claim-guard").unwrap()] {
        for seed in 0..300 {
            let (first, second) = (run(seed, &rules, false), run(seed, &rules, false));
            assert_eq!((first.happenings, first.anomalies), (second.happenings, second.anomalies), "seed {seed}");
        }
    }
}

/// Switches one rule off and expects a schedule that fails with one of these anomalies.
#[track_caller]
fn is_needed(rule: &str, anomalies: &[Kind]) {
    let found = search(0..SEEDS_WITH_BROKEN_RULE, &Rules::without(rule).expect("a rule of this name"), 1, BUDGET);
    let first = found.failures.first().unwrap_or_else(|| panic!("{} schedules passed without the rule {rule}", found.schedules));
    let named = first.anomalies.iter().any(|anomaly| anomalies.contains(&anomaly.kind));
    assert!(named, "expected one of {anomalies:?}:\n{}", told(&found));
}

// A member that reads its membership again before it sends has a new generation for a partition that is not its own.
#[test]
fn membership_must_be_captured_at_batch_close() {
    is_needed("captured-membership", &[Kind::Duplicate, Kind::Rewound]);
}

#[test]
fn a_commit_without_an_answer_must_not_count_as_success() {
    is_needed("unknown-is-not-success", &[Kind::Lost, Kind::Phantom, Kind::Torn]);
}

#[test]
fn a_commit_without_an_answer_must_not_count_as_failure() {
    is_needed("unknown-is-not-failure", &[Kind::Duplicate, Kind::Rewound]);
}

// KAFKA-17754: a late end of one transaction ends the next one in its middle, if the epoch is the same.
#[test]
fn a_producer_with_a_broken_request_must_be_replaced() {
    is_needed("recycle-guard", &[Kind::Duplicate, Kind::Lost, Kind::Torn, Kind::Rewound]);
}

// A late copy of a claim is a valid commit of an old offset, as long as the generation is the same.
#[test]
fn a_member_with_a_broken_claim_must_change_its_generation() {
    is_needed("claim-guard", &[Kind::Rewound]);
}

#[test]
fn planted_mistakes_still_fit_the_engine() {
    planted::check_texts().unwrap();
}
