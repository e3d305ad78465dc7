//! What a pipeline does on a real broker, from bytes in to bytes out.

mod fan_out;
mod foreign;
mod inputs;
mod moving;
mod outage;
mod poison;
mod records;
mod restaurant;
mod secure;
mod stops;
mod takeover;

use std::time::Duration;

/// Process start, group join, first batch; several times as long as it takes on a busy machine.
const START: Duration = Duration::from_secs(30);
/// A few thousand records, or a drain.
const SHORT: Duration = Duration::from_secs(20);

/// `clean_orders` with everything at its default.
const CLEAN_ORDERS: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap" }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
"#;
