//! The test driver: a transform's whole step without a broker.

use crate::attempt::{Attempt, AttemptError, attempt};
use crate::failure::Failure;
use crate::output::{OutputBuffer, Route, Routes};
use crate::processor::{Processor, Setup, SetupError, Tombstones};
use crate::record::{Header, Offset, PartitionId, Record, Timestamp};
use crate::registry::Registry;
use crate::{KeyPointer, KeyPointerError};
use serde::Serialize;

/// Drives one registered processor, record by record, the way a worker does: same savepoints, same panic handling.
pub struct TestDriver {
    registry: Registry,
    name: String,
    routes: Routes,
    with: serde_json::Value,
    tombstones: Tombstones,
    processor: Box<dyn Processor>,
    next_offset: Offset,
    now: Timestamp,
}

/// A record to pipe in.
#[derive(Clone, Debug, Default)]
pub struct TestRecord {
    /// Key bytes or null.
    pub key: Option<Vec<u8>>,
    /// Value bytes or null.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Record timestamp.
    pub timestamp: Option<Timestamp>,
}

impl TestRecord {
    /// Returns a record with this value and nothing else.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }
}

/// One emitted output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipedOutput {
    /// The output's name.
    pub output: String,
    /// Key bytes or null.
    pub key: Option<Vec<u8>>,
    /// Value bytes or null.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Record timestamp.
    pub timestamp: Option<Timestamp>,
}

/// What became of a piped record: its outputs, or its failure and no output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Piped {
    /// The outputs in order; empty when filtered or failed.
    pub outputs: Vec<PipedOutput>,
    /// Why there is none, where an attempt failed.
    pub failure: Option<Failure>,
}

impl Piped {
    /// Returns the only output's value as JSON.
    ///
    /// # Panics
    /// When there is not exactly one output with a JSON value.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.outputs.len(), 1, "exactly one output; failure: {:?}", self.failure);
        let value = self.outputs[0].value.as_deref().expect("the output has a value");
        serde_json::from_slice(value).expect("the output's value is JSON")
    }

    /// Returns the failure's code.
    ///
    /// # Panics
    /// When the record did not fail.
    pub fn code(&self) -> &str {
        self.failure.as_ref().expect("the record failed").code()
    }
}

impl TestDriver {
    /// Returns a driver for a registered processor with one output, `default`.
    ///
    /// # Errors
    /// What the processor's constructor refuses.
    pub fn new(registry: &Registry, name: &str) -> Result<Self, SetupError> {
        Self::with_setup(registry, name, &["default"], serde_json::Value::Null)
    }

    /// Returns a driver with these outputs (the first is `default`) and this `with:`.
    ///
    /// # Errors
    /// What the processor's constructor refuses.
    pub fn with_setup(registry: &Registry, name: &str, outputs: &[&str], with: serde_json::Value) -> Result<Self, SetupError> {
        let route = |name: &&str| Route { name: (*name).to_owned(), topic: (*name).to_owned(), key: None };
        let routes = Routes::new(outputs.iter().map(route).collect());
        let tombstones = Tombstones::default();
        let processor = registry.construct(name, &Setup::new(&routes, &with, tombstones))?;
        let (registry, name) = (registry.clone(), name.to_owned());
        Ok(Self { registry, name, routes, with, tombstones, processor, next_offset: Offset::ZERO, now: Timestamp::from_millis(0) })
    }

    /// Chooses what the step does with null values.
    ///
    /// # Errors
    /// What the processor's constructor refuses.
    pub fn tombstones(mut self, tombstones: Tombstones) -> Result<Self, SetupError> {
        self.tombstones = tombstones;
        self.rebuild()?;
        Ok(self)
    }

    /// Takes the key of the default output from its value.
    ///
    /// # Errors
    /// When the pointer does not parse.
    pub fn key(mut self, pointer: &str) -> Result<Self, KeyPointerError> {
        let mut routes = self.routes.as_slice().to_vec();
        routes[0].key = Some(KeyPointer::parse(pointer)?);
        self.routes = Routes::new(routes);
        Ok(self)
    }

    /// Sets the clock that transforms see.
    pub const fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn rebuild(&mut self) -> Result<(), SetupError> {
        self.processor = self.registry.construct(&self.name, &Setup::new(&self.routes, &self.with, self.tombstones))?;
        Ok(())
    }

    /// Pipes in a JSON value without key or headers.
    ///
    /// # Panics
    /// When the value does not serialise.
    pub fn pipe_json<T: Serialize + ?Sized>(&mut self, value: &T) -> Piped {
        let value = serde_json::to_vec(value).expect("the test's value serialises");
        self.pipe(&TestRecord::value(value))
    }

    /// Pipes in a record; one attempt.
    ///
    /// # Panics
    /// When the processor cannot be built again after a panic.
    pub fn pipe(&mut self, record: &TestRecord) -> Piped {
        let headers: Vec<Header<'_>> = record.headers.iter().map(|(name, value)| Header { name: name.as_bytes(), value: value.as_deref() }).collect();
        let partition = PartitionId::default();
        let input = Record::new("input", partition, self.next_offset)
            .with_key(record.key.as_deref())
            .with_value(record.value.as_deref())
            .with_timestamp(record.timestamp)
            .with_headers(&headers);
        self.next_offset = self.next_offset.next();
        let mut outputs = OutputBuffer::new();
        let surroundings = Attempt { routes: &self.routes, source: 0, number: 1, now: self.now };
        let result = attempt(self.processor.as_mut(), &input, &mut outputs, surroundings);
        if let Err(AttemptError::Panicked(_)) = result {
            self.rebuild().expect("the processor can be built again");
        }
        let failure = result.err().map(|error| error.failure().clone());
        Piped { outputs: self.collect(&outputs), failure }
    }

    fn collect(&self, outputs: &OutputBuffer) -> Vec<PipedOutput> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        outputs
            .iter()
            .map(|view| PipedOutput {
                output: self.routes.get(view.output()).name.clone(),
                key: view.key().map(<[u8]>::to_vec),
                value: view.value().map(<[u8]>::to_vec),
                headers: view.headers().map(|header| (text(header.name), header.value.map(<[u8]>::to_vec))).collect(),
                timestamp: view.timestamp(),
            })
            .collect()
    }
}

impl std::fmt::Debug for TestDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestDriver").field("name", &self.name).finish_non_exhaustive()
    }
}
