//! All metric names, in one place. Labels are bounded: pipeline and instance come from the scrape configuration.

use crate::status::PipelineStatus;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use transom_engine::{Fate, FateCounts, RefusalKind};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    fate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabel {
    topic: String,
    partition: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchErrorLabel {
    topic: String,
    /// Bounded: the names of the client's and the broker's errors.
    error: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    worker: u16,
    state: &'static str,
}

/// The process's metrics, written once a batch.
#[derive(Debug)]
pub struct Metrics {
    records: Family<FateLabel, Counter>,
    transactions: Family<OutcomeLabel, Counter>,
    commit_seconds: Histogram,
    batch_seconds: Histogram,
    batch_records: Histogram,
    recycled: Family<ReasonLabel, Counter>,
    refused: Family<ReasonLabel, Counter>,
    partitions_lost: Counter,
    fetch_errors: Family<FetchErrorLabel, Counter>,
    passed_over: Counter,
    lag: Family<PartitionLabel, Gauge>,
    blocked: Family<PartitionLabel, Gauge>,
    unaccounted: Gauge,
    state: Family<StateLabel, Gauge>,
    registry: Registry,
}

impl Metrics {
    /// Returns the metrics, all registered; every fate and outcome is there from the start, at 0.
    pub fn new() -> Arc<Self> {
        let (records, transactions) = (Family::<FateLabel, Counter>::default(), Family::<OutcomeLabel, Counter>::default());
        for fate in Fate::ALL {
            let _ = records.get_or_create(&FateLabel { fate: fate.as_str() });
        }
        for outcome in ["committed", "aborted", "unknown", "fenced"] {
            let _ = transactions.get_or_create(&OutcomeLabel { outcome });
        }
        let refused = Family::<ReasonLabel, Counter>::default();
        for kind in RefusalKind::ALL {
            let _ = refused.get_or_create(&ReasonLabel { reason: kind.as_str() });
        }
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let (commit_seconds, batch_seconds) = (seconds(), seconds());
        let batch_records = Histogram::new(exponential_buckets(1.0, 4.0, 10));
        let (recycled, lag, unaccounted, state) = (Family::default(), Family::default(), Gauge::default(), Family::default());
        let blocked = Family::<PartitionLabel, Gauge>::default();
        let partitions_lost = Counter::default();
        let (fetch_errors, passed_over) = (Family::<FetchErrorLabel, Counter>::default(), Counter::default());
        let mut registry = Registry::with_prefix("transom");
        registry.register("records", "committed input records by fate", records.clone());
        registry.register("transactions", "transactions by outcome", transactions.clone());
        registry.register_with_unit("commit_duration", "from produce to committed", Unit::Seconds, commit_seconds.clone());
        registry.register_with_unit("batch_duration", "from a batch's first record to committed", Unit::Seconds, batch_seconds.clone());
        registry.register("batch_records", "input records in a committed batch", batch_records.clone());
        registry.register(
            "producer_recycled",
            "producers replaced: after an unknown outcome, a fence, or a request that could come late",
            recycled.clone(),
        );
        registry.register("outputs_refused", "outputs and dead letters that the broker refused, their input found", refused.clone());
        registry.register("partitions_lost", "partitions that were somebody else's before they were given back", partitions_lost.clone());
        registry.register("fetch_errors", "errors that came where records of an input should; nothing is lost by one", fetch_errors.clone());
        registry.register(
            "records_passed_over",
            "fetched records of partitions that were not ours by then; their owner reads them",
            passed_over.clone(),
        );
        registry.register("lag_records", "last stable offset minus committed offset, in offsets", lag.clone());
        registry.register_with_unit(
            "input_blocked",
            "how long an open transaction of a foreign producer has held the partition up",
            Unit::Seconds,
            blocked.clone(),
        );
        registry.register("unaccounted_records", "records without a fate: 0, or an alarm", unaccounted.clone());
        registry.register("worker_state", "1 for the state each worker is in", state.clone());
        Arc::new(Self {
            records,
            transactions,
            commit_seconds,
            batch_seconds,
            batch_records,
            recycled,
            refused,
            partitions_lost,
            fetch_errors,
            passed_over,
            lag,
            blocked,
            unaccounted,
            state,
            registry,
        })
    }

    pub(crate) fn committed(&self, fates: &FateCounts, records: u64, commit_seconds: f64, batch_seconds: f64) {
        for fate in Fate::ALL {
            let count = fates.get(fate);
            if count > 0 {
                self.records.get_or_create(&FateLabel { fate: fate.as_str() }).inc_by(count);
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a batch holds far fewer than 2^52 records")]
        self.batch_records.observe(records as f64);
        self.commit_seconds.observe(commit_seconds);
        self.batch_seconds.observe(batch_seconds);
    }

    pub(crate) fn transaction(&self, outcome: &'static str) {
        self.transactions.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn producer_recycled(&self, reason: &'static str) {
        self.recycled.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn output_refused(&self, kind: RefusalKind) {
        self.refused.get_or_create(&ReasonLabel { reason: kind.as_str() }).inc();
    }

    pub(crate) fn partitions_lost(&self, count: usize) {
        self.partitions_lost.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(crate) fn fetch_failed(&self, topic: &str, error: &str) {
        self.fetch_errors.get_or_create(&FetchErrorLabel { topic: topic.to_owned(), error: error.to_owned() }).inc();
    }

    pub(crate) fn records_passed_over(&self, count: u64) {
        self.passed_over.inc_by(count);
    }

    /// Returns the exposition text (OpenMetrics), with gauges as of `status`.
    ///
    /// # Errors
    /// When formatting fails, which it does not for a `String`.
    pub fn encode(&self, status: &PipelineStatus) -> Result<String, std::fmt::Error> {
        self.unaccounted.set(status.unaccounted_records);
        self.lag.clear();
        self.blocked.clear();
        self.state.clear();
        for worker in &status.workers {
            self.state.get_or_create(&StateLabel { worker: worker.worker, state: worker.state }).set(1);
            for partition in &worker.partitions {
                let label = PartitionLabel { topic: partition.topic.clone(), partition: partition.partition };
                if let Some(blocked) = &partition.blocked {
                    self.blocked.get_or_create(&label).set(i64::try_from(blocked.seconds).unwrap_or(i64::MAX));
                }
                if let Some(lag) = partition.lag {
                    self.lag.get_or_create(&label).set(lag);
                }
            }
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
