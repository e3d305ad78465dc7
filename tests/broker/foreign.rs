//! Somebody else's open transaction on the input: said once, named, waited for, and no processor burnt.

use std::thread;
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions, Security};
use transom_harness::instance::{Blocked, Instance};
use transom_harness::scenario::Scenario;
use transom_harness::wire::Transaction;
use transom_tests::orders::{Orders, cleaned};

use crate::{CLEAN_ORDERS, SHORT, START};

const WAITING: &str = "waiting_for_foreign_transaction";
const BEGIN: &str = "an open transaction of a foreign producer holds it up";
const END: &str = "a foreign transaction holds it up no more";
/// Over this time an idle process is measured: long against its two looks at the broker.
const IDLE: Duration = Duration::from_secs(5);
/// Most processor time it may use in it: a spinning thread would use all of it.
const IDLE_CPU_MAX: Duration = Duration::from_millis(500);

#[track_caller]
fn awaits_blocked(instance: &mut Instance) -> Blocked {
    let status = instance.awaits(WAITING, START, |status| status.state == WAITING);
    let blocked = status.workers[0].partitions.iter().find_map(|partition| partition.blocked.clone()).expect("a partition that is held up");
    assert!(status.reason.contains(&blocked.reason), "{status:?}");
    blocked
}

// Goal: the state names topic, partition, producer and age, says what to do, and costs nothing; ordinary transactions do
// not raise it. Method: many short foreign transactions, then one that stays open in one of two partitions.
#[test]
fn a_foreign_transaction_that_stays_open_is_named_with_its_producer_and_age_and_costs_no_processor() {
    let t = Scenario::shared("blocked");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let mut instance = t.start("a", CLEAN_ORDERS);
    instance.awaits_partitions(2, START);
    let mut orders = Orders::seeded(61);
    let (until, mut short) = (Instant::now() + Duration::from_secs(8), 0);
    while Instant::now() < until {
        let mut ordinary = Transaction::begin(t.client(), &t.full("ordinary"), 30_000).expect("begin");
        ordinary.produce(&input, 0, &orders.take(10)).expect("produce");
        ordinary.commit().expect("commit");
        short += 10;
    }
    t.awaits_all_committed(&[&input], SHORT);
    assert!(!instance.log().contains(BEGIN), "{}", instance.log_tail());

    let mut foreign = Transaction::begin(t.client(), &t.full("billing"), 60_000).expect("begin");
    let start = foreign.produce(&input, 0, &orders.take(50)).expect("produce")[0];
    let (producer_id, _) = foreign.producer();
    let blocked = awaits_blocked(&mut instance);
    assert_eq!((blocked.producer_id, blocked.transactional_id.as_deref()), (Some(producer_id), Some(t.full("billing").as_str())));
    let age = blocked.transaction_age_seconds.expect("an age");
    assert!((5..40).contains(&age) && (5..40).contains(&blocked.seconds), "{blocked:?}");
    let abort = format!("kafka-transactions.sh --bootstrap-server {} abort --topic {input} --partition 0 --start-offset {start}", t.bootstrap());
    for words in [format!("topic {input}, partition 0"), format!("offset {start}"), format!("producer id {producer_id}"), "60 s".to_owned(), abort] {
        assert!(blocked.reason.contains(&words), "{words:?} is missing in {:?}", blocked.reason);
    }
    let (code, _) = instance.get("/readyz").expect("an answer");
    assert_eq!(code, 200, "it is nobody's fault here");
    let metrics = instance.metrics().expect("metrics");
    for begin in [
        format!("transom_input_blocked_seconds{{topic=\"{input}\",partition=\"0\"}} "),
        format!("transom_worker_state{{worker=\"0\",state=\"{WAITING}\"}} 1"),
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(&begin)), "{begin:?} is missing in:\n{metrics}");
    }
    let used = instance.cpu_time();
    thread::sleep(IDLE);
    let used = instance.cpu_time() - used;
    println!("processor time while held up: {used:?} in {IDLE:?}");
    assert!(used <= IDLE_CPU_MAX, "{used:?} in {IDLE:?}");

    // The other partition flows meanwhile, and then the state is `running`.
    t.produce_to(&input, 1, &orders.take(100));
    let status = instance.awaits("the other partition's records", SHORT, |status| status.records() == short + 100);
    let held_up = status.workers[0].partitions.iter().find(|partition| partition.partition == 0).expect("partition 0");
    assert_eq!((held_up.lag, held_up.lag_to_log_end), (Some(0), Some(50)), "{status:?}");

    foreign.commit().expect("commit");
    instance.awaits("running again", START, |status| status.state == "running" && status.records() == short + 150);
    instance.awaits_log(END, SHORT);
    t.awaits_all_committed(&[&input], SHORT);
    let metrics = instance.metrics().expect("metrics");
    assert!(!metrics.lines().any(|line| line.starts_with("transom_input_blocked_seconds{")), "{metrics}");
    instance.drains_within(SHORT);
    let log = instance.log();
    assert_eq!((log.matches(BEGIN).count(), log.matches(END).count()), (1, 1), "one line each; {}", instance.log_tail());
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs(), usize::try_from(short + 150).expect("a small number"));
}

