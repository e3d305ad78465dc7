//! The first thread of a worker: consumer, processing, and the engine whose commands it carries out.

mod events;
mod fetching;
mod show;

use crate::books::Books;
use crate::broker::{Broker, SealedBatch, Source, Transactor};
use crate::clock::Clock;
use crate::condemned;
use crate::dead_letter::dead_letter_output;
use crate::ending;
use crate::metrics::Metrics;
use crate::options::PipelineOptions;
use crate::processing::{Processing, ProcessorFactory};
use crate::round::Round;
use crate::status::StatusBoard;
use crate::supervisor::{Control, Request};
use crate::transact::{self, Job, Report, Spare};
use crate::watch::Watch;
use fetching::FetchTroubles;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use transom_engine::{
    Batch, BatchId, Claim, CloseReason, Command, Event, FateCounts, Handed, Incarnation, Millis, Outcome, OwnerRecord, Ownership, SourcePartition,
    StopReason, TransactionalId, Worker,
};
use transom_sdk::{Offset, OutputBuffer};

/// Most records handed over before the worker looks at events again.
const RECORDS_PER_ROUND: usize = 2_000;
/// Longest sleep: events of the client are served at least this often.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How often a quiet partition's position is looked at, to step over control records.
const QUIET_LOOK_INTERVAL_MS: u64 = 500;

/// How long a claim may take: the group waits meanwhile only for us.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a release may take; a revoke waits for it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why there are no partitions, when the client says nothing.
const LOST: &str = "the group has given this member up, or its coordinator answers no more";

/// What a worker shares with the process.
pub(crate) struct Surroundings {
    pub(crate) options: Arc<PipelineOptions>,
    pub(crate) factory: Arc<dyn ProcessorFactory>,
    pub(crate) board: Arc<StatusBoard>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) control: Arc<Control>,
    pub(crate) clock: Clock,
}

/// Runs one worker to its end.
pub(crate) fn run<B: Broker>(broker: &B, number: u16, surroundings: Surroundings) -> StopReason {
    let reason = match WorkerLoop::start(broker, number, surroundings) {
        Ok((mut worker, transact)) => {
            let reason = worker.work();
            if matches!(reason, StopReason::DrainCutShort | StopReason::Blocked { .. }) {
                // At once: neither the group nor the transaction is waited for. The broker ends both, and the process is gone.
                std::mem::forget(worker);
                tracing::error!(worker = number, reason = %reason, "stopped");
                return reason;
            }
            let WorkerLoop { source, jobs, reports, .. } = worker;
            ending::end(source, (jobs, reports), transact, number);
            reason
        }
        Err(reason) => reason,
    };
    match &reason {
        StopReason::Drained => tracing::info!(worker = number, "drained"),
        reason => tracing::error!(worker = number, reason = %reason, "stopped"),
    }
    reason
}

struct WorkerLoop<S> {
    number: u16,
    source: S,
    engine: Worker,
    processing: Processing,
    jobs: Sender<Job>,
    reports: Receiver<Report>,
    transactional_id: TransactionalId,
    incarnation: Incarnation,
    outputs: OutputBuffer,
    sources: Vec<(SourcePartition, Offset)>,
    spare: Spare,
    books: Books,
    around: Surroundings,
    trouble: String,
    /// What to do about the trouble; without trouble, the state says it.
    next_step: &'static str,
    generation: Option<i32>,
    last_commit: Duration,
    quiet_look_at: Millis,
    shown: Option<&'static str>,
    joined: Joined,
    fetch_troubles: FetchTroubles,
    watch: Arc<Watch>,
}

/// Whether the group ever answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    No,
    Yes,
    /// It answered, and has not since it gave us up.
    Lost,
}

