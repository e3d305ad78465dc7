//! Three brokers that replicate everything: what may be hurt one node at a time without hurting a correct client's promise.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::properties::Ports;
use super::{Cluster, ClusterOptions, Network, POLL_INTERVAL};
use crate::wire::Client;

/// Three start side by side, on a machine that may be busy with compilers.
const REPLICATED_DEADLINE: Duration = Duration::from_secs(180);
/// A dead broker is noticed by its silence. The default of 9 s would be most of an episode; far less, and a starved broker looks dead.
const BROKER_SESSION_MS: &str = "6000";
const BROKER_HEARTBEAT_MS: &str = "1000";

/// Three brokers, each of them a controller too; topics have three replicas of which two must be in sync.
///
/// Dropping it removes all of them.
#[derive(Debug)]
pub struct Replicated {
    nodes: Vec<Cluster>,
}

impl Replicated {
    /// How many brokers there are.
    pub const NODES: usize = 3;

    /// Starts three brokers and returns when every partition there is has all its replicas. Each opens a listener for the proxy's port
    /// in the same place, if there is one.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start(options: &ClusterOptions, proxied_as: Option<[u16; Self::NODES]>) -> anyhow::Result<Self> {
        let mut ports = Ports::choose_for::<{ Self::NODES }>()?;
        for (ports, proxy) in ports.iter_mut().zip(proxied_as.into_iter().flatten()) {
            ports.proxy = Some(proxy);
        }
        let voters: Vec<String> = ports.iter().zip(1..).map(|(ports, id)| format!("{id}@127.0.0.1:{}", ports.controller)).collect();
        let mut nodes = Vec::new();
        for (ports, id) in ports.into_iter().zip(1..) {
            let properties = node_properties(id, &voters.join(","), &options.properties);
            nodes.push(Cluster::launch(&ClusterOptions { properties, ..options.clone() }, ports, Network::Host)?);
        }
        for node in &mut nodes {
            node.wait_until_ready()?;
        }
        let replicated = Self { nodes };
        replicated.awaits_all_in_sync(REPLICATED_DEADLINE)?;
        Ok(replicated)
    }

    /// Returns the listeners without encryption, as a client property.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<&str> = self.nodes.iter().map(Cluster::bootstrap).collect();
        addresses.join(",")
    }

    /// Returns one of them, counted from 0, to be hurt. Two of three must live for the others to go on.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn node(&mut self, index: usize) -> &mut Cluster {
        &mut self.nodes[index]
    }

    /// Returns where the proxy finds the listeners meant for it.
    pub fn behind_proxy(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Cluster::behind_proxy).collect()
    }

    /// Waits until every broker says that all are there and that every partition, internal ones too, has all its replicas in sync.
    ///
    /// # Errors
    /// If that is not so at the deadline: the error says what is missing.
    pub fn awaits_all_in_sync(&self, deadline: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + deadline;
        loop {
            // Each for itself: one that has slept would say what it knew before.
            let missing = self.nodes.iter().find_map(|node| missing_at(node).unwrap_or_else(|error| Some(format!("{error:#}"))));
            let Some(missing) = missing else { return Ok(()) };
            ensure!(Instant::now() < until, "not all in sync after {deadline:?}: {missing}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the last lines of every broker's log, for a failure's message.
    pub fn log_tail(&self) -> String {
        self.nodes.iter().map(Cluster::log_tail).collect::<Vec<_>>().join("\n\n")
    }
}

/// Returns what a broker misses, if anything.
fn missing_at(node: &Cluster) -> anyhow::Result<Option<String>> {
    let view = Client::replication_as_seen_by(node.bootstrap()).with_context(|| format!("ask {}", node.bootstrap()))?;
    if view.brokers != Replicated::NODES {
        return Ok(Some(format!("{} sees {} brokers", node.bootstrap(), view.brokers)));
    }
    Ok(view.behind.first().map(|(topic, partition)| format!("{} sees a replica of {topic}:{partition} behind", node.bootstrap())))
}

fn node_properties(id: i32, voters: &str, overrides: &[(String, String)]) -> Vec<(String, String)> {
    let own = [
        ("node.id", id.to_string().as_str()),
        ("controller.quorum.voters", voters),
        ("default.replication.factor", "3"),
        ("min.insync.replicas", "2"),
        ("offsets.topic.replication.factor", "3"),
        ("transaction.state.log.replication.factor", "3"),
        ("transaction.state.log.min.isr", "2"),
        ("share.coordinator.state.topic.replication.factor", "3"),
        ("share.coordinator.state.topic.min.isr", "2"),
        ("broker.session.timeout.ms", BROKER_SESSION_MS),
        ("broker.heartbeat.interval.ms", BROKER_HEARTBEAT_MS),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.into_iter().chain(overrides.iter().cloned()).collect()
}
