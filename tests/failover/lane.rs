//! All kills of one combination: fresh topics, two instances, live orders, and the verdict at the end.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use transom_harness::broker::Cluster;
use transom_harness::proxy::{Action, Armed, Proxy, Rule};
use transom_harness::scenario::Scenario;
use transom_tests::orders::cleaned;

use crate::combination::{Combination, Then};
use crate::crew::Member;
use crate::evidence;
use crate::point::{Catch, Point};
use crate::table::Trial;
use crate::traffic::Traffic;
use crate::watch::{Moments, all_open, ends, first_outputs};

const PARTITIONS: i32 = 4;
/// Process start, a session that ends, a rebalance, the first batch; of Kafka Streams with its defaults, too.
const SETTLE_DEADLINE: Duration = Duration::from_secs(120);
/// A session of 45 s and a transaction that is timed out after 60 s, with what a broker needs to notice.
const OUTPUT_DEADLINE: Duration = Duration::from_secs(150);
/// A request that every batch makes.
const CATCH_DEADLINE: Duration = Duration::from_secs(20);
/// From a caught request until the transaction's outputs are written.
const WRITE_DEADLINE: Duration = Duration::from_secs(1);
/// Now and then the request overtakes the outputs; then the next transaction is tried.
const CATCHES_MAX: u32 = 50;
/// How often a victim may lose its session before it is where it shall be killed.
const POINT_TRIES_MAX: u32 = 5;
/// How long there is nothing to do before an idle instance is killed.
const QUIET: Duration = Duration::from_secs(1);
/// Everything is committed when the orders have stopped, at the latest after another takeover.
const COMMIT_DEADLINE: Duration = Duration::from_secs(120);
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The broker and its proxy.
pub struct Stage {
    pub cluster: Cluster,
    pub proxy: Proxy,
}

/// One combination at work.
struct Lane<'a> {
    stage: &'a Stage,
    combination: &'a Combination,
    t: &'a Scenario,
    output: &'a str,
    traffic: &'a Traffic,
    victim: Member,
    other: Member,
}

/// Kills at all points, `repeats` times, and judges the whole.
///
/// # Panics
/// When something that was awaited does not come, or the run is not exact.
pub fn run(stage: &Stage, combination: &Combination, repeats: u32) -> Vec<Trial> {
    let t = Scenario::through(&stage.proxy.bootstrap(), stage.cluster.bootstrap(), combination.name);
    let [input, output, letters] = ["in", "out", "out_dlq"].map(|topic| t.topic(topic, PARTITIONS));
    let _kept = evidence::Logs::of(&t, combination.name);
    let traffic = Traffic::default();
    let (mut lane, trials) = traffic.flows(&t, &input, || {
        let membership = combination.membership;
        let victim = Member::start(&t, combination, "victim", membership);
        // It is the victim's membership that decides how soon it is missed; two without a name would share the host's.
        let other = Member::start(&t, combination, "other", combination.others_membership());
        let mut lane = Lane { stage, combination, t: &t, output: &output, traffic: &traffic, victim, other };
        let mut trials = Vec::new();
        for _ in 0..repeats {
            trials.extend(combination.points().iter().map(|point| lane.kills_at(*point)));
        }
        lane.settles();
        (lane, trials)
    });
    t.awaits_all_committed(&[&input], COMMIT_DEADLINE);
    lane.victim.drains();
    lane.other.drains();
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.order_unchecked(), 0, "every value is unique, so the whole order was compared");
    let aborted = t.aborted_records(&output);
    eprintln!("failover: {}: exact, {report}; {aborted} records of aborted transactions", combination.name);
    trials
}

