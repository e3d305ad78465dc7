//! Connects workers to a Kafka cluster: which client properties each half gets, and which are ours to set.

use crate::admin::{Admin, Spec, list_offsets};
use crate::consumer::KafkaConsumer;
use crate::foreign::Inquiry;
use crate::handle::{ClientError, Properties};
use crate::list::PartitionEntry;
use crate::planted::Planted;
use crate::preflight::StartOffset;
use crate::producer::{KafkaProducer, ProducerOptions};
use crate::topic_ids::{DEBUG_CONTEXT, TopicHandle};
use std::time::Duration;
use transom_engine::{SourcePartition, StopReason};
use transom_runtime::{Broker, Ends, OpenTransaction, SourceError, Watcher};

/// How long reading last stable offsets may take; lag is worth no longer wait.
const LAG_TIMEOUT: Duration = Duration::from_secs(2);

/// What holds for every record; the default is chosen by `service`, and nothing falls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Outputs and offsets in one transaction.
    ExactlyOnce,
    /// Outputs, then offsets.
    AtLeastOnce,
    /// Offsets, then outputs.
    AtMostOnce,
}

/// Members learn of a rebalance by heartbeat: with a third of a 10 s session a join took 5–7 s.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);

/// Shorter than this a busy broker looks dead.
const SOCKET_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Bytes fetched ahead for all partitions together, and the least and most for one, in KiB. The client's limit is one for
/// each partition's queue; without a share each, 128 partitions would take gigabytes.
const PREFETCH_KIB: i32 = 8_192;
const PREFETCH_KIB_MIN: i32 = 64;
const PREFETCH_KIB_MAX: i32 = 4_096;

/// Most bytes of one partition in one answer, in KiB: no more than is fetched ahead. They count as the broker has them,
/// compressed: in memory, with what the client keeps for each record, they are tenfold, and come on top of the limit above. A
/// batch that is larger comes all the same: the client doubles the limit of a partition until it does.
const FETCH_KIB_MAX: i32 = 1_024;

/// Largest batch the producer makes, and how far it stays below a topic's limit.
const BATCH_BYTES: i32 = 1_000_000;
const BATCH_BYTES_SPARED: i32 = 512;

/// Which group protocol, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The classic protocol: the session time-out is ours to set.
    Classic,
    /// KIP-848: the broker sets it.
    Consumer,
}

/// How partitions are spread over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Keeps equal partition numbers of several topics together.
    Range,
    /// Even shares and few moves; only with the `consumer` protocol.
    Uniform,
}

/// How a worker joins its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Under a stable name: a restart gets its partitions back at once. Only when the instance name was given.
    Static,
    /// Under a name the broker makes up; leaving gives the partitions to the others at once.
    Dynamic,
}

/// Everything the client needs to know.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The pipeline's name, which is the group id.
    pub pipeline: String,
    /// The instance's name.
    pub instance: String,
    /// How the workers join their group.
    pub joining: Joining,
    /// Properties for both halves, as the user wrote them.
    pub common: Vec<(String, String)>,
    /// Properties for the consumer alone.
    pub consumer: Vec<(String, String)>,
    /// Properties for the producer alone.
    pub producer: Vec<(String, String)>,
    /// Input topics by `TopicId`.
    pub inputs: Vec<String>,
    /// Topics by the index of `OutputId`: routes, then dead letters.
    pub outputs: Vec<String>,
    /// Workers in this process.
    pub workers: u16,
    /// Where a new group begins.
    pub start: StartOffset,
    /// What holds for every record.
    pub guarantee: Guarantee,
    /// Partitions of all inputs together, for the share of memory each may take.
    pub input_partitions: i32,
    /// The largest batch that every output topic takes, where it is known.
    pub batch_bytes_max: Option<i32>,
    /// Group protocol.
    pub protocol: GroupProtocol,
    /// Assignor.
    pub assignor: Assignor,
    /// Session time-out (classic).
    pub session_timeout: Duration,
    /// `max.poll.interval.ms`.
    pub poll_interval_max: Duration,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// Deadline for sending offsets.
    pub send_offsets_timeout: Duration,
    /// Deadline for a commit.
    pub commit_timeout: Duration,
    /// Most records a batch may hold.
    pub records_max: u64,
    /// A rule switched off by a test.
    pub planted: Planted,
}

impl ConnectOptions {
    /// Returns the properties for admin requests.
    pub fn admin_properties(&self) -> Properties {
        Properties::for_requests(&self.common, &self.producer)
    }

    fn group_instance_id(&self, worker: u16) -> Option<String> {
        match self.joining {
            Joining::Static => Some(format!("{}:{worker}", self.instance)),
            Joining::Dynamic => None,
        }
    }

