//! The consumer's half: rebalances as events, one queue per partition, records borrowed from the fetch buffer.
//!
//! Rebalances arrive as events rather than in a callback: the library waits for `assign` or `unassign`, so a revoke can
//! take its time without nesting. Records are read from each partition's own queue, never from the consumer's: a batch
//! read there swallows rebalances. The queue must be cut loose before every assign.

mod epochs;
mod events;
mod faults;
mod fetch_error;
mod partition;
#[cfg(test)]
mod tests;

pub(crate) use epochs::Epochs;

use crate::admin::log_bounds;
use crate::announced::{Announced, GivenBack, Protocol};
use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Handle, Kind, Properties, owned};
use crate::list::{PartitionList, c_string, copy_entries};
use crate::message::Message;
use crate::planted::Planted;
use crate::queue::{Queue, Signal};
use crate::topic_ids::TopicHandle;
use libc::c_int;
use partition::{Partition, Past};
use std::ffi::{CStr, CString};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transom_engine::{Invariant, OwnerRecord, Ownership, SourcePartition, StopReason, TopicId};
use transom_runtime::{Membership, Source, SourceError, SourceEvent};
use transom_sdk::{Offset, PartitionId, Record};

/// Records taken from one partition's queue at a time: amortises the lock, small enough to go round the partitions.
const CHUNK: usize = 500;
/// How long a seek may take before the partition is assigned anew instead.
const SEEK_TIMEOUT_MS: c_int = 5_000;
/// How long closing may take; a static member has nothing to tell, a dynamic one sends one request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker's group member; made by `KafkaBroker::connect`.
pub struct KafkaConsumer {
    // Order matters: messages, queues and topics go before the client.
    partitions: Vec<Partition>,
    events: Option<Queue>,
    /// By `TopicId`: the library tells of a topic's id only for those it has a handle of.
    tracked: Vec<TopicHandle>,
    client: Arc<Handle>,
    signal: Arc<Signal>,
    group_id: String,
    group_instance_id: Option<String>,
    topics: Vec<String>,
    topic_names: Vec<CString>,
    announced: Announced,
    first: usize,
    taken: Vec<*mut ffi::rd_kafka_message_t>,
    min_generation: i32,
    planted: Planted,
    /// Why nothing more is committed: a plain offset commit of this membership may still come late (EO-4), or an input is not
    /// the topic it was.
    ended: Option<StopReason>,
    /// What the next poll reports before the client's own events.
    to_report: Vec<SourceEvent>,
}

// SAFETY: raw pointers inside are owned; librdkafka objects may be used from any one thread at a time.
unsafe impl Send for KafkaConsumer {}

impl KafkaConsumer {
    pub(crate) fn new(
        properties: &Properties,
        topics: &[String],
        group: (&str, Option<&str>),
        (min_generation, planted): (i32, Planted),
    ) -> Result<Self, ClientError> {
        let client = Arc::new(Handle::new(Kind::Consumer, properties)?);
        if planted == Planted::EventsServedElsewhere {
            client.plant_service_elsewhere();
        }
        let tracked = topics.iter().map(|topic| TopicHandle::new(&client, topic)).collect::<Result<_, _>>()?;
        let signal = Arc::new(Signal::default());
        // SAFETY: the client is alive; the consumer queue's reference becomes ours.
        let events = unsafe {
            ClientError::check_code(ffi::rd_kafka_poll_set_consumer(client.as_ptr()))?;
            Queue::adopt(ffi::rd_kafka_queue_get_consumer(client.as_ptr()), &signal)
        };
        Ok(Self {
            partitions: Vec::new(),
            events,
            tracked,
            client,
            signal,
            group_id: group.0.to_owned(),
            group_instance_id: group.1.map(str::to_owned),
            topics: topics.to_vec(),
            topic_names: topics.iter().map(|topic| c_string(topic)).collect(),
            announced: Announced::default(),
            first: 0,
            taken: vec![std::ptr::null_mut(); CHUNK],
            min_generation,
            planted,
            ended: None,
            to_report: Vec::new(),
        })
    }

