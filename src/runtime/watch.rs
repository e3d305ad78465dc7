//! What the transact thread waits for, as the worker's thread sees it.
//!
//! The client's own deadlines cannot be trusted (librdkafka #5456, #5511: sending offsets may ignore its time-out while the
//! group coordinator is away), so each call says what it is and how long it may take before it is made. The worker's
//! thread, which never waits for the broker, looks on: past the deadline the state says so and health turns.
//!
//! ```text
//!            during(call)            returned by its own deadline: silent(call)
//!   idle ───────────────► in a call ───────────────────────────────► silent since the call began
//!    ▲                        │                                         │ answered(its like), forget
//!    └────────────────────────┴─────────────────────────────────────────┘
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much longer than its deadline a call may take before it counts as stuck: scheduling and the client's own slices.
const OVERRUN: Duration = Duration::from_millis(500);

/// A call of the transact thread that waits for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Taking our own transactional id.
    Initialise,
    /// Taking a dead owner's.
    Fence,
    /// Reading the group's offsets and owner records.
    ReadOffsets,
    /// Outputs, of which none was sent: their partitions are not part of the transaction yet.
    AddPartitions,
    /// Outputs that were sent and are not acknowledged.
    Deliver,
    /// Offsets to the transaction, in two requests.
    SendOffsets,
    /// The first of them: making the group part of the transaction.
    AddGroup,
    /// The second: the offsets themselves.
    StoreOffsets,
    /// Ending the transaction with a commit.
    Commit,
    /// Ending it with an abort.
    Abort,
}

/// Who has to answer a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The coordinator of the transactional id.
    TransactionCoordinator,
    /// The coordinator of the consumer group.
    GroupCoordinator,
    /// One of these two: the client does not tell which, while it waits.
    Coordinator,
    /// The leader of an output partition.
    PartitionLeader,
}

impl Call {
    const fn party(self) -> Party {
        match self {
            Self::Initialise | Self::Fence | Self::AddPartitions | Self::AddGroup | Self::Commit | Self::Abort => Party::TransactionCoordinator,
            Self::ReadOffsets | Self::StoreOffsets => Party::GroupCoordinator,
            Self::SendOffsets => Party::Coordinator,
            Self::Deliver => Party::PartitionLeader,
        }
    }

    /// Returns whether an answer to `other` settles the silence of this one. A transaction's own requests are settled by
    /// its like or by a commit only: the coordinator may well initialise ids and still leave them unanswered.
    fn is_settled_by(self, other: Self) -> bool {
        let is_part = matches!((self, other), (Self::AddGroup | Self::StoreOffsets, Self::SendOffsets));
        self == other || is_part || matches!((self, other), (Self::Commit | Self::Abort | Self::Fence, Self::Initialise))
    }

    /// Returns what is being done, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialise => "initialising the transactional id",
            Self::Fence => "fencing the last owner",
            Self::ReadOffsets => "reading committed offsets",
            Self::AddPartitions => "adding output partitions to the transaction",
            Self::Deliver => "delivering outputs",
            Self::SendOffsets => "adding offsets to the transaction",
            Self::AddGroup => "adding the group to the transaction",
            Self::StoreOffsets => "storing offsets in the transaction",
            Self::Commit => "committing the transaction",
            Self::Abort => "aborting the transaction",
        }
    }
}

impl Party {
    const fn as_str(self) -> &'static str {
        match self {
            Self::TransactionCoordinator => "the transaction coordinator",
            Self::GroupCoordinator => "the group coordinator",
            Self::Coordinator => "a coordinator, the group's or the transaction's,",
            Self::PartitionLeader => "an output partition's leader",
        }
    }
}

/// What the worker's thread reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) call: Call,
    pub(crate) for_time: Duration,
    pub(crate) detail: String,
}

impl Blocked {
    /// Returns whether only a coordinator can end it: then a new process, with new connections, may fare better.
    pub(crate) const fn is_by_coordinator(&self) -> bool {
        !matches!(self.call.party(), Party::PartitionLeader)
    }

    /// Returns the word used in `/status` and metrics.
    pub(crate) const fn state(&self) -> &'static str {
        if self.is_by_coordinator() { "blocked_by_coordinator" } else { "outputs_unacknowledged" }
    }

    /// Returns who does not answer what, for how long.
    pub(crate) fn describe(&self) -> String {
        let (party, call) = (self.call.party().as_str(), self.call.as_str());
        format!("{party} has not settled {call} for {} s{}", self.for_time.as_secs(), self.detail)
    }
}

