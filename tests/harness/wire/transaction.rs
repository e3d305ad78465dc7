//! A transactional producer of our own, and what the brokers say of transactions.
//!
//! The producer is a tool of tests: a foreign transaction in a topic the product reads, or a hand that fences a
//! transactional id. It speaks the transaction protocol before KIP-890 part 2, as librdkafka does. Source: KIP-98, KIP-664.

use anyhow::{Context, Result};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, ListTransactionsRequest, ProducerId, TransactionalId, TxnOffsetCommitRequest,
};

use super::batch::Writer;
use super::produce::{Idempotent, batches};
use super::records::NewRecord;
use super::{Client, Coordinated, address, check, text, topic_name};

/// The states in which a transaction still holds readers back, in the coordinator's words.
const OPEN_STATES: [&str; 4] = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"];

/// A transaction some coordinator lists as not finished.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenTransaction {
    /// Whose it is.
    pub transactional_id: String,
    /// The producer id of this transaction.
    pub producer_id: i64,
    /// `Ongoing`, `PrepareCommit`, `PrepareAbort` or `PrepareEpochFence`.
    pub state: String,
}

/// What the coordinator knows of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDetails {
    /// The coordinator's word: `Empty`, `Ongoing`, `CompleteCommit`, …
    pub state: String,
    /// The producer id.
    pub producer_id: i64,
    /// Its incarnation.
    pub producer_epoch: i16,
    /// After how long without an end the coordinator aborts it.
    pub timeout_ms: i32,
    /// When it began, milliseconds since 1970; -1 if none is open.
    pub start_time_ms: i64,
    /// The topic-partitions it wrote to.
    pub partitions: Vec<(String, i32)>,
}

impl Client {
    /// Lists the unfinished transactions of all coordinators, sorted.
    ///
    /// # Errors
    /// If a broker of the cluster does not answer.
    pub fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        self.retrying("listing transactions", || {
            let mut open = Vec::new();
            for node in self.brokers()? {
                // No filter in the request: an older broker would not know the newest state's name.
                let request = ListTransactionsRequest::default().with_duration_filter(-1);
                let answer = self.call_node(node, &request)?;
                check(answer.error_code, || format!("transactions of broker {node}"))?;
                let unfinished = answer.transaction_states.into_iter().filter(|listed| OPEN_STATES.contains(&listed.transaction_state.as_str()));
                open.extend(unfinished.map(|listed| OpenTransaction {
                    transactional_id: listed.transactional_id.to_string(),
                    producer_id: listed.producer_id.0,
                    state: listed.transaction_state.to_string(),
                }));
            }
            open.sort();
            Ok(open)
        })
    }

    /// Initialises a transactional id again and again until its producer epoch has reached `epoch`, and returns producer id and
    /// epoch: what that many restarts would do.
    ///
    /// # Errors
    /// If the coordinator refuses.
    pub fn raise_epoch(&self, transactional_id: &str, epoch: i16) -> Result<(i64, i16)> {
        let look_up = FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![text(transactional_id)]);
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id_of(transactional_id)))
            .with_transaction_timeout_ms(30_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let mut coordinator = None;
        loop {
            let reached = self.retrying("raising a producer epoch", || {
                let address = match &coordinator {
                    Some(known) => known,
                    None => {
                        let answer = self.call_any(&look_up)?;
                        let found = answer.coordinators.first().context("no coordinator in the answer")?;
                        check(found.error_code, || format!("coordinator of {transactional_id}"))?;
                        coordinator.insert(address(&found.host, found.port))
                    }
                };
                let answer = self.call(address, &request)?;
                check(answer.error_code, || format!("transactional id {transactional_id}"))?;
                Ok((answer.producer_id.0, answer.producer_epoch))
            })?;
            if reached.1 >= epoch {
                return Ok(reached);
            }
        }
    }

    /// Describes a transactional id.
    ///
    /// # Errors
    /// If the coordinator does not know it.
    pub fn describe_transaction(&self, transactional_id: &str) -> Result<TransactionDetails> {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id_of(transactional_id)]);
        self.retrying("describing a transaction", || {
            let answer = self.call_coordinator(Coordinated::Transaction(transactional_id), &request)?;
            let found = answer.transaction_states.into_iter().next().context("an empty answer")?;
            check(found.error_code, || format!("transactional id {transactional_id}"))?;
            let mut partitions: Vec<_> =
                found.topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic.to_string(), *index))).collect();
            partitions.sort();
            Ok(TransactionDetails {
                state: found.transaction_state.to_string(),
                producer_id: found.producer_id.0,
                producer_epoch: found.producer_epoch,
                timeout_ms: found.transaction_timeout_ms,
                start_time_ms: found.transaction_start_time_ms,
                partitions,
            })
        })
    }
}

