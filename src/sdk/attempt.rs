//! One attempt at one record, from a savepoint: what the runtime and the [`TestDriver`](crate::TestDriver) share.

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{OutputBuffer, Routes};
use crate::processor::Processor;
use crate::record::{Record, Timestamp};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What surrounds an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The pipeline's outputs.
    pub routes: &'a Routes,
    /// Index of the record within its batch.
    pub source: u32,
    /// Which attempt, from 1.
    pub number: u32,
    /// Wall clock as of the batch.
    pub now: Timestamp,
}

/// Why an attempt left nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum AttemptError {
    /// The transform refused the record.
    Failed(Failure),
    /// The transform panicked: always permanent. The processor's own fields may be half-changed: build a new one.
    Panicked(Failure),
}

impl AttemptError {
    /// Returns the failure for the dead letter.
    #[inline]
    pub const fn failure(&self) -> &Failure {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => failure,
        }
    }
}

/// Runs one attempt and returns how many outputs it appended; on an error `outputs` is as it was before (EO-1).
///
/// # Errors
/// The transform's failure or its panic.
#[inline]
pub fn attempt(processor: &mut dyn Processor, record: &Record<'_>, outputs: &mut OutputBuffer, attempt: Attempt<'_>) -> Result<usize, AttemptError> {
    let savepoint = outputs.savepoint();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut context =
            Context { record: *record, outputs, routes: attempt.routes, source: attempt.source, attempt: attempt.number, now: attempt.now };
        processor.process(record, &mut context)
    }));
    match result {
        Ok(Ok(())) => Ok(outputs.appended_since(savepoint)),
        Ok(Err(failure)) => {
            outputs.restore(savepoint);
            Err(AttemptError::Failed(failure))
        }
        Err(payload) => {
            outputs.restore(savepoint);
            let message = panic_message(payload.as_ref());
            Err(AttemptError::Panicked(Failure::permanent("panic", message).with_exception("panic")))
        }
    }
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "the transform panicked with a payload that is not text".to_owned()
    }
}
