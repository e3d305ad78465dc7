//! Kafka's own properties: which pass through, and which collide with what Transom sets itself.
//!
//! The exactly-once guarantee stands on client settings. A property that would change one of them is refused with both
//! values and the reason; it is never overwritten in silence. Whether a name exists at all, only the client library
//! knows: it says so at start.

use std::time::Duration;

use super::mirror::{Mirror, MirrorProperty};
use super::mistake::{Mistake, Shown};
use super::plan::{Assignor, ClientProperties, GroupProtocol};
use super::problem::Report;
use super::resolve::assignor;
use super::secret::{Property, Secret, name_is_secret};

const SERVERS: &str = "bootstrap.servers";

/// What a rule says about one value.
enum Verdict {
    /// The author may choose this value.
    Pass,
    /// It is what Transom sets anyhow, so it need not be handed on.
    Same,
    Refuse,
}

struct Rule {
    /// The property and its other names in the client library.
    names: &'static [&'static str],
    judge: fn(&str) -> Verdict,
    ours: fn(&Mirror) -> String,
    reason: &'static str,
    instead: &'static str,
}

/// Reports every property that collides and returns the others, sorted to their clients.
pub(super) fn check(mirror: &Mirror, report: &mut Report) -> ClientProperties {
    let mut properties = ClientProperties::default();
    for property in &mirror.kafka.properties {
        let (list, name) = match property.key.split_once('.') {
            Some(("consumer", name)) => (&mut properties.consumer, name),
            Some(("producer", name)) => (&mut properties.producer, name),
            Some(_) | None => (&mut properties.common, property.key.as_str()),
        };
        if passes(property, name, mirror, report) {
            let text = property.text.clone();
            let value = if is_secret(property, name) { Property::Secret(Secret::new(text)) } else { Property::Plain(text) };
            list.push((name.to_owned(), value));
        }
    }
    let servers_given = mirror.kafka.keys.iter().any(|key| key == SERVERS);
    if mirror.kafka.readable && !servers_given {
        report.add(mirror.kafka.at.place, &format!("kafka.{SERVERS}"), Mistake::Missing);
    }
    properties
}

fn passes(property: &MirrorProperty, name: &str, mirror: &Mirror, report: &mut Report) -> bool {
    let at = &property.at;
    if name.is_empty() {
        let prefix = if property.key.starts_with('c') { "consumer." } else { "producer." };
        report.add(at.place, &at.path, Mistake::PropertyUnnamed { prefix });
        return false;
    }
    if name == SERVERS && property.text.is_empty() {
        report.add(at.place, &at.path, Mistake::Empty);
        return false;
    }
    if name == SERVERS && property.key != SERVERS {
        report.add(at.place, &at.path, Mistake::TwoClusters { name: name.to_owned() });
        return false;
    }
    let Some(rule) = RULES.iter().find(|rule| rule.names.contains(&name)) else { return true };
    match (rule.judge)(&property.text) {
        Verdict::Pass => true,
        Verdict::Same => false,
        Verdict::Refuse => {
            let mistake = Mistake::PropertyRefused {
                name: name.to_owned(),
                asked: if is_secret(property, name) { Shown::redacted() } else { Shown::plain(&property.text) },
                ours: (rule.ours)(mirror),
                reason: rule.reason,
                instead: rule.instead,
            };
            report.add(at.place, &at.path, mistake);
            false
        }
    }
}

fn is_secret(property: &MirrorProperty, name: &str) -> bool {
    property.at.referenced || name_is_secret(name)
}

const REMOVE: &str = "remove it";

/// The words that the client library reads as booleans.
const FALSE: [&str; 3] = ["false", "f", "0"];
const TRUE: [&str; 3] = ["true", "t", "1"];

