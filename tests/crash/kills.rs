//! Death by SIGKILL, at moments nobody chose.

use std::thread;
use std::time::Duration;

use transom_harness::instance::Instance;
use transom_harness::scenario::{Random, Scenario};
use transom_tests::orders::cleaned;

use crate::{PARTITIONS, SHORT, START, send_orders};

const ORDERS: u64 = 100_000;
const ORDERS_PER_SECOND: u64 = 2_500;
const KILLS_MIN: usize = 10;

/// Short commits: a kill then falls into an open transaction about every other time.
const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: 10ms }
timeouts: { session: 6s, revoke: 3s }
"#;

// Goal: EO-1, EO-3, EO-7 whatever dies when. Method: two instances, orders all the time, one of the two killed at random
// moments and started again under its name; sometimes at once, sometimes only when the other one has taken over.
#[test]
fn a_hundred_thousand_orders_survive_ten_kills() {
    let mut random = Random::from_environment();
    let t = Scenario::shared("ten-kills");
    let (input, output, letters) = (t.topic("in", PARTITIONS), t.topic("out", PARTITIONS), t.topic("dlq", PARTITIONS));
    let mut instances = [t.start("a", PIPELINE), t.start("b", PIPELINE)];
    for instance in &mut instances {
        instance.awaits_partitions(2, Duration::from_secs(30));
    }

    let mut kills = 0;
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_orders(&t, &input, ORDERS, ORDERS_PER_SECOND));
        // Never fewer than asked for, and as long as there is live traffic to hit.
        while kills < KILLS_MIN || !sending.is_finished() {
            // Chosen, not awaited: the moment is the point of the test.
            thread::sleep(random.between_ms(500, 3_500));
            kill_one(&mut random, &mut instances);
            kills += 1;
        }
    });

    t.awaits_all_committed(&[&input], Duration::from_secs(60));
    for instance in &mut instances {
        let status = instance.awaits("lag 0", SHORT, |status| status.lag.unwrap_or(0) == 0);
        assert_eq!(status.unaccounted_records, 0, "{status:?}");
        assert!(status.records() <= ORDERS, "counted more than there is: {status:?}");
        instance.drains_within(START);
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs() as u64, ORDERS);
    assert_eq!(report.order_unchecked(), 0, "every value is unique, so the whole order was compared");
    println!("{kills} kills, {} output records of aborted transactions; {report}", t.aborted_records(&output));
}

fn kill_one(random: &mut Random, instances: &mut [Instance; 2]) {
    let [a, b] = instances;
    let (victim, survivor) = if random.below(2) == 0 { (a, b) } else { (b, a) };
    victim.kill9();
    if random.below(4) == 0 {
        survivor.awaits_partitions(4, Duration::from_secs(30));
    } else {
        thread::sleep(random.between_ms(0, 1_000));
    }
    victim.restart();
}
