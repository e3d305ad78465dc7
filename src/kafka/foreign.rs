//! Whose open transaction holds a partition's readers back: three requests that librdkafka does not have (DescribeProducers,
//! ListTransactions, DescribeTransactions; KIP-664), over a connection of our own, when it is asked for and not before.
//!
//! Owns its few frames and nothing of the stream: it never sends anything that changes the cluster. Every wait is bounded.
//! It speaks to listeners without TLS, with or without SASL/PLAIN; of others it says that it cannot. Rejected: a client crate
//! for five small requests (`kafka-protocol` is the oracle's, and must stay nobody else's; others bring a runtime), and TLS
//! by hand; the command that names the producer there is in the message.

mod frame;

use crate::handle::Properties;
use frame::{Connection, Reader, Writer};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transom_runtime::{OpenTransaction, SourceError};

/// API keys.
const METADATA: i16 = 3;
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;
const DESCRIBE_PRODUCERS: i16 = 61;
const DESCRIBE_TRANSACTIONS: i16 = 65;
const LIST_TRANSACTIONS: i16 = 66;

/// How we are let in.
enum Access {
    Plain,
    SaslPlain {
        user: String,
        password: String,
    },
    /// Not by us; why, in words.
    None(String),
}

/// Asks a cluster for open transactions.
pub(crate) struct Inquiry {
    bootstrap: String,
    access: Access,
}

/// A broker that is up.
struct Node {
    id: i32,
    address: String,
}

/// What a partition's leader knows of the transaction that holds its readers back.
struct Held {
    producer_id: i64,
    /// When its last record was written, milliseconds since 1970.
    last_record_ms: i64,
}

impl Inquiry {
    /// Returns an inquiry with a client's properties; nothing is connected yet.
    pub(crate) fn new(properties: &Properties) -> Self {
        let get = |name| properties.get(name).unwrap_or_default();
        let mechanism = properties.get("sasl.mechanisms").or_else(|| properties.get("sasl.mechanism")).unwrap_or("GSSAPI");
        let access = match get("security.protocol").to_ascii_lowercase().as_str() {
            "" | "plaintext" => Access::Plain,
            "sasl_plaintext" if mechanism == "PLAIN" => {
                Access::SaslPlain { user: get("sasl.username").to_owned(), password: get("sasl.password").to_owned() }
            }
            "sasl_plaintext" => Access::None(format!("it is asked for over SASL/PLAIN only, not {mechanism}")),
            other => Access::None(format!("it is asked for without TLS only, and security.protocol is {other}")),
        };
        Self { bootstrap: get("bootstrap.servers").to_owned(), access }
    }

    /// Returns the servers, for commands in messages.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns the transaction that holds back the readers of a partition.
    ///
    /// # Errors
    /// Why that cannot be told, in words.
    pub(crate) fn open_transaction(&self, topic: &str, partition: i32) -> Result<OpenTransaction, SourceError> {
        let (mut nodes, leader) = self.cluster(topic, partition)?;
        // The leader first: the transaction's coordinator may be any of them.
        nodes.sort_by_key(|node| node.id != leader);
        let Some(first) = nodes.first().filter(|node| node.id == leader) else { return Err(failed("the partition has no leader now")) };
        let mut connection = self.connect(&first.address)?;
        let held = describe_producers(&mut connection, topic, partition)?;
        let mut connection = Some(connection);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = |milliseconds: i64| u64::try_from(milliseconds).ok().map(|at| now.saturating_sub(Duration::from_millis(at)));
        for node in &nodes {
            // The coordinator's answer is more than we need: a broker that does not answer costs the name, no more.
            let Ok(mut connection) = connection.take().map_or_else(|| self.connect(&node.address), Ok) else { continue };
            let Ok(Some((transactional_id, timeout, start_ms))) = coordinated(&mut connection, held.producer_id) else { continue };
            let (age, timeout) = (since(start_ms).or_else(|| since(held.last_record_ms)), Some(timeout));
            return Ok(OpenTransaction { producer_id: held.producer_id, transactional_id: Some(transactional_id), age, timeout });
        }
        let age = since(held.last_record_ms);
        Ok(OpenTransaction { producer_id: held.producer_id, transactional_id: None, age, timeout: None })
    }

    fn connect(&self, address: &str) -> Result<Connection, SourceError> {
        if let Access::None(why) = &self.access {
            return Err(failed(why));
        }
        let mut connection = Connection::open(address)?;
        if let Access::SaslPlain { user, password } = &self.access {
            let mut answer = connection.call(SASL_HANDSHAKE, 1, Writer::fixed().string("PLAIN"))?;
            answer.check("SASL handshake")?;
            let token = format!("\0{user}\0{password}");
            let mut answer = connection.call(SASL_AUTHENTICATE, 1, Writer::fixed().bytes(token.as_bytes()))?;
            answer.check("SASL authentication")?;
        }
        Ok(connection)
    }