#[derive(Debug)]
struct Silence {
    call: Call,
    since: Instant,
    detail: String,
}

#[derive(Debug, Default)]
struct Seen {
    now: Option<(Call, Instant, Duration)>,
    silence: Option<Silence>,
    producer: Option<(i64, i32)>,
}

/// Written by the transact thread around each call that waits, read by the worker's thread.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Seen>);

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call that should return within `limit`.
    pub fn during<T>(&self, call: Call, limit: Duration, make: impl FnOnce() -> T) -> T {
        self.lock().now = Some((call, Instant::now(), limit));
        let result = make();
        self.lock().now = None;
        result
    }

    /// Notes that a call begun at `since` ended without an answer. The first silence counts until it is settled.
    pub fn silent(&self, call: Call, since: Instant, detail: impl Into<String>) {
        let detail = format!(": {}", detail.into());
        let mut seen = self.lock();
        let since = seen.silence.as_ref().map_or(since, |silence| silence.since);
        seen.silence = Some(Silence { call, since, detail });
    }

    /// Notes that a call was answered, well or ill.
    pub fn answered(&self, call: Call) {
        let mut seen = self.lock();
        if seen.silence.as_ref().is_some_and(|silence| silence.call.is_settled_by(call)) {
            seen.silence = None;
        }
    }

    /// Forgets every silence: a transaction was committed, its partitions are not ours any more, or no broker can be
    /// reached, which is another state.
    pub fn forget(&self) {
        self.lock().silence = None;
    }

    /// Returns whether handing over the offsets was the last call without an answer.
    pub fn is_silent_on_offsets(&self) -> bool {
        self.lock().silence.as_ref().is_some_and(|silence| matches!(silence.call, Call::AddGroup | Call::StoreOffsets))
    }

    /// Notes producer id and epoch, as far as the client has told.
    pub(crate) fn note_producer(&self, producer: Option<(i64, i32)>) {
        // A new producer has not told yet; its predecessor's id is the same, unless the epochs ran out.
        if producer.is_some() {
            self.lock().producer = producer;
        }
    }

    /// Returns producer id and epoch, once known.
    pub(crate) fn producer(&self) -> Option<(i64, i32)> {
        self.lock().producer
    }

    /// Returns what is overdue, if anything.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        let seen = self.lock();
        let overdue = seen.now.filter(|(_, since, limit)| since.elapsed() > *limit + OVERRUN);
        match (&seen.silence, overdue) {
            (Some(silence), _) => Some(Blocked { call: silence.call, for_time: silence.since.elapsed(), detail: silence.detail.clone() }),
            (None, Some((call, since, limit))) => {
                let detail = format!("; its deadline was {} s", limit.as_secs());
                Some(Blocked { call, for_time: since.elapsed(), detail })
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_past_its_deadline_is_blocked_until_it_returns() {
        let watch = Watch::default();
        watch.during(Call::SendOffsets, Duration::ZERO, || {
            assert_eq!(watch.blocked(), None, "not before the overrun");
            std::thread::sleep(OVERRUN + Duration::from_millis(50));
            let blocked = watch.blocked().expect("overdue");
            assert_eq!(blocked.state(), "blocked_by_coordinator");
            assert!(
                blocked
                    .describe()
                    .starts_with("a coordinator, the group's or the transaction's, has not settled adding offsets to the transaction for 0 s")
            );
        });
        assert_eq!(watch.blocked(), None);
    }

    #[test]
    fn a_silence_lasts_until_its_like_is_answered() {
        let watch = Watch::default();
        let begun = Instant::now();
        watch.silent(Call::StoreOffsets, begun, "timed out");
        watch.answered(Call::Initialise);
        watch.answered(Call::Abort);
        assert_eq!(watch.blocked().map(|blocked| blocked.call), Some(Call::StoreOffsets));
        watch.silent(Call::ReadOffsets, begun + Duration::from_secs(5), "timed out");
        let blocked = watch.blocked().expect("silent");
        assert_eq!(blocked.call, Call::ReadOffsets, "the last call is named");
        watch.answered(Call::ReadOffsets);
        assert_eq!(watch.blocked(), None);
    }

    #[test]
    fn a_leader_that_does_not_acknowledge_is_not_the_coordinator() {
        let watch = Watch::default();
        watch.silent(Call::Deliver, Instant::now(), "timed out");
        let blocked = watch.blocked().expect("silent");
        assert_eq!((blocked.state(), blocked.is_by_coordinator()), ("outputs_unacknowledged", false));
        watch.forget();
        assert_eq!(watch.blocked(), None);
    }
}
