//! Every way a transaction, a membership or an id can end, on a real broker: one test a row of the README.

mod client;
mod coordinator;
mod expiry;
mod fencing;
mod frozen;
mod membership;
mod split;
mod unknown;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use transom_harness::broker::{Cluster, ClusterOptions};
use transom_harness::instance::{Instance, InstanceOptions};
use transom_harness::oracle::Report;
use transom_harness::proxy::Proxy;
use transom_harness::scenario::Scenario;
use transom_tests::orders::cleaned;

/// Partitions of every topic here, unless a test says otherwise.
const PARTITIONS: i32 = 4;
/// Process start, group join, first batch; several times as long as it takes on a busy machine.
const START: Duration = Duration::from_secs(30);
/// A request, an answer, a drain.
const SHORT: Duration = Duration::from_secs(20);
/// Between two looks at something that has no signal of its own.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// `clean_orders` with time-outs as short as their order allows; `@client` tells instances apart for the proxy.
const ORDERS: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap", client.id: CLIENT }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: 100ms }
timeouts: { session: 6s, revoke: 1s, send_offsets: 1s, commit: 1s, transaction: 3s }
"#;

/// One broker behind one proxy, which looks for transactions that timed out twice a second. A rule sees the requests of
/// everybody, so there is one test at a time.
struct Stage {
    cluster: Cluster,
    proxy: Proxy,
}

impl Stage {
    /// Waits until no other test is on it.
    fn enter() -> MutexGuard<'static, Self> {
        static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
        let start = || {
            let properties = vec![("transaction.abort.timed.out.transaction.cleanup.interval.ms".to_owned(), "500".to_owned())];
            let options = ClusterOptions { properties, ..ClusterOptions::default() };
            let (cluster, proxy) = Proxy::start(options).expect("start a broker behind a proxy");
            Mutex::new(Self { cluster, proxy })
        };
        STAGE.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pipeline(&self, name: &str, partitions: i32) -> Pipeline {
        Pipeline::of(Scenario::through(&self.proxy.bootstrap(), self.cluster.bootstrap(), name), partitions)
    }
}

/// One pipeline of orders with its topics.
struct Pipeline {
    t: Scenario,
    input: String,
    output: String,
    letters: String,
}

impl Pipeline {
    fn shared(name: &str, partitions: i32) -> Self {
        Self::of(Scenario::shared(name), partitions)
    }

    fn of(t: Scenario, partitions: i32) -> Self {
        let [input, output, letters] = ["in", "out", "dlq"].map(|topic| t.topic(topic, partitions));
        Self { t, input, output, letters }
    }

    /// Starts an instance whose client id is its name.
    #[track_caller]
    fn start(&self, name: &str) -> Instance {
        self.start_with(name, ORDERS)
    }

    #[track_caller]
    fn start_with(&self, name: &str, yaml: &str) -> Instance {
        Instance::start(self.options(name, yaml))
    }

    #[track_caller]
    fn options(&self, name: &str, yaml: &str) -> InstanceOptions {
        self.t.instance_options(Some(name), &yaml.replace("CLIENT", name), &[])
    }

    /// Returns the transactional id of an instance's first worker.
    fn transactional_id(&self, instance: &str) -> String {
        format!("{}:{instance}:0", self.t.pipeline())
    }

    /// Waits until all is committed, drains, and judges.
    #[track_caller]
    fn expect_exactly_once(&self, instances: &mut [&mut Instance]) -> Report {
        self.t.awaits_all_committed(&[&self.input], START);
        for instance in instances {
            instance.awaits("no record unaccounted for", SHORT, |status| status.unaccounted_records == 0);
            instance.drains_within(SHORT);
        }
        self.t.expect_exactly_once(&[&self.input], &[&self.output], &[&self.letters], |_, record| cleaned(&self.output, record))
    }
}

/// Waits for something outside any instance.
#[track_caller]
fn awaits(what: &str, deadline: Duration, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + deadline;
    while !is_so() {
        assert!(Instant::now() < until, "after {deadline:?} still awaited: {what}");
        std::thread::sleep(LOOK_PAUSE);
    }
}
