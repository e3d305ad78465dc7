//! One simulated worker: the engine and around it what the runtime's first thread does, in the runtime's order.

use crate::client::{Client, ClientOptions, Rebalance};
use crate::cluster::{Membership, OffsetCommit, Out, Request, Response};
use crate::input::{DEAD_LETTER, Input, STUB, Takes};
use crate::random::Random;
use crate::rules::{Rules, TransactorBug};
use crate::transactor::{Job, Report, Sealed, Transactor, index, place};
use std::collections::VecDeque;
use transom_engine::{
    Batch, BatchId, Claim, Command, Event, Fate, FateCounts, Handed, Incarnation, Limits, Millis, Outcome, OwnerRecord, Ownership, Sentence,
    SourcePartition, StopReason, TransactionalId, Worker,
};
use transom_sdk::Offset;

/// How often a quiet partition's position is looked at.
const QUIET_LOOK_INTERVAL_MS: u64 = 200;
/// How long claims and releases may take.
const CLAIM_BUDGET_MS: u64 = 1_000;

/// What of the world a worker's first thread can see and touch.
pub(crate) struct Around<'a> {
    pub(crate) now: u64,
    pub(crate) rules: &'a Rules,
    pub(crate) random: &'a mut Random,
    pub(crate) input: &'a Input,
    /// Jobs for the transact thread.
    pub(crate) jobs: Vec<Job>,
    /// The plain commit that the thread waits for.
    pub(crate) commit: Option<Request>,
    pub(crate) accounted: &'a mut Vec<(u64, Batch)>,
    pub(crate) trace: &'a mut dyn FnMut(&dyn Fn() -> String),
}

/// The count the runtime keeps beside the engine's, so that one can check the other.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    handed: u64,
    dropped: u64,
    written_off: u64,
    open: u64,
    in_flight: u64,
    in_doubt: u64,
    committed: u64,
}

#[derive(Debug)]
enum Blocked {
    Claim { until: u64, membership: Membership, offsets: Vec<OffsetCommit> },
    Release,
}

#[derive(Debug)]
pub(crate) struct SimulatedWorker {
    number: usize,
    pub(crate) life: u32,
    pub(crate) engine: Worker,
    pub(crate) client: Client,
    pub(crate) transactor: Transactor,
    transactional_id: TransactionalId,
    incarnation: Incarnation,
    commands: VecDeque<Command>,
    blocked: Option<Blocked>,
    pub(crate) reports: VecDeque<Report>,
    pub(crate) claim_call: u64,
    outputs: Vec<(usize, Out)>,
    books: Books,
    quiet_look_at: u64,
    turn: usize,
    /// A plain commit broke under this membership: it is given up as soon as the client allows, and claims nothing more.
    tainted: Option<Membership>,
    pub(crate) drain: bool,
    pub(crate) stopped: Option<StopReason>,
}

/// What a round of the thread ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More is to do at once.
    Now,
    /// Nothing is to do before this time, unless something happens.
    At(Option<u64>),
    /// It waits for an answer, or is done.
    Not,
}

pub(crate) fn offset(number: i64) -> Offset {
    Offset::new(number).unwrap_or(Offset::ZERO)
}

impl SimulatedWorker {
    pub(crate) fn new(
        number: usize,
        life: u32,
        ids: (TransactionalId, u64),
        limits: Limits,
        client: ClientOptions,
        sizes: (usize, usize),
        now: u64,
    ) -> Self {
        let (transactional_id, incarnation) = (ids.0, Incarnation(ids.1));
        let (engine, first) = Worker::new(limits, transactional_id.clone(), incarnation);
        Self {
            number,
            life,
            engine,
            client: Client::new(client, now),
            transactor: Transactor::new(number, sizes.0, sizes.1),
            transactional_id,
            incarnation,
            commands: VecDeque::from([first]),
            blocked: None,
            reports: VecDeque::new(),
            claim_call: 0,
            outputs: Vec::new(),
            books: Books::default(),
            quiet_look_at: 0,
            turn: 0,
            tainted: None,
            drain: false,
            stopped: None,
        }
    }

