//! The oracle: decides from the topics alone whether a run was exactly-once, and names what was not.
//!
//! It never trusts a counter of the product. The comparison is pure; only this file talks to a broker.

mod audit;
mod books;
mod report;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use kafka_protocol::ResponseError;

use crate::wire::{Client, OpenTransaction, error_code};

pub use books::{Books, Expected, Output};
pub use report::{Anomaly, Finding, Place, Report};

/// Pause between two looks at the cluster.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

impl Books {
    /// Reads topics as they are now: inputs with their aborted records, outputs and dead letters as read-committed.
    ///
    /// To be called when nobody writes the inputs any more: a record that comes between the two reads would count as aborted.
    ///
    /// # Errors
    /// If a topic cannot be read.
    pub fn read(client: &Client, inputs: &[&str], outputs: &[&str], dead_letters: &[&str]) -> Result<Self> {
        let mut books = Self::new();
        for topic in inputs {
            books = books.input(topic, client.read_committed(topic)?);
            books = books.input_uncommitted(topic, client.read_uncommitted(topic)?);
        }
        for topic in outputs {
            books = books.output(topic, client.read_committed(topic)?);
        }
        for topic in dead_letters {
            books = books.dead_letters(topic, client.read_committed(topic)?);
        }
        Ok(books)
    }
}

/// Waits until no coordinator lists an unfinished transaction of these topics and every LSO has reached its high watermark.
///
/// Transactions that wrote to other topics only belong to other tests on the same cluster and do not count; one that
/// carries nothing but committed offsets, or nothing yet, might be ours and does.
///
/// # Errors
/// If that is not so at the deadline: the error names the transactions and the partitions held back.
pub fn no_open_transactions(client: &Client, topics: &[&str], deadline: Duration) -> Result<()> {
    let until = Instant::now() + deadline;
    loop {
        let held_back = held_back(client, topics)?;
        if held_back.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("transactions are still open after {deadline:?}:\n{}", held_back.join("\n"));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

fn held_back(client: &Client, topics: &[&str]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for open in client.open_transactions()? {
        if may_touch(client, &open, topics)? {
            lines.push(format!("  {} of {} (producer id {})", open.state, open.transactional_id, open.producer_id));
        }
    }
    lines.extend(held_back_partitions(client, topics)?);
    Ok(lines)
}

/// Returns a line for each partition in which records are held back from committed-only readers.
pub(crate) fn held_back_partitions(client: &Client, topics: &[&str]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for topic in topics {
        for (partition, ends) in client.end_offsets(topic)? {
            if ends.last_stable < ends.high_watermark {
                let (stable, end) = (ends.last_stable, ends.high_watermark);
                lines.push(format!("  {topic}:{partition} LSO {stable} of {end}"));
            }
        }
    }
    Ok(lines)
}

fn may_touch(client: &Client, open: &OpenTransaction, topics: &[&str]) -> Result<bool> {
    let details = match client.describe_transaction(&open.transactional_id) {
        Ok(details) => details,
        // It ended and was forgotten between the two requests.
        Err(error) if error_code(&error) == Some(ResponseError::TransactionalIdNotFound) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_internal = |topic: &str| topic.starts_with("__");
    let touched = &details.partitions;
    let is_ours = touched.iter().any(|(topic, _)| topics.contains(&topic.as_str()));
    Ok(is_ours || touched.iter().all(|(topic, _)| is_internal(topic)))
}
