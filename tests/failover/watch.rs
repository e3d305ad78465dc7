//! What is seen from outside: who owns what, and when each partition of the output gives something new.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use transom_harness::wire::Client;

/// How far a reader's moment may be off.
const FETCH_WAIT_MS: i32 = 10;
/// Between two looks at the group: how far a moment of getting a partition may be off.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A moment for each partition.
pub type Moments = BTreeMap<i32, Instant>;

/// Returns the position behind what a committed reader can see now, of these partitions.
#[track_caller]
pub fn ends(client: &Client, topic: &str, partitions: &[i32]) -> BTreeMap<i32, i64> {
    let end = |partition: &i32| (*partition, client.end_offsets_of(topic, *partition).expect("read an end").last_stable);
    partitions.iter().map(end).collect()
}

/// Whether each of these partitions holds records of a transaction that is open and stays it.
#[track_caller]
pub fn all_open(client: &Client, topic: &str, partitions: &[i32]) -> bool {
    let look = || partitions.iter().map(|partition| client.end_offsets_of(topic, *partition).expect("read an end")).collect::<Vec<_>>();
    let first = look();
    // Markers of the transaction before may still be on their way; they take a few milliseconds.
    thread::sleep(LOOK_PAUSE * 3);
    let second = look();
    first == second && second.iter().all(|ends| ends.last_stable < ends.high_watermark)
}

/// Reads on from `ends` until every partition has shown a committed record, while `meanwhile` runs again and again; returns when
/// each came first into the reader's hands, as far as they came before the deadline.
pub fn first_outputs(bootstrap: &str, topic: &str, ends: &BTreeMap<i32, i64>, deadline: Duration, mut meanwhile: impl FnMut()) -> Moments {
    let until = Instant::now() + deadline;
    thread::scope(|scope| {
        let readers: Vec<_> = ends
            .iter()
            .map(|(partition, end)| (*partition, scope.spawn(move || first_output(bootstrap, topic, (*partition, *end), until))))
            .collect();
        while !readers.iter().all(|(_, reader)| reader.is_finished()) {
            meanwhile();
            thread::sleep(LOOK_PAUSE);
        }
        readers.into_iter().filter_map(|(partition, reader)| Some((partition, reader.join().expect("a reader")?))).collect()
    })
}

fn first_output(bootstrap: &str, topic: &str, (partition, end): (i32, i64), until: Instant) -> Option<Instant> {
    let client = Client::connect(bootstrap).expect("connect a reader").with_fetch_wait_ms(FETCH_WAIT_MS);
    let mut position = end;
    while Instant::now() < until {
        let (records, next) = client.read_committed_from(topic, partition, position).expect("follow the output");
        if !records.is_empty() {
            return Some(Instant::now());
        }
        position = next;
    }
    None
}
