//! What a topic holds, in one number: the same for the same values in the same order under each key, whatever the order of keys.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// The sum of what was written under each key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many records.
    pub records: u64,
    sum: u64,
}

impl Digest {
    /// Returns the digest of both together; no key may be in both.
    #[must_use]
    pub const fn beside(self, other: Self) -> Self {
        Self { records: self.records + other.records, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Builds a [`Digest`] from records, which must come in offset order within a key.
#[derive(Debug, Default)]
pub struct Sequences {
    by_key: HashMap<u64, u64>,
    records: u64,
}

impl Sequences {
    /// Adds the next record of its key.
    pub fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        let sequence = self.by_key.entry(hash(0, key)).or_default();
        *sequence = hash(*sequence, value);
        self.records += 1;
    }

    /// Returns the digest of what was added.
    pub fn digest(&self) -> Digest {
        let sequences = self.by_key.iter().map(|(key, sequence)| hash(*key, Some(&sequence.to_le_bytes())));
        Digest { records: self.records, sum: sequences.fold(0, u64::wrapping_add) }
    }
}

/// Hashes bytes behind what came before them; null is not the same as empty.
pub fn hash(before: u64, bytes: Option<&[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(before);
    match bytes {
        None => hasher.write_u8(0),
        Some(bytes) => {
            hasher.write_u8(1);
            hasher.write(bytes);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(records: &[(&str, &str)]) -> Digest {
        let mut sequences = Sequences::default();
        for (key, value) in records {
            sequences.add(Some(key.as_bytes()), Some(value.as_bytes()));
        }
        sequences.digest()
    }

    #[test]
    fn keys_may_come_in_any_order_and_values_under_a_key_may_not() {
        let written = digest(&[("a", "1"), ("a", "2"), ("b", "1")]);
        assert_eq!(digest(&[("b", "1"), ("a", "1"), ("a", "2")]), written);
        for wrong in [
            &[("a", "2"), ("a", "1"), ("b", "1")][..],
            &[("a", "1"), ("a", "2")],
            &[("a", "1"), ("a", "2"), ("b", "1"), ("b", "1")],
            &[("a", "1"), ("a", "2"), ("c", "1")],
            &[("a", "1"), ("b", "2"), ("b", "1")],
        ] {
            assert_ne!(digest(wrong), written, "{wrong:?}");
        }
    }
}
