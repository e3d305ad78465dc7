//! Every invariant's assertion can be reached by a wrong event, and says its id.

use super::STARTED;
use super::script::{LIMITS, Script, offset, place};
use crate::batch::{Batch, BatchId, Progress};
use crate::fate::FateCounts;
use crate::identity::{Incarnation, TransactionalId};
use crate::place::Millis;
use crate::worker::{Event, Handed, Worker};

fn run(text: &str) {
    let mut script = Script::new();
    for line in STARTED.lines().chain(text.lines()).map(str::trim).filter(|line| !line.is_empty()) {
        script.line(line.split("=>").next().unwrap().trim());
    }
}

#[test]
#[should_panic(expected = "EO-2 is broken: records of input 0 partition 7 were handed over, which is not ours")]
fn records_of_a_foreign_partition() {
    run("1 handed 7 0..1");
}

#[test]
#[should_panic(expected = "EO-2 is broken")]
fn records_before_the_claim() {
    let mut script = Script::new();
    for line in ["0 ready", "0 assigned 0", "0 resolved 0@10", "0 handed 0 10..11"] {
        script.line(line);
    }
}

#[test]
#[should_panic(expected = "EO-2 is broken: input 0 partition 0 was assigned twice")]
fn an_assignment_twice() {
    run("1 assigned 0");
}

#[test]
#[should_panic(expected = "EO-7 is broken: input 0 partition 0: 9..11 after 10")]
fn records_below_the_position() {
    run("1 handed 0 9..11");
}

#[test]
#[should_panic(expected = "EO-7 is broken: input 0 partition 0: 11..11 after 10")]
fn a_record_that_does_not_move_the_position() {
    run("1 handed 0 11..11");
}

#[test]
#[should_panic(expected = "EO-7 is broken: input 0 partition 0: interval 10..9 runs backwards")]
fn a_quiet_step_backwards() {
    run("1 handed 0 ..9");
}

#[test]
#[should_panic(expected = "EO-3 is broken: input 0 partition 0: 3 records")]
fn records_without_a_fate() {
    let (mut worker, _) = Worker::new(LIMITS, TransactionalId::new("p", "i", 0).unwrap(), Incarnation(1));
    let mut commands = Vec::new();
    worker.step(Event::ProducerReady, Millis(0), &mut commands);
    worker.step(Event::Assigned(vec![place("0")]), Millis(0), &mut commands);
    let seen = crate::worker::OwnerSeen::At(offset("10"), None);
    worker.step(Event::Resolved(vec![crate::worker::Resolved { partition: place("0"), assignment: 1, seen }]), Millis(0), &mut commands);
    worker.step(Event::Claimed(crate::worker::Claim::Committed), Millis(0), &mut commands);
    let handed = Handed { partition: place("0"), first: Some(offset("10")), next: offset("13"), records: 3, fates: FateCounts::default(), bytes: 0 };
    worker.step(Event::Handed(handed), Millis(0), &mut commands);
}

#[test]
#[should_panic(expected = "EO-5 is broken: batch 1 ended, none was in flight")]
fn an_end_without_a_batch() {
    run("1 committed #1");
}

#[test]
#[should_panic(expected = "batch 2 ended, 1 was in flight")]
fn an_end_of_another_batch() {
    run("1 handed 0 10..20\n1 tick\n2 committed #2");
}

#[test]
#[should_panic(expected = "EO-3 is broken: input 0 partition 0: 12 does not join on to 11")]
fn intervals_that_do_not_join_on() {
    let mut progress = Progress::default();
    progress.extend(place("0"), offset("10"), offset("11"));
    progress.extend(place("0"), offset("12"), offset("13"));
}

/// A worker whose inside is broken on purpose; no event can do that.
fn with_open_batch(breaks: impl FnOnce(&mut Worker, &mut Batch)) {
    let mut script = Script::new();
    for line in STARTED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        script.line(line.split("=>").next().unwrap().trim());
    }
    let mut batch = Batch::new(BatchId(1), Millis(0));
    let worker = script.worker();
    breaks(worker, &mut batch);
    worker.open = Some(batch);
    worker.step(Event::Tick, Millis(5_000), &mut Vec::new());
}

#[test]
#[should_panic(expected = "EO-2 is broken: a transaction without offsets would commit unfenced")]
fn an_empty_batch_at_its_close() {
    with_open_batch(|_, _| {});
}

#[test]
#[should_panic(expected = "EO-3 is broken: 5 records")]
fn a_batch_whose_books_do_not_balance_at_its_close() {
    with_open_batch(|_, batch| {
        batch.progress.extend(place("0"), offset("10"), offset("15"));
        batch.records = 5;
    });
}

#[test]
#[should_panic(expected = "EO-2 is broken: the batch holds input 0 partition 7, which is not ours")]
fn a_batch_with_a_foreign_partition_at_its_close() {
    with_open_batch(|_, batch| batch.progress.extend(place("7"), offset("10"), offset("15")));
}

#[test]
#[should_panic(expected = "EO-3 is broken: input 0 partition 0: Interval { start: Offset(11), end: Offset(15) } against committed 10")]
fn a_batch_that_does_not_begin_at_the_committed_offset() {
    with_open_batch(|_, batch| batch.progress.extend(place("0"), offset("11"), offset("15")));
}

fn with_batch_in_flight(start: &str, then: Event) {
    let mut script = Script::new();
    for line in STARTED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        script.line(line.split("=>").next().unwrap().trim());
    }
    let mut batch = Batch::new(BatchId(1), Millis(0));
    batch.progress.extend(place("0"), offset(start), offset("30"));
    let worker = script.worker();
    worker.in_flight = Some(crate::worker::Sent { batch, witnesses: [place("0")].into() });
    worker.step(then, Millis(1), &mut Vec::new());
}

#[test]
#[should_panic(expected = "EO-3 is broken: input 0 partition 0: Interval { start: Offset(11), end: Offset(30) } was committed after 10")]
fn a_committed_batch_that_does_not_join_on() {
    with_batch_in_flight("11", Event::Ended(BatchId(1), crate::worker::Outcome::Committed));
}

#[test]
#[should_panic(expected = "EO-4 is broken: input 0 partition 0: rewind to 9 below 10")]
fn a_rewind_below_the_committed_offset() {
    with_batch_in_flight("9", Event::Ended(BatchId(1), crate::worker::Outcome::Aborted { why: String::new() }));
}