impl Lane<'_> {
    /// Brings the victim to a point, kills it there, and measures until its partitions give something new.
    fn kills_at(&mut self, point: Point) -> Trial {
        let name = format!("{}, {}", self.combination.name, point.title());
        let (caught, owned) = self.stands_at(point);
        let killed = Instant::now();
        self.victim.kill9();
        // What was held is thrown away: it would arrive in another story.
        drop(caught);
        let ends = ends(self.t.client(), self.output, &owned);
        self.traffic.goes_on();
        let (begun, seen) = match self.combination.then {
            Then::Restart => self.restarts(&ends),
            Then::OtherInstance => self.is_taken_over(&ends),
        };
        let since = |from: &Moments| -> Vec<f64> {
            let waited = seen.iter().filter_map(|(partition, at)| Some(at.saturating_duration_since(*from.get(partition)?).as_secs_f64()));
            waited.collect()
        };
        let waited = since(&begun);
        let words = || format!("{}\n{}", self.victim.log_tail(), self.other.log_tail());
        assert_eq!(waited.len(), owned.len(), "{name}: after {OUTPUT_DEADLINE:?} only {seen:?} of {owned:?} give something new; {}", words());
        let from_kill = since(&owned.iter().map(|partition| (*partition, killed)).collect());
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let trial = Trial {
            combination: self.combination.title,
            point: point.title(),
            partitions: owned.len(),
            first_s: least(&waited),
            all_s: waited.iter().copied().fold(0.0, f64::max),
            from_kill_s: least(&from_kill),
        };
        eprintln!("failover: {name}: first {:.3} s, all {:.3} s, from the kill {:.3} s", trial.first_s, trial.all_s, trial.from_kill_s);
        trial
    }

    /// Brings the victim to a point and returns what holds it there, and its partitions. On a busy machine it may have lost them on the way.
    fn stands_at(&mut self, point: Point) -> (Option<Armed>, Vec<i32>) {
        for _ in 0..POINT_TRIES_MAX {
            self.settles();
            let caught = self.brings_to(point);
            let owned = self.partitions_of_victim();
            if !owned.is_empty() && self.victim.is_running() {
                return (caught, owned);
            }
            eprintln!("failover: {}: the victim lost its partitions before the kill", self.combination.name);
        }
        panic!("{}, {}: {POINT_TRIES_MAX} times without partitions", self.combination.name, point.title());
    }

    fn restarts(&mut self, ends: &BTreeMap<i32, i64>) -> (Moments, Moments) {
        let begun = Instant::now();
        self.victim.restart();
        let seen = first_outputs(self.stage.cluster.bootstrap(), self.output, ends, OUTPUT_DEADLINE, || {
            self.victim.is_supervised();
            self.other.is_supervised();
        });
        (ends.keys().map(|partition| (*partition, begun)).collect(), seen)
    }

    fn is_taken_over(&mut self, ends: &BTreeMap<i32, i64>) -> (Moments, Moments) {
        let mut gained = Moments::new();
        let seen = first_outputs(self.stage.cluster.bootstrap(), self.output, ends, OUTPUT_DEADLINE, || {
            self.other.is_supervised();
            if gained.len() < ends.len() {
                for partition in partitions_of(self.t, &self.other).into_iter().filter(|partition| ends.contains_key(partition)) {
                    gained.entry(partition).or_insert_with(Instant::now);
                }
            }
        });
        (gained, seen)
    }

    /// Waits until both are members with partitions, and every partition gives outputs.
    fn settles(&mut self) {
        self.traffic.goes_on();
        let until = Instant::now() + SETTLE_DEADLINE;
        loop {
            self.victim.is_supervised();
            self.other.is_supervised();
            let group = self.t.client().describe_group(self.t.pipeline()).expect("describe the group");
            let count = |member: &Member| partitions_of(self.t, member).len();
            let (victims, others) = (count(&self.victim), count(&self.other));
            if group.state == "Stable" && group.members.len() == 2 && victims > 0 && others > 0 && victims + others == PARTITIONS as usize {
                break;
            }
            assert!(Instant::now() < until, "{group:?}; {}\n{}", self.victim.log_tail(), self.other.log_tail());
            thread::sleep(LOOK_PAUSE * 5);
        }
        let all: Vec<i32> = (0..PARTITIONS).collect();
        let ends = ends(self.t.client(), self.output, &all);
        let seen = first_outputs(self.stage.cluster.bootstrap(), self.output, &ends, OUTPUT_DEADLINE, || {});
        assert_eq!(seen.len(), all.len(), "not every partition gives outputs; {}\n{}", self.victim.log_tail(), self.other.log_tail());
    }

    /// Returns what holds the victim at the point, if it is more than a quiet input.
    fn brings_to(&mut self, point: Point) -> Option<Armed> {
        match point {
            Point::AfterProduce => Some(self.catches_with_outputs(Catch::of_offsets())),
            Point::BeforeCommit => Some(self.catches_with_outputs(Catch::of_end())),
            Point::BeforeClaim => Some(self.catches_claim(Catch::of_claim())),
            Point::AfterClaim => Some(self.catches_claim(Catch::of_claims_answer())),
            Point::Idle => {
                self.traffic.pauses();
                self.t.awaits_all_committed(&[&self.t.full("in")], COMMIT_DEADLINE);
                // The quiet is the subject.
                thread::sleep(QUIET);
                None
            }
        }
    }

    fn arms(&self, Catch { api_key, action }: Catch) -> Armed {
        self.stage.proxy.arm(Rule::next(api_key, action).from_client(&self.victim.producer_client()))
    }

    /// Catches a request of a transaction whose outputs all lie in the topic.
    fn catches_with_outputs(&self, catch: Catch) -> Armed {
        let owned = self.partitions_of_victim();
        for _ in 0..CATCHES_MAX {
            let caught = self.arms(catch);
            caught.awaits_caught(CATCH_DEADLINE);
            let until = Instant::now() + WRITE_DEADLINE;
            while Instant::now() < until {
                if all_open(self.t.client(), self.output, &owned) {
                    return caught;
                }
            }
            caught.release();
        }
        panic!("{}: {CATCHES_MAX} transactions were caught, none with outputs in {owned:?}", self.combination.name);
    }

    /// Lets the victim leave and come back, and catches its first claim.
    fn catches_claim(&mut self, catch: Catch) -> Armed {
        self.victim.drains();
        let caught = self.arms(catch);
        self.victim.restart();
        caught.awaits_caught(SETTLE_DEADLINE);
        if catch.action == Action::DropAnswer {
            caught.awaits_answer(CATCH_DEADLINE);
        }
        caught
    }

    fn partitions_of_victim(&self) -> Vec<i32> {
        let until = Instant::now() + CATCH_DEADLINE;
        loop {
            let owned = partitions_of(self.t, &self.victim);
            if !owned.is_empty() || Instant::now() >= until {
                return owned;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }
}

/// Returns the partitions that the group's coordinator has given to a member.
fn partitions_of(t: &Scenario, member: &Member) -> Vec<i32> {
    let group = t.client().describe_group(t.pipeline()).expect("describe the group");
    let own = group.members.into_iter().filter(|found| member.has_client(&found.client_id));
    let mut partitions: Vec<i32> = own.flat_map(|found| found.assignment).map(|(_, partition)| partition).collect();
    partitions.sort_unstable();
    partitions
}
