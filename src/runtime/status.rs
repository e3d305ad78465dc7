//! What `/status`, health and the log say: a board that workers write and endpoints read.

use crate::broker::Ends;
use crate::inputs::{WAITING, show_missing, show_waiting};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One partition as its worker sees it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PartitionStatus {
    /// Input topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Committed offset, once known.
    pub committed: Option<i64>,
    /// Next offset to read, once known.
    pub position: Option<i64>,
    /// Last stable offset, once known.
    pub last_stable_offset: Option<i64>,
    /// Last stable offset − committed offset, once both are known.
    pub lag: Option<i64>,
    /// High watermark, once known.
    pub high_watermark: Option<i64>,
    /// High watermark − committed offset, once both are known: more than the lag while transactions are open.
    pub lag_to_log_end: Option<i64>,
    /// What holds the partition up, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedStatus>,
}

/// An open transaction of a foreign producer that holds a partition up.
#[derive(Clone, Debug, Serialize)]
pub struct BlockedStatus {
    /// How long its last stable offset has stood still.
    pub seconds: u64,
    /// Whose transaction it is, if that could be found out.
    pub producer_id: Option<i64>,
    /// Its name, if some coordinator lists it.
    pub transactional_id: Option<String>,
    /// How long it has been open.
    pub transaction_age_seconds: Option<u64>,
    /// All of that in words, with the next step.
    pub reason: String,
}

/// The last thing that went wrong in a worker, kept after it has passed: a look at `/status` comes later than most troubles.
#[derive(Clone, Debug, Serialize)]
pub struct Trouble {
    /// What, in one word.
    pub what: &'static str,
    /// Why, for people.
    pub reason: String,
    /// What a person can do about it.
    pub next_step: &'static str,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
}

/// One worker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerStatus {
    /// Its number within the instance.
    pub worker: u16,
    /// What it is doing.
    pub state: &'static str,
    /// Why, where there is trouble; empty when there is none.
    pub reason: String,
    /// What a person can do about it; empty when there is nothing to do.
    pub next_step: &'static str,
    /// What went wrong last, if anything ever did.
    pub last_trouble: Option<Trouble>,
    /// Its transactional id.
    pub transactional_id: String,
    /// Random per life of the worker, 16 hex digits.
    pub incarnation: String,
    /// Producer id, once known.
    pub producer_id: Option<i64>,
    /// Producer epoch, once known.
    pub producer_epoch: Option<i32>,
    /// Consumer group generation of the last batch.
    pub generation: Option<i32>,
    /// Batches committed.
    pub batches_committed: u64,
    /// Batches aborted.
    pub batches_aborted: u64,
    /// Assigned partitions.
    pub partitions: Vec<PartitionStatus>,
    /// Committed records by fate.
    pub fates: BTreeMap<&'static str, u64>,
    /// Records handed to batches that are neither committed, dropped, open nor in flight: 0, or an alarm.
    pub unaccounted_records: i64,
    /// Whether the worker was ready once.
    #[serde(skip)]
    pub ready: Readiness,
}

impl PartitionStatus {
    /// The last stable offset is up to two seconds old, the committed one is not: the difference is never shown below 0.
    pub(crate) fn work_out_lag(&mut self) {
        let behind = |end: Option<i64>| end.zip(self.committed).map(|(end, committed)| (end - committed).max(0));
        (self.lag, self.lag_to_log_end) = (behind(self.last_stable_offset), behind(self.high_watermark));
    }

    pub(crate) fn set_ends(&mut self, ends: Ends) {
        (self.last_stable_offset, self.high_watermark) = (Some(ends.last_stable), Some(ends.high_watermark));
        self.work_out_lag();
    }
}

/// How far a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It has not joined yet.
    #[default]
    Starting,
    /// It has joined and can work.
    Ready,
    /// It could work before and cannot now.
    Troubled,
    /// It is finishing.
    Stopping,
}