    /// Returns the handle, for admin requests about the group.
    pub(crate) fn client(&self) -> Arc<Handle> {
        Arc::clone(&self.client)
    }

    fn name(&self, place: SourcePartition) -> &CStr {
        &self.topic_names[usize::from(place.topic.0)]
    }

    fn is_cooperative(&self) -> bool {
        // SAFETY: the client is alive; the result is a static C string.
        unsafe { owned(ffi::rd_kafka_rebalance_protocol(self.client.as_ptr())) == "COOPERATIVE" }
    }

    fn list(&self, positions: &[(SourcePartition, Offset)]) -> PartitionList {
        let mut list = PartitionList::new();
        for &(place, offset) in positions {
            list.add_with_epoch(self.name(place), place.partition.get(), offset.get(), self.epoch(place, offset), None);
        }
        list
    }

    /// Returns the leader epoch that goes with an offset, if it is known.
    fn epoch(&self, place: SourcePartition, offset: Offset) -> Option<i32> {
        self.client.mailbox().epochs.of(&self.topics[usize::from(place.topic.0)], place.partition.get(), offset.get())
    }

    fn places(&self, list: *const ffi::rd_kafka_topic_partition_list_t) -> Vec<SourcePartition> {
        // SAFETY: the event's list is valid while the event is.
        let entries = unsafe { copy_entries(list) };
        let place = |entry: crate::list::PartitionEntry| {
            let topic = self.topics.iter().position(|topic| *topic == entry.topic)?;
            Some(SourcePartition { topic: TopicId(u16::try_from(topic).ok()?), partition: PartitionId::new(entry.partition)? })
        };
        entries.into_iter().filter_map(place).collect()
    }

    /// Cuts a partition's queue loose from the consumer's; must precede every assign.
    fn open_queue(&self, place: SourcePartition) -> Result<Queue, SourceError> {
        // SAFETY: the client is alive; the reference becomes ours; forwarding to null detaches.
        unsafe {
            let queue = ffi::rd_kafka_queue_get_partition(self.client.as_ptr(), self.name(place).as_ptr(), place.partition.get());
            if !queue.is_null() {
                ffi::rd_kafka_queue_forward(queue, std::ptr::null_mut());
            }
            Queue::adopt(queue, &self.signal).ok_or_else(|| SourceError { what: format!("{place} has no queue in the client") })
        }
    }

    fn drop_partitions(&mut self, places: &[SourcePartition]) -> Vec<Past> {
        let (dropped, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.partitions).into_iter().partition(|partition| places.contains(&partition.place));
        self.partitions = kept;
        dropped.into_iter().map(Partition::into_past).collect()
    }

    /// Reads more of one partition's queue, of which everything was handed over; an error entry becomes a reason to stop, or is
    /// reported.
    fn refill(&mut self, index: usize) -> Result<(), StopReason> {
        let partition = &mut self.partitions[index];
        // SAFETY: the queue is alive; the buffer has CHUNK places; each returned message is ours.
        let got = unsafe { ffi::rd_kafka_consume_batch_queue(partition.queue.as_ptr(), 0, self.taken.as_mut_ptr(), self.taken.len()) };
        let got = usize::try_from(got).unwrap_or(0);
        // Looked at after the records were taken: a fetch from another topic of this name comes after its id was noted.
        let recreated = self.recreated();
        let taken = self.taken[..got].iter().filter_map(|&message| {
            // SAFETY: the batch call gave each of these to us, and each is taken here only.
            unsafe { Message::adopt(message) }
        });
        if let Some(reason) = recreated {
            taken.for_each(drop);
            return Err(reason);
        }
        let errors = self.partitions[index].sort(taken, Instant::now);
        errors.into_iter().try_for_each(|entry| self.partition_error(index, entry))
    }

