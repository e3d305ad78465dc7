//! The group coordinator, classic protocol, and the group's committed offsets. A commit is checked for membership, never for
//! who owns the partition: that is Kafka's rule and the reason for half of the engine's.

use super::{Caller, ClusterOptions, Effect, Listed, Membership, OffsetCommit, ProducerId, Refusal, Response, Timer};
use transom_engine::OwnerRecord;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Waits for its members to join again.
    Preparing,
    /// A new generation exists; its members wait for the assignment.
    Completing,
    Stable,
}

#[derive(Debug)]
struct Member {
    id: u64,
    /// Static members keep their name over restarts.
    instance: Option<usize>,
    join: Option<Caller>,
    joined: bool,
    sync: Option<Caller>,
    expires: u64,
    /// Whether a timer watches its session.
    watched: bool,
    owned: Vec<usize>,
    assignment: Vec<usize>,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) owner: Option<OwnerRecord>,
    /// Its place in the offsets topic.
    place: u64,
}

#[derive(Debug)]
struct Pending {
    id: usize,
    partition: usize,
    committed: Committed,
}

#[derive(Debug)]
pub(crate) struct Group {
    state: State,
    generation: i32,
    round: u64,
    members: Vec<Member>,
    next_member: u64,
    next_place: u64,
    pub(crate) offsets: Vec<Committed>,
    /// Every offset that became visible, in order.
    pub(crate) history: Vec<(usize, Committed)>,
    /// The owner records of all offsets that transactions committed, even where a later plain commit lies above them.
    pub(crate) committed: Vec<OwnerRecord>,
    pending: Vec<Pending>,
    options: ClusterOptions,
}

/// How long a group that was empty waits for more members.
const INITIAL_DELAY_MS: u64 = 50;

impl Group {
    pub(crate) fn new(options: &ClusterOptions) -> Self {
        let seeded = Committed { offset: 0, owner: None, place: 0 };
        Self {
            state: State::Empty,
            generation: 0,
            round: 0,
            members: Vec::new(),
            next_member: 1,
            next_place: 1,
            offsets: vec![seeded; options.inputs],
            history: Vec::new(),
            committed: Vec::new(),
            pending: Vec::new(),
            options: *options,
        }
    }

