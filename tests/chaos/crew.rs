//! The instances of an episode: who is up, who is frozen, who comes back when.

use std::time::{Duration, Instant};

use transom_harness::instance::{Instance, InstanceOptions, Signal, Worker};
use transom_harness::scenario::Random;

/// Drained; asked to try again; no broker answers; killed.
const HARMLESS_EXITS: [i32; 4] = [0, 75, 69, 137];
/// A late JoinGroup of an instance's former life looks to the broker like a second process of that name, and the living one is
/// fenced: its own exit, by design. A supervisor starts it again.
const NAME_TAKEN: (i32, &str) = (78, "another process joined the group under our instance name");
/// A pause before somebody who ended by itself is started again, as a supervisor would.
const SUPERVISOR_PAUSE: Duration = Duration::from_millis(500);
/// From SIGKILL until the process is gone.
const KILL_DEADLINE: Duration = Duration::from_secs(10);
/// A drain at the end, when nothing goes wrong any more.
const DRAIN_DEADLINE: Duration = Duration::from_secs(40);

/// One name, and what has become of it.
struct Member {
    /// As the ledger and the requests' client ids call it.
    name: &'static str,
    options: InstanceOptions,
    state: State,
    /// How often its producers were replaced, as far as it was asked.
    recycled: u64,
}

enum State {
    Up(Instance),
    FrozenUntil(Instance, Instant),
    /// Asked to stop; whether it shall come back then.
    Draining(Instance, Then),
    DownUntil(Instant),
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    ComeBack,
    StayDown,
}

pub struct Crew {
    members: Vec<Member>,
    /// What happened, for the ledger.
    happened: Vec<String>,
}