    /// One turn of the thread's loop.
    pub(crate) fn round(&mut self, around: &mut Around<'_>) -> Next {
        if self.blocked.is_some() || self.stopped.is_some() {
            return Next::Not;
        }
        self.client.polled_at = around.now;
        if self.drain {
            self.step(Event::Finish(StopReason::Drained), around);
        }
        let mut busy = self.take_reports(around);
        if let Some(rebalance) = self.client.events.pop_front() {
            busy = true;
            (around.trace)(&|| format!("{rebalance:?}"));
            let places = |partitions: Vec<usize>| partitions.into_iter().map(place).collect();
            let event = match rebalance {
                Rebalance::Assigned(partitions) => Event::Assigned(places(partitions)),
                Rebalance::Revoked(partitions) => Event::Revoked(places(partitions)),
                Rebalance::Lost(partitions) => Event::Lost(places(partitions)),
            };
            self.step(event, around);
        }
        self.carry_out(around);
        if self.blocked.is_some() || self.stopped.is_some() {
            return Next::Not;
        }
        busy |= self.hand_over(around);
        self.step(Event::Tick, around);
        self.carry_out(around);
        self.check_books();
        if self.blocked.is_some() || self.stopped.is_some() {
            return Next::Not;
        }
        if busy {
            return Next::Now;
        }
        self.look_at_quiet(around);
        let due = self.engine.due(Millis(around.now)).map(|due| due.0);
        let quiet = self.has_quiet_step(around).then_some(self.quiet_look_at);
        Next::At(due.into_iter().chain(quiet).min())
    }

    fn step(&mut self, event: Event, around: &mut Around<'_>) {
        let mut commands = Vec::new();
        if !matches!(event, Event::Tick) {
            (around.trace)(&|| format!("event {event:?}"));
        }
        self.engine.step(event, Millis(around.now), &mut commands);
        for command in &commands {
            (around.trace)(&|| format!("command {command:?}"));
        }
        self.commands.extend(commands);
    }

    fn take_reports(&mut self, around: &mut Around<'_>) -> bool {
        let mut any = false;
        while let Some(report) = self.reports.pop_front() {
            any = true;
            let event = match report {
                Report::Ready => Event::ProducerReady,
                Report::Resolved(answers) => Event::Resolved(answers),
                Report::Ended(id, outcome) => {
                    self.note_outcome(&outcome);
                    Event::Ended(id, outcome)
                }
            };
            self.step(event, around);
        }
        any
    }

    fn note_outcome(&mut self, outcome: &Outcome) {
        let records = std::mem::take(&mut self.books.in_flight);
        match outcome {
            Outcome::Committed | Outcome::Replace { .. } => self.books.in_doubt += records,
            Outcome::Aborted { .. } | Outcome::Poisoned { .. } | Outcome::Stop(_) => self.books.dropped += records,
        }
    }

    /// Carries out commands until none is left or one must wait.
    fn carry_out(&mut self, around: &mut Around<'_>) {
        while self.blocked.is_none() && self.stopped.is_none() {
            let Some(command) = self.commands.pop_front() else { break };
            let numbers = |positions: &[(SourcePartition, Offset)]| positions.iter().map(|(place, at)| (index(*place), at.get())).collect::<Vec<_>>();
            match command {
                Command::Reinitialise => around.jobs.push(Job::Initialise),
                Command::Resolve(asked) => around.jobs.push(Job::Resolve(asked)),
                Command::Claim(positions) => {
                    let offsets = self.owned(&positions, Ownership::Held);
                    match self.client.membership().filter(|membership| self.tainted != Some(*membership)) {
                        Some(membership) => {
                            self.send_commit(Request::OffsetCommit(membership, offsets.clone()), around);
                            self.blocked = Some(Blocked::Claim { until: around.now + CLAIM_BUDGET_MS, membership, offsets });
                        }
                        None => self.step(Event::Claimed(Claim::Refused), around),
                    }
                }
                Command::Release(positions) => {
                    if let Some(membership) = self.client.membership() {
                        let offsets = self.owned(&positions, Ownership::Released);
                        self.send_commit(Request::OffsetCommit(membership, offsets), around);
                        self.blocked = Some(Blocked::Release);
                    }
                }
                Command::Assign(positions) => self.client.assign(&numbers(&positions)),
                Command::Seek(positions) if around.rules.bug == TransactorBug::IgnoresSeek => drop(positions),
                Command::Seek(positions) => self.client.seek(&numbers(&positions)),
                Command::GiveBack(partitions) => self.client.give_back(&partitions.into_iter().map(index).collect::<Vec<_>>()),
                Command::DiscardOpen => {
                    self.outputs.clear();
                    self.books.dropped += std::mem::take(&mut self.books.open);
                }
                Command::Condemned(..) => {}
                Command::Transact(batch, _) => self.seal(batch, around),
                Command::Account(batch) => {
                    self.books.in_doubt -= batch.records;
                    self.books.committed += batch.records;
                    around.accounted.push((self.incarnation.0, batch));
                }
                Command::WriteOff(batch) => {
                    self.books.in_doubt -= batch.records;
                    self.books.written_off += batch.records;
                }
                Command::Stop(reason) => {
                    if reason != StopReason::DrainCutShort {
                        self.client.close();
                    }
                    self.stopped = Some(reason);
                }
            }
        }
        if self.tainted.is_some() && self.tainted == self.client.membership() && self.blocked.is_none() {
            self.client.renew();
        }
    }

