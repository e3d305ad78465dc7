//! The transact thread: one job at a time, each a row of requests that are repeated until they are answered or given up.
//! This is what the client library does inside `transact`, `initialise` and `resolve`, cut into steps.

use crate::cluster::{Listed, Membership, OffsetCommit, Out, ProducerId, Refusal, Request, Response};
use crate::input::DEAD_LETTER;
use crate::random::Random;
use crate::rules::{Rules, TransactorBug, UnknownOutcome};
use std::collections::VecDeque;
use std::sync::Arc;
use transom_engine::{
    Ask, BatchId, Outcome, OwnerRecord, OwnerSeen, Ownership, Proof, RefusalKind, Refused, Resolved, SourcePartition, Suspect, Takeover, TopicId,
};
use transom_sdk::{Offset, PartitionId};

/// How long a step of a transaction is repeated.
const STEP_BUDGET_MS: u64 = 1_500;
/// How long the last owner of a partition is tried to be fenced.
const FENCE_BUDGET_MS: u64 = 2_000;

/// A closed batch with everything it sends.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) id: BatchId,
    pub(crate) outputs: Vec<(usize, Out)>,
    pub(crate) offsets: Vec<OffsetCommit>,
    pub(crate) membership: Membership,
}

#[derive(Debug)]
pub(crate) enum Job {
    Initialise,
    Transact(Sealed),
    Resolve(Vec<Ask>),
}

#[derive(Debug)]
pub(crate) enum Report {
    Ready,
    Ended(BatchId, Outcome),
    Resolved(Vec<Resolved>),
}

/// What the thread wants done.
#[derive(Debug)]
pub(crate) enum Act {
    Send(Request),
    Wake(u64),
    Report(Report),
}

/// What it can look at.
pub(crate) struct View<'a> {
    pub(crate) now: u64,
    pub(crate) rules: &'a Rules,
    pub(crate) random: &'a mut Random,
    /// The consumer's membership at this moment; only a broken rule looks at it.
    pub(crate) membership: Option<Membership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Initialise,
    AddPartitions,
    Produce(usize),
    AddOffsets,
    SendOffsets,
    Commit,
    Abort,
    Look,
    Pause,
    LookAgain,
    Fence(usize),
    List,
}

#[derive(Debug)]
struct Running {
    job: Job,
    plan: VecDeque<Step>,
    until: u64,
    /// Outputs by output partition.
    produce: Vec<(usize, Vec<Out>)>,
    holders: Vec<OwnerRecord>,
    /// Whose outputs were refused.
    suspects: Vec<Suspect>,
    why: &'static str,
}

#[derive(Debug)]
pub(crate) struct Transactor {
    id: usize,
    workers: usize,
    producer: Option<ProducerId>,
    sequences: Vec<u64>,
    /// A request of a transaction broke: it may still arrive.
    tainted: bool,
    /// The sequence at the broker is not known: only a new epoch helps.
    must_bump: bool,
    jobs: VecDeque<Job>,
    running: Option<Running>,
    /// Tells the answer that is waited for from older ones.
    pub(crate) call: u64,
}

impl Transactor {
    pub(crate) fn new(id: usize, workers: usize, outputs: usize) -> Self {
        Self {
            id,
            workers,
            producer: None,
            sequences: vec![0; outputs],
            tainted: false,
            must_bump: false,
            jobs: VecDeque::new(),
            running: None,
            call: 0,
        }
    }

    /// Queues a job and begins it if nothing else is to do.
    pub(crate) fn push(&mut self, job: Job, view: &mut View<'_>) -> Vec<Act> {
        self.jobs.push_back(job);
        let mut acts = Vec::new();
        if self.running.is_none() {
            self.next_job(view, &mut acts);
        }
        acts
    }

