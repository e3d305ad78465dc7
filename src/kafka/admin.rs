//! Admin requests: group offsets, log offsets, broker settings, topics.
//!
//! Requests about a group's offsets are only made on a consumer's handle. On a producer's they work until the coordinator
//! answers NOT_COORDINATOR: then librdkafka 2.12.1 dereferences the consumer group that a producer does not have, and the
//! process dies (`rd_kafka_handle_OffsetFetch`; see decision 0003).

use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Handle, Kind, Properties, owned};
use crate::list::{PartitionEntry, PartitionList, c_string, copy_entries, copy_entry};
use libc::{c_int, size_t};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// When the client library itself gives up a question to a group's coordinator. It must not while the coordinator is only looked for: librdkafka
/// 2.12.1 then forgets that it goes on looking, and releases the question a second time when it finds one, of which the process
/// dies (`rd_kafka_admin_coord_request` fails, so `rd_kafka_coord_req_fail` calls back with what was freed). We stop waiting much earlier;
/// the late answer goes where nobody reads. Longer than brokers are away, short enough to notice a dead connection that carries nothing else.
const COORDINATOR_REQUEST_LIMIT: Duration = Duration::from_secs(600);
/// How long the log's bounds are asked for, for a message.
const BOUNDS_TIMEOUT: Duration = Duration::from_secs(2);

/// A plain client for requests beside the stream.
pub struct Admin {
    pub(crate) client: Handle,
}

/// A topic to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Its partitions, 1 or more.
    pub partitions: i32,
    /// Its replication factor, 1 or more.
    pub replication: i32,
}

/// What became of a topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicCreation {
    /// It is new.
    Created,
    /// It was there; its partition count is not touched.
    Existed,
    /// The broker refused it.
    Refused(ClientError),
}

/// Which offset of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    Earliest,
    /// The high watermark.
    Latest,
    LastStable,
}

/// One setting of a broker or topic.
pub(crate) type Setting = (String, Option<String>);

/// Cluster metadata, as far as it is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    /// Ids of the live brokers.
    pub(crate) brokers: Vec<i32>,
    /// Topics with partition count and error code.
    pub(crate) topics: Vec<(String, i32, i32)>,
    /// Id of the broker that answered; negative for a bootstrap address, whose broker is not known by number yet.
    pub(crate) answered_by: i32,
}

impl Admin {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// When the client library refuses a property.
    pub fn new(properties: &Properties) -> Result<Self, ClientError> {
        Ok(Self { client: Handle::new(Kind::PlainProducer, properties)? })
    }

    /// Makes a client for requests about a group's offsets too; it never joins.
    ///
    /// # Errors
    /// When the client library refuses a property.
    pub(crate) fn for_group(properties: &Properties, group: &str) -> Result<Self, ClientError> {
        let mut properties = properties.clone();
        properties.set("group.id", group);
        Ok(Self { client: Handle::new(Kind::GroupAdmin, &properties)? })
    }

    /// Creates topics, each with its own answer.
    ///
    /// # Errors
    /// When the cluster does not answer in time.
    pub fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<Vec<(String, TopicCreation)>, ClientError> {
        let mut text = [0; 512];
        let mut requests = Vec::new();
        for topic in topics {
            // SAFETY: strings are copied; the object is ours and freed below.
            let request = unsafe {
                ffi::rd_kafka_NewTopic_new(c_string(&topic.name).as_ptr(), topic.partitions, topic.replication, text.as_mut_ptr(), text.len())
            };
            if request.is_null() {
                // SAFETY: the buffer holds a C string when null is returned.
                let text = unsafe { owned(text.as_ptr()) };
                return Err(ClientError { text, ..ClientError::from_code(code::INVALID_ARG) });
            }
            requests.push(request);
        }
        let event = request(
            &self.client,
            ffi::ADMIN_OP_CREATETOPICS,
            timeout,
            |_| {},
            |rk, options, queue| {
                // SAFETY: all objects are alive; the requests are copied.
                unsafe { ffi::rd_kafka_CreateTopics(rk, requests.as_mut_ptr(), requests.len(), options, queue) }
            },
        );
        for request in requests {
            // SAFETY: ours, used no more.
            unsafe { ffi::rd_kafka_NewTopic_destroy(request) }
        }
        let event = event?;
        let mut count: size_t = 0;
        // SAFETY: the event is alive and of this kind; the array has `count` elements that live as long as the event.
        unsafe {
            let result = ffi::rd_kafka_event_CreateTopics_result(event.as_ptr());
            let topics = ffi::rd_kafka_CreateTopics_result_topics(result, &raw mut count);
            Ok((0..count)
                .map(|index| {
                    let topic = *topics.add(index);
                    let creation = match ffi::rd_kafka_topic_result_error(topic) {
                        0 => TopicCreation::Created,
                        code::TOPIC_ALREADY_EXISTS => TopicCreation::Existed,
                        other => {
                            let text = owned(ffi::rd_kafka_topic_result_error_string(topic));
                            TopicCreation::Refused(ClientError { text, ..ClientError::from_code(other) })
                        }
                    };
                    (owned(ffi::rd_kafka_topic_result_name(topic)), creation)
                })
                .collect())
        }
    }

