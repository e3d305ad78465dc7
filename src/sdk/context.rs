//! What a transform sees beside its record: the clock, the attempt, and the way out.

use crate::failure::Failure;
use crate::output::{EntryHead, KeySource, OutputBuffer, OutputId, Routes};
use crate::record::{Header, Record, Timestamp};
use serde::Serialize;

/// The surroundings of one attempt at one record.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) outputs: &'a mut OutputBuffer,
    pub(crate) routes: &'a Routes,
    pub(crate) source: u32,
    pub(crate) attempt: u32,
    pub(crate) now: Timestamp,
}

impl<'a> Context<'a> {
    /// Returns the wall clock as of this batch. Transforms have no other clock, so that a re-run decides alike.
    #[inline]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns which attempt this is, from 1.
    #[inline]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the record being processed.
    #[inline]
    pub const fn record(&self) -> &Record<'a> {
        &self.record
    }

    /// Starts a record to `output`. Unless told otherwise it takes the input's headers and timestamp, and the key the
    /// pipeline chose for that output, else the input's key.
    #[inline]
    pub fn emit(&mut self, output: OutputId) -> Emission<'_> {
        let headers_start = self.outputs.header_mark();
        Emission {
            head: EntryHead { output, source: self.source, timestamp: self.record.timestamp(), headers_start },
            record: self.record,
            routes: self.routes,
            outputs: self.outputs,
            key: KeyChoice::Pipeline,
            inherited: Inherited::Pending,
        }
    }
}

#[derive(Clone, Copy)]
enum KeyChoice<'k> {
    Pipeline,
    Null,
    Bytes(&'k [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inherited {
    Pending,
    Written,
    Dropped,
}

/// An output being written. Nothing is emitted until [`json`](Self::json), [`bytes`](Self::bytes) or
/// [`tombstone`](Self::tombstone) ends it.
#[must_use = "nothing is emitted until json, bytes or tombstone is called"]
pub struct Emission<'e> {
    head: EntryHead,
    record: Record<'e>,
    routes: &'e Routes,
    outputs: &'e mut OutputBuffer,
    key: KeyChoice<'e>,
    inherited: Inherited,
}

impl<'e> Emission<'e> {
    /// Sets the key's bytes, above the pipeline's choice.
    #[inline]
    pub fn key(mut self, key: &'e [u8]) -> Self {
        self.key = KeyChoice::Bytes(key);
        self
    }

    /// Sets a null key: the partition is then any.
    #[inline]
    pub fn null_key(mut self) -> Self {
        self.key = KeyChoice::Null;
        self
    }

    /// Sets the record timestamp. Brokers refuse one more than `message.timestamp.after.max.ms` (1 h) ahead.
    #[inline]
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.head.timestamp = Some(timestamp);
        self
    }

    /// Adds a header behind those of the input.
    #[inline]
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        self.inherit();
        self.outputs.push_header(Header { name: name.as_bytes(), value });
        self
    }

    /// Leaves the input's headers, and any added so far, behind.
    #[inline]
    pub fn without_input_headers(mut self) -> Self {
        self.outputs.truncate_headers(self.head.headers_start);
        self.inherited = Inherited::Dropped;
        self
    }

    fn inherit(&mut self) {
        if self.inherited == Inherited::Pending {
            for header in self.record.headers() {
                self.outputs.push_header(*header);
            }
            self.inherited = Inherited::Written;
        }
    }

    fn key_source(&self) -> KeySource<'e> {
        let route = self.routes.get(self.head.output);
        match (self.key, &route.key) {
            (KeyChoice::Bytes(bytes), _) => KeySource::Bytes(bytes),
            (KeyChoice::Null, _) => KeySource::Null,
            (KeyChoice::Pipeline, Some(pointer)) => KeySource::Pointer(pointer),
            (KeyChoice::Pipeline, None) => self.record.key().map_or(KeySource::Null, KeySource::Bytes),
        }
    }

    fn write(mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>) -> Result<(), Failure> {
        self.inherit();
        let key = self.key_source();
        self.outputs.push_written(self.head, key, write, |error| Failure::permanent("key_missing", error.to_string()))
    }

    /// Ends the output with `value` as JSON.
    ///
    /// # Errors
    /// A permanent failure when the value does not serialise or the pipeline's key is not in it.
    #[inline]
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failure> {
        self.write(|bytes| serde_json::to_writer(bytes, value).map_err(|error| Failure::permanent("json_encode", error.to_string())))
    }

    /// Ends the output with these bytes as its value.
    ///
    /// # Errors
    /// A permanent failure when the pipeline's key is not in them.
    #[inline]
    pub fn bytes(self, value: &[u8]) -> Result<(), Failure> {
        self.write(|bytes| {
            bytes.extend_from_slice(value);
            Ok(())
        })
    }

    /// Ends the output with a null value: whoever holds the key deletes it.
    ///
    /// # Errors
    /// A permanent failure when the pipeline takes this output's key from the value: a tombstone has none, and the
    /// input's key would delete something else. Set the key to choose.
    #[inline]
    pub fn tombstone(mut self) -> Result<(), Failure> {
        self.inherit();
        let key = match self.key_source() {
            KeySource::Null => None,
            KeySource::Bytes(bytes) => Some(bytes),
            KeySource::Pointer(pointer) => {
                return Err(Failure::permanent(
                    "tombstone_without_key",
                    format!("a tombstone has no value to take the key {} from", pointer.as_str()),
                ));
            }
        };
        self.outputs.push_tombstone(self.head, key);
        Ok(())
    }
}

impl std::fmt::Debug for Emission<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emission").field("output", &self.head.output).finish_non_exhaustive()
    }
}
