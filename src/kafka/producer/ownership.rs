//! Who holds a partition: owner records read, dead owners fenced, missing offsets judged.

use super::meet::meet_brokers;
use super::{INIT_TIMEOUT, INIT_TIMEOUT_MS, KafkaProducer, RESOLVE_TIMEOUT};
use crate::admin::{Spec, list_offsets};
use crate::broker::Guarantee;
use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Handle, Kind, Properties};
use crate::list::PartitionEntry;
use crate::preflight::StartOffset;
use crate::topic_ids::{Recreated, read_stamped};
use std::time::{Duration, Instant};
use transom_engine::{OwnerRecord, OwnerSeen, Ownership, SourcePartition, TransactionalId};
use transom_runtime::Call;
use transom_sdk::Offset;

impl KafkaProducer {
    /// Fences every id that still holds one of these partitions. Without this a reader of the output, and we ourselves, wait
    /// until the dead owner's transaction times out.
    pub(super) fn take_over(&self, places: &[(String, i32)]) {
        if self.options.guarantee != Guarantee::ExactlyOnce || places.is_empty() {
            return;
        }
        let first = self.holders(places);
        if first.is_empty() {
            return;
        }
        // Several successors of one dead instance come here together; those who look again a little later see what is left.
        std::thread::sleep(Duration::from_millis(u64::from(std::process::id() % 20)));
        let holders: Vec<_> = self.holders(places).into_iter().filter(|holder| first.contains(holder)).collect();
        let properties = &self.options.properties;
        let begun = Instant::now();
        let fence_all = || {
            std::thread::scope(|scope| {
                let fences: Vec<_> = holders.iter().map(|holder| scope.spawn(move || fence(properties, &holder.transactional_id))).collect();
                fences.into_iter().filter_map(|fence| fence.join().ok()).find_map(Result::err)
            })
        };
        match self.watch.during(Call::Fence, INIT_TIMEOUT, fence_all) {
            Some(error) => self.watch.silent(Call::Fence, begun, error.to_string()),
            None => self.watch.answered(Call::Fence),
        }
    }

    /// Reads offsets and owner records of the group; all of its partitions without `places`.
    pub(super) fn read_offsets(&self, places: Option<&[(String, i32)]>, stable: bool) -> Result<Vec<PartitionEntry>, ClientError> {
        let begun = Instant::now();
        let read = || self.group_reader.read(places, stable, RESOLVE_TIMEOUT);
        let result = self.watch.during(Call::ReadOffsets, RESOLVE_TIMEOUT, read);
        match &result {
            Ok(_) => self.watch.answered(Call::ReadOffsets),
            Err(error) => self.watch.silent(Call::ReadOffsets, begun, error.to_string()),
        }
        result
    }

