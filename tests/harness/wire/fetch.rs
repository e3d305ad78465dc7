//! Reading whole topics, with our own filter of aborted transactions.
//!
//! A read ends at a position fixed when it starts (LSO or high watermark), never at a last record: the tail may hold only
//! control records or aborted data. Source: the Java consumer's `CompletedFetch`, KIP-98.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;

use super::batch::{Marker, next_batch};
use super::records::ReadRecord;
use super::{Client, broker_id, check, error_code, topic_name};

/// Enough for a few batches of the largest default size, small enough to hold in memory many times over.
const FETCH_BYTES_MAX: i32 = 8 * 1024 * 1024;
/// Below the end data is there already; the wait only matters while a leader moves.
pub(super) const FETCH_WAIT_MS: i32 = 200;
/// How long a partition may give nothing although its end is not reached.
const STALL_DEADLINE: Duration = Duration::from_secs(45);

/// Which records a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    Uncommitted,
    Committed,
}

impl Isolation {
    pub(super) fn level(self) -> i8 {
        match self {
            Self::Uncommitted => 0,
            Self::Committed => 1,
        }
    }
}

/// What one fetch answer held for a partition.
struct Fetched {
    records: Vec<ReadRecord>,
    /// Where to go on; unchanged if the answer held no whole batch.
    position: i64,
}

impl Client {
    /// Reads a topic from its log start to the LSO of the moment, without control records and aborted transactions.
    ///
    /// Records come partition by partition, in offset order.
    ///
    /// # Errors
    /// If the topic does not appear, a partition stalls, or a byte of the log makes no sense.
    pub fn read_committed(&self, topic: &str) -> Result<Vec<ReadRecord>> {
        self.read(topic, Isolation::Committed)
    }

    /// Reads a topic from its log start to the high watermark of the moment: open and aborted transactions too, control
    /// records not.
    ///
    /// # Errors
    /// As [`Client::read_committed`].
    pub fn read_uncommitted(&self, topic: &str) -> Result<Vec<ReadRecord>> {
        self.read(topic, Isolation::Uncommitted)
    }

    /// Returns what one fetch at `position` shows to a reader of committed data, and the position to go on from; it waits a moment
    /// where there is nothing. For readers that follow a topic, or that cannot hold one in memory.
    ///
    /// # Errors
    /// As [`Client::read_committed`]; a position below the log start is an error here.
    pub fn read_committed_from(&self, topic: &str, partition: i32, position: i64) -> Result<(Vec<ReadRecord>, i64)> {
        let fetched = self.fetch(topic, partition, position..i64::MAX, Isolation::Committed)?;
        Ok((fetched.records, fetched.position))
    }

    fn read(&self, topic: &str, isolation: Isolation) -> Result<Vec<ReadRecord>> {
        let mut records = Vec::new();
        for (partition, ends) in self.end_offsets(topic)? {
            let end = match isolation {
                Isolation::Committed => ends.last_stable,
                Isolation::Uncommitted => ends.high_watermark,
            };
            self.read_partition(topic, partition, ends.log_start..end, isolation, &mut records)?;
        }
        Ok(records)
    }

    fn read_partition(
        &self,
        topic: &str,
        partition: i32,
        range: std::ops::Range<i64>,
        isolation: Isolation,
        into: &mut Vec<ReadRecord>,
    ) -> Result<()> {
        let mut position = range.start;
        let mut stalled_since = Instant::now();
        while position < range.end {
            let fetched = match self.fetch(topic, partition, position..range.end, isolation) {
                Ok(fetched) => fetched,
                Err(error) if error_code(&error) == Some(ResponseError::OffsetOutOfRange) => {
                    // Retention removed the beginning while we read; going on there keeps the order and the end.
                    let start = self.end_offsets_of(topic, partition)?.log_start;
                    ensure!(start > position, "{topic}:{partition}: position {position} is out of range");
                    Fetched { records: Vec::new(), position: start }
                }
                Err(error) => return Err(error),
            };
            if fetched.position > position {
                stalled_since = Instant::now();
            } else if stalled_since.elapsed() > STALL_DEADLINE {
                bail!("{topic}:{partition} gives nothing at {position}, the end is {}", range.end);
            }
            position = fetched.position;
            into.extend(fetched.records);
        }
        Ok(())
    }

    fn fetch(&self, topic: &str, partition: i32, range: std::ops::Range<i64>, isolation: Isolation) -> Result<Fetched> {
        let asked = FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(range.start)
            .with_partition_max_bytes(FETCH_BYTES_MAX);
        let request = FetchRequest::default()
            .with_replica_id(broker_id(-1))
            .with_max_wait_ms(self.fetch_wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(FETCH_BYTES_MAX)
            .with_isolation_level(isolation.level())
            .with_topics(vec![FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![asked])]);
        self.retrying("fetching", || {
            let answer = self.call_leader(topic, partition, &request)?;
            check(answer.error_code, || format!("fetching {topic}:{partition}"))?;
            let data = answer.responses.into_iter().next().and_then(|topic| topic.partitions.into_iter().next()).context("an empty fetch answer")?;
            check(data.error_code, || format!("fetching {topic}:{partition} at {}", range.start))?;
            visible(data, range.clone(), isolation)
        })
    }
}

/// Decodes a fetch answer and keeps what this isolation may see, inside `range` (end exclusive).
fn visible(data: PartitionData, range: std::ops::Range<i64>, isolation: Isolation) -> Result<Fetched> {
    let mut aborted = AbortedTransactions::of(&data);
    let mut log: Bytes = data.records.unwrap_or_default();
    let mut fetched = Fetched { records: Vec::new(), position: range.start };
    while let Some(batch) = next_batch(&mut log)? {
        // The last offset counts even if compaction took the last records away.
        fetched.position = fetched.position.max(batch.last_offset + 1);
        if isolation == Isolation::Committed && batch.producer_id >= 0 {
            aborted.reach(batch.last_offset);
            if batch.is_control() {
                if batch.marker()? == Marker::Abort {
                    aborted.end(batch.producer_id);
                }
            } else if batch.is_transactional() && aborted.holds(batch.producer_id) {
                continue;
            }
        }
        if !batch.is_control() {
            // A fetch begins with the whole batch that holds the position.
            let inside = batch.records(data.partition_index)?.into_iter();
            fetched.records.extend(inside.filter(|record| range.contains(&record.offset)));
        }
    }
    Ok(fetched)
}

/// The aborted transactions a fetch answer names, and those of them a reader stands in.
struct AbortedTransactions {
    /// `(first offset, producer id)`, latest first: the next to be reached is the last.
    ahead: Vec<(i64, i64)>,
    /// Producers whose batches are aborted until their next abort marker.
    inside: HashSet<i64>,
}

impl AbortedTransactions {
    fn of(data: &PartitionData) -> Self {
        let mut ahead: Vec<(i64, i64)> =
            data.aborted_transactions.iter().flatten().map(|aborted| (aborted.first_offset, aborted.producer_id.0)).collect();
        ahead.sort_unstable_by(|a, b| b.cmp(a));
        Self { ahead, inside: HashSet::new() }
    }

    fn reach(&mut self, offset: i64) {
        while let Some((_, producer_id)) = self.ahead.pop_if(|(first, _)| *first <= offset) {
            self.inside.insert(producer_id);
        }
    }

    fn end(&mut self, producer_id: i64) {
        self.inside.remove(&producer_id);
    }

    fn holds(&self, producer_id: i64) -> bool {
        self.inside.contains(&producer_id)
    }
}
