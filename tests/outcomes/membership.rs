//! Memberships that end or move on while a batch is on its way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use transom_harness::instance::{Instance, binary};
use transom_harness::oracle::{Expected, Output};
use transom_harness::proxy::{Action, Rule, kind};
use transom_harness::scenario::Scenario;
use transom_harness::wire::{NewRecord, ReadRecord};
use transom_tests::late::{beside, with_orders};
use transom_tests::orders::Orders;

use crate::{ORDERS, PARTITIONS, Pipeline, SHORT, START, Stage, awaits};

/// What the group's coordinator answers to metadata that is not current: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
/// FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH.
const STALE: [i16; 4] = [22, 25, 110, 113];

/// `screen_payment` of the external team, with a poll interval as short as the other time-outs allow.
const PAYMENTS: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: screen, process: screen_payment }]
output: { topic: @out }
dead_letters: { topic: @dlq }
timeouts: { session: 2s, revoke: 1s, send_offsets: 1s, commit: 1s, transaction: 3s, poll_max: 4s }
"#;

fn payment(id: u64, screening_ms: u64) -> NewRecord {
    NewRecord::new(format!("P-{id}"), json!({ "payment_id": id, "cents": id % 3, "screening_ms": screening_ms }).to_string())
}

fn screened(topic: &str, record: &ReadRecord) -> Expected {
    let payment: Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default()).expect("a payment");
    if payment["cents"] == 0 {
        return Expected::Filtered;
    }
    let value = format!(r#"{{"payment_id":{},"cents":{}}}"#, payment["payment_id"], payment["cents"]);
    Expected::Outputs(vec![Output { value: Some(value.into_bytes()), ..Output::copy(topic, record) }])
}

// Goal: EO-2 for a transform slower than max.poll.interval.ms (4 s). Method: one payment takes 10 s, so the group gives its worker
// up in the middle of it and another instance takes everything over; the slow worker finds its way back.
#[test]
fn a_transform_slower_than_the_poll_interval_loses_its_partitions_and_nothing_else() {
    let t = Scenario::shared("slow");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    let program = binary().with_file_name("payments");
    assert!(program.is_file(), "no program at {}: run make build first", program.display());
    let start = |name: &str| {
        let options = t.instance_options(Some(name), PAYMENTS, &[]);
        Instance::start(transom_harness::instance::InstanceOptions { program: Some(program.clone()), ..options })
    };
    let mut a = start("a");
    a.awaits_partitions(2, START);
    t.produce(&input, (0..300).map(|id| payment(id, 0)).collect());
    t.awaits_all_committed(&[&input], SHORT);
    // Both partitions get one, so that whoever has them is slow once.
    for partition in 0..2 {
        let id = 300 + u64::try_from(partition).expect("a small number");
        t.produce_to(&input, partition, &[payment(id, 10_000)]);
    }
    t.produce(&input, (302..600).map(|id| payment(id, 0)).collect());
    a.awaits_log("make the transform faster or raise timeouts.poll_max", START);
    a.awaits("its partitions again", START * 2, |status| status.partitions() == 2);
    t.awaits_all_committed(&[&input], START * 2);
    let status = a.awaits("all counted", SHORT, |status| status.records() == 600);
    assert_eq!(status.unaccounted_records, 0);
    let metrics = a.metrics().expect("metrics");
    let lost = metrics.lines().find_map(|line| line.strip_prefix("transom_partitions_lost_total ")).unwrap_or("none");
    assert_ne!(lost, "0", "{metrics}");
    assert!(a.log().contains("partitions lost"), "{}", a.log_tail());
    // Whatever came last of it, the metric and the log keep the rest.
    println!("slow transform: {}", status.last_trouble());
    println!("slow transform: {lost} partitions lost, {} batches aborted", status.workers[0].batches_aborted);
    a.drains_within(SHORT);
    t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| screened(&output, record));
}

/// Keeps the offsets of one of a's transactions until `b` has joined, and returns the error code of the answer they get then.
#[track_caller]
fn offsets_after_a_join(stage: &Stage, orders: &Pipeline, yaml: &str, a: &mut Instance) -> (i16, Instance) {
    let kept = stage.proxy.arm(Rule::next(kind::TXN_OFFSET_COMMIT, Action::Hold).nth(3).from_client("a"));
    kept.awaits_caught(START);
    let before = a.status().expect("status").workers[0].batches_aborted;
    // The new owner would fence the old one, and its epoch would be refused before its generation is looked at.
    let fence = Rule::next(kind::INIT_PRODUCER_ID, Action::Hold).from_client("b").naming(&orders.transactional_id("a"));
    let fence = stage.proxy.arm(fence.times(u64::MAX, 1));
    let b = orders.start_with("b", yaml);
    awaits("two members", START, || {
        let group = orders.t.client().describe_group(orders.t.pipeline()).expect("describe the group");
        group.members.len() == 2 && group.state == "Stable"
    });
    kept.release();
    let answer = kept.awaits_answer(SHORT);
    a.awaits("the batch aborted", SHORT, |status| status.workers[0].batches_aborted > before);
    fence.release();
    // Throttle time, one topic with its name, one partition with its number; what follows differs by version.
    (stale_code(&answer), b)
}