    /// Returns the live brokers and the id of the partition's leader.
    fn cluster(&self, topic: &str, partition: i32) -> Result<(Vec<Node>, i32), SourceError> {
        let mut last = failed("bootstrap.servers is empty");
        for address in self.bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            // A listener's name may stand before the address.
            let address = address.rsplit_once("://").map_or(address, |(_, address)| address);
            let asked = self.connect(address).and_then(|mut connection| {
                let request = Writer::fixed().count(1).string(topic).boolean(false);
                metadata(connection.call(METADATA, 4, request)?, partition)
            });
            match asked {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Reads Metadata v4.
fn metadata(mut answer: Reader, partition: i32) -> Result<(Vec<Node>, i32), SourceError> {
    answer.i32()?;
    let mut nodes = Vec::new();
    for _ in 0..answer.count()? {
        let (id, host, port) = (answer.i32()?, answer.string()?.unwrap_or_default(), answer.i32()?);
        answer.string()?;
        nodes.push(Node { id, address: format!("{host}:{port}") });
    }
    answer.string()?;
    answer.i32()?;
    let mut leader = -1;
    for _ in 0..answer.count()? {
        answer.check("metadata")?;
        answer.string()?;
        answer.i8()?;
        for _ in 0..answer.count()? {
            answer.i16()?;
            let (index, led_by) = (answer.i32()?, answer.i32()?);
            for _ in 0..2 {
                for _ in 0..answer.count()? {
                    answer.i32()?;
                }
            }
            if index == partition {
                leader = led_by;
            }
        }
    }
    Ok((nodes, leader))
}

/// Asks a partition's leader for its producers (DescribeProducers v0) and returns the one whose transaction is the oldest.
fn describe_producers(connection: &mut Connection, topic: &str, partition: i32) -> Result<Held, SourceError> {
    let request = Writer::flexible().count(1).string(topic).count(1).i32(partition).tags().tags();
    let mut answer = connection.call(DESCRIBE_PRODUCERS, 0, request)?;
    let mut oldest: Option<(i64, Held)> = None;
    answer.i32()?;
    for _ in 0..answer.count()? {
        answer.string()?;
        for _ in 0..answer.count()? {
            answer.i32()?;
            answer.check("DescribeProducers (it needs Read on the topic)")?;
            answer.string()?;
            for _ in 0..answer.count()? {
                let producer_id = answer.i64()?;
                answer.i32()?;
                answer.i32()?;
                let last_record_ms = answer.i64()?;
                answer.i32()?;
                let start = answer.i64()?;
                answer.tags()?;
                if start >= 0 && oldest.as_ref().is_none_or(|(first, _)| start < *first) {
                    oldest = Some((start, Held { producer_id, last_record_ms }));
                }
            }
            answer.tags()?;
        }
        answer.tags()?;
    }
    oldest.map(|(_, held)| held).ok_or_else(|| failed("the partition's leader knows of no open transaction any more"))
}

/// Asks one coordinator (ListTransactions v0, DescribeTransactions v0) for the transaction of a producer id: its name, its
/// time-out and when it began, in milliseconds since 1970.
fn coordinated(connection: &mut Connection, producer_id: i64) -> Result<Option<(String, Duration, i64)>, SourceError> {
    let mut answer = connection.call(LIST_TRANSACTIONS, 0, Writer::flexible().count(0).count(1).i64(producer_id).tags())?;
    answer.i32()?;
    answer.check("ListTransactions")?;
    for _ in 0..answer.count()? {
        answer.string()?;
    }
    if answer.count()? == 0 {
        return Ok(None);
    }
    let Some(transactional_id) = answer.string()? else { return Ok(None) };
    let mut answer = connection.call(DESCRIBE_TRANSACTIONS, 0, Writer::flexible().count(1).string(&transactional_id).tags())?;
    answer.i32()?;
    if answer.count()? == 0 {
        return Ok(None);
    }
    answer.check("DescribeTransactions")?;
    answer.string()?;
    answer.string()?;
    let (timeout_ms, start_ms) = (answer.i32()?, answer.i64()?);
    let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    Ok(Some((transactional_id, timeout, start_ms)))
}

fn failed(what: impl Into<String>) -> SourceError {
    SourceError { what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inquiry(pairs: &[(&str, &str)]) -> Inquiry {
        let mut properties = Properties::new();
        for (name, value) in pairs {
            properties.set(name, *value);
        }
        Inquiry::new(&properties)
    }

    fn why(pairs: &[(&str, &str)]) -> String {
        inquiry(pairs).open_transaction("in", 0).expect_err("not spoken to").what
    }

    #[test]
    fn listeners_with_tls_or_other_mechanisms_are_not_spoken_to_and_the_reason_is_said() {
        assert!(matches!(inquiry(&[]).access, Access::Plain));
        let plain = inquiry(&[("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.username", "u")]);
        assert!(matches!(plain.access, Access::SaslPlain { user, .. } if user == "u"));
        let servers = ("bootstrap.servers", "localhost:1");
        assert!(why(&[servers, ("security.protocol", "sasl_ssl")]).contains("security.protocol is sasl_ssl"));
        assert!(why(&[servers, ("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "SCRAM-SHA-512")]).contains("SCRAM-SHA-512"));
    }
}
