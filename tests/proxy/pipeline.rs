//! The pipeline of this suite, and what it must have done in the end.

use std::path::PathBuf;
use std::time::Duration;

use transom_harness::instance::{Instance, InstanceOptions};
use transom_harness::oracle::Report;
use transom_harness::scenario::Scenario;
use transom_tests::orders::cleaned;

use crate::{PARTITIONS, Stage};

pub(crate) const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: 100ms }
timeouts: { session: 6s, revoke: 3s }
"#;
/// Process start, group join, first batch.
pub(crate) const START: Duration = Duration::from_secs(30);
/// A request, an answer, a drain.
pub(crate) const SHORT: Duration = Duration::from_secs(20);
/// The time-outs of [`PIPELINE`].
const TIMEOUTS: &str = "{ session: 6s, revoke: 3s }";

/// One pipeline with its topics.
pub(crate) struct Pipeline {
    pub(crate) t: Scenario,
    pub(crate) topics: [String; 3],
    yaml: String,
}

impl Pipeline {
    pub(crate) fn on(stage: &Stage, name: &str) -> Self {
        Self::with_timeouts(stage, name, TIMEOUTS)
    }

    pub(crate) fn with_timeouts(stage: &Stage, name: &str, timeouts: &str) -> Self {
        let t = stage.scenario(name);
        let topics = ["in", "out", "dlq"].map(|topic| t.topic(topic, PARTITIONS));
        Self { t, topics, yaml: PIPELINE.replace(TIMEOUTS, timeouts) }
    }

    pub(crate) fn start(&self, program: Option<PathBuf>, variables: &[(&str, &str)]) -> Instance {
        let mut instance = Instance::start(InstanceOptions { program, ..self.t.instance_options(Some("a"), &self.yaml, variables) });
        instance.awaits_partitions(PARTITIONS as usize, START);
        instance
    }

    /// Waits until all is done, and compares.
    pub(crate) fn report(&self, mut instance: Instance) -> Report {
        let [input, output, letters] = self.topics.each_ref().map(String::as_str);
        self.t.awaits_all_committed(&[input], START);
        instance.drains_within(SHORT);
        self.t.audit(self.t.pipeline(), &[input], &[output], &[letters], |_, record| cleaned(output, record))
    }

    pub(crate) fn expect_exactly_once(&self, mut instance: Instance) -> Report {
        let [input, output, letters] = self.topics.each_ref().map(String::as_str);
        self.t.awaits_all_committed(&[input], START);
        instance.drains_within(SHORT);
        self.t.expect_exactly_once(&[input], &[output], &[letters], |_, record| cleaned(output, record))
    }

    pub(crate) fn input(&self) -> &str {
        &self.topics[0]
    }
}