impl Crew {
    /// Starts `up` of these instances.
    pub fn start(members: Vec<(&'static str, InstanceOptions)>, up: usize) -> Self {
        let member = |(index, (name, options)): (usize, (&'static str, InstanceOptions))| {
            let state = if index < up { State::Up(Instance::start(options.clone())) } else { State::Down };
            Member { name, options, state, recycled: 0 }
        };
        Self { members: members.into_iter().enumerate().map(member).collect(), happened: Vec::new() }
    }

    /// Waits until somebody owns something.
    pub fn awaits_work(&mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        let works = |member: &Member| match &member.state {
            State::Up(instance) => instance.status().is_ok_and(|status| status.partitions() > 0),
            _ => false,
        };
        // With more workers than partitions any one of them may have to do without.
        while !self.members.iter().any(works) {
            assert!(Instant::now() < until, "after {deadline:?} nobody has a partition");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills one; returns whether there was one.
    pub fn kill(&mut self, random: &mut Random, pause: Duration) -> bool {
        let Some(index) = self.draw(random, |_| true) else { return false };
        self.kill_by_name(self.members[index].name, pause)
    }

    /// Kills one that has a name of its own, and returns that.
    pub fn kill_named(&mut self, random: &mut Random, pause: Duration) -> Option<&'static str> {
        let index = self.draw(random, |member| member.options.name.is_some())?;
        let name = self.members[index].name;
        self.kill_by_name(name, pause).then_some(name)
    }

    /// Kills this one, at work or draining; returns whether it lived.
    pub fn kill_by_name(&mut self, name: &str, pause: Duration) -> bool {
        let Some(member) = self.members.iter_mut().find(|member| member.name == name) else { return false };
        let (State::Up(instance) | State::Draining(instance, _)) = &mut member.state else { return false };
        member.recycled += instance.recycled().values().sum::<u64>();
        if !instance.is_sent(Signal::KILL) {
            return false;
        }
        instance.exits_within(KILL_DEADLINE);
        member.state = State::DownUntil(Instant::now() + pause);
        true
    }

    /// Draws one that is up.
    fn draw(&self, random: &mut Random, is_wished: impl Fn(&Member) -> bool) -> Option<usize> {
        let is_up = |member: &Member| matches!(member.state, State::Up(_)) && is_wished(member);
        let up: Vec<usize> = (0..self.members.len()).filter(|index| is_up(&self.members[*index])).collect();
        let index = usize::try_from(random.below(up.len().max(1) as u64)).ok()?;
        up.get(index).copied()
    }

    /// Freezes one; not the last, or nothing would happen until it thaws.
    pub fn freeze(&mut self, random: &mut Random, lasts: Duration) -> bool {
        self.up() > 1 && self.signal(random, Signal::STOP, |instance| State::FrozenUntil(instance, Instant::now() + lasts))
    }

    /// Asks one to stop.
    pub fn terminate(&mut self, random: &mut Random, then: Then) -> bool {
        self.signal(random, Signal::TERM, |instance| State::Draining(instance, then))
    }

    /// Returns how many are up.
    pub fn up(&self) -> usize {
        self.members.iter().filter(|member| matches!(member.state, State::Up(_))).count()
    }

    /// Asks all but one to stop; returns how many.
    pub fn scale_down(&mut self, random: &mut Random) -> u64 {
        (1..self.up()).filter(|_| self.terminate(random, Then::StayDown)).count() as u64
    }

    /// Starts all that are down; returns how many.
    pub fn scale_up(&mut self) -> u64 {
        let mut started = 0;
        for member in self.members.iter_mut().filter(|member| matches!(member.state, State::Down)) {
            member.state = State::Up(Instance::start(member.options.clone()));
            started += 1;
        }
        started
    }

    /// Starts all that are down, else asks all but one to stop; returns how many it started and how many it asked.
    pub fn swing(&mut self, random: &mut Random) -> (u64, u64) {
        match self.scale_up() {
            0 => (0, self.scale_down(random)),
            started => (started, 0),
        }
    }

    /// Sends a signal to one; returns whether there was one who got it.
    fn signal(&mut self, random: &mut Random, signal: Signal, next: impl FnOnce(Instance) -> State) -> bool {
        let Some(index) = self.draw(random, |_| true) else { return false };
        let member = &mut self.members[index];
        let State::Up(instance) = &mut member.state else { return false };
        let recycled: u64 = instance.recycled().values().sum();
        // It may have ended by itself a moment ago; it is found out when we go on.
        if !instance.is_sent(signal) {
            return false;
        }
        let State::Up(instance) = std::mem::replace(&mut member.state, State::Down) else { return false };
        member.recycled += recycled;
        member.state = next(instance);
        true
    }

    /// Carries out what is due, and starts those again who ended by themselves.
    ///
    /// # Panics
    /// When somebody ended in a way no supervisor mends.
    pub fn go_on(&mut self) {
        for member in &mut self.members {
            let name = member.name;
            member.state = match std::mem::replace(&mut member.state, State::Down) {
                State::Up(mut instance) => match instance.exit_code() {
                    None => State::Up(instance),
                    Some(code) => {
                        assert!(is_harmless(code, &instance), "{name} ended by itself with {code}; {}", instance.log_tail());
                        self.happened.push(format!("{name} ended by itself with {code}"));
                        State::DownUntil(Instant::now() + SUPERVISOR_PAUSE)
                    }
                },
                State::FrozenUntil(mut instance, until) if until <= Instant::now() => {
                    // Somebody who was ending when the signal came has ended.
                    instance.is_sent(Signal::CONT);
                    State::Up(instance)
                }
                State::Draining(mut instance, then) => match (instance.exit_code(), then) {
                    (None, _) => State::Draining(instance, then),
                    (Some(code), then) => {
                        assert!(is_harmless(code, &instance), "{name} was asked to stop and ended with {code}; {}", instance.log_tail());
                        if then == Then::ComeBack { State::DownUntil(Instant::now()) } else { State::Down }
                    }
                },
                State::DownUntil(until) if until <= Instant::now() => State::Up(Instance::start(member.options.clone())),
                waiting => waiting,
            };
        }
    }

    /// Brings everybody up and waits until all are and have a place in the group; who is frozen sleeps its time out.
    pub fn come_together(&mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        loop {
            for member in &mut self.members {
                member.state = match std::mem::replace(&mut member.state, State::Down) {
                    State::Draining(instance, _) => State::Draining(instance, Then::ComeBack),
                    State::Down | State::DownUntil(_) => State::DownUntil(Instant::now()),
                    going @ (State::Up(_) | State::FrozenUntil(..)) => going,
                };
            }
            self.go_on();
            if self.members.iter().all(Member::is_settled) {
                return;
            }
            assert!(Instant::now() < until, "not everybody is up after {deadline:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns what happened since it was last asked.
    pub fn take_happened(&mut self) -> Vec<String> {
        std::mem::take(&mut self.happened)
    }

    /// Waits until everybody has drained; returns how often producers were replaced.
    pub fn drain(mut self) -> u64 {
        let mut recycled = 0;
        for member in &mut self.members {
            recycled += member.recycled;
            if let State::Up(instance) = &mut member.state {
                instance.awaits("no record unaccounted for", DRAIN_DEADLINE, |status| status.unaccounted_records == 0);
                recycled += instance.recycled().values().sum::<u64>();
                instance.terminate();
            }
        }
        for member in &mut self.members {
            if let State::Up(instance) = &mut member.state {
                let code = instance.exits_within(DRAIN_DEADLINE);
                assert_eq!(code, 0, "{} ended with {code}; {}", instance.name(), instance.log_tail());
            }
        }
        recycled
    }
}

impl Member {
    /// Whether it is past its start: until then it may still learn that its name is taken, and end.
    fn is_settled(&self) -> bool {
        let State::Up(instance) = &self.state else { return false };
        let is_past_start = |workers: &[Worker]| !workers.is_empty() && workers.iter().all(|worker| worker.state != "initialising");
        instance.status().is_ok_and(|status| is_past_start(&status.workers))
    }
}

fn is_harmless(code: i32, instance: &Instance) -> bool {
    HARMLESS_EXITS.contains(&code) || code == NAME_TAKEN.0 && instance.log_tail().contains(NAME_TAKEN.1)
}
