//! What a person can do about a worker's state: the words behind `next_step` in `/status`, the log and `/readyz`.
//!
//! Owns words alone; decides nothing.

use crate::watch::Blocked;
use transom_engine::{Outcome, State};

/// Returns the next step for a state that has no trouble of its own.
pub(crate) const fn of_state(state: State) -> &'static str {
    match state {
        State::Running | State::Draining | State::Stopped => "",
        State::Initialising => "wait; if it stays, look at the broker that coordinates this transactional id",
        State::WaitingForPartitions => "none: the group rebalances, or has more workers than partitions",
        State::ResolvingOffsets => {
            "wait; if it stays, an open transaction holds an offset back: it ends after its timeouts.transaction at the latest"
        }
        State::Hunting => "none: small batches until the input of the refused output is found, seconds for each",
        State::BackingOff => "none: the batch is read again after a pause; if it repeats, act on the reason",
        State::InDoubt => "none: nothing is sent until the owner records say what became of the batch; if it stays, look at the group's coordinator",
    }
}

/// Returns the next step while a call is overdue.
pub(crate) const fn of_blocked(blocked: &Blocked) -> &'static str {
    if blocked.is_by_coordinator() {
        "look at the log of the coordinator's broker, and at kafka-transactions.sh describe with this transactional id"
    } else {
        "look for offline and under-replicated partitions of the output topics"
    }
}

/// Returns the next step after a transaction that did not commit.
pub(crate) const fn of_outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Committed => "",
        Outcome::Aborted { .. } => "none: the batch is read again; if it repeats, act on the reason",
        Outcome::Poisoned { .. } => "none: the input of the refused output is looked for and set aside",
        Outcome::Replace { fenced: true, .. } => {
            "none, if this worker was away and its partitions were taken over; else another process has this transactional id: give each its own --instance"
        }
        Outcome::Replace { fenced: false, .. } => {
            "none: the owner records say what became of the batch; if it repeats, look at the transaction coordinator"
        }
        Outcome::Stop(_) => "act on the reason, then start it again",
    }
}

/// Partitions went to somebody else.
pub(crate) const LOST: &str = "none: the worker joins again; if it repeats, look at the brokers and at how long this process stands still";

/// A request could still arrive late.
pub(crate) const RECYCLED: &str = "none: the next batch went out on a new producer; if it repeats, look at the network to the brokers";

/// The producer cannot be initialised yet.
pub(crate) const NOT_INITIALISED: &str = "the worker goes on trying; look at the brokers and at the transaction coordinator";

/// A partition of an input cannot be fetched.
pub(crate) const FETCH_FAILING: &str =
    "none for an error that passes: the partition is fetched again from the same record; if it stays, look at the log of the partition's leader";