/// Every property that Transom sets itself because the guarantee or another key of the file needs it.
const RULES: &[Rule] = &[
    // The consumer: offsets belong to the transaction alone.
    Rule {
        names: &["enable.auto.commit", "auto.commit.enable"],
        judge: |asked| only(asked, &FALSE),
        ours: |_| "false".to_owned(),
        reason: "offsets are committed inside the transaction (EO-1); a second committer would skip records",
        instead: REMOVE,
    },
    Rule {
        names: &["enable.auto.offset.store"],
        judge: |asked| only(asked, &FALSE),
        ours: |_| "false".to_owned(),
        reason: "offsets are committed inside the transaction (EO-1)",
        instead: REMOVE,
    },
    Rule {
        names: &["isolation.level"],
        judge: |asked| only(asked, &["read_committed"]),
        ours: |_| "read_committed".to_owned(),
        reason: "records of aborted transactions would be processed, and old offsets could be read at a takeover",
        instead: REMOVE,
    },
    Rule {
        names: &["auto.offset.reset"],
        judge: |asked| only(asked, &["error"]),
        ours: |_| "error".to_owned(),
        reason: "the client would jump by itself where records are missing (EO-3)",
        instead: "use `start: earliest` or `start: latest` for where a new group begins",
    },
    Rule {
        names: &["enable.partition.eof"],
        judge: |asked| only(asked, &FALSE),
        ours: |_| "false".to_owned(),
        reason: "positions are tracked by offset; end-of-partition events would move them",
        instead: REMOVE,
    },
    // The group.
    Rule {
        names: &["group.id"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| pipeline(mirror).to_owned(),
        reason: "one pipeline is one consumer group, and its offsets stand under that name",
        instead: "choose it with `pipeline:`",
    },
    Rule {
        names: &["group.instance.id"],
        judge: |_| Verdict::Refuse,
        ours: |_| "<instance>:<worker>".to_owned(),
        reason: "two members of one name fence each other, so each worker gets its own",
        instead: "name the instance with --instance or TRANSOM_INSTANCE",
    },
    Rule {
        names: &["group.protocol"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| match mirror.protocol.as_ref().map(|protocol| protocol.value) {
            Some(GroupProtocol::Consumer) => "consumer".to_owned(),
            Some(GroupProtocol::Classic) | None => "classic".to_owned(),
        },
        reason: "other settings follow from it",
        instead: "use `group: { protocol: classic }` or `group: { protocol: consumer }`",
    },
    Rule {
        names: &["partition.assignment.strategy", "group.remote.assignor"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| match assignor(mirror) {
            Assignor::Range => "range".to_owned(),
            Assignor::Uniform => "uniform".to_owned(),
        },
        reason: "it follows from the protocol and the number of input topics: several need equal partition numbers on one member",
        instead: REMOVE,
    },
    Rule {
        names: &["session.timeout.ms"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| millis(mirror.timeouts.session.as_ref().map(|field| field.value)),
        reason: "the time-outs keep an order that only this file knows",
        instead: "use timeouts.session",
    },
    Rule {
        names: &["heartbeat.interval.ms"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| millis(mirror.timeouts.session.as_ref().map(|field| (field.value / 3).min(Duration::from_secs(1)))),
        reason: "it is a third of the session time-out, at most 1 s, so that two heartbeats may be lost and a rebalance is heard of soon",
        instead: "use timeouts.session",
    },
    Rule {
        names: &["max.poll.interval.ms"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| millis(mirror.timeouts.poll_max.as_ref().map(|field| field.value)),
        reason: "the time-outs keep an order that only this file knows",
        instead: "use timeouts.poll_max",
    },
    // The producer: idempotent, transactional, complete.
    Rule {
        names: &["transactional.id"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| format!("{}:<instance>:<worker>", pipeline(mirror)),
        reason: "fencing and takeover read pipeline, instance and worker from it",
        instead: "choose its parts with `pipeline:` and --instance or TRANSOM_INSTANCE",
    },
    Rule {
        names: &["transaction.timeout.ms"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| millis(mirror.timeouts.transaction.as_ref().map(|field| field.value)),
        reason: "the time-outs keep an order that only this file knows",
        instead: "use timeouts.transaction",
    },
    Rule {
        names: &["delivery.timeout.ms", "message.timeout.ms"],
        judge: |_| Verdict::Refuse,
        ours: |mirror| millis(mirror.timeouts.transaction.as_ref().map(|field| field.value)),
        reason: "a record is given up with its transaction, neither before nor after",
        instead: "use timeouts.transaction",
    },
    Rule {
        names: &["acks", "request.required.acks"],
        judge: |asked| only(asked, &["all", "-1"]),
        ours: |_| "all".to_owned(),
        reason: "a record that only the leader has is lost with it",
        instead: REMOVE,
    },
    Rule {
        names: &["enable.idempotence"],
        judge: |asked| only(asked, &TRUE),
        ours: |_| "true".to_owned(),
        reason: "a repeated request would write its records twice",
        instead: REMOVE,
    },
    Rule {
        names: &["message.send.max.retries", "retries"],
        judge: |asked| only(asked, &["2147483647"]),
        ours: |_| "2147483647".to_owned(),
        reason: "the transaction's time-out decides when to give up, not a count",
        instead: "remove it, or use timeouts.transaction",
    },
    Rule {
        names: &["max.in.flight", "max.in.flight.requests.per.connection"],
        judge: |asked| match asked.parse::<u32>() {
            Ok(1..=5) => Verdict::Pass,
            Ok(_) | Err(_) => Verdict::Refuse,
        },
        ours: |_| "5".to_owned(),
        reason: "the broker remembers the last five requests of a producer; beyond them order and uniqueness end",
        instead: "choose 1 to 5, or remove it",
    },
    Rule {
        names: &["queuing.strategy"],
        judge: |asked| only(asked, &["fifo"]),
        ours: |_| "fifo".to_owned(),
        reason: "records would be sent in another order than they were written",
        instead: REMOVE,
    },
    Rule {
        names: &["partitioner"],
        judge: |asked| only(asked, &["murmur2_random"]),
        ours: |_| "murmur2_random".to_owned(),
        reason: "Java clients place keys by it; with another one equal keys of two topics no longer meet",
        instead: REMOVE,
    },
    Rule {
        names: &["metadata.broker.list"],
        judge: |_| Verdict::Refuse,
        ours: |_| "the value of bootstrap.servers".to_owned(),
        reason: "it is another name of the same property, and one of the two would win",
        instead: "use bootstrap.servers",
    },
];

/// As the client library does it, capital letters make no difference.
fn only(asked: &str, accepted: &[&str]) -> Verdict {
    let agrees = accepted.iter().any(|accepted| asked.eq_ignore_ascii_case(accepted));
    if agrees { Verdict::Same } else { Verdict::Refuse }
}

/// The name of the pipeline, where it is known and may be shown.
fn pipeline(mirror: &Mirror) -> &str {
    match &mirror.pipeline {
        Some(name) if !name.at.referenced => &name.value,
        Some(_) | None => "<pipeline>",
    }
}

fn millis(duration: Option<Duration>) -> String {
    duration.map_or("<not valid>".to_owned(), |duration| duration.as_millis().to_string())
}