fn stale_code(answer: &[u8]) -> i16 {
    let codes = answer.windows(2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
    codes.into_iter().skip(4).find(|code| STALE.contains(code)).unwrap_or(0)
}

// Goal: EO-2 when the generation moves under a batch: it is refused, the member stays and never ends. Method: the offsets of a
// transaction are kept until a second instance has joined; the revoke's budget of 1 s is over by then.
#[test]
fn a_batch_of_an_older_generation_is_aborted_and_its_member_stays() {
    let stage = Stage::enter();
    let orders = stage.pipeline("stale", PARTITIONS);
    // Long deadlines: the offsets wait for the join.
    let yaml = ORDERS.replace("send_offsets: 1s, commit: 1s, transaction: 3s", "send_offsets: 20s, commit: 20s, transaction: 25s");
    let mut a = orders.start_with("a", &yaml);
    a.awaits_partitions(4, START);
    with_orders(&orders.t, &orders.input, || {
        let (code, mut b) = offsets_after_a_join(&stage, &orders, &yaml, &mut a);
        assert_ne!(code, 0, "the offsets were taken; {}", a.log_tail());
        a.awaits_partitions(2, START);
        b.awaits_partitions(2, START);
        b.awaits("commits", START, |status| status.workers[0].batches_committed > 0);
        let before = a.status().expect("status").workers[0].batches_committed;
        a.awaits("commits", START, |status| status.workers[0].batches_committed > before);
        let trouble = a.status().expect("status").last_trouble();
        assert!(trouble.contains("next step: none"), "{trouble}");
        println!("stale generation: answered with {code}; {trouble}");
        b.drains_within(SHORT);
    });
    orders.expect_exactly_once(&mut [&mut a]);
}

// Goal: the same without any callback: in the `consumer` protocol a member's epoch rises when somebody joins who gets nothing.
// Method: one partition, so that nothing is asked back; the broker decides whether the older epoch still counts.
#[test]
fn a_member_epoch_that_moves_without_a_callback_costs_a_batch_at_most() {
    let stage = Stage::enter();
    let orders = stage.pipeline("epoch", 1);
    let yaml = ORDERS
        .replace("session: 6s, ", "")
        .replace("send_offsets: 1s, commit: 1s, transaction: 3s", "send_offsets: 20s, commit: 20s, transaction: 25s")
        .replace("input:", "group: { protocol: consumer }\ninput:");
    let mut a = orders.start_with("a", &yaml);
    a.awaits_partitions(1, START);
    with_orders(&orders.t, &orders.input, || {
        let kept = stage.proxy.arm(Rule::next(kind::TXN_OFFSET_COMMIT, Action::Hold).nth(3).from_client("a"));
        kept.awaits_caught(START);
        let before = a.status().expect("status").workers[0].clone();
        let mut b = orders.start_with("b", &yaml);
        awaits("two members", START, || {
            let group = orders.t.client().describe_group(orders.t.pipeline()).expect("describe the group");
            group.members.len() == 2 && group.state == "Stable"
        });
        kept.release();
        let code = stale_code(&kept.awaits_answer(SHORT));
        let status = a.awaits("commits", START, |status| status.workers[0].batches_committed > before.batches_committed + 1);
        let now = &status.workers[0];
        assert!(now.generation > before.generation, "the epoch did not move: {before:?}, {now:?}");
        assert_eq!(now.batches_aborted - before.batches_aborted, u64::from(code != 0), "answered with {code}; {}", a.log_tail());
        for words in ["asked back", "partitions lost"] {
            assert!(!a.log().contains(words), "{words}; {}", a.log_tail());
        }
        println!("member epoch {:?} to {:?}: answered with {code}; {}", before.generation, now.generation, status.last_trouble());
        b.drains_within(SHORT);
    });
    println!("{}", orders.expect_exactly_once(&mut [&mut a]));
}

/// Keeps orders coming while `play` runs, at a pace that six instances keep up with.
fn with_steady_orders(orders: &Pipeline, play: impl FnOnce()) {
    let flow = |is_over: &AtomicBool| {
        let mut source = Orders::seeded(33);
        while !is_over.load(Ordering::SeqCst) {
            orders.t.produce(&orders.input, source.take(60));
            thread::sleep(Duration::from_millis(100));
        }
    };
    beside(flow, play);
}

// Goal: a deployment costs no cascade of rebalances. Method: six instances, each is stopped and started again under its name while
// orders flow; the generation may grow by two for each.
#[test]
fn a_rolling_restart_of_six_instances_moves_the_generation_by_twelve_at_most() {
    const NAMES: [&str; 6] = ["i0", "i1", "i2", "i3", "i4", "i5"];
    let orders = Pipeline::shared("rolling", 6);
    // Longer than a restart, however slow the machine: a member whose session ends costs one more.
    let yaml = ORDERS.replace("session: 6s", "session: 30s");
    let mut instances = NAMES.map(|name| orders.start_with(name, &yaml));
    for instance in &mut instances {
        instance.awaits_partitions(1, START);
    }
    let mut grown = (0, 0);
    with_steady_orders(&orders, || {
        let generation = |instance: &mut Instance| {
            let status = instance.awaits("a generation", START, |status| status.workers[0].generation.is_some());
            status.workers[0].generation.expect("awaited")
        };
        grown.0 = instances.iter_mut().map(generation).max().expect("six");
        for instance in &mut instances {
            instance.drains_within(SHORT);
            instance.restart();
            instance.awaits("its share and a batch", START, |status| status.partitions() > 0 && status.workers[0].batches_committed > 0);
        }
        for instance in &mut instances {
            instance.awaits_partitions(1, START);
        }
        grown.1 = instances.iter_mut().map(generation).max().expect("six");
    });
    println!("rolling restart: generation {} to {}", grown.0, grown.1);
    assert!(grown.1 - grown.0 <= 12, "the generation grew from {} to {}", grown.0, grown.1);
    println!("{}", orders.expect_exactly_once(&mut instances.each_mut()));
}
