//! The tables' language: one line an event, what follows from it behind the arrow.
//!
//! ```text
//! 100 handed 0 10..13 x2 b500 => …     at 100 ms: two records of 500 bytes, offsets 10 to 12, from partition 0
//! 100 resolved 0@10 1=pending => …     `0@10!3` with our own record of batch 3, `0@10?` with another's, `0/7@10` for assignment 7
//! 100 poisoned #3 0:10..12 => …       outputs of these records were refused
//!                             => resolve 0/7+      its offset is asked for; `+`: whoever holds it is fenced first
//! 100 due / state / wants     => …     not an event: asks the worker
//! ```

use super::super::*;
use crate::fate::FateCounts;
use crate::hunt::{Proof, Refusal, RefusalKind, Refused, Suspect};
use crate::identity::{OwnerRecord, Ownership};
use crate::place::TopicId;
use std::sync::Arc;
use transom_sdk::PartitionId;

pub(super) const LIMITS: Limits =
    Limits { commit_interval_ms: 100, quiet_interval_ms: 1_000, records_max: 10, bytes_max: 1_000, revoke_budget_ms: 500, drain_budget_ms: 800 };

pub(super) fn place(text: &str) -> SourcePartition {
    SourcePartition { topic: TopicId(0), partition: PartitionId::new(text.parse().unwrap()).unwrap() }
}

pub(super) fn offset(text: &str) -> Offset {
    Offset::new(text.parse().unwrap()).unwrap()
}

/// Runs a table and compares what follows with what it says, all lines at once.
#[track_caller]
pub(super) fn table(text: &str) {
    let mut script = Script::new();
    let (mut wanted, mut got) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, right) = line.split_once("=>").unwrap_or_else(|| panic!("no arrow in: {line}"));
        let (left, right) = (words(left), words(right));
        wanted.push(format!("{left} => {right}"));
        got.push(format!("{left} => {}", script.line(&left)));
    }
    assert!(wanted == got, "\nwanted:\n  {}\ngot:\n  {}\n", wanted.join("\n  "), got.join("\n  "));
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A worker and what the table's short forms leave out.
pub(super) struct Script {
    worker: Worker,
    /// The assignment each partition was asked for last.
    asked: BTreeMap<SourcePartition, u64>,
}

impl Script {
    pub(super) fn new() -> Self {
        let id = TransactionalId::new("orders", "pod-0", 0).unwrap();
        let (worker, first) = Worker::new(LIMITS, id, Incarnation(7));
        assert_eq!(first, Command::Reinitialise);
        Self { worker, asked: BTreeMap::new() }
    }

    pub(super) fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Takes one line's left side and returns what follows.
    pub(super) fn line(&mut self, line: &str) -> String {
        let mut parts = line.splitn(3, ' ');
        let (now, word, rest) = (Millis(parts.next().unwrap().parse().unwrap()), parts.next().unwrap(), parts.next().unwrap_or(""));
        match word {
            "due" => return self.worker.due(now).map_or("never".to_owned(), |due| due.0.to_string()),
            "state" => return self.worker.state(now).as_str().to_owned(),
            "wants" => return if self.worker.wants_records(now) { "yes" } else { "no" }.to_owned(),
            "offsets" => {
                let shown = self.worker.partitions().map(|(partition, offsets)| {
                    let offsets = offsets.map_or("unknown".to_owned(), |(committed, position)| format!("{committed}..{position}"));
                    format!("{}:{offsets}", partition.partition)
                });
                return shown.collect::<Vec<_>>().join(" ");
            }
            _ => {}
        }
        let event = self.event(word, rest);
        let mut commands = Vec::new();
        self.worker.step(event, now, &mut commands);
        for command in &commands {
            if let Command::Resolve(asked) = command {
                self.asked.extend(asked.iter().map(|ask| (ask.partition, ask.assignment)));
            }
        }
        commands.iter().map(shown).collect::<Vec<_>>().join(" | ")
    }

    fn event(&self, word: &str, rest: &str) -> Event {
        let places = || rest.split_whitespace().map(place).collect();
        let stop = || StopReason::Fatal { what: "why".to_owned() };
        let batch = || BatchId(rest.trim_start_matches('#').parse().unwrap());
        let why = "why".to_owned();
        match word {
            "ready" => Event::ProducerReady,
            "assigned" => Event::Assigned(places()),
            "revoked" => Event::Revoked(places()),
            "lost" => Event::Lost(places()),
            "resolved" => Event::Resolved(rest.split_whitespace().map(|answer| self.resolved(answer)).collect()),
            "claimed" => Event::Claimed(Claim::Committed),
            "refused" => Event::Claimed(Claim::Refused),
            "handed" => Event::Handed(handed(rest)),
            "tick" => Event::Tick,
            "committed" => Event::Ended(batch(), Outcome::Committed),
            "aborted" => Event::Ended(batch(), Outcome::Aborted { why }),
            "unknown" => Event::Ended(batch(), Outcome::Replace { why, fenced: false }),
            "fenced" => Event::Ended(batch(), Outcome::Replace { why, fenced: true }),
            "stopped" => Event::Ended(batch(), Outcome::Stop(stop())),
            "poisoned" => {
                let (batch, suspects) = rest.split_once(' ').unwrap_or((rest, ""));
                let id = BatchId(batch.trim_start_matches('#').parse().unwrap());
                Event::Ended(id, Outcome::Poisoned { suspects: suspects.split_whitespace().flat_map(suspected).collect(), why })
            }
            "drain" => Event::Finish(StopReason::Drained),
            "finish" => Event::Finish(stop()),
            "halt" => Event::Halt(stop()),
            other => panic!("no event is called {other}"),
        }
    }