    /// Returns the reason to stop if an input is not the topic it was.
    fn recreated(&self) -> Option<StopReason> {
        let recreated = self.client.mailbox().topics.recreated()?;
        let is_read = |partition: &&Partition| self.topics[usize::from(partition.place.topic.0)] == recreated.topic;
        let reading = self.partitions.iter().find(is_read).map(|partition| (partition.place.partition.get(), partition.next.get()));
        Some(recreated.reason(reading, |topic, partition| log_bounds(&self.client, topic, partition)))
    }

    /// Seeks; returns whether the library took it for every partition.
    fn sought(&mut self, positions: &[(SourcePartition, Offset)]) -> bool {
        let list = self.list(positions);
        // SAFETY: client and list are alive. What was fetched before the seek is dropped by the library. An offset with a leader
        // epoch is fetched only when the leader has said that its log was not cut below it (`rd_kafka_offset_validate`).
        let result = ClientError::check(unsafe { ffi::rd_kafka_seek_partitions(self.client.as_ptr(), list.as_ptr(), SEEK_TIMEOUT_MS) });
        let taken = result.is_ok() && list.entries().iter().all(|entry| entry.code == 0);
        for index in 0..self.partitions.len() {
            let place = self.partitions[index].place;
            if let Some(&(_, next)) = positions.iter().find(|(sought, _)| *sought == place) {
                let epoch = self.epoch(place, next);
                self.partitions[index].sought(next, epoch, taken);
            }
        }
        taken
    }

    /// Assigns anew from the given positions: what a seek is when the library refuses it.
    fn assign_anew(&mut self, positions: &[(SourcePartition, Offset)]) -> Result<(), SourceError> {
        let places: Vec<_> = positions.iter().map(|(place, _)| *place).collect();
        if self.is_cooperative() {
            let old = self.drop_partitions(&places);
            let list = self.list(positions);
            // SAFETY: client and list are alive.
            let gone = ClientError::check(unsafe { ffi::rd_kafka_incremental_unassign(self.client.as_ptr(), list.as_ptr()) });
            gone.map_err(|error| SourceError { what: format!("unassigning to seek failed: {error}") })?;
            return self.assign_with(positions, old);
        }
        let kept = self.partitions.iter().filter(|partition| !places.contains(&partition.place)).map(|partition| (partition.place, partition.next));
        let all: Vec<_> = positions.iter().copied().chain(kept).collect();
        let old = std::mem::take(&mut self.partitions).into_iter().map(Partition::into_past).collect();
        self.assign_with(&all, old)
    }

    /// Assigns; the same partitions' troubles go on.
    fn assign_with(&mut self, positions: &[(SourcePartition, Offset)], mut old: Vec<Past>) -> Result<(), SourceError> {
        for &(place, next) in positions {
            let queue = self.open_queue(place)?;
            let mut partition = Partition::new(place, queue, next, self.epoch(place, next));
            if let Some(past) = old.iter().position(|past| past.place == place) {
                partition.inherit(old.swap_remove(past));
            }
            self.partitions.push(partition);
        }
        let list = self.list(positions);
        // SAFETY: client and list are alive; the list is copied.
        let result = unsafe {
            if self.is_cooperative() {
                ClientError::check(ffi::rd_kafka_incremental_assign(self.client.as_ptr(), list.as_ptr()))
            } else {
                ClientError::check_code(ffi::rd_kafka_assign(self.client.as_ptr(), list.as_ptr()))
            }
        };
        result.map_err(|error| SourceError { what: format!("assigning failed: {error}") })
    }
}

