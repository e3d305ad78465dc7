//! Looks at the cluster before the first worker starts, so that what cannot work is said at once and in words.

use crate::admin::{Admin, Metadata, Setting, Spec, group_offsets, list_offsets};
use crate::disposition::code;
use crate::handle::{ClientError, Properties};
use std::time::{Duration, Instant};

/// One attempt to reach the cluster; until the budget is over there are more.
const ATTEMPT: Duration = Duration::from_secs(5);
/// A refused password or certificate is repeated for this long before it is believed: brokers answer so while they start.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

/// How a broker refuses an outsider's offset commit for a group with members: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
/// REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP.
const GROUP_IN_USE: [i32; 4] = [22, 25, 27, 68];

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Preflight {
    /// Input topics.
    pub inputs: Vec<String>,
    /// Output and dead-letter topics.
    pub outputs: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Where a new group begins.
    pub start: StartOffset,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
    /// How long reaching the cluster may take.
    pub budget: Duration,
}

/// Where a new group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOffset {
    /// The beginning of each log.
    Earliest,
    /// The end of each log as of now.
    Latest,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Facts {
    /// How many brokers are up.
    pub brokers: usize,
    /// Topics that were asked for, with their partition counts.
    pub partitions: Vec<(String, i32)>,
    /// What could not be checked, for a warning.
    pub unchecked: Vec<String>,
    /// Whether the group had no offset of the inputs.
    pub new_group: bool,
    /// The largest batch that every output topic takes, where that could be read.
    pub batch_bytes_max: Option<i32>,
    /// Of a new group, the outputs that hold records already. If they are its own, its offsets expired or were deleted.
    pub written_outputs: Vec<String>,
}

/// Why the pipeline cannot start on this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// No answer within the budget.
    #[error("no broker of {bootstrap} answered within {seconds} s{detail}")]
    Unreachable {
        /// The servers asked.
        bootstrap: String,
        /// The budget.
        seconds: u64,
        /// The client's last error, in words.
        detail: String,
    },
    /// The broker refuses who we say we are.
    #[error("the broker refuses the user or password: {0}")]
    Authentication(String),
    /// TLS does not come about.
    #[error("the TLS connection does not come about: {0}")]
    Tls(String),
    /// A topic is not there.
    #[error("topic {topic} does not exist{near}")]
    MissingTopic {
        /// Which one.
        topic: String,
        /// A topic with a similar name.
        near: String,
    },
    /// Input topics that must be co-partitioned are not.
    #[error("the input topics have different partition counts: {counts}")]
    PartitionCounts {
        /// Each with its count.
        counts: String,
    },
    /// The broker cannot give the guarantee.
    #[error("{0}")]
    Broker(String),
    /// An ACL forbids it.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The client refuses its configuration.
    #[error("the client refuses its configuration: {0}")]
    Configuration(String),
    /// Something did not answer.
    #[error("{0}")]
    NoAnswer(String),
}

impl Preflight {
    /// Looks, and commits the start offsets of a new group that begins at the end of the logs, so that all its members mean
    /// the same end.
    ///
    /// # Errors
    /// The first reason why the pipeline cannot start.
    pub fn run(&self, properties: &Properties, bootstrap: &str) -> Result<Facts, PreflightError> {
        let admin = Admin::for_group(properties, &self.group).map_err(|error| PreflightError::Configuration(error.text))?;
        let metadata = self.reach(&admin, bootstrap)?;
        let mut unchecked = Vec::new();
        self.check_broker(&admin, &metadata, &mut unchecked)?;
        let partitions = self.check_topics(&metadata)?;
        let new_group = self.seed(&admin, &partitions)?;
        let batch_bytes_max = self.batch_bytes_max(&admin);
        let written_outputs = if new_group { self.written_outputs(&admin, &partitions) } else { Vec::new() };
        Ok(Facts { brokers: metadata.brokers.len(), partitions, unchecked, new_group, batch_bytes_max, written_outputs })
    }

    /// A topic's limit is one of whole batches: a larger one would be refused although every record in it is small.
    fn batch_bytes_max(&self, admin: &Admin) -> Option<i32> {
        let limit = |topic: &String| match admin.topic_settings(topic, ATTEMPT) {
            Ok(settings) => value(&settings, "max.message.bytes")?.parse::<i32>().ok(),
            Err(error) => {
                tracing::debug!(topic, error = %error, "the topic's limits cannot be read; a batch that it refuses is sent again in parts");
                None
            }
        };
        self.outputs.iter().filter_map(limit).min()
    }

