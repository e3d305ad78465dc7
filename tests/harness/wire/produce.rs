//! Writing outside transactions: acknowledged by all replicas, idempotent so that a lost answer never doubles a record.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId, TransactionalId};

use super::batch::{self, Writer};
use super::records::{NewRecord, partition_for_key};
use super::{BROKER_TIMEOUT_MS, Client, check, check_with, error_code, lock, topic_name};

/// Below the broker's default of 1 048 588 bytes a batch, with room for the batch's own header.
const BATCH_BYTES_MAX: usize = 1_000_000;

/// A producer id and the next sequence number of each partition it wrote to.
pub(super) struct Idempotent {
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    sequences: HashMap<(String, i32), i32>,
}

impl Idempotent {
    pub(super) fn new(producer_id: i64, producer_epoch: i16) -> Self {
        Self { producer_id, producer_epoch, sequences: HashMap::new() }
    }

    /// The writer of the next batch of a partition.
    pub(super) fn writer(&self, topic: &str, partition: i32) -> Writer {
        Writer {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.sequences.get(&(topic.to_owned(), partition)).copied().unwrap_or(0),
            is_transactional: false,
        }
    }

    /// Notes that a batch was acknowledged. Sequence numbers go back to zero after the largest.
    pub(super) fn acknowledged(&mut self, topic: &str, partition: i32, records: usize) -> Result<()> {
        let next = self.sequences.entry((topic.to_owned(), partition)).or_insert(0);
        *next = i32::try_from((i64::from(*next) + i64::try_from(records)?) % (i64::from(i32::MAX) + 1))?;
        Ok(())
    }
}

impl Client {
    /// Writes records to one partition and returns their offsets, in order.
    ///
    /// # Errors
    /// If a batch is refused or not acknowledged before the deadline; batches before it stay written.
    pub fn produce(&self, topic: &str, partition: i32, records: &[NewRecord]) -> Result<Vec<i64>> {
        let mut producer = lock(&self.producer);
        let mut offsets = Vec::with_capacity(records.len());
        for batch in batches(records) {
            match self.produce_batch(&mut producer, topic, partition, batch) {
                Ok(base) => offsets.extend((base..).take(batch.len())),
                Err(error) => {
                    // Whether the batch was written is unknown: a new producer id starts a new sequence.
                    *producer = None;
                    return Err(error);
                }
            }
        }
        Ok(offsets)
    }

    /// Writes records to the partitions Java's default partitioner chooses and returns partition and offset of each.
    ///
    /// Records without a key go to the partitions in turn, by their place in the slice.
    ///
    /// # Errors
    /// As [`Client::produce`]; the topic's partitions are read once.
    pub fn produce_keyed(&self, topic: &str, records: Vec<NewRecord>) -> Result<Vec<(i32, i64)>> {
        let partitions = self.partition_count(topic)?;
        let mut placed = vec![(0, 0); records.len()];
        let mut by_partition: BTreeMap<i32, (Vec<usize>, Vec<NewRecord>)> = BTreeMap::new();
        for (index, record) in records.into_iter().enumerate() {
            let partition = match &record.key {
                Some(key) => partition_for_key(key, partitions),
                None => i32::try_from(index % usize::try_from(partitions)?)?,
            };
            let (places, records) = by_partition.entry(partition).or_default();
            places.push(index);
            records.push(record);
        }
        for (partition, (places, records)) in by_partition {
            let offsets = self.produce(topic, partition, &records)?;
            for (place, offset) in places.into_iter().zip(offsets) {
                placed[place] = (partition, offset);
            }
        }
        Ok(placed)
    }

    fn produce_batch(&self, producer: &mut Option<Idempotent>, topic: &str, partition: i32, records: &[NewRecord]) -> Result<i64> {
        let producer = match producer {
            Some(producer) => producer,
            None => {
                let (id, epoch) = self.init_producer_id()?;
                producer.insert(Idempotent::new(id, epoch))
            }
        };
        let writer = producer.writer(topic, partition);
        let base = self.send_batch(None, topic, partition, records, writer)?;
        producer.acknowledged(topic, partition, records.len())?;
        Ok(base)
    }

    fn init_producer_id(&self) -> Result<(i64, i16)> {
        // The message's default is an empty id, which is not the same as none.
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(BROKER_TIMEOUT_MS)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        self.retrying("initialising an idempotent producer", || {
            let answer = self.call_any(&request)?;
            check(answer.error_code, || "a producer id".to_owned())?;
            Ok((answer.producer_id.0, answer.producer_epoch))
        })
    }

    /// Sends one batch until it is acknowledged and returns its base offset.
    pub(super) fn send_batch(
        &self,
        transactional_id: Option<&TransactionalId>,
        topic: &str,
        partition: i32,
        records: &[NewRecord],
        writer: Writer,
    ) -> Result<i64> {
        let encoded = batch::encode(records, self.compression, writer)?;
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(encoded));
        let topic_data = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(transactional_id.cloned())
            .with_acks(-1)
            .with_timeout_ms(BROKER_TIMEOUT_MS)
            .with_topic_data(vec![topic_data]);
        let sent = self.retrying("producing", || {
            let answer = self.call_leader(topic, partition, &request)?;
            let written = answer.responses.first().and_then(|topic| topic.partition_responses.first()).context("an empty produce answer")?;
            check_with(written.error_code, written.error_message.as_ref(), || format!("writing {} records to {topic}:{partition}", records.len()))?;
            Ok(written.base_offset)
        });
        match sent {
            Ok(base) => Ok(base),
            Err(error) if error_code(&error) == Some(ResponseError::DuplicateSequenceNumber) => {
                bail!("{topic}:{partition}: the batch was written by an earlier attempt, its offset is not known any more")
            }
            Err(error) => Err(error),
        }
    }
}

/// Splits records into runs that fit one batch each; a record above the limit goes alone and the broker decides.
pub(super) fn batches(records: &[NewRecord]) -> Vec<&[NewRecord]> {
    let mut runs = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, record) in records.iter().enumerate() {
        let added = record.encoded_bytes_max();
        if index > start && bytes + added > BATCH_BYTES_MAX {
            runs.push(&records[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += added;
    }
    if start < records.len() {
        runs.push(&records[start..]);
    }
    runs
}