impl<S: Source + Send + 'static> WorkerLoop<S> {
    fn start<B>(broker: &B, number: u16, around: Surroundings) -> Result<(Self, std::thread::JoinHandle<()>), StopReason>
    where
        B: Broker<Source = S>,
    {
        let options = Arc::clone(&around.options);
        let configuration = |what: String| StopReason::Configuration { what };
        let transactional_id =
            TransactionalId::new(&options.pipeline, &options.instance, number).map_err(|error| configuration(error.to_string()))?;
        let processing = Processing::new(Arc::clone(&options), Arc::clone(&around.factory)).map_err(|error| configuration(error.to_string()))?;
        let (source, transactor) = broker.connect(number)?;
        let watch = transactor.watch();
        let (jobs, job_queue) = channel();
        let (report_queue, reports) = channel();
        let transact = transact::spawn(transactor, (job_queue, report_queue), source.waker(), &around, number)?;
        // std's hasher keys are random per process and per call: 64 bits that tell one life of this id from the next.
        let incarnation = Incarnation(RandomState::new().build_hasher().finish());
        let (engine, first) = Worker::new(options.limits, transactional_id.clone(), incarnation);
        let mut worker = Self {
            number,
            source,
            engine,
            processing,
            jobs,
            reports,
            transactional_id,
            incarnation,
            outputs: OutputBuffer::new(),
            sources: Vec::new(),
            spare: Spare::default(),
            books: Books::default(),
            around,
            trouble: String::new(),
            next_step: "",
            generation: None,
            last_commit: Duration::ZERO,
            quiet_look_at: Millis(0),
            shown: None,
            joined: Joined::No,
            fetch_troubles: FetchTroubles::default(),
            watch,
        };
        worker.send(match first {
            Command::Reinitialise => Job::Initialise,
            other => unreachable!("a new worker begins with its producer, not {other:?}"),
        });
        worker.source.subscribe().map_err(|error| configuration(error.to_string()))?;
        Ok((worker, transact))
    }

    fn work(&mut self) -> StopReason {
        let mut commands = Vec::new();
        loop {
            match self.around.control.request() {
                Request::Run => {}
                Request::Drain => self.step(Event::Finish(StopReason::Drained), &mut commands),
                Request::Abort => return StopReason::DrainCutShort,
            }
            let mut busy = self.take_reports(&mut commands);
            busy |= self.take_events(&mut commands);
            if let Some(reason) = self.carry_out(&mut commands) {
                return reason;
            }
            busy |= self.hand_over(&mut commands);
            self.step(Event::Tick, &mut commands);
            if let Some(reason) = self.carry_out(&mut commands) {
                return reason;
            }
            let blocked = self.watch.blocked();
            self.show(blocked.as_ref());
            self.around.board.beat(self.number);
            if let Some(blocked) = blocked.filter(|blocked| blocked.is_by_coordinator() && blocked.for_time >= self.around.options.blocked_budget) {
                return StopReason::Blocked { what: self.describe(&blocked) };
            }
            if !busy {
                self.look_at_quiet(&mut commands);
                self.source.wait(self.sleep());
            }
        }
    }

    fn step(&mut self, event: Event, commands: &mut Vec<Command>) {
        let now = self.around.clock.now();
        self.engine.step(event, now, commands);
    }

    fn sleep(&self) -> Duration {
        let now = self.around.clock.now();
        let due = self.engine.due(now).map_or(WAIT_MAX, |due| Duration::from_millis(due.since(now)));
        due.min(WAIT_MAX)
    }

    /// Hands fetched records to the processor and their fates to the engine; returns whether there were any.
    fn hand_over(&mut self, commands: &mut Vec<Command>) -> bool {
        if !self.engine.wants_records(self.around.clock.now()) {
            return false;
        }
        let mut round = Round::new(&self.engine);
        let wall = Clock::wall();
        let (processing, outputs, sources) = (&mut self.processing, &mut self.outputs, &mut self.sources);
        let fetched = self.source.fetch(RECORDS_PER_ROUND, &mut |place, record| round.record(place, record, processing, (outputs, sources), wall));
        let Round { handed, stop, not_ours, .. } = round;
        if not_ours > 0 {
            // Fetched for an assignment that was taken back, or whose claim does not stand yet: whoever reads it reads it from the
            // committed offset.
            self.around.metrics.records_passed_over(not_ours);
            tracing::debug!(worker = self.number, records = not_ours, "records of partitions that are not ours now are passed over");
        }
        let any = !handed.is_empty();
        for handed in handed {
            self.books.handed += handed.records;
            self.books.open += handed.records;
            self.step(Event::Handed(handed), commands);
        }
        if let Some(reason) = stop {
            self.step(Event::Finish(reason), commands);
        }
        match fetched {
            Ok(records) => any || records > 0,
            // What stands before the bytes that cannot be read is good, and committed.
            Err(reason @ StopReason::CorruptData { .. }) => {
                self.step(Event::Finish(reason), commands);
                true
            }
            Err(reason) => {
                self.step(Event::Halt(reason), commands);
                true
            }
        }
    }

    /// Steps over control records: without this a quiet input that is written in transactions would show lag for ever.
    fn look_at_quiet(&mut self, commands: &mut Vec<Command>) {
        let now = self.around.clock.now();
        if now < self.quiet_look_at || !self.engine.wants_records(now) {
            return;
        }
        self.quiet_look_at = now.plus(QUIET_LOOK_INTERVAL_MS);
        let known: Vec<_> = self.engine.partitions().filter_map(|(place, offsets)| Some((place, offsets?.1))).collect();
        for (partition, position) in known {
            if let Some(next) = self.source.quiet_position(partition).filter(|next| *next > position) {
                let handed = Handed { partition, first: None, next, records: 0, fates: FateCounts::default(), bytes: 0 };
                self.step(Event::Handed(handed), commands);
            }
        }
    }

    fn carry_out(&mut self, commands: &mut Vec<Command>) -> Option<StopReason> {
        let mut stopped = None;
        // A command may bring new ones, which come behind those already there.
        while !commands.is_empty() {
            for command in std::mem::take(commands) {
                if let Err(reason) = self.carry_out_one(command, commands, &mut stopped) {
                    self.step(Event::Halt(reason), commands);
                }
            }
        }
        stopped
    }

    fn carry_out_one(&mut self, command: Command, commands: &mut Vec<Command>, stopped: &mut Option<StopReason>) -> Result<(), StopReason> {
        let refused = |error: crate::broker::SourceError| StopReason::Fatal { what: error.to_string() };
        match command {
            Command::Reinitialise => self.send(Job::Initialise),
            Command::Resolve(asked) => self.send(Job::Resolve(asked)),
            Command::Claim(positions) => {
                let claim = match self.source.commit(&self.owned(&positions, Ownership::Held), CLAIM_TIMEOUT) {
                    Ok(()) => Claim::Committed,
                    Err(error) => {
                        tracing::warn!(worker = self.number, error = %error, "claim refused; reading offsets again");
                        Claim::Refused
                    }
                };
                self.step(Event::Claimed(claim), commands);
            }
            Command::Release(positions) => {
                if let Err(error) = self.source.commit(&self.owned(&positions, Ownership::Released), RELEASE_TIMEOUT) {
                    tracing::info!(worker = self.number, error = %error, "partitions not released; their next owner fences this id once");
                }
            }
            Command::Assign(positions) => self.source.assign(&positions).map_err(refused)?,
            Command::Seek(positions) => self.source.seek(&positions).map_err(refused)?,
            Command::GiveBack(partitions) => {
                tracing::info!(worker = self.number, partitions = ?self.names(&partitions), "partitions given back");
                self.fetch_troubles.forget(&partitions);
                self.source.give_back(&partitions).map_err(refused)?;
            }
            Command::DiscardOpen => {
                self.outputs.clear();
                self.sources.clear();
                self.books.dropped += std::mem::take(&mut self.books.open);
            }
            Command::Condemned(place, offset) => self.note_condemned(place, offset),
            Command::Transact(batch, reason) => self.seal(batch, reason, commands),
            Command::Account(batch) => self.account(&batch),
            Command::WriteOff(batch) => {
                tracing::warn!(worker = self.number, batch = batch.id.0, records = batch.records, "outcome of a batch is left to its successor");
                self.books.in_doubt -= batch.records;
                self.books.written_off += batch.records;
            }
            Command::Stop(reason) => *stopped = Some(reason),
        }
        Ok(())
    }

    /// Returns owner records outside any batch: their batch number is 0.
    fn owned(&self, positions: &[(SourcePartition, Offset)], ownership: Ownership) -> Vec<(SourcePartition, Offset, OwnerRecord)> {
        let record = OwnerRecord { transactional_id: self.transactional_id.clone(), incarnation: self.incarnation, batch: BatchId(0), ownership };
        positions.iter().map(|&(place, offset)| (place, offset, record.clone())).collect()
    }

    /// Captures the group metadata (once, here, never again for this batch) and hands the batch to the transact thread.
    fn seal(&mut self, batch: Batch, reason: CloseReason, commands: &mut Vec<Command>) {
        self.books.in_flight = std::mem::take(&mut self.books.open);
        let outputs = std::mem::replace(&mut self.outputs, std::mem::take(&mut self.spare.outputs));
        let sources = std::mem::replace(&mut self.sources, std::mem::take(&mut self.spare.sources));
        let Some(membership) = self.source.membership() else {
            // EO-2: the broker would not check such metadata, so nothing is sent with it.
            let why = "no valid membership in the group at batch close".to_owned();
            self.note_outcome(&Outcome::Aborted { why: why.clone() });
            return self.step(Event::Ended(batch.id, Outcome::Aborted { why }), commands);
        };
        self.generation = Some(membership.generation);
        tracing::trace!(worker = self.number, batch = batch.id.0, records = batch.records, outputs = outputs.len(), reason = ?reason, "batch closed");
        let owner = |batch: &Batch| OwnerRecord {
            transactional_id: self.transactional_id.clone(),
            incarnation: self.incarnation,
            batch: batch.id,
            ownership: Ownership::Held,
        };
        let offsets: Vec<_> = batch.progress.iter().map(|(place, interval)| (place, interval.end, owner(&batch))).collect();
        self.source.will_commit(&offsets);
        let dead_letters = dead_letter_output(self.around.options.routes.as_slice().len());
        self.send(Job::Transact(Box::new(SealedBatch { batch, outputs, dead_letters, sources, offsets, membership })));
    }

    fn note_condemned(&self, place: SourcePartition, offset: Offset) {
        let Some(sentence) = self.engine.hunt().sentence(place, offset) else { return };
        let may_set_aside = self.around.options.dead_letters.is_some();
        self.around.metrics.output_refused(sentence.refusal().kind);
        condemned::log((self.number, self.topic(place), place.partition), offset, sentence, may_set_aside);
    }

    fn send(&self, job: Job) {
        // The transact thread ends only after this side hung up; if it is gone it panicked, and so must we.
        assert!(self.jobs.send(job).is_ok(), "the transact thread is gone");
    }

    fn account(&mut self, batch: &Batch) {
        self.books.in_doubt -= batch.records;
        self.books.committed.merge(&batch.fates);
        self.books.batches_committed += 1;
        let age = self.around.clock.now().since(batch.opened_at);
        self.around.metrics.committed(&batch.fates, batch.records, self.last_commit.as_secs_f64(), Duration::from_millis(age).as_secs_f64());
        self.show_books();
    }
}
