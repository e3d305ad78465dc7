//! The brokers and their proxy, for as many episodes as leave them well.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use transom_harness::broker::{Cluster, ClusterOptions, Replicated};
use transom_harness::proxy::Proxy;
use transom_harness::scenario::Scenario;

use crate::faults::{BrokerFault, NodeFault};
use crate::setup::SESSION_MS;

/// One episode in so many plays on three brokers.
const THREE_EVERY: u64 = 3;
/// From a broker's return until every replica is in sync: its old session ends, it starts, it catches up.
const IN_SYNC_DEADLINE: Duration = Duration::from_secs(120);

/// On what an episode plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// One broker, which may be frozen shortly: it is no fair judge of worse.
    Lone,
    /// Three that replicate; one of them at a time is killed, restarted or frozen.
    Three,
}

impl Ground {
    /// Returns the ground of a seed.
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(THREE_EVERY) { Self::Three } else { Self::Lone }
    }

    /// Returns its row in the closing table.
    pub fn row(self) -> &'static str {
        match self {
            Self::Lone => "one broker",
            Self::Three => "three brokers",
        }
    }
}

enum Brokers {
    Lone(Box<Cluster>),
    Three(Replicated),
}

/// Brokers behind a proxy.
pub struct Stage {
    pub proxy: Proxy,
    bootstrap: String,
    brokers: Mutex<Brokers>,
}

impl Stage {
    fn set(ground: Ground) -> anyhow::Result<Self> {
        let property = |(key, value): (&str, String)| (key.to_owned(), value);
        let properties = vec![
            // The broker decides in the `consumer` protocol; as short as the classic session of the pipelines.
            property(("group.consumer.session.timeout.ms", SESSION_MS.to_string())),
            property(("group.consumer.heartbeat.interval.ms", "1000".to_owned())),
            // How often time-outs of transactions are looked for.
            property(("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000".to_owned())),
        ];
        let options = ClusterOptions { properties, ..ClusterOptions::default() };
        let (proxy, bootstrap, brokers) = match ground {
            Ground::Lone => {
                let (cluster, proxy) = Proxy::start(options)?;
                (proxy, cluster.bootstrap().to_owned(), Brokers::Lone(Box::new(cluster)))
            }
            Ground::Three => {
                let (replicated, proxy) = Proxy::start_replicated(&options)?;
                (proxy, replicated.bootstrap(), Brokers::Three(replicated))
            }
        };
        Ok(Self { proxy, bootstrap, brokers: Mutex::new(brokers) })
    }

    /// Opens a scenario whose instances go through the proxy.
    pub fn scenario(&self, name: &str) -> Scenario {
        Scenario::through(&self.proxy.bootstrap(), &self.bootstrap, name)
    }

    /// Plays a broker's fault from its beginning until the brokers are well again.
    ///
    /// # Panics
    /// When they do not get well.
    pub fn harm_broker(&self, fault: BrokerFault) {
        let mut brokers = self.brokers();
        match (&mut *brokers, fault.what) {
            (Brokers::Lone(cluster), what) => harm(cluster, what),
            (Brokers::Three(replicated), what) => {
                harm(replicated.node(fault.node), what);
                replicated.awaits_all_in_sync(IN_SYNC_DEADLINE).unwrap_or_else(|error| panic!("after {fault:?}: {error:#}"));
            }
        }
    }

    /// Returns everything each broker has logged.
    pub fn logs(&self) -> Vec<String> {
        match &mut *self.brokers() {
            Brokers::Lone(cluster) => vec![cluster.log()],
            Brokers::Three(replicated) => (0..Replicated::NODES).map(|node| replicated.node(node).log()).collect(),
        }
    }

    fn brokers(&self) -> MutexGuard<'_, Brokers> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn harm(node: &mut Cluster, what: NodeFault) {
    let harmed = match what {
        NodeFault::Freeze(lasts) => node.freeze().and_then(|()| {
            thread::sleep(lasts);
            node.thaw()
        }),
        NodeFault::Kill(pause) => node.kill().and_then(|()| {
            thread::sleep(pause);
            node.restart()
        }),
        NodeFault::Terminate(pause) => node.stop().and_then(|()| {
            thread::sleep(pause);
            node.restart()
        }),
    };
    harmed.unwrap_or_else(|error| panic!("{what:?} of a broker: {error:#}"));
}

/// Both grounds, each started when it is first needed.
#[derive(Default)]
pub struct Stages {
    lone: Option<Stage>,
    three: Option<Stage>,
}

impl Stages {
    pub fn get(&mut self, ground: Ground) -> anyhow::Result<&Stage> {
        match self.place(ground) {
            Some(stage) => Ok(stage),
            nothing => Ok(nothing.insert(Stage::set(ground)?)),
        }
    }

    /// Removes one: what went wrong may have left something behind, for which no later episode shall be blamed.
    pub fn strike(&mut self, ground: Ground) {
        *self.place(ground) = None;
    }

    fn place(&mut self, ground: Ground) -> &mut Option<Stage> {
        match ground {
            Ground::Lone => &mut self.lone,
            Ground::Three => &mut self.three,
        }
    }
}
