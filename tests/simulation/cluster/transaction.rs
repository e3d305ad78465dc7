//! The transaction coordinator, old protocol: the epoch rises with `InitProducerId` and time-outs, not with each transaction.

use super::{ClusterOptions, Effect, ProducerId, Refusal, Response, Target, Timer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Ongoing,
    /// Decided; markers are being written.
    Prepare {
        commit: bool,
    },
    Complete {
        commit: bool,
    },
}

#[derive(Debug)]
struct Transaction {
    epoch: u32,
    state: State,
    outputs: Vec<usize>,
    has_offsets: bool,
    serial: u64,
    markers_left: usize,
}

#[derive(Debug)]
pub(crate) struct Transactions {
    ids: Vec<Transaction>,
    time_out_ms: u64,
}

impl Transactions {
    pub(crate) fn new(options: &ClusterOptions) -> Self {
        let empty = || Transaction { epoch: 0, state: State::Empty, outputs: Vec::new(), has_offsets: false, serial: 0, markers_left: 0 };
        Self { ids: (0..options.ids).map(|_| empty()).collect(), time_out_ms: options.transaction_ms }
    }

    /// Returns the ids whose transaction is not decided and marked everywhere.
    pub(crate) fn unfinished(&self) -> Vec<usize> {
        let is_open = |state| matches!(state, State::Ongoing | State::Prepare { .. });
        self.ids.iter().enumerate().filter(|(_, transaction)| is_open(transaction.state)).map(|(id, _)| id).collect()
    }

    pub(crate) fn initialise(&mut self, id: usize, effects: &mut Vec<Effect>, marker_delay: &mut dyn FnMut() -> u64) -> Response {
        let transaction = &mut self.ids[id];
        match transaction.state {
            State::Empty | State::Complete { .. } => {
                transaction.epoch += 1;
                transaction.state = State::Empty;
                Response::Producer(ProducerId { id, epoch: transaction.epoch })
            }
            State::Ongoing => {
                // The old owner is fenced at once; its transaction is aborted before the new one hears of success.
                transaction.epoch += 1;
                self.decide(id, false, effects, marker_delay);
                Response::Refused(Refusal::Concurrent)
            }
            State::Prepare { .. } => Response::Refused(Refusal::Concurrent),
        }
    }

    fn open(&mut self, producer: ProducerId, effects: &mut Vec<Effect>) -> Result<&mut Transaction, Refusal> {
        let time_out_ms = self.time_out_ms;
        let transaction = &mut self.ids[producer.id];
        if producer.epoch != transaction.epoch {
            return Err(Refusal::Fenced);
        }
        match transaction.state {
            State::Prepare { .. } => return Err(Refusal::Concurrent),
            State::Ongoing => {}
            State::Empty | State::Complete { .. } => {
                transaction.state = State::Ongoing;
                transaction.serial += 1;
                transaction.outputs.clear();
                transaction.has_offsets = false;
                effects.push(Effect::After(time_out_ms, Timer::TransactionOver { id: producer.id, serial: transaction.serial }));
            }
        }
        Ok(transaction)
    }

    pub(crate) fn add_partitions(&mut self, producer: ProducerId, partitions: &[usize], effects: &mut Vec<Effect>) -> Response {
        match self.open(producer, effects) {
            Err(refusal) => Response::Refused(refusal),
            Ok(transaction) => {
                for partition in partitions {
                    if !transaction.outputs.contains(partition) {
                        transaction.outputs.push(*partition);
                    }
                }
                Response::Done
            }
        }
    }

    pub(crate) fn add_offsets(&mut self, producer: ProducerId, effects: &mut Vec<Effect>) -> Response {
        match self.open(producer, effects) {
            Err(refusal) => Response::Refused(refusal),
            Ok(transaction) => {
                transaction.has_offsets = true;
                Response::Done
            }
        }
    }

    /// Returns whether a partition belongs to the producer's present transaction.
    pub(crate) fn verify(&self, producer: ProducerId, partition: usize) -> Result<(), Refusal> {
        self.verify_with(producer, |transaction| transaction.outputs.contains(&partition))
    }

    pub(crate) fn verify_offsets(&self, producer: ProducerId) -> Result<(), Refusal> {
        self.verify_with(producer, |transaction| transaction.has_offsets)
    }

    fn verify_with(&self, producer: ProducerId, has: impl Fn(&Transaction) -> bool) -> Result<(), Refusal> {
        let transaction = &self.ids[producer.id];
        if producer.epoch != transaction.epoch {
            return Err(Refusal::Fenced);
        }
        if transaction.state == State::Ongoing && has(transaction) { Ok(()) } else { Err(Refusal::InvalidTxnState) }
    }

    pub(crate) fn end(&mut self, producer: ProducerId, commit: bool, effects: &mut Vec<Effect>, marker_delay: &mut dyn FnMut() -> u64) -> Response {
        let transaction = &self.ids[producer.id];
        if producer.epoch != transaction.epoch {
            return Response::Refused(Refusal::Fenced);
        }
        match transaction.state {
            State::Ongoing => {
                self.decide(producer.id, commit, effects, marker_delay);
                Response::Done
            }
            // The same again is the retry of an answer that was lost. Which transaction is meant cannot be told (KAFKA-17754).
            State::Prepare { commit: decided } if decided == commit => Response::Refused(Refusal::Concurrent),
            State::Complete { commit: decided } if decided == commit => Response::Done,
            State::Prepare { .. } | State::Complete { .. } | State::Empty => Response::Refused(Refusal::InvalidTxnState),
        }
    }

    fn decide(&mut self, id: usize, commit: bool, effects: &mut Vec<Effect>, marker_delay: &mut dyn FnMut() -> u64) {
        let transaction = &mut self.ids[id];
        transaction.state = State::Prepare { commit };
        let targets =
            transaction.outputs.iter().map(|partition| Target::Output(*partition)).chain(transaction.has_offsets.then_some(Target::Offsets));
        transaction.markers_left = 0;
        for target in targets {
            transaction.markers_left += 1;
            effects.push(Effect::After(marker_delay(), Timer::Marker { id, target }));
        }
        if transaction.markers_left == 0 {
            transaction.state = State::Complete { commit };
        }
    }

    /// Returns the epoch and decision that a marker carries.
    pub(crate) fn marker(&mut self, id: usize) -> Option<(u32, bool)> {
        let transaction = &mut self.ids[id];
        let State::Prepare { commit } = transaction.state else { return None };
        transaction.markers_left -= 1;
        if transaction.markers_left == 0 {
            transaction.state = State::Complete { commit };
        }
        Some((transaction.epoch, commit))
    }

    pub(crate) fn on_time_out(&mut self, id: usize, serial: u64, effects: &mut Vec<Effect>, marker_delay: &mut dyn FnMut() -> u64) {
        let transaction = &mut self.ids[id];
        if transaction.state == State::Ongoing && transaction.serial == serial {
            transaction.epoch += 1;
            self.decide(id, false, effects, marker_delay);
        }
    }
}