/// Commits offsets for the client's group outside any transaction, under its present generation.
pub(crate) fn commit_offsets(client: &Handle, list: &PartitionList, timeout: Duration) -> Result<(), ClientError> {
    let deadline = Instant::now() + timeout;
    // SAFETY: the client is alive; the list is copied; the queue is ours until freed here, and the library keeps its own
    // reference for a late answer; events are ours to destroy after they were read.
    unsafe {
        let queue = ffi::rd_kafka_queue_new(client.as_ptr());
        let sent = ffi::rd_kafka_commit_queue(client.as_ptr(), list.as_ptr(), queue, std::ptr::null_mut(), std::ptr::null_mut());
        let mut answer = ClientError::check_code(sent).map(|()| None);
        while matches!(answer, Ok(None)) && Instant::now() < deadline {
            let event = ffi::rd_kafka_queue_poll(queue, 10);
            if event.is_null() {
                continue;
            }
            if ffi::rd_kafka_event_type(event) == ffi::EVENT_OFFSET_COMMIT {
                let entries = copy_entries(ffi::rd_kafka_event_topic_partition_list(event));
                let refused = entries.iter().map(|entry| entry.code).find(|code| *code != 0);
                answer = ClientError::check_code(ffi::rd_kafka_event_error(event)).and(ClientError::check_code(refused.unwrap_or(0))).map(Some);
            }
            ffi::rd_kafka_event_destroy(event);
        }
        ffi::rd_kafka_queue_destroy(queue);
        answer?.ok_or_else(|| ClientError::from_code(code::TIMED_OUT))
    }
}

impl Source for KafkaConsumer {
    fn subscribe(&mut self) -> Result<(), SourceError> {
        let mut list = PartitionList::new();
        for name in &self.topic_names {
            list.add(name, ffi::PARTITION_UA, -1001);
        }
        // SAFETY: client and list are alive.
        let result = ClientError::check_code(unsafe { ffi::rd_kafka_subscribe(self.client.as_ptr(), list.as_ptr()) });
        result.map_err(|error| SourceError { what: format!("subscribing failed: {error}") })
    }

    fn poll(&mut self) -> Vec<SourceEvent> {
        if self.ended.is_none() {
            self.ended = self.recreated();
            self.to_report.extend(self.ended.clone().map(SourceEvent::Stop));
        }
        let mut events = std::mem::take(&mut self.to_report);
        if events.iter().any(|event| matches!(event, SourceEvent::Assigned(_))) {
            return events;
        }
        let Some(queue) = &self.events else { return events };
        loop {
            // SAFETY: the queue is alive; a returned event is ours to destroy, after it was read.
            let event = unsafe { ffi::rd_kafka_queue_poll(queue.as_ptr(), 0) };
            if event.is_null() {
                return events;
            }
            if let Some(event) = self.event(event) {
                let protocol = if self.is_cooperative() { Protocol::Cooperative } else { Protocol::Eager };
                let (event, then) = self.announced.note(event, protocol);
                events.push(event);
                self.to_report.extend(then);
            }
            // SAFETY: as above.
            unsafe { ffi::rd_kafka_event_destroy(event) };
            // One rebalance at a time: the next one is only taken when this one was answered.
            if matches!(events.last(), Some(SourceEvent::Assigned(_) | SourceEvent::Revoked(_) | SourceEvent::Lost(_))) {
                return events;
            }
        }
    }

