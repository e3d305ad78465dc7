//! What a broker forgets: transactional ids after a quiet spell, offsets of an empty group. Its clocks are turned up here.

use std::sync::OnceLock;
use std::time::Duration;

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::scenario::Scenario;
use transom_harness::wire::{Client, CommittedOffset, OffsetsAsked};
use transom_tests::orders::Orders;

use crate::{Pipeline, SHORT, START, awaits};

/// One minute to be forgotten, some seconds until the broker looks.
const FORGOTTEN: Duration = Duration::from_secs(150);

/// A broker that forgets after a minute.
fn forgetful() -> &'static Cluster {
    static FORGETFUL: OnceLock<Cluster> = OnceLock::new();
    FORGETFUL.get_or_init(|| {
        let properties = [
            ("transactional.id.expiration.ms", "60000"),
            ("transaction.remove.expired.transaction.cleanup.interval.ms", "5000"),
            ("offsets.retention.minutes", "1"),
            ("offsets.retention.check.interval.ms", "5000"),
        ];
        let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Cluster::start(ClusterOptions { properties, ..ClusterOptions::default() }).expect("start a broker")
    })
}

/// Returns whether the coordinator knows a transactional id no more.
fn is_unknown_id(client: &Client, id: &str) -> bool {
    client.describe_transaction(id).is_err_and(|error| format!("{error:#}").contains("TransactionalIdNotFound"))
}

// Goal: a quiet spell longer than transactional.id.expiration.ms (1 min here, 7 days by default) costs nothing. Method: one batch,
// then nothing until the coordinator has forgotten the id, then the next batch; the process is not started again.
#[test]
fn a_pipeline_goes_on_by_itself_when_its_transactional_id_has_expired() {
    let orders = Pipeline::of(Scenario::on(forgetful().bootstrap(), "expired-id"), 4);
    let mut a = orders.start("a");
    a.awaits_partitions(4, START);
    let mut source = Orders::seeded(41);
    orders.t.produce(&orders.input, source.take(500));
    orders.t.awaits_all_committed(&[&orders.input], START);
    let id = orders.transactional_id("a");
    awaits("the id to be forgotten", FORGOTTEN, || is_unknown_id(orders.t.client(), &id));
    for _ in 0..3 {
        orders.t.produce(&orders.input, source.take(500));
        orders.t.awaits_all_committed(&[&orders.input], START);
    }
    let status = a.awaits("every record counted once", SHORT, |status| status.records() == 2_000);
    let trouble = status.last_trouble();
    assert!(trouble.contains("next step: none"), "{trouble}; {}", a.log_tail());
    println!("expired id: {:?}; {trouble}", a.transactions());
    println!("{}", orders.expect_exactly_once(&mut [&mut a]));
}

// Goal: whoever starts a pipeline whose offsets have all expired is told. A group without any offset cannot be told from a new one,
// so it begins where `start:` says; here that repeats what was processed, and the oracle says so.
#[test]
fn a_pipeline_whose_offsets_have_expired_says_that_it_begins_anew() {
    let orders = Pipeline::of(Scenario::on(forgetful().bootstrap(), "expired-offsets"), 1);
    let mut a = orders.start("a");
    orders.t.produce(&orders.input, Orders::seeded(42).take(500));
    orders.t.awaits_all_committed(&[&orders.input], START);
    a.drains_within(SHORT);
    awaits("the offsets to be forgotten", FORGOTTEN, || {
        orders.t.client().committed_offsets(orders.t.pipeline(), OffsetsAsked::EvenIfPending).expect("read offsets").is_empty()
    });
    a.restart();
    a.awaits_log("the group has no committed offsets, but the outputs hold records", START);
    orders.t.awaits_all_committed(&[&orders.input], START);
    a.drains_within(SHORT);
    assert_eq!(orders.t.read(&orders.output).len() + orders.t.read(&orders.letters).len(), 1_000);
}

/// An operator's reset needs an empty group; a static member that ended is one until its session is over.
fn awaits_members_gone(orders: &Pipeline) {
    awaits("an empty group", START, || orders.t.client().describe_group(orders.t.pipeline()).expect("describe the group").members.is_empty());
}

// Goal: an offset that is missing where the others are there stops the pipeline. Method: `start: latest` has committed the end of
// every partition there was; an operator's reset leaves one out.
#[test]
fn a_partition_whose_offset_is_gone_stops_the_pipeline_with_65() {
    let orders = Pipeline::shared("missing-offset", 2);
    let known = CommittedOffset { offset: 0, metadata: String::new() };
    let offsets = [((orders.input.clone(), 1), known.clone())].into();
    orders.t.client().commit_offsets(orders.t.pipeline(), &offsets).expect("commit an offset");
    orders.t.produce(&orders.input, Orders::seeded(43).take(100));
    let yaml = crate::ORDERS.replace("input:", "start: latest\ninput:");
    let mut a = orders.start_with("a", &yaml);
    assert_eq!(a.exits_within(START), 65, "{}", a.log_tail());
    let log = a.log();
    for words in [orders.input.as_str(), "partition 0", "--reset-offsets"] {
        assert!(log.contains(words), "{words:?} is missing; {}", a.log_tail());
    }
    assert!(orders.t.read(&orders.output).is_empty());
    // The hint helps.
    let offsets = [((orders.input.clone(), 0), known.clone()), ((orders.input.clone(), 1), known)].into();
    awaits_members_gone(&orders);
    orders.t.client().commit_offsets(orders.t.pipeline(), &offsets).expect("reset the offsets");
    a.restart();
    println!("missing offset: {}", orders.expect_exactly_once(&mut [&mut a]));
}
