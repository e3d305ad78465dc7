//! What stands in the way of reading a partition: errors in its queue, bytes that cannot be read, a log that was cut.

use super::KafkaConsumer;
use super::fetch_error::{FetchError, Next};
use super::partition::Entry;
use crate::admin::log_bounds;
use crate::ffi;
use crate::handle::ClientError;
use crate::list::PartitionList;
use std::time::{Duration, Instant};
use transom_engine::{Place, SourcePartition, StopReason};
use transom_runtime::{Source, SourceEvent};
use transom_sdk::Offset;

/// How long the cluster may take to say how many replicas a partition has.
const REPLICAS_TIMEOUT: Duration = Duration::from_secs(2);

impl KafkaConsumer {
    pub(super) fn partition_error(&mut self, index: usize, entry: Entry) -> Result<(), StopReason> {
        let (place, position) = (self.partitions[index].place, self.partitions[index].next);
        let topic = &self.topics[usize::from(place.topic.0)];
        let number = place.partition.get();
        match entry.kind {
            FetchError::OutOfRange => {
                tracing::error!(topic, partition = number, position = position.get(), reason = %entry.words, "position out of range");
                let (log_start, log_end) = log_bounds(&self.client, topic, number);
                Err(StopReason::PositionOutOfRange { partition: place, position, log_start, log_end })
            }
            FetchError::Truncated => {
                let (log_start, log_end) = log_bounds(&self.client, topic, number);
                Err(StopReason::LogTruncated { place: self.place(place, position), log_start, log_end, reason: entry.words })
            }
            FetchError::NotPermitted => Err(StopReason::NotPermitted { what: format!("reading topic {topic} is not permitted: {}", entry.words) }),
            FetchError::Corrupt | FetchError::Passing => {
                let error = ClientError::from_code(entry.code).name;
                self.to_report.push(SourceEvent::FetchFailed { partition: place, position, error, why: entry.words });
                Ok(())
            }
        }
    }

    fn place(&self, place: SourcePartition, offset: Offset) -> Place {
        Place { topic: self.topics[usize::from(place.topic.0)].clone(), partition: place.partition.get(), offset: offset.get() }
    }

    /// Fetches again what could not be read, and what is still to be checked; gives up what stays unreadable.
    pub(super) fn try_again(&mut self) -> Result<(), StopReason> {
        let (mut again, mut unchecked) = (Vec::new(), Vec::new());
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            let (place, next) = (partition.place, partition.next);
            if partition.needs_check {
                unchecked.push((place, next));
                continue;
            }
            let Some(unreadable) = partition.unreadable() else { continue };
            let now = Instant::now();
            match unreadable.next(now) {
                Next::Wait => continue,
                Next::Again => {}
                Next::GiveUp => {
                    let (tries, reason, patient) = (unreadable.tries, unreadable.words.clone(), unreadable.clone());
                    let topic = &self.tracked[usize::from(place.topic.0)];
                    let replicas = topic.replicas(&self.client, place.partition.get(), REPLICAS_TIMEOUT).unwrap_or(1);
                    if !patient.may_heal(replicas, now) {
                        return Err(StopReason::CorruptData { place: self.place(place, next), tries, reason });
                    }
                }
            }
            if let Some(unreadable) = self.partitions[index].unreadable() {
                unreadable.retried();
            }
            again.push((place, next));
        }
        // A partition that was just assigned may not be started yet: then this is tried again with the next look.
        if !unchecked.is_empty() && !self.sought(&unchecked) {
            tracing::debug!(partitions = unchecked.len(), "the log's leader epochs are not checked yet");
        }
        if again.is_empty() {
            return Ok(());
        }
        self.seek(&again).map_err(|error| StopReason::Fatal { what: error.to_string() })
    }

    /// Returns the client's position of a partition, the leader epoch before it, and the log's end as its last answer had it.
    pub(super) fn client_position(&self, place: SourcePartition) -> Option<(Offset, i32, i64)> {
        let mut list = PartitionList::new();
        list.add(self.name(place), place.partition.get(), 0);
        let (mut low, mut high) = (-1, -1);
        // SAFETY: client, list and name are alive; the offsets are written into the list and the two numbers.
        let code = unsafe {
            let bounds = ffi::rd_kafka_get_watermark_offsets(
                self.client.as_ptr(),
                self.name(place).as_ptr(),
                place.partition.get(),
                &raw mut low,
                &raw mut high,
            );
            if bounds == 0 { ffi::rd_kafka_position(self.client.as_ptr(), list.as_ptr()) } else { bounds }
        };
        let entry = list.entries().into_iter().next().filter(|entry| code == 0 && entry.code == 0)?;
        Some((Offset::new(entry.offset)?, entry.leader_epoch, high))
    }
}
