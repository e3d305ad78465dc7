//! Everything together: a queue of what happens when, the network, the faults. The order of what happens at the same
//! millisecond is drawn, too.

use crate::anomaly::{Anomaly, Kind};
use crate::client::{AnswerTo, ClientOptions};
use crate::cluster::{Caller, Cluster, Effect, Port, Request, Response, Timer};
use crate::input::Input;
use crate::random::Random;
use crate::rules::Rules;
use crate::schedule::{Fault, Schedule, Weather};
use crate::transactor::{Act, Job, View};
use crate::worker::{Around, Next, SimulatedWorker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use transom_engine::{Batch, StopReason, TransactionalId};

/// How long after the faults have ended everything must be done.
const LIVENESS_MS: u64 = 90_000;
/// How many things may happen in one schedule: more means that something goes round in circles.
const HAPPENINGS_MAX: u64 = 200_000;

#[derive(Debug)]
pub(crate) enum Happening {
    /// A request arrives.
    Arrives(Request, Option<Caller>),
    Answer(Caller, Response),
    /// The first thread of a worker looks up.
    Round(usize, u32),
    /// The client's background thread looks up.
    Client(usize, u32),
    /// The transact thread goes on after a pause.
    Wake(usize, u32, u64),
    Timer(Timer),
    Fault(Fault),
    Restart(usize),
    Input,
    Calm,
}

/// The threads of a worker.
#[derive(Clone, Copy, Debug)]
enum Thread {
    First,
    Transact,
    /// The client library's own.
    Client,
}

struct Entry {
    at: u64,
    order: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A process that runs, is gone, or will be killed soon.
#[derive(Debug, Default)]
struct Instance {
    life: u32,
    is_up: bool,
    frozen_until: u64,
    kill_in: Option<u64>,
    restart_asked: bool,
}

pub(crate) struct World<'a> {
    pub(crate) schedule: Schedule,
    rules: &'a Rules,
    pub(crate) random: Random,
    now: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    cluster: Cluster,
    pub(crate) input: Input,
    instances: Vec<Instance>,
    workers: Vec<Option<SimulatedWorker>>,
    worker_frozen_until: Vec<u64>,
    transactor_frozen_until: Vec<u64>,
    /// After how many steps a transact thread will hang, and for how long.
    transactor_freeze_in: Vec<Option<(u64, u64)>>,
    /// When the first thread of each worker looks up next.
    round_at: Vec<u64>,
    pub(crate) weather: Weather,
    is_calm: bool,
    accounted: Vec<(u64, Batch)>,
    history_checked: usize,
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) happenings: u64,
    trace: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(seed: u64, rules: &'a Rules, trace: bool) -> Self {
        let mut random = Random::new(seed);
        let schedule = Schedule::draw(&mut random);
        let input = Input::new(schedule.cluster.inputs, schedule.cluster.outputs, schedule.records, schedule.calm_at, &mut random);
        let count = schedule.instances * schedule.workers;
        let mut world = Self {
            cluster: Cluster::new(&schedule.cluster),
            instances: (0..schedule.instances).map(|_| Instance::default()).collect(),
            workers: (0..count).map(|_| None).collect(),
            worker_frozen_until: vec![0; count],
            transactor_frozen_until: vec![0; count],
            transactor_freeze_in: vec![None; count],
            round_at: vec![u64::MAX; count],
            schedule,
            rules,
            random,
            now: 0,
            queue: BinaryHeap::new(),
            input,
            weather: Weather::default(),
            is_calm: false,
            accounted: Vec::new(),
            history_checked: 0,
            anomalies: Vec::new(),
            happenings: 0,
            trace,
        };
        if trace {
            println!("{:#?}", world.schedule);
        }
        for instance in 0..world.schedule.instances {
            let delay = world.random.below(300);
            world.after(delay, Happening::Restart(instance));
        }
        for (at, fault) in world.schedule.faults.clone() {
            world.after(at, Happening::Fault(fault));
        }
        for at in world.input.times() {
            world.after(at, Happening::Input);
        }
        let calm_at = world.schedule.calm_at;
        world.after(calm_at, Happening::Calm);
        world
    }

    pub(crate) fn after(&mut self, delay: u64, happening: Happening) {
        let order = self.random.next();
        self.queue.push(Reverse(Entry { at: self.now + delay, order, happening }));
    }

    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>7} {}", self.now, what());
        }
    }

    /// Lets things happen until everything is done, or too much time is over.
    pub(crate) fn run(&mut self) {
        while let Some(Reverse(Entry { at, happening, .. })) = self.queue.pop() {
            self.now = at;
            self.happenings += 1;
            if self.now > self.schedule.calm_at + LIVENESS_MS || self.happenings > HAPPENINGS_MAX {
                let detail = format!("at {} ms, after {} happenings: {}", self.now, self.happenings, self.what_is_missing());
                self.anomalies.push(Anomaly { kind: Kind::Stuck, detail });
                break;
            }
            self.happen(happening);
            if !self.anomalies.is_empty() || (self.is_calm && self.is_done()) {
                break;
            }
        }
        if self.anomalies.is_empty() {
            let found = crate::oracle::judge(&self.input, &self.cluster, &self.accounted);
            self.anomalies.extend(found);
        }
        for anomaly in &self.anomalies {
            self.note(|| format!("ANOMALY {anomaly}"));
        }
    }

    fn is_done(&self) -> bool {
        let ends = self.cluster.group.offsets.iter().enumerate().all(|(partition, committed)| committed.offset >= self.input.end(partition));
        ends && !self.cluster.group.has_pending() && self.cluster.transactions.unfinished().is_empty()
    }

    fn what_is_missing(&self) -> String {
        let offsets: Vec<_> =
            self.cluster.group.offsets.iter().enumerate().map(|(partition, at)| format!("{} of {}", at.offset, self.input.end(partition))).collect();
        let states: Vec<_> = self
            .workers
            .iter()
            .map(|worker| {
                worker.as_ref().map_or_else(|| "down".to_owned(), |worker| format!("{:?}", worker.engine.state(transom_engine::Millis(self.now))))
            })
            .collect();
        format!("offsets {offsets:?}, unfinished transactions {:?}, workers {states:?}", self.cluster.transactions.unfinished())
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(request, caller) => {
                if caller.is_none() {
                    self.note(|| format!("LATE {request:?}"));
                }
                let (random, marker_ms) = (&mut self.random, self.schedule.cluster.marker_ms);
                self.cluster.handle(request, caller, self.now, &mut || 1 + random.below(marker_ms));
                self.take_effects();
            }
            Happening::Timer(timer) => {
                let (random, marker_ms) = (&mut self.random, self.schedule.cluster.marker_ms);
                self.cluster.on_timer(timer, self.now, &mut || 1 + random.below(marker_ms));
                self.take_effects();
            }
            Happening::Answer(caller, response) => {
                let thread = match caller.port {
                    Port::Group(_) => Thread::Client,
                    Port::Claim(_) => Thread::First,
                    Port::Transact(_) => Thread::Transact,
                };
                if self.may_step(caller.worker, caller.life, thread, || Happening::Answer(caller, response.clone())) {
                    self.on_answer(caller, response);
                }
            }
            Happening::Round(worker, life) => {
                if self.round_at[worker] <= self.now {
                    self.round_at[worker] = u64::MAX;
                }
                if self.may_step(worker, life, Thread::First, || Happening::Round(worker, life)) {
                    self.with_worker(worker, SimulatedWorker::round);
                }
            }
            Happening::Client(worker, life) => {
                if self.may_step(worker, life, Thread::Client, || Happening::Client(worker, life)) {
                    self.on_client_timer(worker);
                }
            }
            Happening::Wake(worker, life, call) => {
                if self.may_step(worker, life, Thread::Transact, || Happening::Wake(worker, life, call)) {
                    self.on_wake(worker, call);
                }
            }
            Happening::Fault(fault) if !self.is_calm => self.on_fault(fault),
            Happening::Fault(_) => {}
            Happening::Restart(instance) => self.start(instance),
            Happening::Input => self.wake_all(),
            Happening::Calm => self.calm(),
        }
    }

    /// Whether this life of the worker goes on now. A frozen one goes on later; a counted step may be its last.
    fn may_step(&mut self, worker: usize, life: u32, thread: Thread, again: impl FnOnce() -> Happening) -> bool {
        let number = worker / self.schedule.workers;
        let instance = &mut self.instances[number];
        if !instance.is_up || instance.life != life {
            return false;
        }
        if let (Thread::Transact, Some((steps, for_ms))) = (thread, &mut self.transactor_freeze_in[worker]) {
            if *steps == 0 {
                self.transactor_frozen_until[worker] = self.now + *for_ms;
                self.transactor_freeze_in[worker] = None;
            } else {
                *steps -= 1;
            }
        }
        let thread_until = match thread {
            Thread::First => self.worker_frozen_until[worker],
            Thread::Transact => self.transactor_frozen_until[worker],
            Thread::Client => 0,
        };
        let until = instance.frozen_until.max(thread_until);
        if until > self.now {
            let delay = until - self.now + self.random.below(30);
            self.after(delay, again());
            return false;
        }
        match &mut instance.kill_in {
            Some(0) => {
                self.kill(number);
                false
            }
            Some(steps) => {
                *steps -= 1;
                true
            }
            None => true,
        }
    }

    fn take_effects(&mut self) {
        for effect in std::mem::take(&mut self.cluster.effects) {
            match effect {
                Effect::Answer(caller, response) => {
                    let delay = 1 + self.random.below(self.schedule.latency_ms);
                    self.after(delay, Happening::Answer(caller, response));
                }
                Effect::After(delay, timer) => self.after(delay, Happening::Timer(timer)),
                Effect::OffsetsMoved => self.check_offsets(),
            }
        }
    }

    /// EO-4, at the moment it would be broken.
    fn check_offsets(&mut self) {
        let history = &self.cluster.group.history;
        for (at, (partition, committed)) in history.iter().enumerate().skip(self.history_checked) {
            let earlier = history[..at].iter().rev().find(|(other, _)| other == partition).map_or(0, |(_, earlier)| earlier.offset);
            if committed.offset < earlier {
                let owner = committed.owner.as_ref().map(ToString::to_string);
                let detail = format!("partition {partition} from {earlier} to {} by {owner:?}", committed.offset);
                self.anomalies.push(Anomaly { kind: Kind::Rewound, detail });
            }
        }
        self.history_checked = history.len();
    }

    fn on_answer(&mut self, caller: Caller, response: Response) {
        let (now, number) = (self.now, caller.worker);
        let Some(worker) = &mut self.workers[number] else { return };
        match caller.port {
            Port::Group(of) => {
                worker.client.on_answer(of, response, now);
                self.send_group(number);
                self.round_in(0, number);
            }
            Port::Claim(call) if worker.claim_call == call => {
                self.with_worker(number, |worker, around| {
                    worker.on_commit_answer(response, around);
                    Next::Now
                });
            }
            Port::Transact(call) if worker.transactor.call == call => {
                let membership = worker.client.membership();
                let mut view = View { now, rules: self.rules, random: &mut self.random, membership };
                let acts = worker.transactor.on_answer(response, &mut view);
                self.act(number, acts);
            }
            Port::Claim(_) | Port::Transact(_) => {}
        }
    }

    fn on_wake(&mut self, number: usize, call: u64) {
        let now = self.now;
        let Some(worker) = self.workers[number].as_mut().filter(|worker| worker.transactor.call == call) else { return };
        let membership = worker.client.membership();
        let mut view = View { now, rules: self.rules, random: &mut self.random, membership };
        let acts = worker.transactor.wake(&mut view);
        self.act(number, acts);
    }

    fn act(&mut self, number: usize, acts: Vec<Act>) {
        for act in acts {
            let Some(worker) = &mut self.workers[number] else { return };
            let (life, call) = (worker.life, worker.transactor.call);
            match act {
                Act::Send(request) => self.send(request, Caller { worker: number, life, port: Port::Transact(call) }),
                Act::Wake(delay) => self.after(delay, Happening::Wake(number, life, call)),
                Act::Report(report) => {
                    worker.reports.push_back(report);
                    let delay = self.random.below(3);
                    self.round_in(delay, number);
                }
            }
        }
    }

    fn send_group(&mut self, number: usize) {
        let Some(worker) = &mut self.workers[number] else { return };
        let life = worker.life;
        for request in std::mem::take(&mut worker.client.outbox) {
            let port = Port::Group(AnswerTo::of(&request));
            self.send(request, Caller { worker: number, life, port });
        }
    }

    fn on_client_timer(&mut self, number: usize) {
        let now = self.now;
        let Some(worker) = &mut self.workers[number] else { return };
        worker.client.on_timer(now);
        let life = worker.life;
        self.send_group(number);
        let interval = self.schedule.cluster.session_ms / 3;
        self.after(interval, Happening::Client(number, life));
        self.round_in(0, number);
    }

    /// Sees to it that a worker's first thread looks up after so long, or sooner.
    fn round_in(&mut self, delay: u64, number: usize) {
        let Some(worker) = &self.workers[number] else { return };
        let life = worker.life;
        if self.round_at[number] > self.now + delay {
            self.round_at[number] = self.now + delay;
            self.after(delay, Happening::Round(number, life));
        }
    }

    /// Lets a worker's first thread do something, and carries away what it leaves.
    fn with_worker(&mut self, number: usize, step: impl FnOnce(&mut SimulatedWorker, &mut Around<'_>) -> Next) {
        let Some(mut worker) = self.workers[number].take() else { return };
        let (now, trace) = (self.now, self.trace);
        let mut tell = |what: &dyn Fn() -> String| {
            if trace {
                println!("{now:>7} w{number} {}", what());
            }
        };
        let mut around = Around {
            now,
            rules: self.rules,
            random: &mut self.random,
            input: &self.input,
            jobs: Vec::new(),
            commit: None,
            accounted: &mut self.accounted,
            trace: &mut tell,
        };
        let next = step(&mut worker, &mut around);
        let (jobs, commit) = (std::mem::take(&mut around.jobs), around.commit.take());
        let (life, call, stopped) = (worker.life, worker.claim_call, worker.stopped.clone());
        self.workers[number] = Some(worker);
        if let Some(request) = commit {
            self.send(request, Caller { worker: number, life, port: Port::Claim(call) });
        }
        for job in jobs {
            self.push_job(number, job);
        }
        self.send_group(number);
        match next {
            Next::Now => {
                let delay = self.random.below(4);
                self.round_in(delay, number);
            }
            Next::At(Some(due)) => self.round_in(due.saturating_sub(now).max(1), number),
            Next::At(None) | Next::Not => {}
        }
        if let Some(reason) = stopped {
            self.on_stopped(number, &reason);
        }
    }

    fn push_job(&mut self, number: usize, job: Job) {
        let now = self.now;
        let Some(worker) = &mut self.workers[number] else { return };
        let membership = worker.client.membership();
        let mut view = View { now, rules: self.rules, random: &mut self.random, membership };
        let acts = worker.transactor.push(job, &mut view);
        self.act(number, acts);
    }

    /// One worker's end is the process's: the others drain, then it goes, and is started again.
    fn on_stopped(&mut self, number: usize, reason: &StopReason) {
        let instance = number / self.schedule.workers;
        if self.instances[instance].restart_asked {
            return;
        }
        if let StopReason::Disagreement { .. } | StopReason::OffsetsMissing { .. } | StopReason::Bug { .. } = reason {
            self.anomalies.push(Anomaly { kind: Kind::Stopped, detail: format!("worker {number}: {reason}") });
        }
        let all = instance * self.schedule.workers..(instance + 1) * self.schedule.workers;
        let mut all_stopped = true;
        for other in all {
            let Some(worker) = &mut self.workers[other] else { continue };
            worker.drain = true;
            if worker.stopped.is_none() {
                all_stopped = false;
                self.round_in(0, other);
            }
        }
        if all_stopped {
            self.instances[instance].restart_asked = true;
            // What the transact threads are in the middle of may still be sent.
            let delay = self.random.between(1, 1_000);
            self.after(delay, Happening::Restart(instance));
        }
    }

    fn on_fault(&mut self, fault: Fault) {
        self.note(|| format!("FAULT {fault:?}"));
        match fault {
            Fault::Kill { instance, steps } => self.instances[instance].kill_in = Some(steps),
            Fault::Freeze { instance, for_ms } => self.instances[instance].frozen_until = self.now + for_ms,
            Fault::FreezeWorker { worker, for_ms } => self.worker_frozen_until[worker] = self.now + for_ms,
            Fault::FreezeTransactor { worker, steps, for_ms } => self.transactor_freeze_in[worker] = Some((steps, for_ms)),
            Fault::Drain { instance } => {
                for worker in self.workers.iter_mut().skip(instance * self.schedule.workers).take(self.schedule.workers).flatten() {
                    worker.drain = true;
                }
                self.wake_all();
            }
            Fault::Weather(weather) => self.weather = weather,
        }
    }

    fn kill(&mut self, instance: usize) {
        self.note(|| format!("KILLED instance {instance}"));
        self.instances[instance].is_up = false;
        let delay = self.random.between(1, 3_000);
        self.after(delay, Happening::Restart(instance));
    }

    fn start(&mut self, number: usize) {
        self.note(|| format!("START instance {number}"));
        let life = self.instances[number].life + 1;
        self.instances[number] = Instance { life, is_up: true, ..Instance::default() };
        for worker in 0..self.schedule.workers {
            let index = number * self.schedule.workers + worker;
            let id = TransactionalId::new("p", &number.to_string(), u16::try_from(worker).unwrap_or(0)).expect("numbers are names");
            let client = ClientOptions {
                cooperative: self.schedule.cluster.cooperative,
                instance: self.schedule.is_static.then_some(index),
                session_ms: self.schedule.cluster.session_ms,
                poll_interval_ms: self.schedule.poll_interval_ms,
            };
            let incarnation = self.random.next();
            let sizes = (self.schedule.workers, self.schedule.cluster.outputs);
            let mut simulated = SimulatedWorker::new(index, life, (id, incarnation), self.schedule.limits, client, sizes, self.now);
            simulated.client.join();
            self.workers[index] = Some(simulated);
            self.send_group(index);
            self.round_at[index] = u64::MAX;
            self.round_in(0, index);
            let interval = self.schedule.cluster.session_ms / 3;
            self.after(interval, Happening::Client(index, life));
        }
    }

    fn wake_all(&mut self) {
        for number in 0..self.workers.len() {
            let delay = self.random.below(4);
            self.round_in(delay, number);
        }
    }

    fn calm(&mut self) {
        self.note(|| "CALM".to_owned());
        self.is_calm = true;
        self.weather = Weather::default();
        for instance in &mut self.instances {
            instance.kill_in = None;
            instance.frozen_until = 0;
        }
        self.worker_frozen_until.fill(0);
        self.transactor_frozen_until.fill(0);
        self.transactor_freeze_in.fill(None);
    }
}