    fn consumer_properties(&self, worker: u16) -> Properties {
        let prefetch = (PREFETCH_KIB / self.input_partitions.max(1)).clamp(PREFETCH_KIB_MIN, PREFETCH_KIB_MAX);
        let fetch_bytes = 1_024 * prefetch.min(FETCH_KIB_MAX);
        // Defaults first: the user may change these.
        let mut properties = Properties::new()
            .with("client.id", "transom")
            // The library's default idles a full second once its queue was full.
            .with("fetch.queue.backoff.ms", "5")
            .with("fetch.wait.max.ms", "100")
            .with("queued.min.messages", "100000")
            .with("queued.max.messages.kbytes", prefetch.to_string())
            .with("fetch.message.max.bytes", fetch_bytes.to_string())
            .with("check.crcs", "true")
            .with("topic.metadata.refresh.interval.ms", "30000");
        extend(&mut properties, &self.common);
        extend(&mut properties, &self.consumer);
        // Ours behind: the guarantee rests on them, and the configuration refused other values.
        properties.set("group.id", &self.pipeline);
        if let Some(name) = self.group_instance_id(worker) {
            properties.set("group.instance.id", name);
        }
        properties.set("enable.auto.commit", "false");
        properties.set("enable.auto.offset.store", "false");
        properties.set("auto.offset.reset", "error");
        properties.set("isolation.level", "read_committed");
        let debug = properties.get("debug").map_or_else(|| DEBUG_CONTEXT.to_owned(), |wanted| format!("{wanted},{DEBUG_CONTEXT}"));
        properties.set("debug", debug);
        properties.set("max.poll.interval.ms", self.poll_interval_max.as_millis().to_string());
        match self.protocol {
            GroupProtocol::Classic => {
                properties.set("group.protocol", "classic");
                properties.set("session.timeout.ms", self.session_timeout.as_millis().to_string());
                let heartbeat = (self.session_timeout / 3).min(HEARTBEAT_MAX);
                properties.set("heartbeat.interval.ms", heartbeat.as_millis().to_string());
                properties.set("partition.assignment.strategy", "range");
            }
            GroupProtocol::Consumer => {
                properties.set("group.protocol", "consumer");
                if self.assignor == Assignor::Range {
                    properties.set("group.remote.assignor", "range");
                }
            }
        }
        properties
    }

    fn producer_properties(&self, transactional_id: &str) -> Properties {
        let batch_bytes = self.batch_bytes_max.map_or(BATCH_BYTES, |max| (max - BATCH_BYTES_SPARED).clamp(1, BATCH_BYTES));
        let queue = self.records_max.saturating_mul(4).clamp(100_000, 10_000_000);
        let mut properties = Properties::new()
            .with("client.id", "transom")
            .with("compression.type", "lz4")
            .with("linger.ms", "2")
            .with("batch.size", batch_bytes.to_string())
            // The previous transaction's markers are written while the next one begins: ask again soon.
            .with("retry.backoff.ms", "5")
            .with("queue.buffering.max.messages", queue.to_string())
            .with("queue.buffering.max.kbytes", "1048576")
            // The broker's limit decides, not the client's: the topic may allow more than the client's default.
            .with("message.max.bytes", "100000000")
            .with("topic.metadata.refresh.interval.ms", "30000")
            // The only way to learn producer id and epoch, for status: soon enough to name them when a coordinator hangs.
            .with("statistics.interval.ms", "1000");
        // A call of a transaction lasts at least as long as the request it waits for, whatever its own deadline says.
        let deadline = self.send_offsets_timeout.max(self.commit_timeout).min(self.transaction_timeout).max(SOCKET_TIMEOUT_MIN);
        properties.set("socket.timeout.ms", deadline.as_millis().to_string());
        extend(&mut properties, &self.common);
        extend(&mut properties, &self.producer);
        if self.guarantee == Guarantee::ExactlyOnce {
            properties.set("transactional.id", transactional_id);
            properties.set("transaction.timeout.ms", self.transaction_timeout.as_millis().to_string());
        }
        properties.set("enable.idempotence", "true");
        properties.set("acks", "all");
        properties.set("partitioner", "murmur2_random");
        properties.set("delivery.report.only.error", "true");
        properties
    }
}

fn extend(properties: &mut Properties, more: &[(String, String)]) {
    for (name, value) in more {
        properties.set(name, value);
    }
}

/// A Kafka cluster.
#[derive(Clone, Debug)]
pub struct KafkaBroker {
    options: ConnectOptions,
}

impl KafkaBroker {
    /// Returns a broker; nothing is connected yet.
    pub const fn new(options: ConnectOptions) -> Self {
        Self { options }
    }

