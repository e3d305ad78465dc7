//! The broker: input and output logs, group coordinator, transaction coordinator. What it does with a request is what Kafka 4
//! does with the old transaction protocol (KIP-98, KIP-447, KIP-890 part 1); when requests arrive is the network's affair.

mod group;
mod output;
mod transaction;

pub(crate) use group::Group;
pub(crate) use output::{Out, Output};
pub(crate) use transaction::Transactions;

use crate::client::AnswerTo;
use transom_engine::OwnerRecord;

/// Which worker asked, in which of its lives, by which of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) worker: usize,
    pub(crate) life: u32,
    pub(crate) port: Port,
}

/// The part of a worker that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The client's background thread: the group's protocol.
    Group(AnswerTo),
    /// The worker's first thread: plain offset commits, by number.
    Claim(u64),
    /// The transact thread: its calls, by number.
    Transact(u64),
}

/// One offset to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OffsetCommit {
    pub(crate) partition: usize,
    pub(crate) offset: i64,
    pub(crate) owner: OwnerRecord,
}

/// Member id and generation. 0 and -1 stand for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) member: u64,
    pub(crate) generation: i32,
    /// The static name.
    pub(crate) instance: Option<usize>,
}

/// Transactional id, by number, and epoch. The producer id is the number too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerId {
    pub(crate) id: usize,
    pub(crate) epoch: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Join {
        membership: Membership,
        owned: Vec<usize>,
    },
    Sync(Membership),
    Heartbeat(Membership),
    Leave(Membership),
    OffsetCommit(Membership, Vec<OffsetCommit>),
    /// `stable`: an offset that a transaction holds back is not answered.
    ListOffsets {
        partitions: Vec<usize>,
        stable: bool,
    },
    InitProducer(usize),
    AddPartitions(ProducerId, Vec<usize>),
    AddOffsets(ProducerId),
    TxnOffsetCommit(ProducerId, Membership, Vec<OffsetCommit>),
    Produce {
        producer: ProducerId,
        partition: usize,
        sequence: u64,
        outputs: Vec<Out>,
    },
    EndTxn {
        producer: ProducerId,
        commit: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Response {
    Done,
    Joined {
        member: u64,
        generation: i32,
    },
    Synced(Vec<usize>),
    Offsets(Vec<Listed>),
    Producer(ProducerId),
    Refused(Refusal),
    /// No answer: the connection broke, or the time for one is over. The request may still arrive.
    Broken,
}

/// One partition's committed offset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Listed {
    At(i64, Option<OwnerRecord>),
    Unstable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    UnknownMember,
    IllegalGeneration,
    RebalanceInProgress,
    FencedInstance,
    /// A newer epoch exists.
    Fenced,
    /// A transaction of this id is being ended.
    Concurrent,
    InvalidTxnState,
    OutOfOrder,
    /// An output is not such that the broker takes it; which one, it does not say.
    Poison,
    /// The coordinator is moving: nothing was done, ask again.
    NotCoordinator,
}

/// What follows from a request beside a change of state.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Answer(Caller, Response),
    After(u64, Timer),
    /// Committed offsets became visible.
    OffsetsMoved,
}

/// What the broker does by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The group waits no longer for members of this join round.
    JoinOver { round: u64 },
    /// The member's session may be over.
    Session { member: u64 },
    /// A marker of this id's transaction is written.
    Marker { id: usize, target: Target },
    /// The transaction with this number may have timed out.
    TransactionOver { id: usize, serial: u64 },
}

/// Where a marker goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Output(usize),
    Offsets,
}

/// Sizes and times of one schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterOptions {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) ids: usize,
    pub(crate) session_ms: u64,
    pub(crate) rebalance_ms: u64,
    pub(crate) transaction_ms: u64,
    pub(crate) marker_ms: u64,
    pub(crate) cooperative: bool,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) group: Group,
    pub(crate) output: Vec<Output>,
    pub(crate) transactions: Transactions,
    pub(crate) effects: Vec<Effect>,
}

impl Cluster {
    pub(crate) fn new(options: &ClusterOptions) -> Self {
        Self {
            group: Group::new(options),
            output: (0..options.outputs).map(|_| Output::new(options.ids)).collect(),
            transactions: Transactions::new(options),
            effects: Vec::new(),
        }
    }

    /// Takes one request. Answers go to `effects`, if anybody waits for one.
    pub(crate) fn handle(&mut self, request: Request, caller: Option<Caller>, now: u64, marker_delay: &mut dyn FnMut() -> u64) {
        let effects = &mut self.effects;
        let response = match request {
            Request::Join { membership, owned } => self.group.join(membership, owned, caller, now, effects),
            Request::Sync(membership) => self.group.sync(membership, caller, now, effects),
            Request::Heartbeat(membership) => Some(self.group.heartbeat(membership, now)),
            Request::Leave(membership) => Some(self.group.leave(membership, now, effects)),
            Request::OffsetCommit(membership, offsets) => Some(self.group.commit(membership, offsets, now, effects)),
            Request::ListOffsets { partitions, stable } => Some(Response::Offsets(self.group.list(&partitions, stable))),
            Request::InitProducer(id) => Some(self.transactions.initialise(id, effects, marker_delay)),
            Request::AddPartitions(producer, partitions) => Some(self.transactions.add_partitions(producer, &partitions, effects)),
            Request::AddOffsets(producer) => Some(self.transactions.add_offsets(producer, effects)),
            Request::TxnOffsetCommit(producer, membership, offsets) => Some(match self.transactions.verify_offsets(producer) {
                Ok(()) => self.group.commit_in_transaction(producer, membership, offsets, now),
                Err(refusal) => Response::Refused(refusal),
            }),
            Request::Produce { producer, partition, sequence, outputs } => {
                let verified = self.transactions.verify(producer, partition);
                Some(self.output[partition].append(producer, sequence, outputs, verified))
            }
            Request::EndTxn { producer, commit } => Some(self.transactions.end(producer, commit, effects, marker_delay)),
        };
        if let (Some(response), Some(caller)) = (response, caller) {
            self.effects.push(Effect::Answer(caller, response));
        }
    }

    /// Does what is due.
    pub(crate) fn on_timer(&mut self, timer: Timer, now: u64, marker_delay: &mut dyn FnMut() -> u64) {
        match timer {
            Timer::JoinOver { round } => self.group.on_join_over(round, now, &mut self.effects),
            Timer::Session { member } => self.group.on_session(member, now, &mut self.effects),
            Timer::Marker { id, target } => {
                let Some((epoch, commit)) = self.transactions.marker(id) else { return };
                match target {
                    Target::Output(partition) => self.output[partition].mark(ProducerId { id, epoch }, commit),
                    Target::Offsets => self.group.mark(id, commit, &mut self.effects),
                }
            }
            Timer::TransactionOver { id, serial } => self.transactions.on_time_out(id, serial, &mut self.effects, marker_delay),
        }
    }
}