/// One transaction of a foreign producer. Dropped without an end it stays open until its time-out: that is a test's tool.
pub struct Transaction<'client> {
    client: &'client Client,
    transactional_id: TransactionalId,
    producer: Idempotent,
}

impl<'client> Transaction<'client> {
    /// Initialises the id (which fences its other users and aborts what they left open) and begins a transaction.
    ///
    /// # Errors
    /// If the coordinator refuses.
    pub fn begin(client: &'client Client, transactional_id: &str, timeout_ms: i32) -> Result<Self> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id_of(transactional_id)))
            .with_transaction_timeout_ms(timeout_ms)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let producer = client.retrying("initialising a transactional id", || {
            let answer = client.call_coordinator(Coordinated::Transaction(transactional_id), &request)?;
            check(answer.error_code, || format!("transactional id {transactional_id}"))?;
            Ok(Idempotent::new(answer.producer_id.0, answer.producer_epoch))
        })?;
        Ok(Self { client, transactional_id: id_of(transactional_id), producer })
    }

    /// Returns producer id and producer epoch.
    pub fn producer(&self) -> (i64, i16) {
        (self.producer.producer_id, self.producer.producer_epoch)
    }

    /// Writes records inside the transaction and returns their offsets.
    ///
    /// # Errors
    /// If the broker refuses: a fenced producer, for instance.
    pub fn produce(&mut self, topic: &str, partition: i32, records: &[NewRecord]) -> Result<Vec<i64>> {
        self.add_partition(topic, partition)?;
        let mut offsets = Vec::with_capacity(records.len());
        for batch in batches(records) {
            let writer = Writer { is_transactional: true, ..self.producer.writer(topic, partition) };
            let base = self.client.send_batch(Some(&self.transactional_id), topic, partition, batch, writer)?;
            self.producer.acknowledged(topic, partition, batch.len())?;
            offsets.extend((base..).take(batch.len()));
        }
        Ok(offsets)
    }

    /// Adds committed offsets of a group to the transaction, as a producer without membership does: unfenced.
    ///
    /// # Errors
    /// If a coordinator refuses.
    pub fn send_offsets(&mut self, group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<()> {
        let add = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id.clone())
            .with_producer_id(ProducerId(self.producer.producer_id))
            .with_producer_epoch(self.producer.producer_epoch)
            .with_group_id(GroupId(text(group)));
        self.client.retrying("adding offsets to a transaction", || check(self.ask(&add)?.error_code, || format!("group {group}")))?;
        let partitions = offsets.iter().map(|(partition, offset)| {
            TxnOffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(None)
        });
        let topics = TxnOffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(partitions.collect());
        let commit = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id.clone())
            .with_group_id(GroupId(text(group)))
            .with_producer_id(ProducerId(self.producer.producer_id))
            .with_producer_epoch(self.producer.producer_epoch)
            .with_generation_id(-1)
            .with_topics(vec![topics]);
        self.client.retrying("committing offsets in a transaction", || {
            let answer = self.client.call_coordinator(Coordinated::Group(group), &commit)?;
            let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.try_for_each(|done| check(done.error_code, || format!("offsets of group {group}")))
        })
    }

    /// Commits.
    ///
    /// # Errors
    /// If the coordinator refuses; a lost answer is asked for again.
    pub fn commit(self) -> Result<()> {
        self.end(true)
    }

    /// Aborts.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn abort(self) -> Result<()> {
        self.end(false)
    }

    /// The protocol's own flag: `committed` or aborted.
    fn end(self, committed: bool) -> Result<()> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id.clone())
            .with_producer_id(ProducerId(self.producer.producer_id))
            .with_producer_epoch(self.producer.producer_epoch)
            .with_committed(committed);
        self.client
            .retrying("ending a transaction", || check(self.ask(&request)?.error_code, || format!("end of {}", self.transactional_id.as_str())))
    }

    fn add_partition(&self, topic: &str, partition: i32) -> Result<()> {
        let topics = AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id.clone())
            .with_v3_and_below_producer_id(ProducerId(self.producer.producer_id))
            .with_v3_and_below_producer_epoch(self.producer.producer_epoch)
            .with_v3_and_below_topics(vec![topics]);
        self.client.retrying("adding a partition to a transaction", || {
            let answer = self.ask(&request)?;
            let mut partitions = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
            partitions.try_for_each(|done| check(done.partition_error_code, || format!("{topic}:{partition}")))
        })
    }

    fn ask<R: kafka_protocol::protocol::Request>(&self, request: &R) -> Result<R::Response> {
        self.client.call_coordinator(Coordinated::Transaction(&self.transactional_id), request)
    }
}

fn id_of(transactional_id: &str) -> TransactionalId {
    TransactionalId(text(transactional_id))
}
