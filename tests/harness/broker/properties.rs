//! What one broker is told: its ports and its properties.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::Path;

use anyhow::ensure;

use super::{Backend, SASL_PASSWORD, SASL_USER, certificates};

/// Host ports, which inside a container are the same: the broker also reaches itself by its advertised address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) plaintext: u16,
    pub(super) secure: u16,
    pub(super) controller: u16,
    pub(super) proxied: u16,
    /// The proxy's own port, if there is one.
    pub(super) proxy: Option<u16>,
}

impl Ports {
    /// Below the range from which the kernel gives ports to outgoing connections: while the broker is down, none of those may
    /// take its place.
    pub(super) const RANGE: std::ops::Range<u16> = 20_000..32_000;
    const TRIES: usize = 200;

    pub(super) fn choose() -> anyhow::Result<Ports> {
        let [ports] = Ports::choose_for()?;
        Ok(ports)
    }

    /// The same for several brokers, none of which has a port of another.
    pub(super) fn choose_for<const BROKERS: usize>() -> anyhow::Result<[Ports; BROKERS]> {
        // Held until all are chosen, so that they differ.
        let mut held = Vec::new();
        for _ in 0..Ports::TRIES {
            if held.len() == 4 * BROKERS {
                break;
            }
            // At random, because several test programs choose at the same moment.
            let random = RandomState::new().build_hasher().finish();
            let width = u64::from(Ports::RANGE.end - Ports::RANGE.start);
            let port = Ports::RANGE.start + u16::try_from(random % width)?;
            if let Ok(listener) = TcpListener::bind(("0.0.0.0", port)) {
                held.push((port, listener));
            }
        }
        ensure!(held.len() == 4 * BROKERS, "fewer than {} free ports found in {:?}", 4 * BROKERS, Ports::RANGE);
        let port = |broker: usize, number: usize| held[4 * broker + number].0;
        let ports = |broker| Ports {
            plaintext: port(broker, 0),
            secure: port(broker, 1),
            controller: port(broker, 2),
            proxied: port(broker, 3),
            proxy: None,
        };
        Ok(std::array::from_fn(ports))
    }
}

/// Returns all properties of the one broker: what it needs to run, defaults that suit tests, then the caller's own.
pub(super) fn broker_properties(
    overrides: &[(String, String)],
    backend: Backend,
    ports: Ports,
    certificates: Option<&certificates::Certificates>,
    directory: &Path,
) -> BTreeMap<String, String> {
    let (listen, log_dirs) = match backend {
        // A port is mapped to the container's outer address; the directory is one that the image's user may write to.
        Backend::Docker => ("0.0.0.0", "/tmp/kraft-combined-logs".to_owned()),
        Backend::Java => ("127.0.0.1", directory.join("data").display().to_string()),
    };
    let Ports { plaintext, secure, controller, proxied, proxy } = ports;
    let mut listeners = format!("PLAINTEXT://{listen}:{plaintext},CONTROLLER://127.0.0.1:{controller}");
    let mut advertised = format!("PLAINTEXT://127.0.0.1:{plaintext}");
    // Not named SASL_SSL: the image's start script would demand a keystore file and a login configuration for that name.
    let protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SECURE:SASL_SSL";
    let mut properties = BTreeMap::new();
    listeners.extend(proxy.map(|_| format!(",PROXIED://{listen}:{proxied}")));
    advertised.extend(proxy.map(|proxy| format!(",PROXIED://127.0.0.1:{proxy}")));
    if let Some(certificates) = certificates {
        listeners.push_str(&format!(",SECURE://{listen}:{secure}"));
        advertised.push_str(&format!(",SECURE://localhost:{secure}"));
        let login = format!("org.apache.kafka.common.security.plain.PlainLoginModule required user_{SASL_USER}=\"{SASL_PASSWORD}\";");
        // A property holds a PEM text with its line ends escaped.
        let pem = |text: &str| text.trim().replace('\n', "\\n");
        for (key, value) in [
            ("sasl.enabled.mechanisms", "PLAIN".to_owned()),
            ("plain.sasl.jaas.config", login),
            ("ssl.keystore.type", "PEM".to_owned()),
            ("ssl.keystore.certificate.chain", pem(&certificates.server_chain)),
            ("ssl.keystore.key", pem(&certificates.server_key)),
        ] {
            properties.insert(format!("listener.name.secure.{key}"), value);
        }
    }
    for (key, value) in [
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.quorum.voters", &format!("1@127.0.0.1:{controller}")),
        ("controller.listener.names", "CONTROLLER"),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("listener.security.protocol.map", protocols),
        ("listeners", &listeners),
        ("advertised.listeners", &advertised),
        ("log.dirs", &log_dirs),
        // One broker cannot replicate; without these the first transaction waits for ever.
        ("offsets.topic.replication.factor", "1"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.min.isr", "1"),
        // 50 of each by default: most of the time to the first committed transaction.
        ("offsets.topic.num.partitions", "8"),
        ("transaction.state.log.num.partitions", "8"),
        // Tests wait for rebalances; production waits 3 s for stragglers.
        ("group.initial.rebalance.delay.ms", "0"),
        // Lets a test see a member time out in a second or two instead of 6 and 45.
        ("group.min.session.timeout.ms", "1000"),
        ("group.consumer.min.session.timeout.ms", "1000"),
        ("group.consumer.min.heartbeat.interval.ms", "100"),
        // Tests write old timestamps; the first round of retention, 30 s after the start, would take their records.
        ("log.retention.ms", "-1"),
        // A topic that comes into being by a typo hides the typo.
        ("auto.create.topics.enable", "false"),
    ] {
        properties.insert(key.to_owned(), value.to_owned());
    }
    properties.extend(overrides.iter().cloned());
    properties
}
