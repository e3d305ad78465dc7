//! Names: transactional ids, and the owner records that travel as metadata of committed offsets.

use crate::batch::BatchId;
use std::fmt;

/// Separates the parts of a transactional id. Banned in names, so that two ids cannot collide and an ACL prefix of one
/// pipeline (`orders:`) does not cover another (`orders2:`).
const SEPARATOR: char = ':';
/// Longest pipeline or instance name, in bytes: three parts of an owner record stay far below its own limit.
const NAME_BYTES_MAX: usize = 100;
/// Longest owner record, in bytes. The broker's limit is 4096, and one byte more would abort every transaction for ever.
const OWNER_RECORD_BYTES_MAX: usize = 512;

/// Why a name cannot be part of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing.
    #[error("the name is empty")]
    Empty,
    /// Too long.
    #[error("the name has {bytes} bytes, at most {NAME_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A character that is not allowed.
    #[error("the name has {character:?}; letters, digits, '.', '_' and '-' are allowed (':' separates the parts of a transactional id)")]
    Character {
        /// The first one.
        character: char,
    },
}

/// Checks a pipeline's or instance's name.
///
/// # Errors
/// The first thing wrong with it.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(character) => Err(NameError::Character { character }),
        None => Ok(()),
    }
}

/// `<pipeline>:<instance>:<worker>`: who writes. Stable, so that a restart under the same name aborts what its
/// predecessor left open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionalId {
    pipeline: String,
    instance: String,
    worker: u16,
}

impl TransactionalId {
    /// Returns the id of one worker.
    ///
    /// # Errors
    /// When a name may not be part of an id.
    pub fn new(pipeline: &str, instance: &str, worker: u16) -> Result<Self, NameError> {
        check_name(pipeline)?;
        check_name(instance)?;
        Ok(Self { pipeline: pipeline.to_owned(), instance: instance.to_owned(), worker })
    }

    /// Parses an id of ours; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let (pipeline, instance, worker) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let id = Self::new(pipeline, instance, worker.parse().ok()?).ok()?;
        // `+1` and `01` parse as numbers too; only the canonical form is an id of ours.
        (id.to_string() == text).then_some(id)
    }

    /// Returns the pipeline's name.
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }

    /// Returns the instance's name.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the worker's number within its instance, from 0.
    pub const fn worker(&self) -> u16 {
        self.worker
    }
}

impl fmt::Display for TransactionalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}{SEPARATOR}{}", self.pipeline, self.instance, self.worker)
    }
}

/// Tells one life of a worker from the next under the same id: 64 random bits, written as 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Whether the writer of an owner record still claims the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It does.
    Held,
    /// It gave it back after its last batch was resolved.
    Released,
}

/// The metadata string of every committed offset: `transom/1 <transactional id> <incarnation> <batch> held|released`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRecord {
    /// Who committed.
    pub transactional_id: TransactionalId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// With which batch.
    pub batch: BatchId,
    /// Whether the partition is still claimed.
    pub ownership: Ownership,
}

/// Why a metadata string is no owner record. All of these mean: no owner known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerRecordError {
    /// Empty: a group that another client committed for, or none yet.
    #[error("there is no metadata")]
    Missing,
    /// Somebody else's.
    #[error("the metadata is not Transom's")]
    Foreign,
    /// Longer than any record of ours.
    #[error("the metadata has {bytes} bytes, more than the {OWNER_RECORD_BYTES_MAX} of an owner record")]
    Overlong {
        /// Its length.
        bytes: usize,
    },
    /// Ours by its first word, but not readable.
    #[error("the owner record is garbled")]
    Garbled,
}