    /// Returns whether a transaction holds offsets back.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) fn join(
        &mut self,
        membership: Membership,
        owned: Vec<usize>,
        caller: Option<Caller>,
        now: u64,
        effects: &mut Vec<Effect>,
    ) -> Option<Response> {
        let known = self.members.iter().position(|member| member.id == membership.member);
        let namesake = self.members.iter().position(|member| membership.instance.is_some() && member.instance == membership.instance);
        let index = match (known, namesake) {
            (Some(index), _) => index,
            (None, _) if membership.member != 0 => return Some(Response::Refused(Refusal::UnknownMember)),
            (None, Some(index)) => {
                // A static member is back: its old id is fenced. In a stable group nothing else happens.
                let id = self.new_member_id();
                let member = &mut self.members[index];
                (member.id, member.watched) = (id, false);
                self.touch(index, now, effects);
                if self.state == State::Stable {
                    return Some(Response::Joined { member: id, generation: self.generation });
                }
                index
            }
            (None, None) => {
                let id = self.new_member_id();
                let (join, sync) = (None, None);
                self.members.push(Member {
                    id,
                    instance: membership.instance,
                    join,
                    joined: false,
                    sync,
                    expires: 0,
                    watched: false,
                    owned: Vec::new(),
                    assignment: Vec::new(),
                });
                self.members.len() - 1
            }
        };
        self.touch(index, now, effects);
        let member = &mut self.members[index];
        (member.join, member.joined, member.owned) = (caller.or(member.join), true, owned);
        if self.state != State::Preparing {
            let wait = if self.state == State::Empty { INITIAL_DELAY_MS } else { self.options.rebalance_ms };
            self.prepare(wait, index, effects);
        }
        if self.generation > 0 {
            self.complete_join_if_all_joined(now, effects);
        }
        None
    }

    fn new_member_id(&mut self) -> u64 {
        self.next_member += 1;
        self.next_member - 1
    }

    fn touch(&mut self, index: usize, now: u64, effects: &mut Vec<Effect>) {
        let member = &mut self.members[index];
        member.expires = now + self.options.session_ms;
        if !member.watched {
            member.watched = true;
            effects.push(Effect::After(self.options.session_ms, Timer::Session { member: member.id }));
        }
    }

    /// Starts a join round; `but` has joined it already.
    fn prepare(&mut self, wait_ms: u64, but: usize, effects: &mut Vec<Effect>) {
        for (index, member) in self.members.iter_mut().enumerate() {
            if let Some(caller) = member.sync.take() {
                effects.push(Effect::Answer(caller, Response::Refused(Refusal::RebalanceInProgress)));
            }
            member.joined = index == but;
        }
        self.state = State::Preparing;
        self.round += 1;
        effects.push(Effect::After(wait_ms, Timer::JoinOver { round: self.round }));
    }

    fn complete_join_if_all_joined(&mut self, now: u64, effects: &mut Vec<Effect>) {
        if self.state == State::Preparing && self.members.iter().all(|member| member.joined) {
            self.complete_join(now, effects);
        }
    }

    pub(crate) fn on_join_over(&mut self, round: u64, now: u64, effects: &mut Vec<Effect>) {
        if self.state == State::Preparing && self.round == round {
            // Dynamic members that did not come are gone; static ones keep their place until their session is over.
            self.members.retain(|member| member.joined || member.instance.is_some());
            self.complete_join(now, effects);
        }
    }

    fn complete_join(&mut self, now: u64, effects: &mut Vec<Effect>) {
        if self.members.iter().all(|member| !member.joined) {
            if self.members.is_empty() {
                self.state = State::Empty;
            }
            return;
        }
        self.generation += 1;
        self.state = State::Completing;
        self.assign();
        for index in 0..self.members.len() {
            self.touch(index, now, effects);
            let (member, generation) = (&mut self.members[index], self.generation);
            if let Some(caller) = member.join.take() {
                effects.push(Effect::Answer(caller, Response::Joined { member: member.id, generation }));
            }
        }
    }

    /// `range` with the eager protocol; with the cooperative one everybody keeps a fair share of what is its own, and what
    /// moves is given only when its owner has given it back.
    fn assign(&mut self) {
        let (count, inputs) = (self.members.len(), self.options.inputs);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|index| (self.members[*index].instance, self.members[*index].id));
        let share = |rank: usize| inputs / count + usize::from(rank < inputs % count);
        let mut targets: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut free: Vec<usize> = (0..inputs).collect();
        if self.options.cooperative {
            for (rank, &index) in order.iter().enumerate() {
                for &partition in &self.members[index].owned {
                    if targets[index].len() < share(rank) && free.contains(&partition) {
                        free.retain(|other| *other != partition);
                        targets[index].push(partition);
                    }
                }
            }
        }
        for (rank, &index) in order.iter().enumerate() {
            while targets[index].len() < share(rank) && !free.is_empty() {
                targets[index].push(free.remove(0));
            }
        }
        for (index, mut target) in targets.into_iter().enumerate() {
            let is_elsewhere = |partition: &usize| {
                let others = self.members.iter().enumerate().filter(|(other, _)| *other != index);
                others.into_iter().any(|(_, member)| member.owned.contains(partition)) && !self.members[index].owned.contains(partition)
            };
            target.retain(|partition| !(self.options.cooperative && is_elsewhere(partition)));
            target.sort_unstable();
            self.members[index].assignment = target;
        }
    }

    /// Returns the member's place, or why it is none.
    fn check(&self, membership: Membership) -> Result<usize, Refusal> {
        if let Some(name) = membership.instance
            && self.members.iter().any(|member| member.instance == Some(name) && member.id != membership.member)
        {
            return Err(Refusal::FencedInstance);
        }
        let index = self.members.iter().position(|member| member.id == membership.member).ok_or(Refusal::UnknownMember)?;
        if membership.generation != self.generation {
            return Err(Refusal::IllegalGeneration);
        }
        Ok(index)
    }

    pub(crate) fn sync(&mut self, membership: Membership, caller: Option<Caller>, now: u64, effects: &mut Vec<Effect>) -> Option<Response> {
        let index = match self.check(membership) {
            Ok(index) => index,
            Err(refusal) => return Some(Response::Refused(refusal)),
        };
        self.touch(index, now, effects);
        match self.state {
            State::Stable => Some(Response::Synced(self.members[index].assignment.clone())),
            State::Preparing | State::Empty => Some(Response::Refused(Refusal::RebalanceInProgress)),
            State::Completing => {
                self.members[index].sync = caller.or(self.members[index].sync);
                // The leader's own sync carries the assignment; the oldest member leads.
                if self.members.iter().all(|member| member.id >= self.members[index].id) {
                    self.state = State::Stable;
                    for member in &mut self.members {
                        if let Some(caller) = member.sync.take() {
                            effects.push(Effect::Answer(caller, Response::Synced(member.assignment.clone())));
                        }
                    }
                }
                None
            }
        }
    }

    pub(crate) fn heartbeat(&mut self, membership: Membership, now: u64) -> Response {
        match self.check(membership) {
            Err(refusal) => Response::Refused(refusal),
            Ok(index) => {
                // The session's timer looks at this again when it fires.
                self.members[index].expires = now + self.options.session_ms;
                match self.state {
                    State::Preparing => Response::Refused(Refusal::RebalanceInProgress),
                    State::Empty | State::Completing | State::Stable => Response::Done,
                }
            }
        }
    }

    pub(crate) fn leave(&mut self, membership: Membership, now: u64, effects: &mut Vec<Effect>) -> Response {
        match self.members.iter().position(|member| member.id == membership.member) {
            Some(index) => {
                self.remove(index, now, effects);
                Response::Done
            }
            None => Response::Refused(Refusal::UnknownMember),
        }
    }

    pub(crate) fn on_session(&mut self, id: u64, now: u64, effects: &mut Vec<Effect>) {
        let Some(index) = self.members.iter().position(|member| member.id == id) else { return };
        let member = &mut self.members[index];
        let waits_with_us = self.state == State::Preparing && member.joined;
        if waits_with_us {
            member.expires = now + self.options.session_ms;
        }
        if now >= member.expires {
            self.remove(index, now, effects);
        } else {
            effects.push(Effect::After(member.expires - now, Timer::Session { member: id }));
        }
    }

    fn remove(&mut self, index: usize, now: u64, effects: &mut Vec<Effect>) {
        let member = self.members.remove(index);
        for caller in [member.join, member.sync].into_iter().flatten() {
            effects.push(Effect::Answer(caller, Response::Refused(Refusal::UnknownMember)));
        }
        if self.members.is_empty() {
            self.state = State::Empty;
            return;
        }
        match self.state {
            State::Stable | State::Completing => self.prepare(self.options.rebalance_ms, usize::MAX, effects),
            State::Preparing => self.complete_join_if_all_joined(now, effects),
            State::Empty => {}
        }
    }

    /// A plain commit.
    pub(crate) fn commit(&mut self, membership: Membership, offsets: Vec<OffsetCommit>, now: u64, effects: &mut Vec<Effect>) -> Response {
        match self.check(membership) {
            Err(refusal) => return Response::Refused(refusal),
            Ok(_) if self.state == State::Completing => return Response::Refused(Refusal::RebalanceInProgress),
            Ok(index) => self.members[index].expires = now + self.options.session_ms,
        }
        for commit in offsets {
            let committed = self.written(&commit);
            self.show(commit.partition, committed);
        }
        effects.push(Effect::OffsetsMoved);
        Response::Done
    }

    pub(crate) fn commit_in_transaction(&mut self, producer: ProducerId, membership: Membership, offsets: Vec<OffsetCommit>, now: u64) -> Response {
        match self.check(membership) {
            Err(refusal) => return Response::Refused(refusal),
            Ok(index) => self.members[index].expires = now + self.options.session_ms,
        }
        for commit in offsets {
            let committed = self.written(&commit);
            self.pending.push(Pending { id: producer.id, partition: commit.partition, committed });
        }
        Response::Done
    }

    fn written(&mut self, commit: &OffsetCommit) -> Committed {
        self.next_place += 1;
        Committed { offset: commit.offset, owner: Some(commit.owner.clone()), place: self.next_place }
    }

    fn show(&mut self, partition: usize, committed: Committed) {
        // What lies later in the offsets topic wins, whenever it became visible.
        if committed.place > self.offsets[partition].place {
            self.history.push((partition, committed.clone()));
            self.offsets[partition] = committed;
        }
    }

    pub(crate) fn mark(&mut self, id: usize, commit: bool, effects: &mut Vec<Effect>) {
        let (ours, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.id == id);
        self.pending = others;
        if commit {
            for pending in ours {
                self.committed.extend(pending.committed.owner.clone());
                self.show(pending.partition, pending.committed);
            }
            effects.push(Effect::OffsetsMoved);
        }
    }

    pub(crate) fn list(&self, partitions: &[usize], stable: bool) -> Vec<Listed> {
        let seen = |partition: &usize| {
            if stable && self.pending.iter().any(|pending| pending.partition == *partition) {
                return Listed::Unstable;
            }
            let committed = &self.offsets[*partition];
            Listed::At(committed.offset, committed.owner.clone())
        };
        partitions.iter().map(seen).collect()
    }
}
