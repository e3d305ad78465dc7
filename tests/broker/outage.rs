//! The broker goes away and comes back.

use std::thread;
use std::time::Duration;

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::scenario::Scenario;
use transom_tests::orders::{Orders, cleaned};

use crate::{CLEAN_ORDERS, SHORT, START};

/// Longer than the session and the commit's deadline, as long as an upgrade of a broker takes.
const OUTAGE: Duration = Duration::from_secs(20);

// Goal: an outage costs time and nothing else, and nobody has to restart anything. Method: a controlled stop in the middle of
// many small transactions. Not a kill: a lone broker that dies hard can hang the transactions of a correct client.
#[test]
fn a_broker_that_is_away_for_twenty_seconds_costs_time_and_nothing_else() {
    let mut cluster = Cluster::start(ClusterOptions::default()).expect("start a broker");
    let t = Scenario::on(cluster.bootstrap(), "outage");
    let (input, output, letters) = (t.topic("in", 4), t.topic("out", 4), t.topic("dlq", 4));
    let mut orders = Orders::seeded(21);
    t.produce(&input, orders.take(20_000));
    let yaml = CLEAN_ORDERS.replace("input:", "commit: { records_max: 100 }\ninput:");
    let mut instances = [t.start("a", &yaml), t.start("b", &yaml)];
    for instance in &mut instances {
        instance.awaits("records", START, |status| status.records() > 0);
    }

    cluster.stop().expect("stop the broker");
    thread::sleep(OUTAGE);
    for instance in &mut instances {
        assert_eq!(instance.exit_code(), None, "an outage ended {}; {}", instance.name(), instance.log_tail());
    }
    cluster.restart().expect("start the broker again");

    t.produce(&input, orders.take(5_000));
    t.awaits_all_committed(&[&input], Duration::from_secs(90));
    for instance in &mut instances {
        instance.awaits("no record unaccounted for", SHORT, |status| status.unaccounted_records == 0);
        instance.drains_within(SHORT);
    }
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (25_000, 0));
}