    /// Returns the last error the client reported by itself, such as a refused password.
    pub(crate) fn last_error(&self) -> Option<ClientError> {
        self.client.serve_reports();
        self.client.mailbox().last_error()
    }

    /// Returns brokers and all topics.
    pub(crate) fn metadata(&self, timeout: Duration) -> Result<Metadata, ClientError> {
        metadata(&self.client, Topics::All, timeout)
    }

    /// Returns a broker's settings.
    pub(crate) fn broker_settings(&self, broker: i32, timeout: Duration) -> Result<Vec<Setting>, ClientError> {
        self.settings(ffi::RESOURCE_BROKER, &broker.to_string(), timeout)
    }

    /// Returns a topic's settings.
    pub(crate) fn topic_settings(&self, topic: &str, timeout: Duration) -> Result<Vec<Setting>, ClientError> {
        self.settings(ffi::RESOURCE_TOPIC, topic, timeout)
    }

    fn settings(&self, kind: c_int, name: &str, timeout: Duration) -> Result<Vec<Setting>, ClientError> {
        // SAFETY: the name is copied; the object is ours and freed below.
        let mut resource = unsafe { ffi::rd_kafka_ConfigResource_new(kind, c_string(name).as_ptr()) };
        let event = request(
            &self.client,
            ffi::ADMIN_OP_DESCRIBECONFIGS,
            timeout,
            |_| {},
            |rk, options, queue| {
                // SAFETY: all objects are alive; the request is copied.
                unsafe { ffi::rd_kafka_DescribeConfigs(rk, &raw mut resource, 1, options, queue) }
            },
        );
        // SAFETY: ours, used no more.
        unsafe { ffi::rd_kafka_ConfigResource_destroy(resource) }
        let event = event?;
        let mut count: size_t = 0;
        // SAFETY: the event is alive and of this kind; arrays have the counts given and live as long as the event.
        unsafe {
            let result = ffi::rd_kafka_event_DescribeConfigs_result(event.as_ptr());
            let resources = ffi::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count);
            if count == 0 {
                return Ok(Vec::new());
            }
            let resource = *resources;
            let error = ffi::rd_kafka_ConfigResource_error(resource);
            if error != 0 {
                let text = owned(ffi::rd_kafka_ConfigResource_error_string(resource));
                return Err(ClientError { text, ..ClientError::from_code(error) });
            }
            let entries = ffi::rd_kafka_ConfigResource_configs(resource, &raw mut count);
            Ok((0..count)
                .map(|index| {
                    let entry = *entries.add(index);
                    let value = ffi::rd_kafka_ConfigEntry_value(entry);
                    (owned(ffi::rd_kafka_ConfigEntry_name(entry)), (!value.is_null()).then(|| owned(value)))
                })
                .collect())
        }
    }

    /// Commits offsets for a group without members; with members the broker refuses, which is what protects them.
    pub(crate) fn seed_group(&self, group: &str, offsets: &[(String, i32, i64)], timeout: Duration) -> Result<(), ClientError> {
        let mut list = PartitionList::new();
        for (topic, partition, offset) in offsets {
            list.add(&c_string(topic), *partition, *offset);
        }
        // SAFETY: name and list are copied; the object is ours and freed below.
        let mut alter = unsafe { ffi::rd_kafka_AlterConsumerGroupOffsets_new(c_string(group).as_ptr(), list.as_ptr()) };
        let event = request(
            &self.client,
            ffi::ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
            timeout,
            |_| {},
            |rk, options, queue| {
                // SAFETY: all objects are alive; the request is copied.
                unsafe { ffi::rd_kafka_AlterConsumerGroupOffsets(rk, &raw mut alter, 1, options, queue) }
            },
        );
        // SAFETY: ours, used no more.
        unsafe { ffi::rd_kafka_AlterConsumerGroupOffsets_destroy(alter) }
        let event = event?;
        let mut count: size_t = 0;
        // SAFETY: the event is alive and of this kind.
        let groups = unsafe {
            let result = ffi::rd_kafka_event_AlterConsumerGroupOffsets_result(event.as_ptr());
            ffi::rd_kafka_AlterConsumerGroupOffsets_result_groups(result, &raw mut count)
        };
        // SAFETY: the array has `count` elements that live as long as the event.
        let entries = unsafe { group_result(groups, count) }?;
        match entries.iter().find(|entry| entry.code != 0) {
            Some(entry) => Err(ClientError::from_code(entry.code)),
            None => Ok(()),
        }
    }
}

