//! What is written and what is read, and where Java's default partitioner puts a key.

use std::time::{SystemTime, UNIX_EPOCH};

/// A header list in the order of the log; names may repeat, values may be null.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A record to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The key, or null.
    pub key: Option<Vec<u8>>,
    /// The value; null is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers, written in this order.
    pub headers: Headers,
    /// The record's timestamp, milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl NewRecord {
    /// Returns a record with a key and a value, without headers, stamped with the machine's time.
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), value: Some(value.into()), headers: Vec::new(), timestamp_ms: now_ms() }
    }

    /// Returns a record without a key.
    pub fn keyless(value: impl Into<Vec<u8>>) -> Self {
        Self { key: None, ..Self::new(Vec::new(), value) }
    }

    /// Returns a record with a null value.
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Self {
        Self { value: None, ..Self::new(key, Vec::new()) }
    }

    /// Adds one header with a value at the end of the list.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }

    /// Adds one header with a null value at the end of the list.
    #[must_use]
    pub fn with_null_header(mut self, name: &str) -> Self {
        self.headers.push((name.to_owned(), None));
        self
    }

    /// Sets the timestamp.
    #[must_use]
    pub fn at_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = timestamp_ms;
        self
    }

    /// An upper bound of the bytes this record takes in an uncompressed batch.
    pub(super) fn encoded_bytes_max(&self) -> usize {
        /// Five varints of at most ten bytes, the attributes, and the record's own length.
        const FRAMING_BYTES_MAX: usize = 64;
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 10).sum();
        FRAMING_BYTES_MAX + self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len) + headers
    }
}

/// A record as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The key, or null.
    pub key: Option<Vec<u8>>,
    /// The value, or null.
    pub value: Option<Vec<u8>>,
    /// The header list of the log: order, duplicates and nulls kept.
    pub headers: Headers,
    /// Who wrote it; -1 if the producer was not idempotent.
    pub producer_id: i64,
    /// The writer's incarnation; -1 if the producer was not idempotent.
    pub producer_epoch: i16,
}

impl ReadRecord {
    /// Returns the value of the last header of this name; a null value and a missing header both give `None`.
    pub fn last_header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().rev().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref())
    }
}

/// How batches are compressed when written. Reading understands all but zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// LZ4 frames.
    Lz4,
}

/// Returns the partition Java's default partitioner chooses for a key, out of `partitions`.
///
/// # Panics
/// If `partitions` is not positive.
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    let positive = murmur2(key) & 0x7fff_ffff;
    let partitions = partitions.unsigned_abs();
    i32::try_from(positive % partitions).unwrap_or_default()
}

/// `org.apache.kafka.common.utils.Utils.murmur2`, with its seed.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Java's lengths are int, and a key never exceeds one.
    let mut hash = SEED ^ (data.len() as u32);
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The machine's time, milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn murmur2_is_the_one_of_java() {
        let table: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, expected) in table {
            assert_eq!(murmur2(key) as i32, expected, "{}", String::from_utf8_lossy(key));
        }
    }
}
