//! From one record to its fate: attempts, back-off, dead letter.

use crate::clock::Clock;
use crate::dead_letter::{self, DeadLetter, Form};
use crate::options::PipelineOptions;
use std::sync::Arc;
use std::time::Duration;
use transom_engine::{Fate, Place, Refusal, RefusalKind, Sentence, SourcePartition, StopReason};
use transom_sdk::{
    Attempt, AttemptError, Failure, FailureClass, OutputBuffer, OutputId, Processor, Record, Registry, Setup, SetupError, Timestamp, Tombstones,
};

/// Longest pause between two attempts: the group must see this worker poll again long before `max.poll.interval.ms`.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Builds the step's processor: once for each worker, and again after a panic.
pub trait ProcessorFactory: Send + Sync {
    /// Builds one.
    ///
    /// # Errors
    /// What the constructor refuses.
    fn build(&self) -> Result<Box<dyn Processor>, SetupError>;
}

/// A factory for a registered processor.
#[derive(Debug)]
pub struct RegistryFactory {
    /// Where it is registered.
    pub registry: Registry,
    /// Its name.
    pub name: String,
    /// The outputs it may write to.
    pub routes: transom_sdk::Routes,
    /// The step's `with:`.
    pub with: serde_json::Value,
    /// The step's `tombstones:`.
    pub tombstones: Tombstones,
}

impl ProcessorFactory for RegistryFactory {
    fn build(&self) -> Result<Box<dyn Processor>, SetupError> {
        self.registry.construct(&self.name, &Setup::new(&self.routes, &self.with, self.tombstones))
    }
}

/// The processing half of one worker.
pub(crate) struct Processing {
    options: Arc<PipelineOptions>,
    factory: Arc<dyn ProcessorFactory>,
    processor: Box<dyn Processor>,
    dead_letters: OutputId,
}

impl Processing {
    pub(crate) fn new(options: Arc<PipelineOptions>, factory: Arc<dyn ProcessorFactory>) -> Result<Self, SetupError> {
        let processor = factory.build()?;
        let dead_letters = dead_letter::dead_letter_output(options.routes.as_slice().len());
        Ok(Self { options, factory, processor, dead_letters })
    }

    /// Processes one record into `outputs` and returns its fate. `source` is its index in the batch.
    ///
    /// # Errors
    /// [`StopReason::BadRecord`] when it cannot be processed and there is no dead-letter topic; nothing is appended then.
    pub(crate) fn process(
        &mut self,
        source: (u32, SourcePartition),
        record: &Record<'_>,
        outputs: &mut OutputBuffer,
        now: Timestamp,
    ) -> Result<Fate, StopReason> {
        self.transform(source, record, outputs, (now, Form::Whole))
    }

    /// Does with a record whose output was refused what its sentence says.
    ///
    /// # Errors
    /// [`StopReason::PoisonOutput`] when there is no dead-letter topic, or it refuses even the stub.
    pub(crate) fn condemned(
        &mut self,
        source: (u32, SourcePartition),
        record: &Record<'_>,
        outputs: &mut OutputBuffer,
        (sentence, now): (&Sentence, Timestamp),
    ) -> Result<Fate, StopReason> {
        let (output, form) = match sentence {
            // A dead letter has the record's timestamp, which its topic would refuse just so.
            Sentence::SetAside { output } if may_be_its_timestamp(output) => (Some(output), Form::Restamped),
            Sentence::SetAside { output } => (Some(output), Form::Whole),
            Sentence::Stub { output: None, dead_letter } if may_be_its_timestamp(dead_letter) => (None, Form::Restamped),
            Sentence::Stub { output, dead_letter } => (output.as_ref(), Form::Stub { why: &dead_letter.words }),
            Sentence::Hopeless { stub } => return Err(poison_output(record, stub)),
        };
        let Some(refusal) = output else { return self.transform(source, record, outputs, (now, form)) };
        if self.options.dead_letters.is_none() {
            return Err(poison_output(record, refusal));
        }
        let message = format!("the broker refuses an output to {}: {}", refusal.topic, refusal.words);
        let failure = Failure::permanent("output_refused", message).with_exception(refusal.code.clone());
        self.set_aside(source, record, outputs, (&failure, 1, form))
    }

    fn set_aside(
        &self,
        source: (u32, SourcePartition),
        record: &Record<'_>,
        outputs: &mut OutputBuffer,
        (failure, attempts, form): (&Failure, u32, Form<'_>),
    ) -> Result<Fate, StopReason> {
        let options = &self.options;
        let Some(dead_letters) = &options.dead_letters else {
            return Err(StopReason::BadRecord { place: place(record), reason: failure.to_string() });
        };
        let letter = DeadLetter { pipeline: &options.pipeline, step: &options.step.id, failure, attempts, failed_at: Clock::wall(), form };
        dead_letter::append(outputs, self.dead_letters, source, record, dead_letters, &letter);
        Ok(Fate::DeadLettered)
    }

    fn transform(
        &mut self,
        source: (u32, SourcePartition),
        record: &Record<'_>,
        outputs: &mut OutputBuffer,
        (now, form): (Timestamp, Form<'_>),
    ) -> Result<Fate, StopReason> {
        let mut number = 1;
        loop {
            let options = &self.options;
            let surroundings = Attempt { routes: &options.routes, source: source.0, number, now };
            let error = match transom_sdk::attempt(self.processor.as_mut(), record, outputs, surroundings) {
                Ok(0) => return Ok(Fate::Filtered),
                Ok(_) => return Ok(Fate::Produced),
                Err(error) => error,
            };
            if let AttemptError::Panicked(_) = &error {
                self.processor = self.factory.build().map_err(|error| StopReason::Configuration { what: error.to_string() })?;
            }
            let failure = error.failure();
            if failure.class() == FailureClass::Transient && number < options.step.attempts {
                std::thread::sleep(backoff(options.step.backoff, number));
                number += 1;
                continue;
            }
            return self.set_aside(source, record, outputs, (failure, number, form));
        }
    }
}

pub(crate) fn place(record: &Record<'_>) -> Place {
    Place { topic: record.topic().to_owned(), partition: record.partition().get(), offset: record.offset().get() }
}

/// Where the broker names several records at once, the client library says only that they are invalid.
fn may_be_its_timestamp(refusal: &Refusal) -> bool {
    match refusal.kind {
        RefusalKind::Timestamp | RefusalKind::Invalid => true,
        RefusalKind::TooLarge => false,
    }
}

fn poison_output(record: &Record<'_>, refusal: &Refusal) -> StopReason {
    StopReason::PoisonOutput { topic: refusal.topic.clone(), reason: refusal.words.clone(), place: place(record) }
}

fn backoff(first: Duration, attempt: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX)).min(BACKOFF_MAX)
}
