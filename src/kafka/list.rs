//! A topic-partition list that frees itself.

use crate::ffi;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;

/// An owned list of topic-partitions with offsets and metadata.
pub(crate) struct PartitionList {
    list: NonNull<ffi::rd_kafka_topic_partition_list_t>,
}

/// One element, copied out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionEntry {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) metadata: Vec<u8>,
    /// Leader epoch of what stands before the offset, -1 if not known (KIP-320).
    pub(crate) leader_epoch: i32,
    pub(crate) code: i32,
}

impl PartitionList {
    pub(crate) fn new() -> Self {
        // SAFETY: takes a size hint and returns a new list; librdkafka aborts the process rather than return null.
        let list = unsafe { ffi::rd_kafka_topic_partition_list_new(8) };
        Self { list: NonNull::new(list).expect("librdkafka never returns a null list") }
    }

    pub(crate) fn add(&mut self, topic: &CStr, partition: i32, offset: i64) {
        self.add_with_epoch(topic, partition, offset, None, None);
    }

    /// Adds an element with the leader epoch of what stands before its offset, and with metadata.
    pub(crate) fn add_with_epoch(&mut self, topic: &CStr, partition: i32, offset: i64, leader_epoch: Option<i32>, metadata: Option<&str>) {
        // SAFETY: the list is ours and alive; the topic is copied. The returned element is valid until the next add. The
        // metadata is malloc'ed because librdkafka frees it with the list.
        unsafe {
            let element = ffi::rd_kafka_topic_partition_list_add(self.list.as_ptr(), topic.as_ptr(), partition);
            (*element).offset = offset;
            if let Some(epoch) = leader_epoch {
                ffi::rd_kafka_topic_partition_set_leader_epoch(element, epoch);
            }
            if let Some(metadata) = metadata {
                let copy = libc::malloc(metadata.len().max(1));
                assert!(!copy.is_null(), "out of memory");
                std::ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast::<u8>(), metadata.len());
                (*element).metadata = copy;
                (*element).metadata_size = metadata.len();
            }
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::rd_kafka_topic_partition_list_t {
        self.list.as_ptr()
    }

    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        // SAFETY: the list is ours and alive.
        unsafe { copy_entries(self.list.as_ptr()) }
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: the list is ours and is not used after this.
        unsafe { ffi::rd_kafka_topic_partition_list_destroy(self.list.as_ptr()) }
    }
}

/// Copies a list's elements.
///
/// # Safety
/// `list` is null or a valid list that does not change during the call.
pub(crate) unsafe fn copy_entries(list: *const ffi::rd_kafka_topic_partition_list_t) -> Vec<PartitionEntry> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: promised by the caller; `elems` has `cnt` elements.
    unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        (0..count).map(|index| copy_entry((*list).elems.add(index))).collect()
    }
}

/// Copies one element.
///
/// # Safety
/// `element` is valid and does not change during the call.
pub(crate) unsafe fn copy_entry(element: *const ffi::rd_kafka_topic_partition_t) -> PartitionEntry {
    // SAFETY: promised by the caller; the topic is a C string, the metadata has `metadata_size` bytes.
    unsafe {
        let leader_epoch = ffi::rd_kafka_topic_partition_get_leader_epoch(element);
        let element = &*element;
        let metadata = if element.metadata.is_null() {
            Vec::new()
        } else {
            std::slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size).to_vec()
        };
        let topic = CStr::from_ptr(element.topic).to_string_lossy().into_owned();
        PartitionEntry { topic, partition: element.partition, offset: element.offset, metadata, leader_epoch, code: element.err }
    }
}

/// Returns a C string; names with NUL bytes were refused by configuration checks long before.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