    /// Returns the owner records of others that hold one of these partitions, one for each id.
    fn holders(&self, places: &[(String, i32)]) -> Vec<OwnerRecord> {
        let listed = match self.read_offsets(Some(places), false) {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(error = %error, "owner records cannot be read yet");
                return Vec::new();
            }
        };
        let mut holders: Vec<OwnerRecord> = Vec::new();
        for entry in listed.iter().filter(|entry| entry.code == 0) {
            let Some(record) = owner_record(entry) else { continue };
            let known = holders.iter().any(|holder| holder.transactional_id == record.transactional_id);
            if record.ownership == Ownership::Held && self.is_foreign(&record.transactional_id) && !known {
                holders.push(record);
            }
        }
        holders
    }

    /// Returns whether an id belongs to this pipeline and to no worker of this process.
    fn is_foreign(&self, id: &TransactionalId) -> bool {
        let ours = id.instance() == self.options.instance && id.worker() < self.options.workers;
        id.pipeline() == self.options.transactional_id.pipeline() && !ours
    }

    pub(super) fn owner_seen(&self, place: SourcePartition, entry: &PartitionEntry) -> OwnerSeen {
        match (entry.code, Offset::new(entry.offset)) {
            (code::UNSTABLE_OFFSET_COMMIT, _) => OwnerSeen::Pending,
            (0, Some(offset)) => self.of_this_topic(entry, offset),
            (0, None) => self.without_offset(place),
            (other, _) => {
                tracing::warn!(topic = entry.topic, partition = entry.partition, error = %ClientError::from_code(other), "committed offset unanswered");
                OwnerSeen::Unanswered
            }
        }
    }

    /// An offset that counts in another topic of the same name is no place to go on from: the consumer is told, and stops.
    fn of_this_topic(&self, entry: &PartitionEntry, offset: Offset) -> OwnerSeen {
        let (owner, stamp) = read_stamped(&entry.metadata);
        let ids = &self.group_client.mailbox().topics;
        match (stamp, ids.first(&entry.topic)) {
            (Some(was), Some(now)) if was != now => {
                ids.note(Recreated { topic: entry.topic.clone(), at: Some((entry.partition, offset.get())), was: was.to_owned(), now });
                OwnerSeen::Unanswered
            }
            (Some(_), None) => {
                tracing::debug!(topic = entry.topic, "the topic's id is not known yet");
                OwnerSeen::Unanswered
            }
            (Some(_), Some(_)) | (None, _) => {
                self.group_client.mailbox().epochs.note(&entry.topic, entry.partition, offset.get(), entry.leader_epoch);
                OwnerSeen::At(offset, owner)
            }
        }
    }

    /// A partition without an offset: the group is new to it, and it is read from its beginning. A group that began at the
    /// end of the logs was seeded for all partitions there were then: without an offset is one that was added since, if its
    /// number is above all that have one; otherwise its offset was lost.
    fn without_offset(&self, place: SourcePartition) -> OwnerSeen {
        let topic = &self.options.inputs[usize::from(place.topic.0)];
        if self.options.start == StartOffset::Latest {
            let Ok(all) = self.read_offsets(None, false) else {
                return OwnerSeen::Unanswered;
            };
            let highest = all.iter().filter(|entry| entry.topic == *topic && entry.offset >= 0).map(|entry| entry.partition).max();
            if highest.is_none_or(|highest| highest > place.partition.get()) {
                return OwnerSeen::Missing;
            }
        }
        let places = [(topic.clone(), place.partition.get())];
        let start = list_offsets(&self.group_client, &places, Spec::Earliest, RESOLVE_TIMEOUT);
        match start.ok().and_then(|start| Offset::new(start.first()?.offset)) {
            Some(offset) => {
                tracing::info!(
                    topic,
                    partition = place.partition.get(),
                    offset = offset.get(),
                    "a partition new to the group is read from its beginning"
                );
                OwnerSeen::At(offset, None)
            }
            None => OwnerSeen::Unanswered,
        }
    }
}

/// Returns the owner record of a committed offset; any other metadata means that no owner is known.
fn owner_record(entry: &PartitionEntry) -> Option<OwnerRecord> {
    read_stamped(&entry.metadata).0
}

/// Takes an id over by initialising it: whatever its last owner left open is aborted, and it can commit nothing more.
fn fence(properties: &Properties, id: &TransactionalId) -> Result<(), ClientError> {
    let begun = Instant::now();
    let mut properties = properties.clone();
    properties.set("transactional.id", id.to_string());
    let fenced = Handle::new(Kind::TransactionalProducer, &properties).and_then(|client| {
        meet_brokers(&client);
        // SAFETY: the client is alive.
        ClientError::check(unsafe { ffi::rd_kafka_init_transactions(client.as_ptr(), INIT_TIMEOUT_MS) })
    });
    let took_ms = begun.elapsed().as_millis();
    match &fenced {
        Ok(()) => tracing::info!(transactional_id = %id, took_ms, "fenced the last owner of partitions taken over"),
        Err(error) => {
            tracing::warn!(transactional_id = %id, took_ms, error = %error, "the last owner of partitions taken over could not be fenced")
        }
    }
    fenced
}
