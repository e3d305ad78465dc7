//! Gets a client going that has lost its lookup of the group's coordinator.
//!
//! Before offsets are stored the library asks who coordinates the group. If the answer is "not available" three times in a row
//! (`RD_KAFKA_REQUEST_DEFAULT_RETRIES`; with our `retry.backoff.ms` within some 20 ms), the lookup is lost:
//! `rd_kafka_coord_req_handle_FindCoordinator` does not notice that the request was not sent again, and the call's time-out is
//! written down and never read (`creq_ts_timeout`, librdkafka 2.12.1). A group is without a coordinator for longer than that
//! whenever a lone broker restarts, or the next coordinator takes its time. The call then returns only when a connection of the
//! client comes or goes. So one goes: the transaction coordinator's, over which nothing is produced. The same helps when the
//! coordinator found last has left the cluster (librdkafka #5456, #5511).

use crate::handle::{Mailbox, lock};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// How often it is looked.
const PERIOD: Duration = Duration::from_millis(500);
/// How long the client may stand still at least.
const PATIENCE_MIN: Duration = Duration::from_secs(2);
/// What the library lets pass at most before it sends a request again, unless configured (`retry.backoff.max.ms`).
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// A call that adds offsets.
#[derive(Debug)]
struct Pending {
    client: Arc<Mailbox>,
    /// Where the client stood at the last look.
    stands_at: Option<u64>,
    /// Looks since it has stood there. Counted, not timed: after a pause of the whole process the client gets its time, too.
    looks: u32,
    nudges: u32,
}

impl Pending {
    /// Looks once; returns whether the client has stood still for so many looks. Then the count begins anew.
    fn is_due(&mut self, stands_at: Option<u64>, patience: u32) -> bool {
        if stands_at.is_none() || stands_at != self.stands_at {
            (self.stands_at, self.looks) = (stands_at, 0);
            return false;
        }
        self.looks += 1;
        let is_due = self.looks >= patience;
        if is_due {
            self.looks = 0;
        }
        is_due
    }

    /// Cuts the connection if the client has stood still; returns how often it did by now in this call, if it did.
    fn nudge_if_lost(&mut self, patience: u32) -> Option<u32> {
        let stands_at = self.client.guard.offsets_stand_still_at();
        if self.is_due(stands_at, patience) && self.client.guard.coordinator.cut() {
            self.nudges += 1;
            return Some(self.nudges);
        }
        None
    }
}

type Shared = Mutex<Option<Pending>>;

/// One thread, which looks after the calls of one producer.
#[derive(Debug, Default)]
pub(super) struct Nudge(Arc<Shared>);

impl Nudge {
    /// Starts the thread. `backoff_max` is the client's `retry.backoff.max.ms`, if it is configured. Without the thread a lost
    /// lookup lasts until the instance ends itself (`timeouts.blocked`).
    pub(super) fn start(backoff_max: Option<Duration>) -> Self {
        let nudge = Self::default();
        let shared = Arc::downgrade(&nudge.0);
        let patience = looks(PATIENCE_MIN.max(backoff_max.unwrap_or(BACKOFF_MAX) + BACKOFF_MAX));
        if let Err(error) = std::thread::Builder::new().name("nudge".to_owned()).spawn(move || look_after(&shared, patience)) {
            tracing::warn!(error = %error, "no thread to look after lost lookups of the group's coordinator");
        }
        nudge
    }

    /// Makes a call that adds offsets.
    pub(super) fn during<T>(&self, client: &Arc<Mailbox>, call: impl FnOnce() -> T) -> T {
        *lock(&self.0) = Some(Pending { client: Arc::clone(client), stands_at: None, looks: 0, nudges: 0 });
        let result = call();
        *lock(&self.0) = None;
        result
    }
}

fn looks(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(PERIOD.as_millis())).unwrap_or(u32::MAX)
}

fn look_after(shared: &Weak<Shared>, patience: u32) {
    while let Some(shared) = shared.upgrade() {
        let nudged = lock(&shared).as_mut().and_then(|pending| pending.nudge_if_lost(patience));
        drop(shared);
        match nudged {
            None => {}
            Some(1) => tracing::warn!("the client has stopped looking for the group's coordinator; a connection is cut so that it looks again"),
            Some(nudges) => tracing::debug!(nudges, "the group's coordinator is still looked for"),
        }
        std::thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_nudged_when_it_has_stood_still_and_not_before() {
        let mut pending = Pending { client: Arc::default(), stands_at: None, looks: 0, nudges: 0 };
        let mut due_looks = |stands: &[Option<u64>]| -> Vec<usize> {
            stands.iter().enumerate().filter(|(_, stands_at)| pending.is_due(**stands_at, 3)).map(|(look, _)| look).collect()
        };
        assert!(due_looks(&[None; 20]).is_empty(), "a request is under way");
        assert!(due_looks(&[Some(1), Some(1), Some(1), Some(2), Some(2), Some(2), None]).is_empty(), "it moves");
        assert_eq!(due_looks(&[Some(3); 10]), [3, 6, 9], "once in so many looks");
        assert!(due_looks(&[Some(4), Some(4), Some(4)]).is_empty(), "it has moved");
        assert_eq!((looks(PATIENCE_MIN), looks(Duration::from_millis(2_001))), (4, 5));
    }

    #[test]
    fn without_a_connection_there_is_nothing_to_cut() {
        let mut pending = Pending { client: Arc::default(), stands_at: None, looks: 0, nudges: 0 };
        assert!((0..10).all(|_| pending.nudge_if_lost(1).is_none()));
        assert_eq!(pending.nudges, 0);
    }
}
