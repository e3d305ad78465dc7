//! Gets a client going that has lost its lookup of the group's coordinator.
//!
//! Before offsets are stored the library asks who coordinates the group. If the answer is "not available" three times within
//! half a second (`RD_KAFKA_REQUEST_DEFAULT_RETRIES`), the lookup is lost: `rd_kafka_coord_req_handle_FindCoordinator` does not
//! notice that the request was not sent again, and the call's time-out is written down and never read (`creq_ts_timeout`,
//! librdkafka 2.12.1). A group is without a coordinator for longer than that whenever a lone broker restarts, or the next
//! coordinator takes its time. The call then returns only when a connection of the client comes or goes: so they go. The same
//! helps when the coordinator found last has left the cluster (librdkafka #5456, #5511).

use crate::handle::{Mailbox, lock};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often it is looked.
const PERIOD: Duration = Duration::from_millis(500);
/// Longer than the library pauses by itself before it sends a request again (`retry.backoff.max.ms`, 1 s unless configured).
const PATIENCE: Duration = Duration::from_secs(2);
/// The patience doubles with each nudge up to here: where it does not help, because the coordinator stays away, it does no harm.
const PATIENCE_MAX: Duration = Duration::from_secs(16);

/// A call that adds offsets.
#[derive(Debug)]
struct Pending {
    client: Arc<Mailbox>,
    nudged: Option<Instant>,
    patience: Duration,
}

impl Pending {
    /// Returns whether the client has had its time; `still_since` is since when nothing is under way.
    fn is_due(&self, still_since: Option<Instant>, now: Instant) -> bool {
        still_since.is_some_and(|since| now.saturating_duration_since(since.max(self.nudged.unwrap_or(since))) >= self.patience)
    }

    fn nudge_if_lost(&mut self, now: Instant) {
        if self.is_due(self.client.guard.offsets_stand_still_since(), now) {
            let connections = self.client.connections.cut();
            tracing::warn!(
                connections,
                "the client has stopped looking for the group's coordinator: its connections are cut, so that it looks again"
            );
            self.nudged = Some(now);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
    }
}

type Shared = Mutex<Option<Pending>>;

/// One thread, which looks after the calls of one producer.
#[derive(Debug, Default)]
pub(super) struct Nudge(Arc<Shared>);

impl Nudge {
    /// Starts the thread. Without it a lost lookup lasts until the instance ends itself (`timeouts.blocked`).
    pub(super) fn start() -> Self {
        let nudge = Self::default();
        let shared = Arc::downgrade(&nudge.0);
        if let Err(error) = std::thread::Builder::new().name("nudge".to_owned()).spawn(move || look(&shared)) {
            tracing::warn!(error = %error, "no thread to look after lost lookups of the group's coordinator");
        }
        nudge
    }

    /// Makes a call that adds offsets.
    pub(super) fn during<T>(&self, client: &Arc<Mailbox>, call: impl FnOnce() -> T) -> T {
        *lock(&self.0) = Some(Pending { client: Arc::clone(client), nudged: None, patience: PATIENCE });
        let result = call();
        *lock(&self.0) = None;
        result
    }
}

fn look(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        if let Some(pending) = &mut *lock(&shared) {
            pending.nudge_if_lost(Instant::now());
        }
        drop(shared);
        std::thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_nudged_when_it_has_stood_still_and_less_often_each_time() {
        let begun = Instant::now();
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut pending = Pending { client: Arc::default(), nudged: None, patience: PATIENCE };
        assert!(!pending.is_due(None, after(60)), "a request is under way, or none was sent yet");
        assert!(!pending.is_due(Some(begun), after(1)));
        let mut nudges = Vec::new();
        for second in 0..60 {
            if pending.is_due(Some(begun), after(second)) {
                pending.client.guard.begin();
                (pending.nudged, pending.patience) = (Some(after(second)), (pending.patience * 2).min(PATIENCE_MAX));
                nudges.push(second);
            }
        }
        assert_eq!(nudges, [2, 6, 14, 30, 46]);
        assert!(!pending.is_due(Some(after(60)), after(70)), "it has moved");
    }
}
