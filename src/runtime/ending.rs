//! Ends a worker's two halves, within a deadline.

use crate::broker::Source;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long leaving the group and ending both clients may take, once everything is committed or given up. Shorter than what
/// the process grants for it behind the drain.
const END_TIMEOUT: Duration = Duration::from_secs(7);

/// Leaves the group and waits for both clients to end. That may hang when a coordinator is gone (librdkafka #4362, #4884), and
/// the process, which ends with its first worker, must not hang with it: then the rest is left to the process's own end.
pub(crate) fn end<S: Source + Send + 'static>(mut source: S, queues: impl Send + 'static, transact: JoinHandle<()>, worker: u16) {
    let (ended, end) = channel();
    std::thread::spawn(move || {
        source.close();
        // The transact thread sees the hang-up after its present call; the consumer's handle goes with the last of the two.
        drop((source, queues));
        let _ = transact.join();
        let _ = ended.send(());
    });
    if end.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!(worker, limit_s = END_TIMEOUT.as_secs(), "the client does not come to its end; left to the end of the process");
    }
}