    /// Goes on after a pause.
    pub(crate) fn wake(&mut self, view: &mut View<'_>) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.running.as_ref().is_some_and(|running| running.plan.front() == Some(&Step::Pause)) {
            self.next_step(view, &mut acts);
        } else {
            self.send(view, &mut acts);
        }
        acts
    }

    fn next_job(&mut self, view: &mut View<'_>, acts: &mut Vec<Act>) {
        let Some(job) = self.jobs.pop_front() else { return };
        let mut produce: Vec<(usize, Vec<Out>)> = Vec::new();
        let mut plan = VecDeque::new();
        match &job {
            Job::Initialise => plan.push_back(Step::Initialise),
            Job::Resolve(asked) if asked.iter().all(|ask| ask.takeover == Takeover::Leave) => plan.push_back(Step::List),
            Job::Resolve(_) => plan.extend([Step::Look, Step::Pause, Step::LookAgain, Step::List]),
            Job::Transact(sealed) => {
                for (partition, out) in &sealed.outputs {
                    match produce.iter_mut().find(|(other, _)| other == partition) {
                        Some((_, outputs)) => outputs.push(*out),
                        None => produce.push((*partition, vec![*out])),
                    }
                }
                if self.must_bump || (self.tainted && view.rules.recycle_guard) {
                    plan.push_back(Step::Initialise);
                }
                let offsets = [Step::AddOffsets, Step::SendOffsets];
                let first = view.random.per_mille(300);
                plan.extend(offsets.iter().copied().filter(|_| first));
                if !produce.is_empty() {
                    plan.push_back(Step::AddPartitions);
                    plan.extend((0..produce.len()).map(Step::Produce));
                }
                plan.extend(offsets.iter().copied().filter(|_| !first));
                plan.push_back(Step::Commit);
            }
        }
        self.running = Some(Running { job, plan, until: view.now + STEP_BUDGET_MS, produce, holders: Vec::new(), suspects: Vec::new(), why: "" });
        self.send(view, acts);
    }

    /// Sends the present step's request.
    fn send(&mut self, view: &mut View<'_>, acts: &mut Vec<Act>) {
        let Some(running) = &self.running else { return };
        let Some(&step) = running.plan.front() else { return };
        self.call += 1;
        let producer = self.producer.unwrap_or(ProducerId { id: self.id, epoch: 0 });
        let request = match (step, &running.job) {
            (Step::Pause, _) => return acts.push(Act::Wake(view.random.below(20))),
            (Step::Initialise, _) => Request::InitProducer(self.id),
            (Step::Fence(id), _) => Request::InitProducer(id),
            (Step::AddPartitions, _) => Request::AddPartitions(producer, running.produce.iter().map(|(partition, _)| *partition).collect()),
            (Step::Produce(index), _) => {
                let (partition, outputs) = running.produce[index].clone();
                Request::Produce { producer, partition, sequence: self.sequences[partition], outputs }
            }
            (Step::AddOffsets, _) => Request::AddOffsets(producer),
            (Step::SendOffsets, Job::Transact(sealed)) => {
                let captured = view.rules.captured_membership;
                let membership = if captured { sealed.membership } else { view.membership.unwrap_or(sealed.membership) };
                let mut offsets = sealed.offsets.clone();
                if view.rules.bug == TransactorBug::ForgetsAnOffset && offsets.len() > 1 {
                    offsets.pop();
                }
                Request::TxnOffsetCommit(producer, membership, offsets)
            }
            (Step::Commit, _) => Request::EndTxn { producer, commit: true },
            (Step::Abort, _) => Request::EndTxn { producer, commit: false },
            (Step::Look | Step::LookAgain | Step::List, Job::Resolve(asked)) => {
                let stable = step == Step::List && view.rules.bug != TransactorBug::ReadsUnstableOffsets;
                Request::ListOffsets { partitions: asked.iter().map(|ask| index(ask.partition)).collect(), stable }
            }
            (Step::SendOffsets | Step::Look | Step::LookAgain | Step::List, _) => unreachable!("no plan has {step:?} for this job"),
        };
        acts.push(Act::Send(request));
    }

    /// Takes the answer to the request sent last.
    pub(crate) fn on_answer(&mut self, response: Response, view: &mut View<'_>) -> Vec<Act> {
        let mut acts = Vec::new();
        let Some(running) = &self.running else { return acts };
        let Some(&step) = running.plan.front() else { return acts };
        let in_transaction =
            matches!(step, Step::AddPartitions | Step::Produce(_) | Step::AddOffsets | Step::SendOffsets | Step::Commit | Step::Abort);
        if response == Response::Broken && in_transaction {
            self.tainted = true;
        }
        match (step, response) {
            (Step::Initialise, Response::Producer(producer)) => {
                (self.producer, self.tainted, self.must_bump) = (Some(producer), false, false);
                self.sequences.fill(0);
                self.next_step(view, &mut acts);
            }
            (Step::Initialise, _) => self.pause(view, &mut acts),
            (Step::Look | Step::LookAgain | Step::List, Response::Offsets(listed)) => self.on_listed(step, listed, view, &mut acts),
            (Step::List, _) => self.answer_resolve(None, view, &mut acts),
            // Owner records that cannot be read mean that nobody is fenced.
            (Step::Look | Step::LookAgain, _) => self.next_step(view, &mut acts),
            (Step::Fence(_), Response::Producer(_)) => self.next_step(view, &mut acts),
            (Step::Fence(_), _) if view.now < running.until => self.pause(view, &mut acts),
            (Step::Fence(_), _) => self.next_step(view, &mut acts),
            (_, response) => self.on_transaction(step, response, view, &mut acts),
        }
        acts
    }

    fn on_transaction(&mut self, step: Step, response: Response, view: &mut View<'_>, acts: &mut Vec<Act>) {
        let Some(running) = &mut self.running else { return };
        let is_late = view.now >= running.until;
        match (step, response) {
            (Step::Commit, Response::Done) => self.end(Outcome::Committed, view, acts),
            (Step::Abort, Response::Done) => {
                let (why, suspects) = (running.why.to_owned(), std::mem::take(&mut running.suspects));
                let outcome = if suspects.is_empty() { Outcome::Aborted { why } } else { Outcome::Poisoned { suspects, why } };
                self.end(outcome, view, acts);
            }
            (Step::Produce(index), Response::Done) => {
                let (partition, outputs) = &running.produce[index];
                self.sequences[*partition] += outputs.len() as u64;
                self.next_step(view, acts);
            }
            (_, Response::Done) => self.next_step(view, acts),
            (Step::Commit, Response::Broken) if view.rules.unknown_outcome == UnknownOutcome::Success => self.end(Outcome::Committed, view, acts),
            (Step::Commit, Response::Broken) if view.rules.unknown_outcome == UnknownOutcome::Failure => {
                self.end(Outcome::Aborted { why: "no answer".to_owned() }, view, acts);
            }
            (Step::Produce(index), Response::Broken) if view.rules.bug == TransactorBug::RetriesProduceAsNew && !is_late => {
                let (partition, outputs) = &running.produce[index];
                self.sequences[*partition] += outputs.len() as u64;
                self.pause(view, acts);
            }
            (Step::Produce(_), Response::Broken) if view.rules.bug == TransactorBug::ForgetsAnOutput => self.next_step(view, acts),
            (_, Response::Broken | Response::Refused(Refusal::Concurrent)) if !is_late => self.pause(view, acts),
            (Step::Commit | Step::Abort, Response::Broken | Response::Refused(Refusal::Concurrent)) => {
                self.replace("no answer in time", false, view, acts)
            }
            (Step::Produce(_), Response::Broken) => {
                self.must_bump = true;
                self.abort("outputs without an answer", view, acts);
            }
            (_, Response::Broken | Response::Refused(Refusal::Concurrent)) => self.abort("no answer in time", view, acts),
            (Step::SendOffsets, Response::Refused(Refusal::IllegalGeneration | Refusal::UnknownMember | Refusal::FencedInstance)) => {
                if view.rules.bug == TransactorBug::CommitsWithoutOffsets {
                    self.next_step(view, acts);
                } else {
                    self.abort("stale membership", view, acts);
                }
            }
            (Step::Produce(index), Response::Refused(Refusal::Poison)) => {
                // The client's count of what it sent is behind the gap now: only a new epoch helps.
                self.must_bump = true;
                running.suspects = running.produce[index].1.iter().map(suspect).collect();
                self.abort("an output is refused", view, acts);
            }
            (_, Response::Refused(Refusal::Fenced)) => self.replace("fenced", true, view, acts),
            (_, other) => {
                debug_assert!(matches!(other, Response::Refused(_)), "{step:?}: {other:?}");
                self.replace("the transaction's state is another", false, view, acts);
            }
        }
    }

    fn pause(&mut self, view: &mut View<'_>, acts: &mut Vec<Act>) {
        self.call += 1;
        acts.push(Act::Wake(view.random.between(5, 60)));
    }

    fn next_step(&mut self, view: &mut View<'_>, acts: &mut Vec<Act>) {
        let Some(running) = &mut self.running else { return };
        running.plan.pop_front();
        running.until = view.now + STEP_BUDGET_MS;
        if !running.plan.is_empty() {
            return self.send(view, acts);
        }
        if matches!(running.job, Job::Initialise) {
            self.running = None;
            acts.push(Act::Report(Report::Ready));
        }
        self.next_job(view, acts);
    }

    fn abort(&mut self, why: &'static str, view: &mut View<'_>, acts: &mut Vec<Act>) {
        if let Some(running) = &mut self.running {
            (running.why, running.until) = (why, view.now + STEP_BUDGET_MS);
            running.plan = VecDeque::from([Step::Abort]);
        }
        self.send(view, acts);
    }

    fn replace(&mut self, why: &str, fenced: bool, view: &mut View<'_>, acts: &mut Vec<Act>) {
        self.producer = None;
        self.end(Outcome::Replace { why: why.to_owned(), fenced }, view, acts);
    }

    fn end(&mut self, outcome: Outcome, view: &mut View<'_>, acts: &mut Vec<Act>) {
        if let Some(Running { job: Job::Transact(sealed), .. }) = self.running.take() {
            acts.push(Act::Report(Report::Ended(sealed.id, outcome)));
        }
        self.next_job(view, acts);
    }

    fn on_listed(&mut self, step: Step, listed: Vec<Listed>, view: &mut View<'_>, acts: &mut Vec<Act>) {
        if step == Step::List {
            return self.answer_resolve(Some(listed), view, acts);
        }
        let Some(running) = &mut self.running else { return };
        let Job::Resolve(asked) = &running.job else { return };
        let gained = listed.into_iter().zip(asked).filter(|(_, ask)| ask.takeover == Takeover::Fence);
        let mut holders: Vec<OwnerRecord> = Vec::new();
        for owner in gained.filter_map(|(seen, _)| if let Listed::At(_, owner) = seen { owner } else { None }) {
            let known = holders.iter().any(|holder| holder.transactional_id == owner.transactional_id);
            let foreign = number(&owner, self.workers) / self.workers != self.id / self.workers;
            if owner.ownership == Ownership::Held && foreign && !known {
                holders.push(owner);
            }
        }
        if step == Step::Look && holders.is_empty() {
            running.plan = VecDeque::from([Step::Look, Step::List]);
        } else if step == Step::Look {
            running.holders = holders;
        } else {
            let again = holders.iter().filter(|holder| running.holders.contains(holder)).map(|holder| Step::Fence(number(holder, self.workers)));
            running.plan = std::iter::once(Step::LookAgain).chain(again).chain([Step::List]).collect();
            self.next_step(view, acts);
            if let Some(running) = &mut self.running {
                running.until = view.now + FENCE_BUDGET_MS;
            }
            return;
        }
        self.next_step(view, acts);
    }

    fn answer_resolve(&mut self, listed: Option<Vec<Listed>>, view: &mut View<'_>, acts: &mut Vec<Act>) {
        let Some(Running { job: Job::Resolve(asked), .. }) = self.running.take() else { return };
        let answer = |(index, Ask { partition, assignment, .. }): (usize, Ask)| {
            let seen = match listed.as_ref().map(|listed| &listed[index]) {
                None => OwnerSeen::Unanswered,
                Some(Listed::Unstable) => OwnerSeen::Pending,
                Some(Listed::At(offset, owner)) => Offset::new(*offset).map_or(OwnerSeen::Missing, |offset| OwnerSeen::At(offset, owner.clone())),
            };
            Resolved { partition, assignment, seen }
        };
        acts.push(Act::Report(Report::Resolved(asked.into_iter().enumerate().map(answer).collect())));
        self.next_job(view, acts);
    }
}

