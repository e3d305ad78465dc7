//! Topics: making and removing them, their partitions, configuration and ends.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    ListOffsetsRequest, MetadataRequest,
};

use super::connection::Connection;
use super::fetch::Isolation;
use super::{BROKER_TIMEOUT_MS, Client, OPERATION_DEADLINE, RETRY_PAUSE, broker_id, check, check_with, error_code, lock, not_now, text, topic_name};

/// The protocol's number for "a topic" where resources of several kinds may be named.
const TOPIC_RESOURCE: i8 = 2;
/// `ListOffsets` asks for these instead of a time.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOffsets {
    /// The first offset still there.
    pub log_start: i64,
    /// Where a read-committed reader stops (exclusive end).
    pub last_stable: i64,
    /// End of the replicated log (exclusive end).
    pub high_watermark: i64,
}

/// What one broker knows of the cluster's replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// Brokers that take part.
    pub brokers: usize,
    /// Partitions, internal ones too, that have no leader or a replica out of sync.
    pub behind: Vec<(String, i32)>,
}

impl Client {
    /// Returns what one broker knows of replication. It is asked over a connection of its own, and nobody else is.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn replication_as_seen_by(address: &str) -> Result<Replication> {
        let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
        let metadata = Connection::open(address)?.call(&request)?;
        let mut behind = Vec::new();
        for topic in &metadata.topics {
            let name = topic.name.as_ref().map(|name| name.to_string()).unwrap_or_default();
            let lacking = |partition: &&MetadataResponsePartition| {
                partition.leader_id.0 < 0 || partition.isr_nodes.len() < partition.replica_nodes.len() || partition.error_code != 0
            };
            behind.extend(topic.partitions.iter().filter(lacking).map(|partition| (name.clone(), partition.partition_index)));
        }
        Ok(Replication { brokers: metadata.brokers.len(), behind })
    }

    /// Makes a topic with the cluster's default replication and waits until every partition has a leader.
    ///
    /// # Errors
    /// If it exists already or the broker refuses it.
    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        let configs =
            configs.iter().map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))).collect();
        let topic =
            CreatableTopic::default().with_name(topic_name(name)).with_num_partitions(partitions).with_replication_factor(-1).with_configs(configs);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(BROKER_TIMEOUT_MS);
        let mut attempts = 0;
        self.retrying("creating a topic", || {
            attempts += 1;
            let answer = self.call_any(&request)?;
            let made = answer.topics.first().context("an empty answer")?;
            match check_with(made.error_code, made.error_message.as_ref(), || format!("topic {name}")) {
                // Our own earlier attempt, whose answer was lost.
                Err(error) if attempts > 1 && error_code(&error) == Some(ResponseError::TopicAlreadyExists) => Ok(()),
                result => result,
            }
        })?;
        self.wait_for_topic(name, partitions)
    }

    /// Removes a topic and waits until the cluster no longer knows it; a topic that is not there is no error.
    ///
    /// # Errors
    /// If the broker refuses or the deadline passes.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name(name)]).with_timeout_ms(BROKER_TIMEOUT_MS);
        self.retrying("deleting a topic", || {
            let answer = self.call_any(&request)?;
            let gone = answer.responses.first().context("an empty answer")?;
            match check_with(gone.error_code, gone.error_message.as_ref(), || format!("topic {name}")) {
                Err(error) if error_code(&error) == Some(ResponseError::UnknownTopicOrPartition) => Ok(()),
                result => result,
            }
        })?;
        // A topic of the same name starts with new sequences.
        *lock(&self.producer) = None;
        let deadline = Instant::now() + OPERATION_DEADLINE;
        while self.topics()?.contains_key(name) {
            ensure!(Instant::now() < deadline, "topic {name} is still there");
            std::thread::sleep(RETRY_PAUSE);
        }
        Ok(())
    }

    /// Raises a topic's number of partitions to `total` and waits until the new ones have leaders.
    ///
    /// # Errors
    /// If the broker refuses.
    pub fn create_partitions(&self, name: &str, total: i32) -> Result<()> {
        let topic = CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(total).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(BROKER_TIMEOUT_MS);
        self.retrying("adding partitions", || {
            let answer = self.call_any(&request)?;
            let grown = answer.results.first().context("an empty answer")?;
            check_with(grown.error_code, grown.error_message.as_ref(), || format!("topic {name}"))
        })?;
        self.wait_for_topic(name, total)
    }

    /// Waits until a topic has at least this many partitions, each with a leader that answers for it.
    ///
    /// # Errors
    /// If the deadline passes first.
    pub fn wait_for_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.retrying("waiting for a topic", || {
            let found = self.refresh_topic(name)?;
            if found < partitions {
                let asked = format!("{partitions} partitions of {name}, {found} are there");
                return Err(not_now(ResponseError::UnknownTopicOrPartition, asked));
            }
            // A leader may be named before it knows of it itself.
            (0..found).try_for_each(|partition| self.offset(name, partition, LATEST, Isolation::Uncommitted).map(drop))
        })
    }

    /// Returns all topics with their number of partitions, internal ones too.
    ///
    /// # Errors
    /// If no broker answers.
    pub fn topics(&self) -> Result<BTreeMap<String, i32>> {
        self.retrying("listing topics", || {
            let metadata = self.metadata(None)?;
            let known = metadata.topics.iter().filter(|topic| topic.error_code == 0);
            known
                .filter_map(|topic| topic.name.as_ref().map(|name| (name.to_string(), topic.partitions.len())))
                .map(|(name, partitions)| Ok((name, i32::try_from(partitions)?)))
                .collect()
        })
    }

    /// Returns a topic's number of partitions, as the cluster says now.
    ///
    /// # Errors
    /// If the topic does not appear before the deadline.
    pub fn partition_count(&self, topic: &str) -> Result<i32> {
        self.retrying("counting partitions", || self.refresh_topic(topic))
    }

    /// Returns beginning and ends of every partition.
    ///
    /// # Errors
    /// If a partition has no leader before the deadline.
    pub fn end_offsets(&self, topic: &str) -> Result<BTreeMap<i32, EndOffsets>> {
        let partitions = self.partition_count(topic)?;
        (0..partitions).map(|partition| Ok((partition, self.end_offsets_of(topic, partition)?))).collect()
    }

    /// Returns beginning and ends of one partition.
    ///
    /// # Errors
    /// As [`Client::end_offsets`].
    pub fn end_offsets_of(&self, topic: &str, partition: i32) -> Result<EndOffsets> {
        self.retrying("reading end offsets", || {
            // The LSO is read before the high watermark: it can then never seem to lie beyond it.
            Ok(EndOffsets {
                log_start: self.offset(topic, partition, EARLIEST, Isolation::Uncommitted)?,
                last_stable: self.offset(topic, partition, LATEST, Isolation::Committed)?,
                high_watermark: self.offset(topic, partition, LATEST, Isolation::Uncommitted)?,
            })
        })
    }

    fn offset(&self, topic: &str, partition: i32, timestamp: i64, isolation: Isolation) -> Result<i64> {
        let asked = ListOffsetsPartition::default().with_partition_index(partition).with_current_leader_epoch(-1).with_timestamp(timestamp);
        let request = ListOffsetsRequest::default()
            .with_replica_id(broker_id(-1))
            .with_isolation_level(isolation.level())
            .with_topics(vec![ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked])]);
        let answer = self.call_leader(topic, partition, &request)?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first()).context("an empty offset answer")?;
        check(found.error_code, || format!("offset of {topic}:{partition}"))?;
        Ok(found.offset)
    }

    /// Removes the records of a partition below `before` (exclusive), as retention would.
    ///
    /// # Errors
    /// If the broker refuses.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> Result<()> {
        let asked = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(before);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked])])
            .with_timeout_ms(BROKER_TIMEOUT_MS);
        self.retrying("deleting records", || {
            let answer = self.call_leader(topic, partition, &request)?;
            let done = answer.topics.first().and_then(|topic| topic.partitions.first()).context("an empty answer")?;
            check(done.error_code, || format!("records of {topic}:{partition} below {before}"))
        })
    }

    /// Returns a topic's configuration, defaults included; values a broker hides are left out.
    ///
    /// # Errors
    /// If the broker refuses.
    pub fn topic_configs(&self, topic: &str) -> Result<BTreeMap<String, String>> {
        let resource =
            DescribeConfigsResource::default().with_resource_type(TOPIC_RESOURCE).with_resource_name(text(topic)).with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        self.retrying("reading a topic's configuration", || {
            let answer = self.call_any(&request)?;
            let found = answer.results.into_iter().next().context("an empty answer")?;
            check_with(found.error_code, found.error_message.as_ref(), || format!("topic {topic}"))?;
            let named = found.configs.into_iter().filter_map(|config| Some((config.name.to_string(), config.value?)));
            Ok(named.map(|(name, value)| (name, value.to_string())).collect())
        })
    }

    /// Sets one configuration of a topic, `max.message.bytes` for instance, leaves the others, and waits until it is seen.
    ///
    /// # Errors
    /// If the broker refuses or the deadline passes.
    pub fn set_topic_config(&self, topic: &str, name: &str, value: &str) -> Result<()> {
        let config = AlterableConfig::default().with_name(text(name)).with_config_operation(0).with_value(Some(text(value)));
        let resource = AlterConfigsResource::default().with_resource_type(TOPIC_RESOURCE).with_resource_name(text(topic)).with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        self.retrying("changing a topic's configuration", || {
            let answer = self.call_any(&request)?;
            let done = answer.responses.first().context("an empty answer")?;
            check_with(done.error_code, done.error_message.as_ref(), || format!("{name}={value} of topic {topic}"))
        })?;
        // Answered by the controller; the brokers hear of it a moment later.
        let deadline = Instant::now() + OPERATION_DEADLINE;
        while self.topic_configs(topic)?.get(name).is_none_or(|seen| seen != value) {
            ensure!(Instant::now() < deadline, "{name} of topic {topic} is not {value} yet");
            std::thread::sleep(RETRY_PAUSE);
        }
        Ok(())
    }
}
