//! The oracle's own Kafka client, over blocking sockets.
//!
//! It owns the protocol side of every check. It never uses the product's client library, never commits offsets behind a
//! test's back, and gives up after a deadline instead of waiting for ever.
//! Source: the Kafka protocol guide.

mod batch;
mod connection;
mod fetch;
mod groups;
mod produce;
mod records;
mod topics;
mod transaction;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};

use connection::Connection;

pub use groups::{CommittedOffset, Group, GroupMember, OffsetsAsked};
pub use records::{Compression, Headers, NewRecord, ReadRecord, partition_for_key};
pub use topics::{EndOffsets, Replication};
pub use transaction::{OpenTransaction, Transaction, TransactionDetails};

/// How long one operation may go on repeating itself: a broker restart and a leader election fit.
const OPERATION_DEADLINE: Duration = Duration::from_secs(45);
/// Pause between two attempts: long enough not to burn the broker's processor, short against any election.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// What the broker itself is given to complete a request; shorter than the socket's time-out.
const BROKER_TIMEOUT_MS: i32 = 10_000;

/// An error code a broker answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerError {
    /// The code.
    pub code: ResponseError,
    /// What was asked, with topic, partition, group or id.
    pub asked: String,
    /// The broker's own words, if it said any.
    pub message: Option<String>,
}

impl std::fmt::Display for BrokerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.asked, self.code)?;
        self.message.as_ref().map_or(Ok(()), |message| write!(f, " ({message})"))
    }
}

impl std::error::Error for BrokerError {}

/// Turns an answer's error code into a result.
fn check(code: i16, asked: impl FnOnce() -> String) -> Result<()> {
    check_with(code, None, asked)
}

fn check_with(code: i16, message: Option<&StrBytes>, asked: impl FnOnce() -> String) -> Result<()> {
    match ResponseError::try_from_code(code) {
        None => Ok(()),
        Some(code) => {
            let message = message.map(|message| message.as_str().to_owned());
            Err(BrokerError { code, asked: asked(), message }.into())
        }
    }
}

/// Returns the broker's error code, if that is what the error is.
pub fn error_code(error: &anyhow::Error) -> Option<ResponseError> {
    error.downcast_ref::<BrokerError>().map(|error| error.code)
}

/// Whether asking again may help: lost connections, elections, things not yet known everywhere.
fn is_transient(error: &anyhow::Error) -> bool {
    match error_code(error) {
        Some(ResponseError::ConcurrentTransactions) => true,
        Some(code) => code.is_retriable(),
        None => error.chain().any(|cause| cause.is::<std::io::Error>()),
    }
}

/// A client of one cluster. Cheap calls, one at a time a broker; may be shared between threads.
pub struct Client {
    bootstrap: Vec<String>,
    compression: Compression,
    /// How long a fetch may wait at the broker for something new.
    fetch_wait_ms: i32,
    connections: Mutex<HashMap<String, Arc<Mutex<Connection>>>>,
    /// What was last learnt of brokers and leaders; emptied whenever a broker disagrees.
    cluster: Mutex<Cluster>,
    /// The idempotent producer behind [`Client::produce`]; dropped when it is no longer sure of its sequence.
    producer: Mutex<Option<produce::Idempotent>>,
}

#[derive(Default)]
struct Cluster {
    addresses: BTreeMap<i32, String>,
    leaders: HashMap<(String, i32), i32>,
    /// Only topics whose every partition has a leader.
    partitions: HashMap<String, i32>,
}