impl OwnerRecord {
    /// Parses a metadata string.
    ///
    /// # Errors
    /// Everything that is not exactly a record of ours.
    pub fn parse(metadata: &str) -> Result<Self, OwnerRecordError> {
        if metadata.is_empty() {
            return Err(OwnerRecordError::Missing);
        }
        if metadata.len() > OWNER_RECORD_BYTES_MAX {
            return Err(OwnerRecordError::Overlong { bytes: metadata.len() });
        }
        let mut words = metadata.split(' ');
        if words.next() != Some("transom/1") {
            return Err(OwnerRecordError::Foreign);
        }
        let record = (|| {
            let transactional_id = TransactionalId::parse(words.next()?)?;
            let incarnation = Incarnation(u64::from_str_radix(words.next()?, 16).ok()?);
            let batch = BatchId(words.next()?.parse().ok()?);
            let ownership = match words.next()? {
                "held" => Ownership::Held,
                "released" => Ownership::Released,
                _ => return None,
            };
            words.next().is_none().then_some(Self { transactional_id, incarnation, batch, ownership })
        })();
        record.filter(|record| record.to_string() == metadata).ok_or(OwnerRecordError::Garbled)
    }

    /// Returns whether this life of this id wrote it.
    pub fn is_by(&self, transactional_id: &TransactionalId, incarnation: Incarnation) -> bool {
        self.transactional_id == *transactional_id && self.incarnation == incarnation
    }

    /// Returns the metadata string.
    ///
    /// # Panics
    /// When it is longer than 512 bytes, which name limits make impossible.
    pub fn encode(&self) -> String {
        let text = self.to_string();
        assert!(text.len() <= OWNER_RECORD_BYTES_MAX, "an owner record of {} bytes", text.len());
        text
    }
}

impl fmt::Display for OwnerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ownership = match self.ownership {
            Ownership::Held => "held",
            Ownership::Released => "released",
        };
        write!(f, "transom/1 {} {} {} {ownership}", self.transactional_id, self.incarnation, self.batch.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_record_survives_the_trip() {
        let record = OwnerRecord {
            transactional_id: TransactionalId::new("orders", "pod-0", 3).unwrap(),
            incarnation: Incarnation(0xab),
            batch: BatchId(17),
            ownership: Ownership::Held,
        };
        assert_eq!(record.encode(), "transom/1 orders:pod-0:3 00000000000000ab 17 held");
        assert_eq!(OwnerRecord::parse(&record.encode()).unwrap(), record);
    }

    #[test]
    fn anything_else_means_no_owner() {
        let long = format!("transom/1 {}", "x".repeat(600));
        for (metadata, error) in [
            ("", OwnerRecordError::Missing),
            ("some other tool", OwnerRecordError::Foreign),
            ("transom/2 a:b:0 00 1 held", OwnerRecordError::Foreign),
            ("transom/1 a:b:0 00000000000000ab 17 kept", OwnerRecordError::Garbled),
            ("transom/1 a:b 00000000000000ab 17 held", OwnerRecordError::Garbled),
            ("transom/1 a:b:0 ab 17 held", OwnerRecordError::Garbled),
            ("transom/1 a:b:+0 00000000000000ab 17 held", OwnerRecordError::Garbled),
            ("transom/1 a:b:0 00000000000000ab 17 held ", OwnerRecordError::Garbled),
            ("transom/1 a:b:0 00000000000000ab 17", OwnerRecordError::Garbled),
            (&long, OwnerRecordError::Overlong { bytes: 610 }),
        ] {
            assert_eq!(OwnerRecord::parse(metadata).unwrap_err(), error, "{metadata:?}");
        }
    }

    #[test]
    fn the_longest_names_fit_an_owner_record() {
        let name = "n".repeat(NAME_BYTES_MAX);
        let transactional_id = TransactionalId::new(&name, &name, u16::MAX).unwrap();
        let record = OwnerRecord { transactional_id, incarnation: Incarnation(u64::MAX), batch: BatchId(u64::MAX), ownership: Ownership::Released };
        assert!(record.encode().len() < OWNER_RECORD_BYTES_MAX);
    }

    #[test]
    fn names_that_could_collide_are_refused() {
        assert_eq!(check_name("a:b").unwrap_err(), NameError::Character { character: ':' });
        assert_eq!(check_name("").unwrap_err(), NameError::Empty);
        assert_eq!(check_name(&"x".repeat(101)).unwrap_err(), NameError::TooLong { bytes: 101 });
        assert_eq!(check_name("a b").unwrap_err(), NameError::Character { character: ' ' });
        assert!(check_name("Pod-0.orders_1").is_ok());
    }
}