    fn send_commit(&mut self, request: Request, around: &mut Around<'_>) {
        self.claim_call += 1;
        around.commit = Some(request);
    }

    /// The group's answer to a claim or a release.
    pub(crate) fn on_commit_answer(&mut self, response: Response, around: &mut Around<'_>) {
        let Some(blocked) = self.blocked.take() else { return };
        (around.trace)(&|| format!("plain commit: {response:?}"));
        if let Response::Refused(refusal) = response {
            self.client.on_refused(refusal);
        }
        match (blocked, response) {
            (Blocked::Release, _) => {}
            (Blocked::Claim { .. }, Response::Done) => self.step(Event::Claimed(Claim::Committed), around),
            (Blocked::Claim { until, membership, offsets }, Response::Broken) if !around.rules.claim_guard && around.now < until => {
                self.send_commit(Request::OffsetCommit(membership, offsets.clone()), around);
                self.blocked = Some(Blocked::Claim { until, membership, offsets });
            }
            (Blocked::Claim { membership, .. }, response) => {
                if response == Response::Broken && around.rules.claim_guard {
                    self.tainted = Some(membership);
                }
                self.step(Event::Claimed(Claim::Refused), around);
            }
        }
        self.carry_out(around);
    }

    fn record(&self, batch: BatchId, ownership: Ownership) -> OwnerRecord {
        OwnerRecord { transactional_id: self.transactional_id.clone(), incarnation: self.incarnation, batch, ownership }
    }

    fn owned(&self, positions: &[(SourcePartition, Offset)], ownership: Ownership) -> Vec<OffsetCommit> {
        let commit = |&(place, at): &(SourcePartition, Offset)| OffsetCommit {
            partition: index(place),
            offset: at.get(),
            owner: self.record(BatchId(0), ownership),
        };
        positions.iter().map(commit).collect()
    }

    fn seal(&mut self, batch: Batch, around: &mut Around<'_>) {
        self.books.in_flight = std::mem::take(&mut self.books.open);
        let outputs = std::mem::take(&mut self.outputs);
        let Some(membership) = self.client.membership() else {
            let outcome = Outcome::Aborted { why: "no valid membership in the group at batch close".to_owned() };
            self.note_outcome(&outcome);
            return self.step(Event::Ended(batch.id, outcome), around);
        };
        let commit = |(place, interval): (SourcePartition, transom_engine::Interval)| OffsetCommit {
            partition: index(place),
            offset: interval.end.get(),
            owner: self.record(batch.id, Ownership::Held),
        };
        let offsets = batch.progress.iter().map(commit).collect();
        let batch_name = (self.incarnation.0, batch.id.0);
        let outputs = outputs.into_iter().map(|(partition, out)| (partition, Out { batch: batch_name, ..out })).collect();
        around.jobs.push(Job::Transact(Sealed { id: batch.id, outputs, offsets, membership }));
    }

