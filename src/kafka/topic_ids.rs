//! Which topic a name stands for. A topic that is deleted and created again keeps its name and is another log, with another
//! topic id; the library goes on in it at the old position if that is in range there (decision 0011).
//!
//! Owns the ids as this client's fetches use them, and the stamp that says of a committed offset which topic it counts in.
//! Invariant: the first id seen of a name is the one this process works on; a second one ends it.
//!
//! The library tells of an id in one way only: a log line, written by the thread that takes over new metadata, before the
//! new id is used for a fetch. So whoever takes a record out of a queue and then finds no move knows that the record is
//! of the first id. A topic handle per input is kept, for which ids are tracked even while nothing is assigned.

use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Handle};
use crate::list::c_string;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use transom_engine::{OwnerRecord, StopReason};

/// The library's debug context that has the line; the consumer's `debug` property must hold it.
pub(crate) const DEBUG_CONTEXT: &str = "metadata";
/// What stands between an owner record and the id of the topic it is about.
const STAMP: &str = " topic=";
/// The library's word for "no id yet", a UUID of zeros.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// A topic that is not the one it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recreated {
    pub(crate) topic: String,
    /// The partition whose committed offset shows it, with that offset; else it was seen in metadata.
    pub(crate) at: Option<(i32, i64)>,
    pub(crate) was: String,
    pub(crate) now: String,
}

impl Recreated {
    /// Returns the reason to stop. `reading` is a partition of the topic that is read, and where; `bounds` gives log start and end.
    pub(crate) fn reason(self, reading: Option<(i32, i64)>, bounds: impl FnOnce(&str, i32) -> (i64, i64)) -> StopReason {
        let Self { topic, at, was, now } = self;
        let (partition, position) = at.or(reading).unwrap_or((-1, -1));
        let (log_start, log_end) = bounds(&topic, partition.max(0));
        StopReason::TopicRecreated { topic, partition, position, log_start, log_end, was, now }
    }
}

/// The topic ids of one client, written by the library's threads, read by the worker's.
#[derive(Debug, Default)]
pub(crate) struct TopicIds {
    first: Mutex<BTreeMap<String, String>>,
    recreated: Mutex<Option<Recreated>>,
    moved: AtomicBool,
}

impl TopicIds {
    /// Takes note of a log line of the library, if it is the one about ids.
    pub(crate) fn note_log(&self, line: &str) {
        let Some((topic, id)) = changed_id(line) else { return };
        // As Kafka's own tools write it; the library uses the other base64 alphabet.
        let id = id.replace('+', "-").replace('/', "_");
        let was = {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.entry(topic.to_owned()).or_insert_with(|| id.clone()).clone()
        };
        if was != id {
            self.note(Recreated { topic: topic.to_owned(), at: None, was, now: id });
        }
    }

    /// Takes note that a committed offset counts in another topic than the one that is read; the first to be noted stays.
    pub(crate) fn note(&self, recreated: Recreated) {
        self.recreated.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(recreated);
        self.moved.store(true, Ordering::SeqCst);
    }

