//! The input side: one Kafka record, borrowed from the client's fetch buffer, and the newtypes for its place.

use crate::failure::Failure;
use serde::Deserialize;
use std::fmt;

/// A place in a topic-partition's log; also, as a position, the next record to read. Range `0..=i64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

impl Offset {
    /// The first offset a log can have.
    pub const ZERO: Self = Self(0);

    /// Returns the offset, or `None` for Kafka's negative markers ("none", "beginning", "end").
    #[inline]
    pub const fn new(offset: i64) -> Option<Self> {
        if offset < 0 { None } else { Some(Self(offset)) }
    }

    /// Returns the number, never negative.
    #[inline]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the position after the record at this offset.
    ///
    /// # Panics
    /// At `i64::MAX`, which no log reaches.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        assert!(self.0 < i64::MAX, "offset overflows");
        Self(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition number within one topic. Range `0..=i32::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(i32);

impl PartitionId {
    /// Returns the partition, or `None` for a negative number.
    #[inline]
    pub const fn new(partition: i32) -> Option<Self> {
        if partition < 0 { None } else { Some(Self(partition)) }
    }

    /// Returns the number, never negative.
    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z, as Kafka keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Wraps milliseconds since the epoch.
    #[inline]
    pub const fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Returns milliseconds since the epoch.
    #[inline]
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

/// One record header. Names may repeat, values may be null, and order has meaning: a header list is a list, not a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name's bytes. UTF-8 by convention, not by force: they are passed on as they came.
    pub name: &'a [u8],
    /// The value's bytes; `None` is null, which is not the same as empty.
    pub value: Option<&'a [u8]>,
}

/// One input record, borrowed: it lives as long as the call that hands it over.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    topic: &'a str,
    partition: PartitionId,
    offset: Offset,
    timestamp: Option<Timestamp>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: &'a [Header<'a>],
}

impl<'a> Record<'a> {
    /// Returns a record at its place, without key, value, headers or timestamp.
    #[inline]
    pub const fn new(topic: &'a str, partition: PartitionId, offset: Offset) -> Self {
        Self { topic, partition, offset, timestamp: None, key: None, value: None, headers: &[] }
    }

    /// Returns the record with this key.
    #[must_use]
    #[inline]
    pub const fn with_key(mut self, key: Option<&'a [u8]>) -> Self {
        self.key = key;
        self
    }

    /// Returns the record with this value; `None` is a tombstone.
    #[must_use]
    #[inline]
    pub const fn with_value(mut self, value: Option<&'a [u8]>) -> Self {
        self.value = value;
        self
    }

    /// Returns the record with this timestamp.
    #[must_use]
    #[inline]
    pub const fn with_timestamp(mut self, timestamp: Option<Timestamp>) -> Self {
        self.timestamp = timestamp;
        self
    }

    /// Returns the record with these headers, in their order.
    #[must_use]
    #[inline]
    pub const fn with_headers(mut self, headers: &'a [Header<'a>]) -> Self {
        self.headers = headers;
        self
    }

    /// Returns the input topic's name.
    #[inline]
    pub const fn topic(&self) -> &'a str {
        self.topic
    }

    /// Returns the input partition.
    #[inline]
    pub const fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Returns the record's offset in its partition.
    #[inline]
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// Returns the record's timestamp, where the producer or the broker set one.
    #[inline]
    pub const fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Returns the key's bytes; `None` is null.
    #[inline]
    pub const fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// Returns the value's bytes; `None` marks a tombstone.
    #[inline]
    pub const fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// Returns the headers in their order, repeats included.
    #[inline]
    pub const fn headers(&self) -> &'a [Header<'a>] {
        self.headers
    }

    /// Returns the value decoded from JSON; what borrows borrows from the record, without a copy.
    ///
    /// # Errors
    /// A permanent failure: `null_value` for a tombstone, `json_decode` for anything that is not a `T`.
    #[inline]
    pub fn json<T: Deserialize<'a>>(&self) -> Result<T, Failure> {
        let value = self.value.ok_or_else(|| Failure::permanent("null_value", "the value is null, there is nothing to decode"))?;
        // Checking all of it for UTF-8 once is cheaper than each of its texts. What is skipped need not be UTF-8.
        let decoded = std::str::from_utf8(value).map_or_else(|_| serde_json::from_slice(value), serde_json::from_str);
        decoded.map_err(|error| Failure::permanent("json_decode", error.to_string()).with_exception("serde_json::Error"))
    }

    /// Returns the value of the last header of this name, as Kafka's `lastHeader` does. The outer `None` means there is
    /// no such header, the inner one that its value is null.
    #[inline]
    pub fn header(&self, name: &str) -> Option<Option<&'a [u8]>> {
        self.headers.iter().rev().find(|header| header.name == name.as_bytes()).map(|header| header.value)
    }
}