/// All outputs of a refused request fail alike.
fn suspect(out: &Out) -> Suspect {
    let (kind, topic, code) = (RefusalKind::TooLarge, "out".to_owned(), "MSG_SIZE_TOO_LARGE".to_owned());
    Suspect {
        partition: place(out.partition),
        offset: Offset::new(out.offset).unwrap_or(Offset::ZERO),
        refused: if out.ordinal >= DEAD_LETTER { Refused::DeadLetter } else { Refused::Output },
        proof: Proof::Suspected,
        refusal: Arc::new(transom_engine::Refusal { kind, topic, code, words: String::new() }),
    }
}

/// Returns the number of an input partition.
pub(crate) fn index(place: SourcePartition) -> usize {
    usize::try_from(place.partition.get()).unwrap_or(0)
}

/// Returns the engine's name of an input partition.
pub(crate) fn place(partition: usize) -> SourcePartition {
    let partition = i32::try_from(partition).ok().and_then(PartitionId::new).unwrap_or_default();
    SourcePartition { topic: TopicId(0), partition }
}

/// Returns the number of a transactional id: its instance is called by a number.
fn number(owner: &OwnerRecord, workers: usize) -> usize {
    let instance: usize = owner.transactional_id.instance().parse().unwrap_or(0);
    instance * workers + usize::from(owner.transactional_id.worker())
}
