//! The one trait a transform implements, and what it is built from.

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{OutputId, Routes};
use crate::record::Record;
use serde::de::DeserializeOwned;

/// A registered transform: from one record to any number of outputs.
///
/// Synchronous and deterministic: no I/O, no clock but [`Context::now`]. A batch may be processed again after an abort, so
/// the same record must give the same outputs. One value serves one worker's tasks, one record at a time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a processor",
    note = "implement `transom_sdk::Processor`, or register a plain function with `Registry::map`"
)]
pub trait Processor: Send {
    /// Processes one record: emits its outputs through `context`, or nothing (the record counts as filtered).
    ///
    /// # Errors
    /// A [`Failure`]: whatever this attempt emitted is undone; the record is tried again or becomes a dead letter.
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure>;
}

/// What a typed function's step does with a record whose value is null, since there is nothing to decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tombstones {
    /// A dead letter with the code `null_value`: nothing is deleted or dropped unless somebody asked for it.
    #[default]
    DeadLetter,
    /// A tombstone to the default output, under the input's key.
    Forward,
    /// Counted as filtered.
    Filter,
}

impl Tombstones {
    /// Does it with the record at hand, whose value is null. Typed functions have this done for them; a
    /// [`Processor`] that decodes by itself calls it.
    ///
    /// # Errors
    /// `null_value` for [`DeadLetter`](Self::DeadLetter); `tombstone_without_key` for [`Forward`](Self::Forward) when the
    /// pipeline takes the default output's key from the value.
    pub fn apply(self, context: &mut Context<'_>) -> Result<(), Failure> {
        match self {
            Self::DeadLetter => Err(Failure::permanent("null_value", "the value is null and the step has tombstones: dead_letter")),
            Self::Forward => context.emit(OutputId::DEFAULT).tombstone(),
            Self::Filter => Ok(()),
        }
    }
}

/// What a processor's constructor is given.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    routes: &'a Routes,
    with: &'a serde_json::Value,
    tombstones: Tombstones,
}

/// Why a processor cannot be built for this pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No such processor.
    #[error("no processor is registered as {name:?}")]
    UnknownProcessor {
        /// The name asked for.
        name: String,
    },
    /// The transform writes to an output the pipeline does not have.
    #[error("the pipeline has no output {name:?}; it has: {known}")]
    UnknownOutput {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The step's `with:` is not what the processor takes.
    #[error("the step's \"with\" does not fit")]
    Config(#[source] serde_json::Error),
    /// The processor's own check.
    #[error("{0}")]
    Refused(String),
}

impl<'a> Setup<'a> {
    /// Returns a setup.
    pub const fn new(routes: &'a Routes, with: &'a serde_json::Value, tombstones: Tombstones) -> Self {
        Self { routes, with, tombstones }
    }

    /// Returns the step's `with:`, typed. Use `#[serde(deny_unknown_fields, default)]` on the type.
    ///
    /// # Errors
    /// [`SetupError::Config`].
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, SetupError> {
        let with = if self.with.is_null() { serde_json::Value::Object(serde_json::Map::new()) } else { self.with.clone() };
        serde_json::from_value(with).map_err(SetupError::Config)
    }

    /// Returns the id of a named output.
    ///
    /// # Errors
    /// [`SetupError::UnknownOutput`].
    pub fn output(&self, name: &str) -> Result<OutputId, SetupError> {
        self.routes.id(name).ok_or_else(|| SetupError::UnknownOutput {
            name: name.to_owned(),
            known: self.routes.as_slice().iter().map(|route| route.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns what the step does with null values.
    pub const fn tombstones(&self) -> Tombstones {
        self.tombstones
    }
}