    /// Returns the id that this process works on, once known.
    pub(crate) fn first(&self, topic: &str) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// Returns the topic that was recreated, if one was; costs one atomic read if none was.
    pub(crate) fn recreated(&self) -> Option<Recreated> {
        if !self.moved.load(Ordering::SeqCst) {
            return None;
        }
        self.recreated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the metadata string of an offset of this topic.
    pub(crate) fn stamped(&self, owner: &OwnerRecord, topic: &str) -> String {
        let id = self.first(topic).map_or_else(String::new, |id| format!("{STAMP}{id}"));
        owner.encode() + &id
    }
}

/// Returns the owner record of a metadata string, if it is one of ours, and the id of the topic it is about, if it says.
pub(crate) fn read_stamped(metadata: &[u8]) -> (Option<OwnerRecord>, Option<&str>) {
    let Ok(text) = std::str::from_utf8(metadata) else { return (None, None) };
    let (record, id) = text.split_once(STAMP).map_or((text, None), |(record, id)| (record, Some(id)));
    match OwnerRecord::parse(record) {
        Ok(record) => (Some(record), id),
        Err(_) => (None, None),
    }
}

/// Finds topic and new id in `[thrd:main]: Topic orders changed id from … to …`.
fn changed_id(line: &str) -> Option<(&str, &str)> {
    let (head, ids) = line.split_once(" changed id from ")?;
    let (_, topic) = head.rsplit_once("Topic ")?;
    let (_, id) = ids.split_once(" to ")?;
    let id = id.trim_end();
    (!topic.contains(' ') && id != NO_ID).then_some((topic, id))
}

/// A reference to a topic of a client, so that the client tracks it.
pub(crate) struct TopicHandle(NonNull<ffi::rd_kafka_topic_t>);

// SAFETY: librdkafka's topic references may be used from any thread.
unsafe impl Send for TopicHandle {}

impl TopicHandle {
    pub(crate) fn new(client: &Handle, topic: &str) -> Result<Self, ClientError> {
        // SAFETY: the client is alive, the name is copied, no topic configuration is given.
        let topic = unsafe { ffi::rd_kafka_topic_new(client.as_ptr(), c_string(topic).as_ptr(), std::ptr::null_mut()) };
        // SAFETY: reads the calling thread's last error.
        NonNull::new(topic).map(Self).ok_or_else(|| ClientError::from_code(unsafe { ffi::rd_kafka_last_error() }))
    }
}

impl TopicHandle {
    /// Returns whether the cluster says that there is no such topic.
    pub(crate) fn is_missing(&self, client: &Handle, timeout: Duration) -> Result<bool, ClientError> {
        let mut metadata: *const ffi::rd_kafka_metadata_t = std::ptr::null();
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: client and topic are alive; the result is ours, read within its counts and freed below.
        unsafe {
            ClientError::check_code(ffi::rd_kafka_metadata(client.as_ptr(), 0, self.0.as_ptr(), &raw mut metadata, timeout_ms))?;
            let count = usize::try_from((*metadata).topic_cnt).unwrap_or(0);
            let missing = (0..count).any(|index| (*(*metadata).topics.add(index)).err == code::UNKNOWN_TOPIC_OR_PART);
            ffi::rd_kafka_metadata_destroy(metadata);
            Ok(missing)
        }
    }
}

impl TopicHandle {
    /// Returns how many replicas a partition has, as far as the cluster answers in time.
    pub(crate) fn replicas(&self, client: &Handle, partition: i32, timeout: Duration) -> Option<usize> {
        let mut metadata: *const ffi::rd_kafka_metadata_t = std::ptr::null();
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: client and topic are alive; the result is ours, read within its counts and freed below.
        unsafe {
            ClientError::check_code(ffi::rd_kafka_metadata(client.as_ptr(), 0, self.0.as_ptr(), &raw mut metadata, timeout_ms)).ok()?;
            let topics = usize::try_from((*metadata).topic_cnt).unwrap_or(0);
            let of_topic = |index: usize| {
                let topic = &*(*metadata).topics.add(index);
                (0..usize::try_from(topic.partition_cnt).unwrap_or(0)).map(|index| &*topic.partitions.add(index))
            };
            let found = (0..topics).flat_map(of_topic).find(|found| found.id == partition).map(|found| found.replica_cnt);
            ffi::rd_kafka_metadata_destroy(metadata);
            found.and_then(|count| usize::try_from(count).ok())
        }
    }
}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and not used after this.
        unsafe { ffi::rd_kafka_topic_destroy(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::{BatchId, Incarnation, Ownership, TransactionalId};

    const A: &str = "GJ4Y2s-lTSizZ4TW_aGyBQ";
    const B: &str = "u30CdDVdQ5iRk9Zo0LTtYg";

    fn line(topic: &str, from: &str, to: &str) -> String {
        format!("[thrd:main]: Topic {topic} changed id from {from} to {to}")
    }

    #[test]
    fn the_second_id_of_a_name_is_another_topic() {
        let ids = TopicIds::default();
        ids.note_log("[thrd:main]: Topic orders partition 0 Leader 1");
        assert_eq!((ids.first("orders"), ids.recreated()), (None, None));
        ids.note_log(&line("orders", NO_ID, A));
        ids.note_log(&line("payments", NO_ID, B));
        ids.note_log(&line("orders", NO_ID, A));
        assert_eq!((ids.first("orders").as_deref(), ids.recreated()), (Some(A), None));
        ids.note_log(&line("orders", A, NO_ID));
        assert_eq!(ids.recreated(), None);
        ids.note_log(&line("orders", A, B));
        let recreated = Recreated { topic: "orders".to_owned(), at: None, was: A.to_owned(), now: B.to_owned() };
        assert_eq!(ids.recreated(), Some(recreated));
        assert_eq!(ids.first("orders").as_deref(), Some(A));
    }

    #[test]
    fn ids_are_written_as_kafkas_own_tools_write_them() {
        let ids = TopicIds::default();
        ids.note_log(&line("orders", NO_ID, "jnicX/LrTBefvgl4+rel0A"));
        assert_eq!(ids.first("orders").as_deref(), Some("jnicX_LrTBefvgl4-rel0A"));
    }

    #[test]
    fn an_offset_carries_the_id_of_its_topic() {
        let transactional_id = TransactionalId::new("orders", "pod-0", 3).unwrap();
        let owner = OwnerRecord { transactional_id, incarnation: Incarnation(7), batch: BatchId(1), ownership: Ownership::Held };
        let ids = TopicIds::default();
        assert_eq!(read_stamped(ids.stamped(&owner, "in").as_bytes()), (Some(owner.clone()), None));
        ids.note_log(&line("in", NO_ID, A));
        let stamped = ids.stamped(&owner, "in");
        assert_eq!(stamped, format!("transom/1 orders:pod-0:3 0000000000000007 1 held topic={A}"));
        assert_eq!(read_stamped(stamped.as_bytes()), (Some(owner), Some(A)));
        assert_eq!(read_stamped(b"some other tool topic=x"), (None, None));
        assert_eq!(read_stamped(&[0xff]), (None, None));
    }
}
