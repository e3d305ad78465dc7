//! What the client's handle does with events, shown on the library's own mock cluster: nothing here is about a broker.

use super::KafkaConsumer;
use crate::admin::group_offsets;
use crate::ffi;
use crate::handle::Properties;
use crate::planted::Planted;
use std::time::{Duration, Instant};
use transom_runtime::{Source, SourceEvent};

/// The mock cluster starts, the member joins.
const DEADLINE: Duration = Duration::from_secs(30);

fn member(planted: Planted) -> KafkaConsumer {
    let properties = Properties::new()
        .with("group.id", "orders")
        .with("test.mock.num.brokers", "1")
        .with("auto.offset.reset", "error")
        .with("allow.auto.create.topics", "true");
    let mut consumer = KafkaConsumer::new(&properties, &["orders".to_owned()], ("orders", None), (0, planted)).unwrap();
    consumer.subscribe().unwrap();
    consumer
}

/// Waits until the library has put its assignment into the queue, without taking it out.
fn awaits_event(consumer: &KafkaConsumer) {
    let until = Instant::now() + DEADLINE;
    let queue = consumer.events.as_ref().unwrap();
    // SAFETY: the queue is alive.
    while unsafe { ffi::rd_kafka_queue_length(queue.as_ptr()) } == 0 {
        assert!(Instant::now() < until, "no assignment");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn awaits_assignment(consumer: &mut KafkaConsumer, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        if consumer.poll().iter().any(|event| matches!(event, SourceEvent::Assigned(_))) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for the group's offsets from another thread, as the transact thread does, while an assignment waits.
fn asks_meanwhile(consumer: &KafkaConsumer) {
    awaits_event(consumer);
    let client = consumer.client();
    std::thread::spawn(move || group_offsets(&client, "orders", None, false, DEADLINE)).join().unwrap().unwrap();
}

// Goal: an assignment reaches the worker, whoever asks over its handle meanwhile. Method: it waits in the queue while another thread
// reads offsets; then it is polled for.
#[test]
fn an_assignment_that_waits_is_not_lost_to_a_question_from_another_thread() {
    let mut consumer = member(Planted::Nothing);
    asks_meanwhile(&consumer);
    assert!(awaits_assignment(&mut consumer, DEADLINE), "the assignment was taken by somebody else");
}

// Goal: the test above can fail. Method: the rule that it checks is switched off.
#[test]
fn whoever_serves_the_handle_elsewhere_throws_the_assignment_away() {
    let mut consumer = member(Planted::EventsServedElsewhere);
    asks_meanwhile(&consumer);
    assert!(!awaits_assignment(&mut consumer, Duration::from_secs(2)), "the rule is not needed any more");
}