    fn fetch(&mut self, records_max: usize, handler: &mut dyn FnMut(SourcePartition, &Record<'_>) -> ControlFlow<()>) -> Result<usize, StopReason> {
        self.try_again()?;
        let mut handed = 0;
        let count = self.partitions.len();
        self.first = if count == 0 { 0 } else { (self.first + 1) % count };
        for turn in 0..count {
            let index = (self.first + turn) % count;
            if self.partitions[index].may_be_read() {
                self.refill(index)?;
            }
            let partition = &mut self.partitions[index];
            let topic = self.topics[usize::from(partition.place.topic.0)].as_str();
            while let Some(message) = partition.pop() {
                let raw = message.raw();
                let Some(offset) = Offset::new(raw.offset) else {
                    return Err(StopReason::Bug {
                        what: format!("topic {topic}, partition {}: a record has the offset {}", partition.place.partition, raw.offset),
                    });
                };
                let mut headers = Vec::new();
                message.headers(&mut headers);
                let record = Record::new(topic, partition.place.partition, offset)
                    .with_key(message.bytes(raw.key, raw.key_len))
                    .with_value(message.bytes(raw.payload, raw.len))
                    .with_timestamp(message.timestamp())
                    .with_headers(&headers);
                if partition.handed_over(offset, message.leader_epoch()) {
                    self.to_report.push(SourceEvent::FetchRecovered(partition.place));
                }
                handed += 1;
                if handler(partition.place, &record).is_break() || handed >= records_max {
                    return Ok(handed);
                }
            }
        }
        Ok(handed)
    }

    fn wait(&mut self, limit: Duration) {
        self.signal.wait(limit);
    }

    fn waker(&self) -> Box<dyn Fn() + Send> {
        let signal = Arc::clone(&self.signal);
        Box::new(move || signal.raise())
    }

    fn commit(&mut self, offsets: &[(SourcePartition, Offset, OwnerRecord)], timeout: Duration) -> Result<(), SourceError> {
        if let Some(reason) = &self.ended {
            return Err(SourceError { what: reason.to_string() });
        }
        // EO-2: without a membership that the broker checks, it would take the offsets from anybody.
        if self.membership().is_none() {
            return Err(SourceError { what: "no valid membership in the group".to_owned() });
        }
        let mut list = PartitionList::new();
        for (place, offset, owner) in offsets {
            let metadata = self.client.mailbox().topics.stamped(owner, &self.topics[usize::from(place.topic.0)]);
            list.add_with_epoch(self.name(*place), place.partition.get(), offset.get(), self.epoch(*place, *offset), Some(&metadata));
        }
        let guard = &self.client.mailbox().guard;
        guard.begin();
        let result = commit_offsets(&self.client, &list, timeout);
        // A late copy of a release is harmless: who gives partitions back joins again, and its generation is refused.
        let claims = offsets.iter().any(|(.., owner)| owner.ownership == Ownership::Held);
        if let Some(taint) = guard.taint().filter(|_| claims) {
            let what = format!(
                "an offset commit of this group membership ended {} ({}): a late copy of it could take back later offsets, so this membership is given up",
                taint.how, taint.kind
            );
            let reason = StopReason::Fatal { what: what.clone() };
            self.to_report.push(SourceEvent::Stop(reason.clone()));
            self.ended = Some(reason);
            return Err(SourceError { what });
        }
        result.map_err(|error| SourceError { what: format!("offsets are not committed: {error}") })
    }

    fn assign(&mut self, positions: &[(SourcePartition, Offset)]) -> Result<(), SourceError> {
        self.assign_with(positions, Vec::new())
    }

    fn seek(&mut self, positions: &[(SourcePartition, Offset)]) -> Result<(), SourceError> {
        if self.sought(positions) {
            return Ok(());
        }
        tracing::debug!("seek refused; assigning anew");
        self.assign_anew(positions)
    }

    fn give_back(&mut self, places: &[SourcePartition]) -> Result<(), SourceError> {
        let _ = self.drop_partitions(places);
        if self.announced.give_back(places) == GivenBack::Already {
            return Ok(());
        }
        let positions: Vec<_> = places.iter().map(|place| (*place, Offset::ZERO)).collect();
        let list = self.list(&positions);
        // SAFETY: client and list are alive. The eager protocol always gives back everything.
        let result = unsafe {
            if self.is_cooperative() {
                ClientError::check(ffi::rd_kafka_incremental_unassign(self.client.as_ptr(), list.as_ptr()))
            } else {
                self.partitions.clear();
                ClientError::check_code(ffi::rd_kafka_assign(self.client.as_ptr(), std::ptr::null()))
            }
        };
        result.map_err(|error| SourceError { what: format!("giving partitions back failed: {error}") })
    }

    fn will_commit(&mut self, offsets: &[(SourcePartition, Offset, OwnerRecord)]) {
        for (place, offset, _) in offsets {
            let Some(partition) = self.partitions.iter().find(|partition| partition.place == *place) else { continue };
            let is_in_log = self.planted == Planted::ErrorsMovePositions || offset.get() <= partition.log_end();
            Invariant::NoGap.assert(is_in_log, || format!("{place}: {offset} would be committed, the log ends at {}", partition.log_end()));
            if *offset == partition.next {
                let topic = &self.topics[usize::from(place.topic.0)];
                self.client.mailbox().epochs.note(topic, place.partition.get(), offset.get(), partition.leader_epoch);
            }
        }
    }

    fn membership(&mut self) -> Option<Membership> {
        // SAFETY: the client is alive; the metadata object is ours and freed after its fields were copied.
        let (generation, member_id) = unsafe {
            let metadata = ffi::rd_kafka_consumer_group_metadata(self.client.as_ptr());
            if metadata.is_null() {
                return None;
            }
            let generation = ffi::rd_kafka_consumer_group_metadata_generation_id(metadata);
            let member_id = owned(ffi::rd_kafka_consumer_group_metadata_member_id(metadata));
            ffi::rd_kafka_consumer_group_metadata_destroy(metadata);
            (generation, member_id)
        };
        // EO-2: with less than this the broker takes the offsets of anybody.
        let checked = generation >= self.min_generation && !member_id.is_empty();
        let (group_id, group_instance_id) = (self.group_id.clone(), self.group_instance_id.clone());
        checked.then_some(Membership { group_id, generation, member_id, group_instance_id })
    }

    fn quiet_position(&mut self, place: SourcePartition) -> Option<Offset> {
        let index = self.partitions.iter().position(|partition| partition.place == place)?;
        if !self.partitions[index].is_quiet() {
            return None;
        }
        let found = self.client_position(place);
        let partition = &mut self.partitions[index];
        if let Some((.., end)) = found {
            partition.saw_end(end);
        }
        if self.planted == Planted::ErrorsMovePositions {
            return found.map(|(position, ..)| position).filter(|position| *position >= partition.next);
        }
        if partition.looked_at() {
            self.to_report.push(SourceEvent::FetchRecovered(place));
        }
        if partition.is_doubtful() {
            // An error came from the queue: control records can be told from it only when they are fetched again.
            let next = partition.next;
            if let Err(error) = self.seek(&[(place, next)]) {
                self.to_report.push(SourceEvent::Stop(StopReason::Fatal { what: error.to_string() }));
            }
            return None;
        }
        let (position, leader_epoch, _) = found?;
        let same_topic = self.client.mailbox().topics.recreated().is_none();
        let is_behind_control_records = position > partition.next && position.get() <= partition.log_end();
        if !(same_topic && is_behind_control_records) {
            return None;
        }
        (partition.next, partition.leader_epoch) = (position, leader_epoch);
        Some(position)
    }

    fn close(&mut self) {
        self.partitions.clear();
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        // SAFETY: the client is alive; events are ours to destroy; a rebalance during the close is answered with "nothing",
        // which both protocols take. Bounded, because closing may hang when the coordinator is gone.
        unsafe {
            let queue = ffi::rd_kafka_queue_new(self.client.as_ptr());
            let begun = ClientError::check(ffi::rd_kafka_consumer_close_queue(self.client.as_ptr(), queue));
            while begun.is_ok() && ffi::rd_kafka_consumer_closed(self.client.as_ptr()) == 0 && Instant::now() < deadline {
                let event = ffi::rd_kafka_queue_poll(queue, 50);
                if event.is_null() {
                    continue;
                }
                if ffi::rd_kafka_event_type(event) == ffi::EVENT_REBALANCE {
                    let _ = ffi::rd_kafka_assign(self.client.as_ptr(), std::ptr::null());
                }
                ffi::rd_kafka_event_destroy(event);
            }
            ffi::rd_kafka_queue_destroy(queue);
        }
    }
}
