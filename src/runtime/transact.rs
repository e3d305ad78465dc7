//! The transact thread: one job at a time, in the order given, so that an offset is never read past a batch in flight.

use crate::broker::{InitError, SealedBatch, Transactor};
use crate::supervisor::{Control, Request};
use crate::watch::Watch;
use crate::worker::Surroundings;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use transom_engine::{Ask, BatchId, Outcome, Resolved, SourcePartition, StopReason};
use transom_sdk::{Offset, OutputBuffer};

/// How often logs and errors of the client are served while nothing else is to do.
const SERVE_INTERVAL: Duration = Duration::from_millis(100);
/// First and longest pause between attempts to initialise.
const INIT_PAUSE_MIN: Duration = Duration::from_millis(100);
const INIT_PAUSE_MAX: Duration = Duration::from_secs(5);

/// What the worker asks of this thread.
pub(crate) enum Job {
    Initialise,
    Transact(Box<SealedBatch>),
    Resolve(Vec<Ask>),
}

/// What this thread answers.
pub(crate) enum Report {
    Ready,
    NotReady(String),
    Ended { id: BatchId, outcome: Outcome, took: Duration, spare: Spare, recycled: Option<&'static str> },
    Resolved(Vec<Resolved>),
    Stop(StopReason),
}

/// A resolved batch's memory, to be used again.
#[derive(Default)]
pub(crate) struct Spare {
    pub(crate) outputs: OutputBuffer,
    pub(crate) sources: Vec<(SourcePartition, Offset)>,
}

pub(crate) struct TransactLoop<T> {
    pub(crate) transactor: T,
    pub(crate) watch: Arc<Watch>,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) reports: Sender<Report>,
    pub(crate) wake: Box<dyn Fn() + Send>,
    pub(crate) control: Arc<Control>,
    /// How long the very first initialisation may take.
    pub(crate) start_budget: Duration,
}

impl<T: Transactor> TransactLoop<T> {
    /// Runs until the worker hangs up.
    pub(crate) fn run(mut self) {
        let mut first_deadline = Some(Instant::now() + self.start_budget);
        loop {
            let report = match self.jobs.recv_timeout(SERVE_INTERVAL) {
                Ok(Job::Initialise) => {
                    let report = self.initialise(first_deadline);
                    first_deadline = None;
                    report
                }
                Ok(Job::Transact(sealed)) => Some(self.transact(*sealed)),
                Ok(Job::Resolve(asked)) => Some(Report::Resolved(self.transactor.resolve(&asked))),
                Err(RecvTimeoutError::Timeout) => {
                    self.transactor.serve();
                    None
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.watch.note_producer(self.transactor.producer());
            if let Some(report) = report
                && !self.report(report)
            {
                return;
            }
        }
    }

    fn report(&self, report: Report) -> bool {
        let heard = self.reports.send(report).is_ok();
        (self.wake)();
        heard
    }

    fn transact(&mut self, sealed: SealedBatch) -> Report {
        let begun = Instant::now();
        let outcome = self.transactor.transact(&sealed);
        let took = begun.elapsed();
        if outcome == Outcome::Committed {
            self.transactor.rest();
        }
        let mut spare = Spare { outputs: sealed.outputs, sources: sealed.sources };
        spare.outputs.clear();
        spare.sources.clear();
        Report::Ended { id: sealed.batch.id, outcome, took, spare, recycled: self.transactor.take_recycled() }
    }

    /// Tries until the producer is initialised. Before it was so for the first time there is a deadline; after that an
    /// unreachable broker is waited for, since work is in hand and a restart would not bring it back sooner.
    fn initialise(&mut self, deadline: Option<Instant>) -> Option<Report> {
        let mut pause = INIT_PAUSE_MIN;
        loop {
            let why = match self.transactor.initialise() {
                Ok(()) => return Some(Report::Ready),
                Err(InitError::Stop(reason)) => return Some(Report::Stop(reason)),
                Err(InitError::NotYet(why)) => why,
            };
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Some(Report::Stop(StopReason::Unreachable { what: why }));
            }
            if !self.report(Report::NotReady(why)) || self.control.request() != Request::Run {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(INIT_PAUSE_MAX);
        }
    }
}

/// Starts the transact thread of a worker.
pub(crate) fn spawn<T: Transactor + 'static>(
    transactor: T,
    (jobs, reports): (Receiver<Job>, Sender<Report>),
    wake: Box<dyn Fn() + Send>,
    around: &Surroundings,
    number: u16,
) -> Result<std::thread::JoinHandle<()>, StopReason> {
    let start_budget = around.options.start_budget;
    let watch = transactor.watch();
    let transact = TransactLoop { transactor, watch, jobs, reports, wake, control: Arc::clone(&around.control), start_budget };
    std::thread::Builder::new()
        .name(format!("transact-{number}"))
        .spawn(move || transact.run())
        .map_err(|error| StopReason::Fatal { what: format!("the transact thread cannot be started: {error}") })
}
