//! What is wrong only where file and cluster meet.

use std::net::TcpListener;
use std::time::Duration;

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::instance::run_to_end;
use transom_harness::scenario::Scenario;
use transom_tests::orders::{Orders, cleaned};

use crate::{ANSWER, expect_refusal, run, transom};

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @orders }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
"#;

fn with_topics(name: &str) -> Scenario {
    let t = Scenario::shared(name);
    for short in ["orders", "out", "dlq"] {
        t.topic(short, 2);
    }
    t
}

#[test]
fn a_broker_that_is_down_ends_with_69_and_its_address() {
    let t = Scenario::shared("down");
    // Free a moment ago, and nobody listens there.
    let address = {
        let nobody = TcpListener::bind("127.0.0.1:0").expect("bind a port");
        nobody.local_addr().expect("ask for the address").to_string()
    };
    let ended = run(&t.file(&PIPELINE.replace("@bootstrap", &address)));
    expect_refusal(&ended, 69, &[&address, "hint"]);
}

#[test]
fn a_missing_input_topic_ends_with_78_and_the_nearest_name() {
    let t = with_topics("missing");
    let ended = run(&t.file(&PIPELINE.replace("@orders", "@order")));
    expect_refusal(&ended, 78, &[&t.full("order"), &t.full("orders"), "topics create"]);
    assert!(!t.client().topics().expect("list topics").contains_key(&t.full("order")), "the missing topic was made");
}

#[test]
fn a_transaction_timeout_above_the_brokers_ends_with_78_and_both_values() {
    let t = with_topics("timeout");
    let ended = run(&t.file(&PIPELINE.replace("input:", "timeouts: { transaction: 20m }\ninput:")));
    expect_refusal(&ended, 78, &["transaction.max.timeout.ms", "900000", "1200000"]);
}

#[test]
fn inputs_with_unequal_partition_counts_end_with_78() {
    let t = with_topics("unequal");
    t.topic("more", 3);
    let ended = run(&t.file(&PIPELINE.replace("input: { topic: @orders }", "inputs: [{ topic: @orders }, { topic: @more }]")));
    expect_refusal(&ended, 78, &[&t.full("orders"), &t.full("more"), "2", "3"]);
}

// A broker whose transaction log wants more replicas than there are brokers answers the first transaction never.
#[test]
fn a_broker_that_cannot_do_transactions_ends_with_78() {
    let properties = vec![("transaction.state.log.replication.factor".to_owned(), "3".to_owned())];
    let cluster = Cluster::start(ClusterOptions { properties, ..ClusterOptions::default() }).expect("start a broker");
    let t = Scenario::on(cluster.bootstrap(), "no-transactions");
    for short in ["orders", "out", "dlq"] {
        t.topic(short, 1);
    }
    let ended = run(&t.file(PIPELINE));
    expect_refusal(&ended, 78, &["transaction.state.log.replication.factor"]);
}

#[test]
fn an_endpoint_address_in_use_ends_with_78_and_the_option_to_change() {
    let t = with_topics("in-use");
    let taken = TcpListener::bind("127.0.0.1:0").expect("bind a port");
    let address = taken.local_addr().expect("ask for the address").to_string();
    let file = t.file(PIPELINE).display().to_string();
    let ended = run_to_end(&["run", &file, "--listen", &address], &[], ANSWER);
    expect_refusal(&ended, 78, &[&address, "--listen"]);
}

#[test]
fn a_bad_instance_name_ends_with_78() {
    let t = with_topics("bad-name");
    let file = t.file(PIPELINE).display().to_string();
    expect_refusal(&transom(&["run", &file, "--instance", "a:b", "--listen", "127.0.0.1:0"]), 78, &["a:b"]);
}

// Goal: two processes under one name are no retry war. Method: start the second, see the first end by itself with 78 and stay
// ended, and the second do all the work.
#[test]
fn the_second_process_of_one_name_ends_the_first_with_78() {
    let t = with_topics("one-name");
    let (input, output, letters) = (t.full("orders"), t.full("out"), t.full("dlq"));
    let mut orders = Orders::seeded(41);
    let mut first = t.start("same", PIPELINE);
    first.awaits_partitions(2, ANSWER);
    t.produce(&input, orders.take(1_000));
    first.awaits("records", ANSWER, |status| status.records() == 1_000);

    let mut second = t.start("same", PIPELINE);
    assert_eq!(first.exits_within(ANSWER), 78, "{}", first.log_tail());
    for words in ["same", "--instance"] {
        assert!(first.log().contains(words), "{words:?} is missing; {}", first.log_tail());
    }
    t.produce(&input, orders.take(1_000));
    second.awaits_partitions(2, ANSWER);
    t.awaits_all_committed(&[&input], ANSWER);
    second.drains_within(Duration::from_secs(15));
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!((report.inputs(), report.order_unchecked()), (2_000, 0));
}
