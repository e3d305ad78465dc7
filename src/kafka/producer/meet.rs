//! A new producer's first connection.

use crate::admin::{Topics, metadata};
use crate::handle::Handle;
use std::time::{Duration, Instant};

/// The library's own pause, which this is to save.
const MEET_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause while bootstrap addresses alone are met.
const PAUSE_MS: i32 = 10;

/// Waits until the client stands with a broker that it knows by number. The library asks for the transaction coordinator once,
/// over a connection that is up and among brokers it knows; a new client has neither, and asks again after a fixed 500 ms
/// (`rd_kafka_txn_coord_query`, librdkafka 2.12.1). Connections to bootstrap addresses go as soon as brokers are known, so one
/// of those is not enough. If nobody answers, the initialisation that follows says so.
pub(super) fn meet_brokers(client: &Handle) {
    let begun = Instant::now();
    loop {
        match metadata(client, Topics::Own, MEET_TIMEOUT) {
            Ok(answer) if answer.answered_by >= 0 || begun.elapsed() >= MEET_TIMEOUT => return,
            Ok(_) => client.serve(PAUSE_MS),
            Err(error) => {
                tracing::debug!(error = %error, "no broker has answered a new producer yet");
                return;
            }
        }
    }
}
