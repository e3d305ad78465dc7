//! Who else uses our transactional id, our instance name, our pipeline's name.

use transom_harness::instance::Instance;
use transom_harness::wire::Transaction;
use transom_tests::late::with_orders;

use crate::{ORDERS, PARTITIONS, Pipeline, SHORT, START, awaits};

#[track_caller]
fn expect_words(instance: &Instance, words: &[&str]) {
    let log = instance.log();
    for word in words {
        assert!(log.contains(word), "{word:?} is missing; {}", instance.log_tail());
    }
}

// Goal: one fence is no war, four in a minute are. Method: a foreign producer initialises the id.
#[test]
fn a_fenced_worker_goes_on_three_times_and_then_ends_with_78_and_names_the_id() {
    let orders = Pipeline::shared("fenced", PARTITIONS);
    let id = orders.transactional_id("a");
    let mut a = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        a.awaits("commits", START, |status| status.workers[0].batches_committed > 0);
        for number in 1..=4 {
            Transaction::begin(orders.t.client(), &id, 30_000).expect("take the id over");
            if number == 4 {
                break;
            }
            awaits("the fence", SHORT, || a.transactions().get("fenced") == Some(&number));
            let before = a.status().expect("status").workers[0].batches_committed;
            let status = a.awaits("commits after the fence", START, |status| status.workers[0].batches_committed > before);
            assert!(status.last_trouble().starts_with("fenced: "), "{}", status.last_trouble());
        }
        assert_eq!(a.exits_within(SHORT), 78, "{}", a.log_tail());
    });
    expect_words(&a, &[&id, "fenced 4 times", "incarnation", "--instance", &format!("of group {}", orders.t.pipeline())]);
    a.restart();
    println!("fenced: {}", orders.expect_exactly_once(&mut [&mut a]));
}

// Goal: a second process under one instance name ends the war in the group. Method: both are static members of that name.
#[test]
fn two_processes_with_one_instance_name_end_with_one_of_them_and_both_names() {
    let orders = Pipeline::shared("twins", PARTITIONS);
    let mut first = orders.start("a");
    with_orders(&orders.t, &orders.input, || {
        first.awaits("commits", START, |status| status.workers[0].batches_committed > 0);
        let mut second = orders.start("a");
        assert_eq!(first.exits_within(START), 78, "{}", first.log_tail());
        second.awaits("commits", START, |status| status.workers[0].batches_committed > 1);
        second.drains_within(SHORT);
    });
    expect_words(&first, &[&format!("group.instance.id a:0 of group {}", orders.t.pipeline()), "its own --instance name"]);
    first.restart();
    println!("twins: {}", orders.expect_exactly_once(&mut [&mut first]));
}

// Goal: the same without names: the host's name is the instance's, membership is dynamic, so the group has nothing against two.
#[test]
fn two_unnamed_processes_of_one_host_end_with_one_of_them_and_the_id_both_use() {
    let orders = Pipeline::shared("unnamed", PARTITIONS);
    let yaml = ORDERS.replace("CLIENT", "unnamed");
    let mut both = [orders.t.start_with(None, &yaml, &[]), orders.t.start_with(None, &yaml, &[])];
    with_orders(&orders.t, &orders.input, || {
        awaits("one of them to end", START * 2, || both.iter_mut().any(|instance| instance.exit_code().is_some()));
    });
    both.sort_by_key(|instance| instance.log().contains("fenced 4 times"));
    let [winner, loser] = &mut both;
    assert_eq!(loser.exit_code(), Some(78), "{}", loser.log_tail());
    assert_eq!(winner.exit_code(), None, "{}", winner.log_tail());
    expect_words(loser, &[&format!("{}:", orders.t.pipeline()), "fenced 4 times", "incarnation", "--instance"]);
    println!("unnamed: {}", orders.expect_exactly_once(&mut [winner]));
}

// Goal: two pipelines with one name share a group and an id prefix, and nothing else as long as their topics differ. Method: they
// run side by side; then, with one instance name as well, one of them ends.
#[test]
fn two_pipelines_with_one_name_do_not_mix_and_with_one_instance_name_one_ends() {
    let orders = Pipeline::shared("namesake", PARTITIONS);
    let [input, output, letters] = ["in2", "out2", "dlq2"].map(|topic| orders.t.topic(topic, PARTITIONS));
    let other = ORDERS.replace("@in", "@in2").replace("@out", "@out2").replace("@dlq", "@dlq2");
    let mut a = orders.start("a");
    let mut b = orders.start_with("b", &other);
    with_orders(&orders.t, &orders.input, || {
        with_orders(&orders.t, &input, || {
            a.awaits("commits", START, |status| status.partitions() == 4 && status.workers[0].batches_committed > 2);
            b.awaits("commits", START, |status| status.partitions() == 4 && status.workers[0].batches_committed > 2);
        });
        // The same instance name now: the group gives the name to the newcomer.
        b.drains_within(SHORT);
        let mut namesake = orders.start_with("a", &other);
        assert_eq!(a.exits_within(START), 78, "{}", a.log_tail());
        namesake.drains_within(SHORT);
    });
    expect_words(&a, &[&format!("group.instance.id a:0 of group {}", orders.t.pipeline()), "every pipeline its own name"]);
    a.restart();
    b.restart();
    orders.t.awaits_all_committed(&[&input], START);
    b.drains_within(SHORT);
    orders.t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| transom_tests::orders::cleaned(&output, record));
    println!("namesakes: {}", orders.expect_exactly_once(&mut [&mut a]));
}