    /// Without any offset a group that forgot everything looks like a new one; its outputs give it away, unless they are
    /// others' too. So this is for a warning alone, and unanswered means none.
    fn written_outputs(&self, admin: &Admin, partitions: &[(String, i32)]) -> Vec<String> {
        let outputs = partitions.iter().skip(self.inputs.len());
        let all: Vec<_> = outputs.flat_map(|(topic, count)| (0..*count).map(move |partition| (topic.clone(), partition))).collect();
        let ends = list_offsets(&admin.client, &all, Spec::Latest, ATTEMPT).unwrap_or_default();
        let mut written: Vec<String> = ends.into_iter().filter(|entry| entry.code == 0 && entry.offset > 0).map(|entry| entry.topic).collect();
        written.sort();
        written.dedup();
        written
    }

    fn reach(&self, admin: &Admin, bootstrap: &str) -> Result<Metadata, PreflightError> {
        let deadline = Instant::now() + self.budget;
        let mut refused_since = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = match admin.metadata(left.min(ATTEMPT)) {
                Ok(metadata) if !metadata.brokers.is_empty() => return Ok(metadata),
                Ok(_) => ClientError::from_code(code::TRANSPORT),
                Err(error) => error,
            };
            let cause = admin.last_error().unwrap_or(failure);
            let refusal = match cause.code {
                code::AUTHENTICATION => Some(PreflightError::Authentication(cause.text.clone())),
                code::SSL => Some(PreflightError::Tls(cause.text.clone())),
                _ => None,
            };
            match refusal {
                Some(refusal) => {
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= REFUSAL_PATIENCE || Instant::now() >= deadline {
                        return Err(refusal);
                    }
                }
                None => refused_since = None,
            }
            if Instant::now() >= deadline {
                let detail = format!(": {cause}");
                return Err(PreflightError::Unreachable { bootstrap: bootstrap.to_owned(), seconds: self.budget.as_secs(), detail });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The guarantee rests on the broker: partition verification (3.6 and newer), a transaction log it can really write, a
    /// time-out it accepts.
    fn check_broker(&self, admin: &Admin, metadata: &Metadata, unchecked: &mut Vec<String>) -> Result<(), PreflightError> {
        let Some(&broker) = metadata.brokers.first() else { return Ok(()) };
        let settings = match admin.broker_settings(broker, ATTEMPT) {
            Ok(settings) => settings,
            Err(error) => {
                unchecked.push(format!("the broker's settings cannot be read ({error}): DescribeConfigs on the cluster lets them be checked"));
                return Ok(());
            }
        };
        match value(&settings, "transaction.partition.verification.enable") {
            Some("true") => {}
            Some(other) => {
                return Err(PreflightError::Broker(format!(
                    "broker {broker} has transaction.partition.verification.enable={other}: late requests could decide a later transaction; set it to true"
                )));
            }
            None => {
                return Err(PreflightError::Broker(format!(
                    "broker {broker} does not know transaction.partition.verification.enable: it is older than Kafka 3.6, which is the oldest supported"
                )));
            }
        }
        let number = |name: &str| value(&settings, name).and_then(|text| text.parse::<u64>().ok());
        if let Some(max) = number("transaction.max.timeout.ms")
            && self.transaction_timeout.as_millis() > u128::from(max)
        {
            return Err(PreflightError::Broker(format!(
                "timeouts.transaction is {} ms, above the broker's transaction.max.timeout.ms of {max} ms",
                self.transaction_timeout.as_millis()
            )));
        }
        let log_exists = metadata.topics.iter().any(|(name, ..)| name == "__transaction_state");
        let brokers = u64::try_from(metadata.brokers.len()).unwrap_or(u64::MAX);
        if let Some(replication) = number("transaction.state.log.replication.factor")
            && replication > brokers
            && !log_exists
        {
            return Err(PreflightError::Broker(format!(
                "the broker refuses transactions: its transaction log wants {replication} replicas and there are {brokers} brokers; \
                 set transaction.state.log.replication.factor and transaction.state.log.min.isr, or start more brokers"
            )));
        }
        Ok(())
    }

    fn check_topics(&self, metadata: &Metadata) -> Result<Vec<(String, i32)>, PreflightError> {
        let mut partitions = Vec::new();
        for topic in self.inputs.iter().chain(&self.outputs) {
            match metadata.topics.iter().find(|(name, ..)| name == topic) {
                Some((_, count, 0 | 5)) if *count > 0 => partitions.push((topic.clone(), *count)),
                Some((_, _, code::TOPIC_AUTHORIZATION_FAILED)) => return Err(PreflightError::NotPermitted(format!("describing topic {topic}"))),
                Some(_) | None => {
                    let near = near(topic, metadata.topics.iter().map(|(name, ..)| name.as_str()));
                    return Err(PreflightError::MissingTopic { topic: topic.clone(), near });
                }
            }
        }
        let counts = &partitions[..self.inputs.len()];
        if counts.iter().any(|(_, count)| *count != counts[0].1) {
            let counts = counts.iter().map(|(topic, count)| format!("{topic} {count}")).collect::<Vec<_>>().join(", ");
            return Err(PreflightError::PartitionCounts { counts });
        }
        Ok(partitions)
    }

    fn seed(&self, admin: &Admin, partitions: &[(String, i32)]) -> Result<bool, PreflightError> {
        let group_error = |error: ClientError| match error.code {
            code::GROUP_AUTHORIZATION_FAILED | code::TOPIC_AUTHORIZATION_FAILED => {
                PreflightError::NotPermitted(format!("reading or committing offsets of group {}: {error}", self.group))
            }
            _ => PreflightError::NoAnswer(format!("the offsets of group {} cannot be read: {error}", self.group)),
        };
        let known = patient(|| group_offsets(&admin.client, &self.group, None, false, ATTEMPT)).map_err(group_error)?;
        if known.iter().any(|entry| self.inputs.contains(&entry.topic) && entry.offset >= 0) {
            return Ok(false);
        }
        // A group that begins at the beginning needs no seed: whoever gains a partition without an offset knows where to
        // start. A seed is a commit without a member, whose late copy an empty group would take (EO-4).
        if self.start == StartOffset::Earliest {
            return Ok(true);
        }
        let inputs = partitions.iter().take(self.inputs.len());
        let all: Vec<_> = inputs.flat_map(|(topic, count)| (0..*count).map(move |partition| (topic.clone(), partition))).collect();
        // A topic that was just created may have no leader yet: its entries are asked for again like a failed request.
        let offsets = patient(|| {
            let entries = list_offsets(&admin.client, &all, Spec::Latest, ATTEMPT)?;
            match entries.iter().find(|entry| entry.code != 0 || entry.offset < 0) {
                Some(bad) => Err(ClientError {
                    text: format!("{}/{}: {}", bad.topic, bad.partition, ClientError::from_code(bad.code).text),
                    ..ClientError::from_code(bad.code)
                }),
                None => Ok(entries),
            }
        })
        .map_err(|error| PreflightError::NoAnswer(format!("the offsets of the input topics cannot be read: {error}")))?;
        let offsets: Vec<_> = offsets.into_iter().map(|entry| (entry.topic, entry.partition, entry.offset)).collect();
        match patient(|| admin.seed_group(&self.group, &offsets, ATTEMPT)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.code, code::GROUP_AUTHORIZATION_FAILED | code::TOPIC_AUTHORIZATION_FAILED) => Err(group_error(error)),
            // The group has members by now: another instance was first, and it seeded the group before it joined.
            Err(error) if GROUP_IN_USE.contains(&error.code) => {
                tracing::debug!(error = %error, "the group was seeded by another instance");
                Ok(false)
            }
            Err(error) => Err(PreflightError::NoAnswer(format!("the start offsets of group {} cannot be committed: {error}", self.group))),
        }
    }
}

/// Tries again while a fresh coordinator is not ready yet.
fn patient<T>(call: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    /// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, LEADER_NOT_AVAILABLE, NOT_LEADER, time-outs.
    const PASSING: [i32; 7] = [14, 15, 16, 5, 6, code::TIMED_OUT, code::TRANSPORT];
    let deadline = Instant::now() + 4 * ATTEMPT;
    loop {
        match call() {
            Err(error) if PASSING.contains(&error.code) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

fn value<'a>(settings: &'a [Setting], name: &str) -> Option<&'a str> {
    settings.iter().find(|(setting, _)| setting == name)?.1.as_deref()
}

fn near<'a>(topic: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = names.filter(|name| !name.starts_with("__")).map(|name| (distance(topic, name), name)).min();
    match near {
        Some((distance, name)) if distance <= 2.max(topic.len() / 4) => format!("; there is {name}"),
        Some(_) | None => String::new(),
    }
}

/// Returns the edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            let best = replaced.min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_topic_is_told_its_neighbour() {
        assert_eq!(near("ordres", ["orders", "payments", "__consumer_offsets"].into_iter()), "; there is orders");
        assert_eq!(near("invoices", ["orders"].into_iter()), "");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