    /// Returns a watcher of the inputs.
    ///
    /// # Errors
    /// When the client refuses its configuration.
    pub fn watcher(&self) -> Result<KafkaWatcher, ClientError> {
        let properties = self.options.admin_properties();
        let inputs = self.options.inputs.clone();
        // Not a producer's handle: a broker that creates topics by itself would create a deleted input when it is asked for.
        let admin = Admin::for_group(&properties, &self.options.pipeline)?;
        let topics = inputs.iter().map(|topic| TopicHandle::new(&admin.client, topic)).collect::<Result<_, _>>()?;
        Ok(KafkaWatcher { topics, admin, inquiry: Inquiry::new(&properties), inputs })
    }
}

impl Broker for KafkaBroker {
    type Source = KafkaConsumer;
    type Transactor = KafkaProducer;

    fn connect(&self, worker: u16) -> Result<(KafkaConsumer, KafkaProducer), StopReason> {
        let options = &self.options;
        let refused = |error: ClientError| StopReason::Configuration { what: format!("the client refuses its configuration: {}", error.text) };
        let transactional_id = transom_engine::TransactionalId::new(&options.pipeline, &options.instance, worker)
            .map_err(|error| StopReason::Configuration { what: error.to_string() })?;
        let instance_id = options.group_instance_id(worker);
        // The broker checks a classic member from generation 0 on, a `consumer` member from epoch 1 on.
        let min_generation = match options.protocol {
            GroupProtocol::Classic => 0,
            GroupProtocol::Consumer => 1,
        };
        let group = (options.pipeline.as_str(), instance_id.as_deref());
        let rules = (min_generation, options.planted);
        let consumer = KafkaConsumer::new(&options.consumer_properties(worker), &options.inputs, group, rules).map_err(refused)?;
        let producer_options = ProducerOptions {
            properties: options.producer_properties(&transactional_id.to_string()),
            request_properties: options.admin_properties(),
            transactional_id,
            instance: options.instance.clone(),
            workers: options.workers,
            start: options.start,
            guarantee: options.guarantee,
            planted: options.planted,
            group_id: options.pipeline.clone(),
            inputs: options.inputs.clone(),
            topics: options.outputs.clone(),
            send_offsets_timeout: options.send_offsets_timeout,
            commit_timeout: options.commit_timeout,
        };
        let producer = KafkaProducer::new(producer_options, consumer.client());
        Ok((consumer, producer))
    }
}

/// Looks at the inputs from outside the stream.
pub struct KafkaWatcher {
    // Order matters: topics go before the client.
    topics: Vec<TopicHandle>,
    admin: Admin,
    inquiry: Inquiry,
    inputs: Vec<String>,
}

impl KafkaWatcher {
    fn name(&self, place: SourcePartition) -> &str {
        &self.inputs[usize::from(place.topic.0)]
    }
}

impl Watcher for KafkaWatcher {
    fn ends(&mut self, partitions: &[SourcePartition]) -> Result<Vec<(SourcePartition, Ends)>, SourceError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<_> = partitions.iter().map(|place| (self.name(*place).to_owned(), place.partition.get())).collect();
        let list = |spec| list_offsets(&self.admin.client, &names, spec, LAG_TIMEOUT).map_err(|error| SourceError { what: error.to_string() });
        // The last stable offset first: it can then never seem to lie beyond the high watermark.
        let (stable, high) = (list(Spec::LastStable)?, list(Spec::Latest)?);
        let find = |listed: &[PartitionEntry], place: SourcePartition| {
            let is_it = |entry: &&PartitionEntry| entry.topic == self.name(place) && entry.partition == place.partition.get();
            listed.iter().find(is_it).filter(|entry| entry.code == 0).map(|entry| entry.offset)
        };
        let ends = |place: &SourcePartition| {
            let ends = Ends { last_stable: find(&stable, *place)?, high_watermark: find(&high, *place)? };
            Some((*place, ends))
        };
        Ok(partitions.iter().filter_map(ends).collect())
    }

    fn missing(&mut self) -> Result<Vec<String>, SourceError> {
        let mut missing = Vec::new();
        for (name, topic) in self.inputs.iter().zip(&self.topics) {
            let is_missing = topic.is_missing(&self.admin.client, LAG_TIMEOUT).map_err(|error| SourceError { what: error.to_string() })?;
            if is_missing {
                missing.push(name.clone());
            }
        }
        Ok(missing)
    }

    fn open_transaction(&mut self, partition: SourcePartition) -> Result<OpenTransaction, SourceError> {
        self.inquiry.open_transaction(self.name(partition), partition.partition.get())
    }

    fn tool(&self) -> String {
        format!("--bootstrap-server {}", self.inquiry.bootstrap())
    }
}

impl std::fmt::Debug for KafkaWatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KafkaWatcher")
    }
}