/// The whole process.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineStatus {
    /// The pipeline's name.
    pub pipeline: String,
    /// The instance's name.
    pub instance: String,
    /// The guarantee in force.
    pub guarantee: &'static str,
    /// The worst of the workers' states.
    pub state: &'static str,
    /// Why, where there is trouble.
    pub reason: String,
    /// What a person can do about it.
    pub next_step: &'static str,
    /// The sum of the workers' known lags.
    pub lag: Option<i64>,
    /// Committed records by fate, of all workers.
    pub fates: BTreeMap<&'static str, u64>,
    /// The sum of the workers' unaccounted records.
    pub unaccounted_records: i64,
    /// Each worker.
    pub workers: Vec<WorkerStatus>,
}

/// Written by workers once a batch or state change, read by endpoints.
#[derive(Debug)]
pub struct StatusBoard {
    pipeline: String,
    instance: String,
    guarantee: &'static str,
    workers: Mutex<Vec<WorkerStatus>>,
    seen: Mutex<Vec<Instant>>,
    /// Input topics that do not exist.
    missing: Mutex<Vec<String>>,
}

impl StatusBoard {
    /// Returns a board with one row for each worker.
    pub fn new(pipeline: &str, instance: &str, guarantee: &'static str, workers: u16) -> Self {
        let rows = (0..workers).map(|worker| WorkerStatus { worker, state: "starting", ..WorkerStatus::default() }).collect();
        let seen = Mutex::new(vec![Instant::now(); usize::from(workers)]);
        Self { pipeline: pipeline.to_owned(), instance: instance.to_owned(), guarantee, workers: Mutex::new(rows), seen, missing: Mutex::default() }
    }

    /// Notes that a worker's loop went round.
    pub(crate) fn beat(&self, worker: u16) {
        if let Some(seen) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_mut(usize::from(worker)) {
            *seen = Instant::now();
        }
    }

    /// Returns how long ago the slowest worker's loop went round.
    pub fn silence(&self) -> Duration {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Instant::elapsed).max().unwrap_or_default()
    }

    /// Notes which input topics do not exist.
    pub(crate) fn set_missing(&self, topics: Vec<String>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = topics;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WorkerStatus>> {
        // A row is replaced whole, so it is true even if its writer panicked elsewhere.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes one worker's row.
    pub fn update(&self, worker: u16, change: impl FnOnce(&mut WorkerStatus)) {
        if let Some(row) = self.lock().get_mut(usize::from(worker)) {
            change(row);
        }
    }

    /// Returns whether every worker can work.
    pub fn is_ready(&self) -> bool {
        self.lock().iter().all(|row| row.ready == Readiness::Ready)
    }

    /// Returns a copy of everything.
    pub fn snapshot(&self) -> PipelineStatus {
        let mut workers = self.lock().clone();
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for row in &mut workers {
            show_waiting(row);
            show_missing(row, &missing);
        }
        let mut fates = BTreeMap::new();
        for row in &workers {
            for (&fate, count) in &row.fates {
                *fates.entry(fate).or_insert(0) += count;
            }
        }
        // Trouble first: one worker that cannot work is what the reader must see.
        let waiting = || workers.iter().find(|row| row.state == WAITING);
        let worst = workers.iter().find(|row| row.ready != Readiness::Ready).or_else(waiting).or_else(|| workers.first());
        let lags: Vec<i64> = workers.iter().flat_map(|row| row.partitions.iter().filter_map(|partition| partition.lag)).collect();
        PipelineStatus {
            pipeline: self.pipeline.clone(),
            instance: self.instance.clone(),
            guarantee: self.guarantee,
            state: worst.map_or("starting", |row| row.state),
            reason: worst.map_or_else(String::new, |row| row.reason.clone()),
            next_step: worst.map_or("", |row| row.next_step),
            lag: (!lags.is_empty()).then(|| lags.iter().sum()),
            fates,
            unaccounted_records: workers.iter().map(|row| row.unaccounted_records).sum(),
            workers,
        }
    }
}