/// Which topics metadata is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topics {
    All,
    /// Those the client has a handle of.
    Own,
}

/// Returns brokers and topics.
pub(crate) fn metadata(client: &Handle, topics: Topics, timeout: Duration) -> Result<Metadata, ClientError> {
    let mut metadata: *const ffi::rd_kafka_metadata_t = std::ptr::null();
    let all = c_int::from(topics == Topics::All);
    // SAFETY: the client is alive; on success the metadata is ours, read here and freed below.
    unsafe {
        ClientError::check_code(ffi::rd_kafka_metadata(client.as_ptr(), all, std::ptr::null_mut(), &raw mut metadata, milliseconds(timeout)))?;
        let count = |n: c_int| usize::try_from(n).unwrap_or(0);
        let brokers = (0..count((*metadata).broker_cnt)).map(|index| (*(*metadata).brokers.add(index)).id).collect();
        let topics = (0..count((*metadata).topic_cnt)).map(|index| {
            let topic = &*(*metadata).topics.add(index);
            (owned(topic.topic), topic.partition_cnt, topic.err)
        });
        let result = Metadata { brokers, topics: topics.collect(), answered_by: (*metadata).orig_broker_id };
        ffi::rd_kafka_metadata_destroy(metadata);
        Ok(result)
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

/// An owned result event.
pub(crate) struct EventBox(NonNull<ffi::rd_kafka_event_t>);

impl EventBox {
    fn as_ptr(&self) -> *mut ffi::rd_kafka_event_t {
        self.0.as_ptr()
    }
}

impl Drop for EventBox {
    fn drop(&mut self) {
        // SAFETY: the event is ours and not used after this.
        unsafe { ffi::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

/// Makes one admin request and waits for its answer.
fn request(
    client: &Handle,
    operation: c_int,
    timeout: Duration,
    configure: impl FnOnce(*mut ffi::rd_kafka_AdminOptions_t),
    send: impl FnOnce(*mut ffi::rd_kafka_t, *const ffi::rd_kafka_AdminOptions_t, *mut ffi::rd_kafka_queue_t),
) -> Result<EventBox, ClientError> {
    let mut text = [0; 256];
    let deadline = Instant::now() + timeout + Duration::from_secs(1);
    // SAFETY: options and queue are ours, alive during the request and freed after it; a late answer goes to a queue that
    // the library still references.
    unsafe {
        let options = ffi::rd_kafka_AdminOptions_new(client.as_ptr(), operation);
        ffi::rd_kafka_AdminOptions_set_request_timeout(options, milliseconds(timeout), text.as_mut_ptr(), text.len());
        configure(options);
        let queue = ffi::rd_kafka_queue_new(client.as_ptr());
        send(client.as_ptr(), options, queue);
        ffi::rd_kafka_AdminOptions_destroy(options);
        let mut event: *mut ffi::rd_kafka_event_t = std::ptr::null_mut();
        while event.is_null() && Instant::now() < deadline {
            event = ffi::rd_kafka_queue_poll(queue, 100);
            client.serve_reports();
        }
        ffi::rd_kafka_queue_destroy(queue);
        let Some(event) = NonNull::new(event).map(EventBox) else { return Err(ClientError::from_code(code::TIMED_OUT)) };
        match ffi::rd_kafka_event_error(event.as_ptr()) {
            0 => Ok(event),
            error => {
                let words = owned(ffi::rd_kafka_event_error_string(event.as_ptr()));
                Err(ClientError { text: words, ..ClientError::from_code(error) })
            }
        }
    }
}

/// Returns committed offsets with their metadata: of the given partitions, or of all that have one.
pub(crate) fn group_offsets(
    client: &Handle,
    group: &str,
    partitions: Option<&[(String, i32)]>,
    require_stable: bool,
    timeout: Duration,
) -> Result<Vec<PartitionEntry>, ClientError> {
    let list = partitions.map(|partitions| {
        let mut list = PartitionList::new();
        for (topic, partition) in partitions {
            list.add(&c_string(topic), *partition, -1001);
        }
        list
    });
    let list_ptr = list.as_ref().map_or(std::ptr::null(), |list| list.as_ptr().cast_const());
    // SAFETY: name and list are copied; the object is ours and freed below.
    let mut listing = unsafe { ffi::rd_kafka_ListConsumerGroupOffsets_new(c_string(group).as_ptr(), list_ptr) };
    let stable = |options| {
        let mut text = [0; 256];
        // SAFETY: the options are alive, the buffer is as long as it says.
        let _ = ClientError::check(unsafe { ffi::rd_kafka_AdminOptions_set_require_stable_offsets(options, c_int::from(require_stable)) });
        let limit = milliseconds(COORDINATOR_REQUEST_LIMIT);
        // SAFETY: as above.
        unsafe { ffi::rd_kafka_AdminOptions_set_request_timeout(options, limit, text.as_mut_ptr(), text.len()) };
    };
    let event = request(client, ffi::ADMIN_OP_LISTCONSUMERGROUPOFFSETS, timeout, stable, |rk, options, queue| {
        // SAFETY: all objects are alive; the request is copied.
        unsafe { ffi::rd_kafka_ListConsumerGroupOffsets(rk, &raw mut listing, 1, options, queue) }
    });
    // SAFETY: ours, used no more.
    unsafe { ffi::rd_kafka_ListConsumerGroupOffsets_destroy(listing) }
    let event = event?;
    let mut count: size_t = 0;
    // SAFETY: the event is alive and of this kind.
    let groups = unsafe {
        let result = ffi::rd_kafka_event_ListConsumerGroupOffsets_result(event.as_ptr());
        ffi::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count)
    };
    // SAFETY: the array has `count` elements that live as long as the event.
    unsafe { group_result(groups, count) }
}

/// Copies the first group's partitions.
///
/// # Safety
/// `groups` has `count` valid elements.
unsafe fn group_result(groups: *mut *const ffi::rd_kafka_group_result_t, count: size_t) -> Result<Vec<PartitionEntry>, ClientError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: promised by the caller; the error belongs to the result and is only read.
    unsafe {
        let error = ffi::rd_kafka_group_result_error(*groups);
        if !error.is_null() {
            let code = ffi::rd_kafka_error_code(error);
            return Err(ClientError { text: owned(ffi::rd_kafka_error_string(error)), ..ClientError::from_code(code) });
        }
        Ok(copy_entries(ffi::rd_kafka_group_result_partitions(*groups)))
    }
}

/// Returns log offsets; an entry's own code tells whether it is good.
pub(crate) fn list_offsets(client: &Handle, partitions: &[(String, i32)], spec: Spec, timeout: Duration) -> Result<Vec<PartitionEntry>, ClientError> {
    let mut list = PartitionList::new();
    let wanted = match spec {
        Spec::Earliest => ffi::OFFSET_SPEC_EARLIEST,
        Spec::Latest | Spec::LastStable => ffi::OFFSET_SPEC_LATEST,
    };
    for (topic, partition) in partitions {
        list.add(&c_string(topic), *partition, wanted);
    }
    let isolation = if spec == Spec::LastStable { ffi::ISOLATION_READ_COMMITTED } else { ffi::ISOLATION_READ_UNCOMMITTED };
    let configure = |options| {
        // SAFETY: the options are alive.
        let _ = ClientError::check(unsafe { ffi::rd_kafka_AdminOptions_set_isolation_level(options, isolation) });
    };
    let event = request(client, ffi::ADMIN_OP_LISTOFFSETS, timeout, configure, |rk, options, queue| {
        // SAFETY: all objects are alive; the list is copied.
        unsafe { ffi::rd_kafka_ListOffsets(rk, list.as_ptr(), options, queue) }
    })?;
    let mut count: size_t = 0;
    // SAFETY: the event is alive and of this kind; the array has `count` elements that live as long as the event.
    unsafe {
        let result = ffi::rd_kafka_event_ListOffsets_result(event.as_ptr());
        let infos = ffi::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
        Ok((0..count).map(|index| copy_entry(ffi::rd_kafka_ListOffsetsResultInfo_topic_partition(*infos.add(index)))).collect())
    }
}

/// Returns log start and log end of a partition, each -1 if not known in time: they are for a message.
pub(crate) fn log_bounds(client: &Handle, topic: &str, partition: i32) -> (i64, i64) {
    let bound = |spec| {
        let listed = list_offsets(client, &[(topic.to_owned(), partition)], spec, BOUNDS_TIMEOUT).ok();
        listed.and_then(|listed| listed.first().filter(|entry| entry.code == 0).map(|entry| entry.offset)).unwrap_or(-1)
    };
    (bound(Spec::Earliest), bound(Spec::Latest))
}

fn milliseconds(duration: Duration) -> c_int {
    c_int::try_from(duration.as_millis()).unwrap_or(c_int::MAX)
}