    /// Fetches a few records of each partition and hands them over, as the runtime does: outputs first, then the engine.
    fn hand_over(&mut self, around: &mut Around<'_>) -> bool {
        if !self.engine.wants_records(Millis(around.now)) || self.client.positions.is_empty() {
            return false;
        }
        let partitions: Vec<usize> = self.client.positions.keys().copied().collect();
        self.turn = (self.turn + 1) % partitions.len();
        let mut left = around.random.between(1, 6);
        let mut round: Vec<Handed> = Vec::new();
        let mut room = self.engine.room();
        for turn in 0..partitions.len() {
            let partition = partitions[(self.turn + turn) % partitions.len()];
            while left > 0 {
                let Some(position) = self.client.positions.get_mut(&partition) else { break };
                let Some(at) = around.input.next_record(partition, *position, around.now) else { break };
                *position = at + 1;
                left -= 1;
                let known = round.iter().position(|handed| index(handed.partition) == partition);
                let expected = known.map_or_else(|| self.engine.position(place(partition)), |known| Some(round[known].next));
                // Fetched before a rewind or a revoke: not ours to process now.
                let Some(expected) = expected.filter(|expected| offset(at) >= *expected) else { continue };
                let known = known.unwrap_or_else(|| {
                    let first = Some(offset(at));
                    round.push(Handed { partition: place(partition), first, next: expected, records: 0, fates: FateCounts::default(), bytes: 0 });
                    round.len() - 1
                });
                let fate = process(&self.engine, &mut self.outputs, (partition, at), around.input);
                let handed = &mut round[known];
                handed.next = offset(at + 1);
                handed.records += 1;
                handed.fates.add(fate);
                handed.bytes += 100;
                if let Some(room) = &mut room {
                    room.take(place(partition), offset(at));
                    left = if room.is_full() { 0 } else { left };
                }
            }
        }
        let any = !round.is_empty();
        for handed in round {
            self.books.handed += handed.records;
            self.books.open += handed.records;
            self.step(Event::Handed(handed), around);
        }
        any
    }

    fn quiet_steps(&self, around: &Around<'_>) -> Vec<Handed> {
        if !self.engine.wants_records(Millis(around.now)) {
            return Vec::new();
        }
        let step = |(place, offsets): (SourcePartition, Option<(Offset, Offset)>)| {
            let (_, position) = offsets?;
            let next = around.input.quiet_position(index(place), *self.client.positions.get(&index(place))?, around.now)?;
            let handed = Handed { partition: place, first: None, next: offset(next), records: 0, fates: FateCounts::default(), bytes: 0 };
            (handed.next > position).then_some(handed)
        };
        self.engine.partitions().filter_map(step).collect()
    }

    fn has_quiet_step(&self, around: &Around<'_>) -> bool {
        !self.quiet_steps(around).is_empty()
    }

    fn look_at_quiet(&mut self, around: &mut Around<'_>) {
        if around.now < self.quiet_look_at {
            return;
        }
        self.quiet_look_at = around.now + QUIET_LOOK_INTERVAL_MS;
        for handed in self.quiet_steps(around) {
            self.step(Event::Handed(handed), around);
        }
    }

    fn check_books(&self) {
        let books = &self.books;
        let settled = books.committed + books.dropped + books.written_off + books.open + books.in_flight + books.in_doubt;
        assert!(books.handed == settled, "books: worker {}: {books:?}", self.number);
    }
}

/// Appends what becomes of a record: its outputs, or what its sentence says.
fn process(engine: &Worker, outputs: &mut Vec<(usize, Out)>, (partition, at): (usize, i64), input: &Input) -> Fate {
    let to = input.expected_outputs(partition, at);
    let (Some(first), Some(last)) = (to.first(), to.len().checked_sub(1)) else { return Fate::Filtered };
    let takes = input.takes(partition, at);
    let out = |ordinal, is_taken| Out { partition, offset: at, ordinal, batch: (0, 0), is_taken };
    match engine.hunt().sentence(place(partition), offset(at)) {
        None => {
            let taken = |ordinal: u8| takes == Takes::Outputs || usize::from(ordinal) != last;
            outputs.extend((0..).zip(&to).map(|(ordinal, to)| (*to, out(ordinal, taken(ordinal)))));
            return Fate::Produced;
        }
        Some(Sentence::SetAside { .. }) => outputs.push((*first, out(DEAD_LETTER, takes != Takes::Stub))),
        Some(Sentence::Stub { .. }) => outputs.push((*first, out(STUB, true))),
        Some(Sentence::Hopeless { .. }) => panic!("the stub of {partition}@{at} was refused, and no stub is"),
    }
    Fate::DeadLettered
}
