//! Corners of the transactional producer: aborts at once, and the last of its epochs.

use std::time::Duration;

use transom_harness::instance::{Instance, InstanceOptions, binary};
use transom_harness::proxy::{Action, Rule, kind};
use transom_tests::late::with_orders;
use transom_tests::orders::Orders;

use crate::{ORDERS, Pipeline, SHORT, START, Stage, awaits};

/// The last epoch that the broker gives to a producer id before it takes a new id (`Short.MAX_VALUE - 1` is kept for fencing).
const EPOCH_LAST: i16 = i16::MAX - 1;

// Goal: an abort right after the first output, which may be fatal to the client (librdkafka issue 4849), is a new producer at worst.
// Method: a binary that does so a thousand times with the first batch, by the calls that every batch makes, and then sends it.
#[test]
fn a_thousand_aborts_right_after_the_first_output_cost_producers_and_nothing_else() {
    let orders = Pipeline::shared("aborts", 4);
    let program = binary().with_file_name("planted-transom");
    assert!(program.is_file(), "no program at {}: run make build first", program.display());
    let options = orders.options("a", ORDERS);
    let variables = vec![("TRANSOM_PLANTED".to_owned(), "aborts_at_once".to_owned())];
    let mut a = Instance::start(InstanceOptions { program: Some(program), variables, ..options });
    orders.t.produce(&orders.input, Orders::seeded(51).take(2_000));
    a.awaits_log("aborts at once are over", Duration::from_secs(300));
    let log = a.log();
    let line = log.lines().find(|line| line.contains("aborts at once are over")).expect("awaited");
    let count = |name: &str| -> u32 {
        let value = line.split(&format!("{name}=")).nth(1).and_then(|rest| rest.split_whitespace().next());
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
    };
    let (aborted, replaced, recycled) = (count("aborted"), count("replaced"), count("recycled"));
    println!("a thousand aborts: {aborted} aborted, {replaced} fatal to their producer, {recycled} producers replaced by the guard");
    assert_eq!(aborted + replaced, 1_000, "{line}");
    println!("{}", orders.expect_exactly_once(&mut [&mut a]));
    // Some were aborted with their output on the broker already: the thousand were not all over before anything was sent.
    let written = orders.t.aborted_records(&orders.output) + orders.t.aborted_records(&orders.letters);
    println!("a thousand aborts: {written} of them had written their output");
    assert!(written > 0);
}

// Goal: after 32,767 epochs the broker gives a new producer id, and a worker's recycles carry it over. Method: the id's epoch is
// raised as that many restarts would; then commits lose their answers, each of which costs a producer, until the id changes.
#[test]
fn recycles_carry_a_worker_over_the_last_epoch_of_its_producer_id() {
    let stage = Stage::enter();
    let orders = stage.pipeline("epochs", 4);
    let id = orders.transactional_id("a");
    let (first_id, epoch) = orders.t.client().raise_epoch(&id, EPOCH_LAST - 4).expect("raise the epoch");
    let mut a = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        a.awaits("commits", START, |status| status.workers[0].batches_committed > 0);
        let now = || {
            let details = orders.t.client().describe_transaction(&id).expect("describe the id");
            (details.producer_id, details.producer_epoch)
        };
        assert_eq!(now().0, first_id, "the epochs were over before anything began");
        let cut = stage.proxy.arm(Rule::next(kind::END_TXN, Action::CutAnswer).times(100, 3));
        awaits("another producer id", START * 2, || now().0 != first_id);
        println!("epochs: id {first_id} at {epoch}, then id and epoch {:?}", now());
        drop(cut);
        let before = a.status().expect("status").workers[0].batches_committed;
        a.awaits("commits under the new id", START, |status| status.workers[0].batches_committed > before + 2);
        awaits("recycles", SHORT, || a.recycled().values().sum::<u64>() >= 3);
    });
    println!("epochs: replaced for {:?}; {}", a.recycled(), orders.expect_exactly_once(&mut [&mut a]));
}