    fn resolved(&self, answer: &str) -> Resolved {
        let (who, seen) = match answer.split_once('=') {
            Some((who, "pending")) => (who, OwnerSeen::Pending),
            Some((who, "missing")) => (who, OwnerSeen::Missing),
            Some((who, "unanswered")) => (who, OwnerSeen::Unanswered),
            Some(_) => panic!("what was seen in {answer}?"),
            None => {
                let (who, at) = answer.split_once('@').unwrap();
                (who, seen_at(at))
            }
        };
        let (partition, assignment) = match who.split_once('/') {
            Some((partition, assignment)) => (place(partition), assignment.parse().unwrap()),
            None => (place(who), self.asked.get(&place(who)).copied().unwrap_or(0)),
        };
        Resolved { partition, assignment, seen }
    }
}

fn seen_at(text: &str) -> OwnerSeen {
    let record = |instance: &str, batch: &str| {
        let transactional_id = TransactionalId::new("orders", instance, 0).unwrap();
        let batch = BatchId(if batch.is_empty() { 0 } else { batch.parse().unwrap() });
        Some(OwnerRecord { transactional_id, incarnation: Incarnation(7), batch, ownership: Ownership::Held })
    };
    if let Some((at, batch)) = text.split_once('!') {
        return OwnerSeen::At(offset(at), record("pod-0", batch));
    }
    match text.strip_suffix('?') {
        Some(at) => OwnerSeen::At(offset(at), record("pod-1", "")),
        None => OwnerSeen::At(offset(text), None),
    }
}

/// `0:10..13`: these outputs were refused.
fn suspected(text: &str) -> Vec<Suspect> {
    let (partition, range) = text.split_once(':').unwrap();
    let (first, next) = range.split_once("..").unwrap();
    let words = "too large".to_owned();
    let refusal = Refusal { kind: RefusalKind::TooLarge, topic: "out".to_owned(), code: "MSG_SIZE_TOO_LARGE".to_owned(), words };
    let refusal = Arc::new(refusal);
    let offsets = first.parse::<i64>().unwrap()..next.parse().unwrap();
    let suspect = |number| Suspect {
        partition: place(partition),
        offset: Offset::new(number).unwrap(),
        refused: Refused::Output,
        proof: Proof::Suspected,
        refusal: Arc::clone(&refusal),
    };
    offsets.map(suspect).collect()
}

fn handed(text: &str) -> Handed {
    let mut words = text.split_whitespace();
    let partition = place(words.next().unwrap());
    let (first, next) = words.next().unwrap().split_once("..").unwrap();
    let first = (!first.is_empty()).then(|| offset(first));
    let mut records = first.map_or(0, |first| u64::try_from(offset(next).get() - first.get()).unwrap_or(0));
    let mut bytes = 0;
    for word in words {
        match word.split_at(1) {
            ("x", number) => records = number.parse().unwrap(),
            ("b", number) => bytes = number.parse().unwrap(),
            _ => panic!("what is {word}?"),
        }
    }
    let mut fates = FateCounts::default();
    (0..records).for_each(|_| fates.add(crate::fate::Fate::Produced));
    Handed { partition, first, next: offset(next), records, fates, bytes }
}

fn shown(command: &Command) -> String {
    let at = |positions: &[(SourcePartition, Offset)]| positions.iter().map(|(place, at)| format!(" {}@{at}", place.partition)).collect::<String>();
    match command {
        Command::Reinitialise => "initialise".to_owned(),
        Command::Resolve(asked) => {
            let shown = |ask: &Ask| {
                let gained = if ask.takeover == Takeover::Fence { "+" } else { "" };
                format!(" {}/{}{gained}", ask.partition.partition, ask.assignment)
            };
            format!("resolve{}", asked.iter().map(shown).collect::<String>())
        }
        Command::Claim(positions) => format!("claim{}", at(positions)),
        Command::Release(positions) => format!("release{}", at(positions)),
        Command::Assign(positions) => format!("assign{}", at(positions)),
        Command::Seek(positions) => format!("seek{}", at(positions)),
        Command::Transact(batch, reason) => {
            let progress = batch.progress.iter().map(|(place, interval)| format!(" {}:{}..{}", place.partition, interval.start, interval.end));
            format!("transact #{} {reason:?}{}", batch.id.0, progress.collect::<String>())
        }
        Command::DiscardOpen => "discard".to_owned(),
        Command::Condemned(place, offset) => format!("condemned {}@{offset}", place.partition),
        Command::Account(batch) => format!("account #{} x{}", batch.id.0, batch.fates.total()),
        Command::WriteOff(batch) => format!("write-off #{}", batch.id.0),
        Command::GiveBack(places) => format!("give-back{}", places.iter().map(|place| format!(" {}", place.partition)).collect::<String>()),
        Command::Stop(reason) => {
            let name = format!("{reason:?}");
            format!("stop {}", name.split([' ', '{']).next().unwrap_or_default())
        }
    }
}
