//! Which set-ups are measured, and who goes on after the kill.

use crate::point::Point;

/// Who goes on after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The victim, started again at once. Measured from that start.
    Restart,
    /// Another instance that was running all the time. Measured from the moment the group gave it the partition.
    OtherInstance,
}

/// Whether the group knows the victim by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    Static,
    Dynamic,
}

/// A client property and its value.
pub type Property = (&'static str, &'static str);

/// Which program runs.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `transom` with `group.protocol` of the pipeline file.
    Ours { protocol: &'static str },
    /// Kafka Streams, with these properties beside its defaults.
    Streams { properties: &'static [Property] },
}

/// One set-up.
#[derive(Clone, Copy, Debug)]
pub struct Combination {
    /// Part of names of topics, groups and logs.
    pub name: &'static str,
    /// What the table calls it.
    pub title: &'static str,
    pub kind: Kind,
    pub membership: Membership,
    pub then: Then,
    /// The first new output may take no longer.
    pub limit_s: Option<f64>,
}

/// The promise for the default set-up.
const LIMIT_S: f64 = 3.0;
const CLASSIC: Kind = Kind::Ours { protocol: "classic" };
const CONSUMER: Kind = Kind::Ours { protocol: "consumer" };
/// As ours in this program: a dead member is given up after 6 s, a living one is heard every second.
const SESSION: [Property; 2] = [("consumer.session.timeout.ms", "6000"), ("consumer.heartbeat.interval.ms", "1000")];
const DEFAULTS: Kind = Kind::Streams { properties: &[] };
const TUNED_60_S: Kind = Kind::Streams { properties: &[SESSION[0], SESSION[1], ("producer.transaction.timeout.ms", "60000")] };
/// Streams refuses a transaction time-out below its commit interval of 100 ms; one second leaves room for a pause.
const TUNED: Kind = Kind::Streams { properties: &[SESSION[0], SESSION[1], ("producer.transaction.timeout.ms", "1000")] };

/// The default set-up: it runs alone.
pub const DEFAULT: Combination = Combination {
    name: "classic-static-restart",
    title: "Transom: classic, static, restarted (the default)",
    kind: CLASSIC,
    membership: Membership::Static,
    then: Then::Restart,
    limit_s: Some(LIMIT_S),
};

/// All others of ours.
pub const OURS: [Combination; 5] = [
    Combination { name: "classic-static-other", title: "Transom: classic, static, another instance", then: Then::OtherInstance, ..DEFAULT },
    Combination {
        name: "classic-dynamic-restart",
        title: "Transom: classic, dynamic, restarted",
        membership: Membership::Dynamic,
        limit_s: None,
        ..DEFAULT
    },
    Combination {
        name: "classic-dynamic-other",
        title: "Transom: classic, dynamic, another instance",
        membership: Membership::Dynamic,
        then: Then::OtherInstance,
        limit_s: None,
        ..DEFAULT
    },
    Combination { name: "consumer-static-restart", title: "Transom: `consumer`, static, restarted", kind: CONSUMER, limit_s: None, ..DEFAULT },
    Combination {
        name: "consumer-static-other",
        title: "Transom: `consumer`, static, another instance",
        kind: CONSUMER,
        then: Then::OtherInstance,
        limit_s: None,
        ..DEFAULT
    },
];

const STREAMS: Combination = Combination {
    name: "streams-defaults-restart",
    title: "Kafka Streams: defaults, restarted",
    kind: DEFAULTS,
    membership: Membership::Dynamic,
    then: Then::Restart,
    limit_s: None,
};

/// Kafka Streams where it waits most of the time, so that these run side by side.
pub const STREAMS_THAT_WAIT: [Combination; 4] = [
    STREAMS,
    Combination { name: "streams-defaults-other", title: "Kafka Streams: defaults, another instance", then: Then::OtherInstance, ..STREAMS },
    Combination {
        name: "streams-60s-restart",
        title: "Kafka Streams: static, session 6 s, transaction time-out 60 s, restarted",
        kind: TUNED_60_S,
        membership: Membership::Static,
        ..STREAMS
    },
    Combination {
        name: "streams-60s-other",
        title: "Kafka Streams: static, session 6 s, transaction time-out 60 s, another instance",
        kind: TUNED_60_S,
        membership: Membership::Static,
        then: Then::OtherInstance,
        ..STREAMS
    },
];

/// Kafka Streams as fast as its configuration allows.
pub const STREAMS_TUNED: [Combination; 2] = [
    Combination {
        name: "streams-tuned-restart",
        title: "Kafka Streams: static, session 6 s, transaction time-out 1 s, restarted",
        kind: TUNED,
        membership: Membership::Static,
        ..STREAMS
    },
    Combination {
        name: "streams-tuned-other",
        title: "Kafka Streams: static, session 6 s, transaction time-out 1 s, another instance",
        kind: TUNED,
        membership: Membership::Static,
        then: Then::OtherInstance,
        ..STREAMS
    },
];

impl Combination {
    /// Returns the other instance's membership. One of ours without a name is known by its host's, of which there is one here.
    pub const fn others_membership(&self) -> Membership {
        match self.kind {
            Kind::Ours { .. } => Membership::Static,
            Kind::Streams { .. } => self.membership,
        }
    }

    /// Returns the points that this program passes through.
    pub fn points(&self) -> &'static [Point] {
        match self.kind {
            Kind::Ours { .. } => &Point::ALL,
            // It commits no offsets outside of transactions.
            Kind::Streams { .. } => &Point::WITHOUT_CLAIMS,
        }
    }
}
