//! The consumer client's background half, as librdkafka's classic group member behaves: it hands out one rebalance at a time,
//! and while one is not answered it reports nothing else, not even that the membership is gone.

use crate::cluster::{Membership, Refusal, Request, Response};
use std::collections::{BTreeMap, VecDeque};

/// What the worker's first thread is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rebalance {
    Assigned(Vec<usize>),
    Revoked(Vec<usize>),
    Lost(Vec<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Init,
    WaitJoin,
    WaitSync,
    WaitAssign,
    WaitUnassign,
    Steady,
    Closed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions {
    pub(crate) cooperative: bool,
    pub(crate) instance: Option<usize>,
    pub(crate) session_ms: u64,
    pub(crate) poll_interval_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Client {
    options: ClientOptions,
    member: u64,
    generation: i32,
    stage: Stage,
    /// What the group gave, as far as the application was told.
    assignment: Vec<usize>,
    /// Eager: whether there was an assignment at all since the last join.
    has_assignment: bool,
    /// Cooperative: to be told after the revoke in progress.
    added: Vec<usize>,
    rejoin: bool,
    heard_at: u64,
    pub(crate) polled_at: u64,
    pub(crate) events: VecDeque<Rebalance>,
    /// Where each partition that is fetched goes on.
    pub(crate) positions: BTreeMap<usize, i64>,
    /// To be sent, in order.
    pub(crate) outbox: Vec<Request>,
}

impl Client {
    pub(crate) fn new(options: ClientOptions, now: u64) -> Self {
        Self {
            options,
            member: 0,
            generation: -1,
            stage: Stage::Init,
            assignment: Vec::new(),
            has_assignment: false,
            added: Vec::new(),
            rejoin: false,
            heard_at: now,
            polled_at: now,
            events: VecDeque::new(),
            positions: BTreeMap::new(),
            outbox: Vec::new(),
        }
    }

    fn standing(&self) -> Membership {
        Membership { member: self.member, generation: self.generation, instance: self.options.instance }
    }

    /// Returns the membership if the broker would check it (EO-2).
    pub(crate) fn membership(&self) -> Option<Membership> {
        (self.member != 0 && self.generation >= 0).then(|| self.standing())
    }

    /// Joins the group. A dynamic member without an id is told to take one, which tells it that what it still holds is lost.
    pub(crate) fn join(&mut self) {
        if self.member == 0 && self.options.cooperative && !self.assignment.is_empty() {
            (self.rejoin, self.stage) = (false, Stage::Init);
            return self.revoke_all(true);
        }
        self.stage = Stage::WaitJoin;
        let owned = if self.options.cooperative { self.assignment.clone() } else { Vec::new() };
        self.outbox.push(Request::Join { membership: self.standing(), owned });
    }

    fn waits_for_application(&self) -> bool {
        matches!(self.stage, Stage::WaitAssign | Stage::WaitUnassign)
    }

    fn is_rebalancing(&self) -> bool {
        self.waits_for_application() || self.stage == Stage::WaitSync || (self.stage == Stage::WaitJoin && self.member != 0) || self.rejoin
    }

    /// Heartbeats, and looks at the session and at how long the application has not polled.
    pub(crate) fn on_timer(&mut self, now: u64) {
        if !matches!(self.stage, Stage::WaitAssign | Stage::WaitUnassign | Stage::Steady) {
            return;
        }
        if now.saturating_sub(self.polled_at) > self.options.poll_interval_ms && self.member != 0 {
            self.outbox.push(Request::Leave(self.standing()));
            (self.member, self.generation) = (0, -1);
            return self.revoke_all(true);
        }
        if now.saturating_sub(self.heard_at) > self.options.session_ms {
            self.heard_at = now;
            self.member = 0;
            self.revoke_all(true);
        }
        if matches!(self.stage, Stage::WaitAssign | Stage::WaitUnassign | Stage::Steady) {
            self.outbox.push(Request::Heartbeat(self.standing()));
        }
    }

    /// Takes an answer of the coordinator to a request of this half.
    pub(crate) fn on_answer(&mut self, request: AnswerTo, response: Response, now: u64) {
        match (request, response) {
            (AnswerTo::Join, Response::Joined { member, generation }) if self.stage == Stage::WaitJoin => {
                (self.member, self.generation, self.stage) = (member, generation, Stage::WaitSync);
                self.heard_at = now;
                self.outbox.push(Request::Sync(self.standing()));
            }
            (AnswerTo::Join, refused) if self.stage == Stage::WaitJoin => self.on_join_refused(&refused),
            (AnswerTo::Sync, Response::Synced(assignment)) if self.stage == Stage::WaitSync => {
                self.heard_at = now;
                self.take_assignment(assignment);
            }
            (AnswerTo::Sync, refused) if self.stage == Stage::WaitSync => self.on_join_refused(&refused),
            (AnswerTo::Heartbeat(of), response) if of == self.standing() => self.on_heartbeat(response, now),
            _ => {}
        }
    }

    /// An unknown member comes back as a new one. With the cooperative protocol it still holds partitions: those are lost.
    fn on_join_refused(&mut self, response: &Response) {
        if matches!(response, Response::Refused(Refusal::UnknownMember | Refusal::IllegalGeneration | Refusal::FencedInstance)) {
            (self.member, self.generation) = (0, -1);
            self.rejoin = false;
            self.stage = Stage::Init;
            return self.revoke_all(true);
        }
        self.join();
    }

    fn on_heartbeat(&mut self, response: Response, now: u64) {
        match response {
            Response::Done => self.heard_at = now,
            Response::Refused(Refusal::RebalanceInProgress) => {
                self.heard_at = now;
                if self.waits_for_application() || self.is_rebalancing() {
                    return;
                }
                if self.options.cooperative {
                    self.join();
                } else {
                    self.revoke_all(false);
                }
            }
            Response::Refused(refusal) => self.on_refused(refusal),
            _ => {}
        }
    }

    /// The group does not know this membership: the answer to a heartbeat or to a plain commit.
    pub(crate) fn on_refused(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::UnknownMember | Refusal::FencedInstance => self.member = 0,
            Refusal::IllegalGeneration if !self.is_rebalancing() => self.generation = -1,
            _ => return,
        }
        self.revoke_all(true);
    }

    /// Leaves the group and comes back as a new member: what an old membership still has on its way is refused from then on.
    pub(crate) fn renew(&mut self) {
        if self.member != 0 && !self.is_rebalancing() {
            self.outbox.push(Request::Leave(self.standing()));
            (self.member, self.generation) = (0, -1);
            self.revoke_all(true);
        }
    }

    fn revoke_all(&mut self, lost: bool) {
        if self.is_rebalancing() {
            return;
        }
        let all = self.assignment.clone();
        let tell = if self.options.cooperative { !all.is_empty() } else { self.has_assignment };
        if tell {
            self.stage = Stage::WaitUnassign;
            self.rejoin = true;
            self.events.push_back(if lost { Rebalance::Lost(all) } else { Rebalance::Revoked(all) });
        } else {
            self.join();
        }
    }

    fn take_assignment(&mut self, new: Vec<usize>) {
        if !self.options.cooperative {
            self.has_assignment = true;
            self.assignment.clone_from(&new);
            self.stage = Stage::WaitAssign;
            self.events.push_back(Rebalance::Assigned(new));
            return;
        }
        let revoked: Vec<usize> = self.assignment.iter().copied().filter(|partition| !new.contains(partition)).collect();
        let added: Vec<usize> = new.iter().copied().filter(|partition| !self.assignment.contains(partition)).collect();
        if revoked.is_empty() {
            self.tell_added(added);
        } else {
            self.added = added;
            self.rejoin = true;
            self.stage = Stage::WaitUnassign;
            self.events.push_back(Rebalance::Revoked(revoked));
        }
    }

    fn tell_added(&mut self, added: Vec<usize>) {
        self.assignment.extend(added.iter().copied());
        self.stage = Stage::WaitAssign;
        self.events.push_back(Rebalance::Assigned(added));
    }

    /// The application accepts what it was told: fetching begins.
    pub(crate) fn assign(&mut self, positions: &[(usize, i64)]) {
        self.positions.extend(positions.iter().copied());
        if self.stage == Stage::WaitAssign {
            self.settle();
        }
    }

    /// Fetching goes on elsewhere.
    pub(crate) fn seek(&mut self, positions: &[(usize, i64)]) {
        for (partition, offset) in positions {
            if let Some(position) = self.positions.get_mut(partition) {
                *position = *offset;
            }
        }
    }

    /// The application agrees to a revoke or a loss.
    pub(crate) fn give_back(&mut self, partitions: &[usize]) {
        if self.options.cooperative {
            self.positions.retain(|partition, _| !partitions.contains(partition));
            self.assignment.retain(|partition| !partitions.contains(partition));
        } else {
            self.positions.clear();
            self.assignment.clear();
            self.has_assignment = false;
        }
        if self.stage != Stage::WaitUnassign {
            return;
        }
        let added = std::mem::take(&mut self.added);
        if added.is_empty() || self.member == 0 {
            self.settle();
        } else {
            self.tell_added(added);
        }
    }

    fn settle(&mut self) {
        self.stage = Stage::Steady;
        if std::mem::take(&mut self.rejoin) {
            self.join();
        }
    }

    /// Leaves the group, unless a static member.
    pub(crate) fn close(&mut self) {
        if self.options.instance.is_none() && self.member != 0 {
            self.outbox.push(Request::Leave(self.standing()));
        }
        self.stage = Stage::Closed;
    }
}

/// Which request of this half an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    Join,
    Sync,
    Heartbeat(Membership),
    Leave,
}

impl AnswerTo {
    pub(crate) fn of(request: &Request) -> Self {
        match request {
            Request::Join { .. } => Self::Join,
            Request::Sync(_) => Self::Sync,
            Request::Heartbeat(membership) => Self::Heartbeat(*membership),
            _ => Self::Leave,
        }
    }
}
