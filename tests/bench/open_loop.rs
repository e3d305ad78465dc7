//! Records at a given rate, whatever becomes of them, and how long each took to its committed output.
//!
//! The schedule is fixed beforehand and the scheduled time stands in the record, as its `order_id`: a contestant that stalls does not
//! slow the writers down, and the wait it causes is counted for every record (no coordinated omission). Every fourth millisecond
//! each partition gets its share in one batch, the partitions one millisecond apart. One clock: writers and readers are threads of
//! this process.

use anyhow::{Context, Result, anyhow, ensure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use transom_harness::wire::{Client, NewRecord, partition_for_key};

use crate::digest::{Digest, Sequences};
use crate::expected;
use crate::ground::Ground;

/// Of every topic; each has a writer and a reader with a connection of its own.
pub const PARTITIONS: i32 = 4;
/// From one batch of a partition to its next.
const TICK: Duration = Duration::from_millis(4);
const TICKS_PER_SECOND: u32 = 250;
/// From the connections' being made to the first record.
const LEAD: Duration = Duration::from_millis(100);
/// How long the last records may take before a run counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// A writer that is late sends what is due in one batch, but no more than a broker takes.
const LATE_TICKS_MAX: u32 = 100;
const CUSTOMERS: u64 = 100;

/// A rate for a while.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Customers have numbers from this · 100: two stages of one run need different ones.
    pub number: u64,
    /// In all partitions together; a multiple of 1000.
    pub records_per_s: u32,
    /// For how long.
    pub seconds: u32,
}

impl Stage {
    fn records_per_tick(self) -> u32 {
        self.records_per_s / (TICKS_PER_SECOND * PARTITIONS.unsigned_abs())
    }

    fn ticks(self) -> u32 {
        self.seconds * TICKS_PER_SECOND
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Driven {
    /// From scheduled send to committed read, microseconds, sorted.
    pub latencies_us: Vec<u64>,
    /// What the stage should have added to the output.
    pub outputs: Digest,
    /// Whether as many records as were sent were read in time.
    pub is_complete: bool,
}

/// Sends a stage and reads what it adds to the output, until all of it is there.
///
/// # Errors
/// If the broker fails.
pub fn drive(ground: &Ground, input: &str, output: &str, stage: Stage) -> Result<Driven> {
    let total = u64::from(stage.ticks() * stage.records_per_tick()) * u64::from(PARTITIONS.unsigned_abs());
    let seen = AtomicU64::new(0);
    // Connected before the clock starts.
    let connect = || (0..PARTITIONS).map(|_| Client::connect(&ground.bootstrap)).collect::<Result<Vec<Client>>>();
    let (writers, readers) = (connect()?, connect()?);
    let begins = ground.client.end_offsets(output)?;
    let start = Instant::now() + LEAD;
    let until = start + Duration::from_secs(stage.seconds.into()) + PATIENCE;
    let reader = Reader { topic: output, start, total, seen: &seen, until };

    thread::scope(|scope| {
        let writing: Vec<_> =
            (0..PARTITIONS).zip(&writers).map(|(partition, client)| scope.spawn(move || write(client, input, partition, stage, start))).collect();
        let reading: Vec<_> = begins
            .iter()
            .zip(&readers)
            .map(|((partition, ends), client)| scope.spawn(move || reader.follow(client, *partition, ends.last_stable)))
            .collect();
        let mut driven = Driven::default();
        for writer in writing {
            let written = writer.join().map_err(|_| anyhow!("a writer panicked"))??;
            driven.outputs = driven.outputs.beside(written);
        }
        for reader in reading {
            driven.latencies_us.extend(reader.join().map_err(|_| anyhow!("a reader panicked"))??);
        }
        driven.latencies_us.sort_unstable();
        driven.is_complete = seen.load(Ordering::Relaxed) == total;
        Ok(driven)
    })
}

/// Sends one partition's share of a stage; returns what its outputs should be.
fn write(client: &Client, topic: &str, partition: i32, stage: Stage, start: Instant) -> Result<Digest> {
    let customers = (stage.number * CUSTOMERS..).take(usize::try_from(CUSTOMERS)?).map(|customer| format!("C-{customer:05}"));
    let keys: Vec<String> = customers.filter(|key| partition_for_key(key.as_bytes(), PARTITIONS) == partition).collect();
    ensure!(!keys.is_empty(), "no key falls on partition {partition}");
    let mut outputs = Sequences::default();
    let offset = TICK * partition.unsigned_abs() / PARTITIONS.unsigned_abs();
    let (mut tick, mut turn) = (0, 0);
    while tick < stage.ticks() {
        let mut scheduled = offset + TICK * tick;
        thread::sleep((start + scheduled).saturating_duration_since(Instant::now()));
        let mut records = Vec::new();
        for _ in 0..LATE_TICKS_MAX {
            for _ in 0..stage.records_per_tick() {
                let key = &keys[turn % keys.len()];
                turn += 1;
                let order = order(u64::try_from(scheduled.as_micros())?, key);
                outputs.add(Some(key.as_bytes()), expected::clean(order.as_bytes()).as_deref());
                records.push(NewRecord::new(key.as_str(), order));
            }
            tick += 1;
            scheduled += TICK;
            if tick >= stage.ticks() || start + scheduled > Instant::now() {
                break;
            }
        }
        client.produce(topic, partition, &records).context("write under the open loop")?;
    }
    Ok(outputs.digest())
}

fn order(order_id: u64, customer: &str) -> String {
    format!(
        r#"{{"order_id":{order_id},"customer_id":"{customer}","amount":"49.05","currency":"EUR","event_time":"2026-01-22T00:00:00.123Z","status":"new","channel":"web","items":[{{"sku":"SKU-0001","qty":2}}]}}"#
    )
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    topic: &'a str,
    start: Instant,
    total: u64,
    seen: &'a AtomicU64,
    until: Instant,
}

impl Reader<'_> {
    /// Follows one partition until all readers together have seen everything, or time is up; returns the latencies.
    fn follow(self, client: &Client, partition: i32, mut position: i64) -> Result<Vec<u64>> {
        let mut latencies = Vec::new();
        while self.seen.load(Ordering::Relaxed) < self.total && Instant::now() < self.until {
            let (records, next) = client.read_committed_from(self.topic, partition, position).context("follow the output")?;
            let now_us = u64::try_from(self.start.elapsed().as_micros())?;
            for record in &records {
                let scheduled_us = record.value.as_deref().and_then(order_id).context("an output without order_id")?;
                latencies.push(now_us.saturating_sub(scheduled_us));
            }
            self.seen.fetch_add(u64::try_from(records.len())?, Ordering::Relaxed);
            position = next;
        }
        Ok(latencies)
    }
}

/// Reads the number behind `{"order_id":`, where every contestant writes it.
fn order_id(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(br#"{"order_id":"#)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Returns a percentile of sorted numbers by nearest rank, `per_mille` of 1000.
pub fn percentile(sorted: &[u64], per_mille: usize) -> Option<u64> {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduled_time_is_found_again_in_the_output() {
        let order_number = 12_345;
        let output = expected::clean(order(order_number, "C-00001").as_bytes()).unwrap();
        assert_eq!(order_id(&output), Some(order_number));
    }

    #[test]
    fn percentiles_are_those_of_nearest_rank() {
        let numbers: Vec<u64> = (1..=1000).collect();
        assert_eq!([500, 990, 999, 1000].map(|per_mille| percentile(&numbers, per_mille)), [Some(500), Some(990), Some(999), Some(1000)]);
        assert_eq!((percentile(&[7], 999), percentile(&[], 500)), (Some(7), None));
    }
}