/// A poisoned lock means another test thread panicked; what it guards here is a cache and stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Client {
    /// Connects to the first broker of a comma-separated list that answers.
    ///
    /// # Errors
    /// If none answers before the deadline.
    pub fn connect(bootstrap: &str) -> Result<Self> {
        let client = Self {
            bootstrap: bootstrap.split(',').map(|address| address.trim().to_owned()).collect(),
            compression: Compression::None,
            fetch_wait_ms: fetch::FETCH_WAIT_MS,
            connections: Mutex::default(),
            cluster: Mutex::default(),
            producer: Mutex::default(),
        };
        client.retrying("connecting", || client.metadata(Some(Vec::new()))).map(|_| client)
    }

    /// Sets how written batches are compressed.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets how long a fetch may wait for something new: the error of a reader that measures when something came.
    #[must_use]
    pub fn with_fetch_wait_ms(mut self, fetch_wait_ms: i32) -> Self {
        self.fetch_wait_ms = fetch_wait_ms;
        self
    }

    /// Returns the ids of the brokers now alive.
    ///
    /// # Errors
    /// If no broker answers.
    pub fn brokers(&self) -> Result<Vec<i32>> {
        self.retrying("listing brokers", || {
            let metadata = self.metadata(Some(Vec::new()))?;
            Ok(metadata.brokers.iter().map(|broker| broker.node_id.0).collect())
        })
    }

    /// Repeats an operation while its failure is transient and the deadline is not over.
    fn retrying<T>(&self, what: &str, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + OPERATION_DEADLINE;
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !is_transient(&error) || Instant::now() >= deadline {
                return Err(error.context(what.to_owned()));
            }
            *lock(&self.cluster) = Cluster::default();
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Sends one request to one address; a connection that failed is not used again.
    fn call<R: Request>(&self, address: &str, request: &R) -> Result<R::Response> {
        let known = lock(&self.connections).get(address).map(Arc::clone);
        let connection = match known {
            Some(connection) => connection,
            None => {
                let fresh = Arc::new(Mutex::new(Connection::open(address)?));
                lock(&self.connections).insert(address.to_owned(), Arc::clone(&fresh));
                fresh
            }
        };
        let answer = lock(&connection).call(request);
        if answer.is_err() {
            let mut connections = lock(&self.connections);
            // Another thread may have reconnected meanwhile: only the failed one goes.
            if connections.get(address).is_some_and(|current| Arc::ptr_eq(current, &connection)) {
                connections.remove(address);
            }
        }
        answer.with_context(|| format!("talking to broker {address}"))
    }

    /// Sends one request to a broker by id.
    fn call_node<R: Request>(&self, node: i32, request: &R) -> Result<R::Response> {
        let known = lock(&self.cluster).addresses.get(&node).cloned();
        let address = match known {
            Some(address) => address,
            None => {
                self.metadata(Some(Vec::new()))?;
                let known = lock(&self.cluster).addresses.get(&node).cloned();
                known.ok_or_else(|| not_now(ResponseError::BrokerNotAvailable, format!("broker {node}")))?
            }
        };
        self.call(&address, request)
    }

    /// Sends one request to whichever broker answers first; the answer must be the same from all.
    fn call_any<R: Request>(&self, request: &R) -> Result<R::Response> {
        let known: Vec<String> = lock(&self.cluster).addresses.values().cloned().collect();
        let mut last = anyhow!("no broker address given");
        for address in known.iter().chain(&self.bootstrap) {
            match self.call(address, request) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Asks for metadata (of all topics if `None`) and remembers brokers and leaders.
    fn metadata(&self, topics: Option<Vec<&str>>) -> Result<MetadataResponse> {
        let topics = topics.map(|names| names.into_iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name)))).collect());
        let request = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(false);
        let metadata = self.call_any(&request)?;
        if metadata.brokers.is_empty() {
            return Err(not_now(ResponseError::BrokerNotAvailable, "metadata".to_owned()));
        }
        let mut cluster = lock(&self.cluster);
        cluster.addresses = metadata.brokers.iter().map(|broker| (broker.node_id.0, address(&broker.host, broker.port))).collect();
        for topic in &metadata.topics {
            let Some(name) = topic.name.as_ref().filter(|_| topic.error_code == 0) else { continue };
            for partition in topic.partitions.iter().filter(|partition| partition.leader_id.0 >= 0) {
                cluster.leaders.insert((name.to_string(), partition.partition_index), partition.leader_id.0);
            }
            if topic.partitions.iter().all(|partition| partition.leader_id.0 >= 0) {
                cluster.partitions.insert(name.to_string(), i32::try_from(topic.partitions.len())?);
            }
        }
        Ok(metadata)
    }

    /// Learns a topic's leaders anew and fails with a transient error while one of them is missing.
    fn refresh_topic(&self, topic: &str) -> Result<i32> {
        let metadata = self.metadata(Some(vec![topic]))?;
        let found = metadata.topics.first().context("metadata without the topic asked for")?;
        check(found.error_code, || format!("topic {topic}"))?;
        let known = lock(&self.cluster).partitions.get(topic).copied();
        known.ok_or_else(|| not_now(ResponseError::LeaderNotAvailable, format!("topic {topic}")))
    }

    /// Sends a request to a partition's leader.
    fn call_leader<R: Request>(&self, topic: &str, partition: i32, request: &R) -> Result<R::Response> {
        let place = (topic.to_owned(), partition);
        let known = lock(&self.cluster).leaders.get(&place).copied();
        let leader = match known {
            Some(leader) => leader,
            None => {
                self.refresh_topic(topic)?;
                let known = lock(&self.cluster).leaders.get(&place).copied();
                known.with_context(|| format!("{topic} has no partition {partition}"))?
            }
        };
        self.call_node(leader, request)
    }

    /// Sends a request to the coordinator of a group or of a transactional id.
    ///
    /// The coordinator is looked up every time: it costs a millisecond, and a moved coordinator costs nothing.
    fn call_coordinator<R: Request>(&self, of: Coordinated<'_>, request: &R) -> Result<R::Response> {
        let found = self.look_up(of)?;
        self.call(&address(&found.host, found.port), request)
    }

    fn look_up(&self, of: Coordinated<'_>) -> Result<Coordinator> {
        let (key, kind) = match of {
            Coordinated::Group(group) => (group, 0),
            Coordinated::Transaction(id) => (id, 1),
        };
        let look_up = FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(vec![text(key)]);
        let answer = self.call_any(&look_up)?;
        let found = answer.coordinators.into_iter().next().context("no coordinator in the answer")?;
        check_with(found.error_code, found.error_message.as_ref(), || format!("coordinator of {key}"))?;
        Ok(found)
    }
}

/// What has a coordinator.
#[derive(Clone, Copy)]
enum Coordinated<'a> {
    Group(&'a str),
    Transaction(&'a str),
}

fn address(host: &StrBytes, port: i32) -> String {
    format!("{}:{port}", host.as_str())
}

/// A transient failure this client found by itself.
fn not_now(code: ResponseError, asked: String) -> anyhow::Error {
    BrokerError { code, asked, message: None }.into()
}

fn broker_id(id: i32) -> BrokerId {
    BrokerId(id)
}
