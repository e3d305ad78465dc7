//! Requests that the network keeps and delivers late, on a real broker.

mod late;
mod pipeline;
mod silence;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::proxy::Proxy;
use transom_harness::scenario::Scenario;

/// Partitions of every topic here; each is written by a produce request of its own.
const PARTITIONS: i32 = 4;

/// One broker behind one proxy. A rule sees the requests of everybody, so there is one test at a time.
struct Stage {
    cluster: Cluster,
    proxy: Proxy,
}

impl Stage {
    /// Waits until no other test is on it.
    fn enter() -> MutexGuard<'static, Self> {
        static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
        let start = || {
            let (cluster, proxy) = Proxy::start(ClusterOptions::default()).expect("start a broker behind a proxy");
            Mutex::new(Self { cluster, proxy })
        };
        STAGE.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scenario(&self, name: &str) -> Scenario {
        Scenario::through(&self.proxy.bootstrap(), self.cluster.bootstrap(), name)
    }
}
