//! What the transact thread and the client report, as events of the engine.

use super::{Joined, LOST, WorkerLoop};
use crate::broker::{Source, SourceEvent};
use crate::clock::Clock;
use crate::next_step;
use crate::status::Trouble;
use crate::transact::Report;
use std::sync::mpsc::TryRecvError;
use transom_engine::{Command, Event, Outcome, SourcePartition, StopReason};

impl<S: Source + Send + 'static> WorkerLoop<S> {
    pub(super) fn take_reports(&mut self, commands: &mut Vec<Command>) -> bool {
        let mut any = false;
        loop {
            let report = match self.reports.try_recv() {
                Ok(report) => report,
                Err(TryRecvError::Empty) => return any,
                Err(TryRecvError::Disconnected) => {
                    // It ends only after this side hung up, unless it panicked.
                    let what = "the transact thread is gone; the log says where it panicked".to_owned();
                    self.step(Event::Halt(StopReason::Bug { what }), commands);
                    return any;
                }
            };
            any = true;
            let event = match report {
                Report::Ready => {
                    self.trouble.clear();
                    tracing::info!(worker = self.number, transactional_id = %self.transactional_id, "producer initialised");
                    Event::ProducerReady
                }
                Report::NotReady(why) => {
                    if self.trouble != why {
                        tracing::warn!(worker = self.number, reason = %why, "producer is not initialised yet; trying again");
                        self.note_trouble("not_initialised", &why, next_step::NOT_INITIALISED);
                        (self.trouble, self.next_step) = (why, next_step::NOT_INITIALISED);
                    }
                    continue;
                }
                Report::Ended { id, outcome, took, spare, recycled } => {
                    self.spare = spare;
                    if let Some(reason) = recycled {
                        self.around.metrics.producer_recycled(reason);
                        self.note_trouble("producer_recycled", reason, next_step::RECYCLED);
                    }
                    self.last_commit = took;
                    self.note_outcome(&outcome);
                    Event::Ended(id, outcome)
                }
                Report::Resolved(answers) => Event::Resolved(answers),
                Report::Stop(reason) => Event::Halt(reason),
            };
            self.step(event, commands);
        }
    }

    pub(super) fn note_trouble(&self, what: &'static str, reason: &str, next_step: &'static str) {
        let trouble = Trouble { what, reason: reason.to_owned(), next_step, at_ms: Clock::wall().as_millis() };
        self.around.board.update(self.number, |row| row.last_trouble = Some(trouble));
    }

    pub(super) fn note_outcome(&mut self, outcome: &Outcome) {
        let records = std::mem::take(&mut self.books.in_flight);
        let (word, why) = match outcome {
            Outcome::Committed => ("committed", String::new()),
            Outcome::Aborted { why } | Outcome::Poisoned { why, .. } => ("aborted", why.clone()),
            Outcome::Replace { why, fenced: true } => ("fenced", why.clone()),
            Outcome::Replace { why, fenced: false } => ("unknown", why.clone()),
            Outcome::Stop(reason) => ("aborted", reason.to_string()),
        };
        self.around.metrics.transaction(word);
        match outcome {
            // `Account` or `WriteOff` settles it, possibly much later.
            Outcome::Committed | Outcome::Replace { .. } => self.books.in_doubt += records,
            Outcome::Aborted { .. } | Outcome::Poisoned { .. } | Outcome::Stop(_) => {
                self.books.dropped += records;
                self.books.batches_aborted += 1;
            }
        }
        if let Outcome::Replace { fenced, .. } = outcome {
            self.around.metrics.producer_recycled(if *fenced { "fenced" } else { "unknown_outcome" });
        }
        self.next_step = next_step::of_outcome(outcome);
        if word != "committed" {
            self.note_trouble(word, &why, self.next_step);
            tracing::warn!(worker = self.number, outcome = word, reason = %why, records, next_step = self.next_step, "transaction did not commit");
        }
        self.trouble = why;
    }

    pub(super) fn take_events(&mut self, commands: &mut Vec<Command>) -> bool {
        let events = self.source.poll();
        let any = !events.is_empty();
        for event in events {
            match event {
                SourceEvent::Assigned(partitions) => {
                    self.joined = Joined::Yes;
                    if let Some(partition) = self.split_task(&partitions) {
                        self.step(Event::Halt(StopReason::SplitTask { partition }), commands);
                    }
                    tracing::info!(worker = self.number, partitions = ?self.names(&partitions), "partitions assigned");
                    // A silence was about a transaction of partitions that may be ours no more.
                    self.watch.forget();
                    if self.trouble == LOST {
                        self.trouble.clear();
                    }
                    self.step(Event::Assigned(partitions), commands);
                }
                SourceEvent::Revoked(partitions) => {
                    tracing::info!(worker = self.number, partitions = ?self.names(&partitions), "partitions asked back");
                    self.step(Event::Revoked(partitions), commands);
                }
                SourceEvent::Lost(partitions) => {
                    tracing::warn!(worker = self.number, partitions = ?self.names(&partitions), "partitions lost");
                    self.joined = Joined::Lost;
                    self.around.metrics.partitions_lost(partitions.len());
                    // The client said why just before, if it knows.
                    if self.trouble.is_empty() {
                        (self.trouble, self.next_step) = (LOST.to_owned(), next_step::LOST);
                    }
                    self.note_trouble("partitions_lost", &self.trouble, self.next_step);
                    self.step(Event::Lost(partitions), commands);
                }
                SourceEvent::FetchFailed { partition, position, error, why } => self.fetch_failed(partition, position, (error, why)),
                SourceEvent::FetchRecovered(partition) => self.fetch_recovered(partition),
                SourceEvent::Trouble { why, next_step } => {
                    if self.trouble != why {
                        tracing::warn!(worker = self.number, reason = %why, next_step, "consumer has trouble");
                        self.note_trouble("consumer", &why, next_step);
                        (self.trouble, self.next_step) = (why, next_step);
                    }
                }
                // While we join again it may be a request of our own, of before, that the broker takes for a second process.
                SourceEvent::Stop(StopReason::InstanceFenced { detail }) if self.joined == Joined::Lost => {
                    let what =
                        format!("fenced under our instance name while joining again, by a late request of our own or by another process: {detail}");
                    self.step(Event::Halt(StopReason::Fatal { what }), commands);
                }
                SourceEvent::Stop(reason) => self.step(Event::Halt(reason), commands),
            }
        }
        any
    }

    /// Returns a partition number of which some input topic's partition went to another worker.
    fn split_task(&self, partitions: &[SourcePartition]) -> Option<i32> {
        let inputs = self.around.options.inputs.len();
        let number = |place: &SourcePartition| place.partition;
        let of = |wanted| partitions.iter().filter(|place| number(place) == wanted).count();
        partitions.iter().map(number).find(|partition| of(*partition) != inputs).map(transom_sdk::PartitionId::get)
    }
}
