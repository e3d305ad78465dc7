//! The only clock: monotonic time for the engine, wall clock for transforms and dead letters.

use std::time::{Instant, SystemTime, UNIX_EPOCH};
use transom_engine::Millis;
use transom_sdk::Timestamp;

/// Time since the process began, and of day.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// Starts at 0.
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Returns monotonic milliseconds since the start.
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the time of day.
    pub fn wall() -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
