//! What a person sees while it runs: one line a second of what lies in the topics and who owns which partitions.
//!
//! It asks the broker, never the product.

use crate::stage::Stage;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transom_harness::wire::Group;

/// Between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at what is waited for.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The demo was asked to end.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The topics and the group at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) sent: i64,
    pub(crate) produced: usize,
    pub(crate) dead_letters: usize,
    /// Partition numbers by instance; a member without partitions has an empty list.
    pub(crate) owners: BTreeMap<String, Vec<i32>>,
    pub(crate) is_stable: bool,
}

impl Look {
    pub(crate) fn owned_by(&self, instance: &str) -> usize {
        self.owners.get(instance).map_or(0, Vec::len)
    }

    /// Records that are sent and have no outcome yet that a committed-only reader could see.
    pub(crate) fn behind(&self) -> i64 {
        self.sent - i64::try_from(self.produced + self.dead_letters).unwrap_or(i64::MAX)
    }

    fn owners_in_words(&self) -> String {
        if !self.is_stable {
            return "being assigned".to_owned();
        }
        let owner = |(name, partitions): (&String, &Vec<i32>)| {
            let numbers: Vec<String> = partitions.iter().map(i32::to_string).collect();
            format!("{name}: {:<7}", if numbers.is_empty() { "none".to_owned() } else { numbers.join(" ") })
        };
        self.owners.iter().map(owner).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// Prints lines and waits.
pub(crate) struct Watch<'a> {
    stage: &'a Stage,
    // Written by the signal handler.
    asked_to_end: &'a Arc<AtomicBool>,
    began: Instant,
    next_line: Instant,
}

impl<'a> Watch<'a> {
    /// Starts the clock and prints the column heads.
    pub(crate) fn start(stage: &'a Stage, asked_to_end: &'a Arc<AtomicBool>) -> Self {
        println!("\n  time    sent  produced  dead letters  owners of the partitions");
        Self { stage, asked_to_end, began: Instant::now(), next_line: Instant::now() }
    }

    pub(crate) fn look(&self) -> Result<Look> {
        let Stage { client, names, .. } = self.stage;
        let ends = client.end_offsets(&names.input)?;
        let group = client.describe_group(&names.pipeline)?;
        Ok(Look {
            sent: ends.values().map(|ends| ends.high_watermark - ends.log_start).sum(),
            produced: client.read_committed(&names.output)?.len(),
            dead_letters: client.read_committed(&names.dead_letters)?.len(),
            is_stable: group.state == "Stable",
            owners: owners(&group),
        })
    }

    /// Says that something happened.
    pub(crate) fn say(&self, what: &str) {
        println!("{} {what}", self.time());
    }

    /// Goes on for a while.
    pub(crate) fn go_on(&mut self, duration: Duration) -> Result<()> {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.line(None)?;
            std::thread::sleep(LOOK_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Waits until `done`, which may fail.
    pub(crate) fn until(&mut self, what: &str, limit: Duration, mut done: impl FnMut(&Look) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let look = self.look()?;
            self.line(Some(&look))?;
            if done(&look)? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("waited {} s until {what}; last seen: {look:?}", limit.as_secs());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Prints a line if it is time.
    fn line(&mut self, look: Option<&Look>) -> Result<()> {
        if self.asked_to_end.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        if Instant::now() < self.next_line {
            return Ok(());
        }
        self.next_line = Instant::now() + LINE_INTERVAL;
        let fresh;
        let look = match look {
            Some(look) => look,
            None => {
                fresh = self.look()?;
                &fresh
            }
        };
        println!("{} {:>7} {:>9} {:>13}  {}", self.time(), look.sent, look.produced, look.dead_letters, look.owners_in_words());
        Ok(())
    }

    fn time(&self) -> String {
        format!("{:>4} s", self.began.elapsed().as_secs())
    }
}

/// Returns the members' partition numbers by instance name: `group.instance.id` is `<instance>:<worker>`.
fn owners(group: &Group) -> BTreeMap<String, Vec<i32>> {
    let mut owners: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for member in &group.members {
        let id = member.instance_id.as_deref().unwrap_or(&member.member_id);
        let instance = id.split_once(':').map_or(id, |(instance, _)| instance);
        owners.entry(instance.to_owned()).or_default().extend(member.assignment.iter().map(|(_, partition)| partition));
    }
    owners
}