fn with_listener(cluster: &Cluster, protocol: &str) -> String {
    let listener = cluster.secure().expect("it was asked for");
    let kafka = format!(
        r#"kafka: {{ bootstrap.servers: "{}", security.protocol: {protocol}, sasl.mechanism: {}, sasl.username: {}, sasl.password: "{}", ssl.ca.location: "{}" }}"#,
        listener.bootstrap,
        listener.mechanism,
        listener.user,
        listener.password,
        listener.ca_pem.display()
    );
    CLEAN_ORDERS.replace(r#"kafka: { bootstrap.servers: "@bootstrap" }"#, &kafka)
}

/// Leaves a transaction open on the input and returns its producer id and what the instance says of it.
#[track_caller]
fn held_up(cluster: &Cluster, protocol: &str) -> (i64, Blocked, String) {
    let t = Scenario::on(cluster.bootstrap(), "blocked-secure");
    let input = t.topic("in", 1);
    t.topic("out", 1);
    t.topic("dlq", 1);
    let mut instance = t.start("a", &with_listener(cluster, protocol));
    instance.awaits_partitions(1, START);
    let mut foreign = Transaction::begin(t.client(), &t.full("billing"), 60_000).expect("begin");
    foreign.produce(&input, 0, &Orders::seeded(62).take(10)).expect("produce");
    let blocked = awaits_blocked(&mut instance);
    let producer_id = foreign.producer().0;
    foreign.abort().expect("abort");
    instance.awaits("running again", START, |status| status.state == "running");
    instance.drains_within(SHORT);
    (producer_id, blocked, input)
}

#[test]
fn over_a_listener_with_a_password_the_foreign_producer_is_named_too() {
    let map = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SECURE:SASL_PLAINTEXT";
    let properties = vec![("listener.security.protocol.map".to_owned(), map.to_owned())];
    let options = ClusterOptions { security: Security::SaslSsl, properties, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).expect("start a broker");
    let (producer_id, blocked, _) = held_up(&cluster, "SASL_PLAINTEXT");
    assert_eq!(blocked.producer_id, Some(producer_id), "{blocked:?}");
}

#[test]
fn over_tls_the_state_says_which_command_names_the_foreign_producer() {
    let options = ClusterOptions { security: Security::SaslSsl, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).expect("start a broker");
    let (_, blocked, input) = held_up(&cluster, "SASL_SSL");
    assert_eq!(blocked.producer_id, None);
    let command = format!("describe-producers --topic {input} --partition 0");
    for words in ["producer id not known", "security.protocol is sasl_ssl", &command] {
        assert!(blocked.reason.contains(words), "{words:?} is missing in {:?}", blocked.reason);
    }
}
