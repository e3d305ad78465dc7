//! The C interface of librdkafka, as far as it is used here. Declared by hand because the generated bindings type error
//! codes as a closed Rust enum: a code that a newer broker invents would be undefined behaviour. Here they are `i32`.
//!
//! Source: librdkafka 2.12.1, `rdkafka.h`.
#![allow(non_camel_case_types, missing_docs, reason = "the names are C's, documented there")]

use libc::{c_char, c_int, c_void, size_t, ssize_t};
// Links librdkafka, which the crate `rdkafka` builds.
use rdkafka as _;

macro_rules! opaque {
    ($($name:ident),* $(,)?) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
opaque!(
    rd_kafka_t,
    rd_kafka_conf_t,
    rd_kafka_topic_t,
    rd_kafka_queue_t,
    rd_kafka_event_t,
    rd_kafka_error_t,
    rd_kafka_headers_t,
    rd_kafka_consumer_group_metadata_t,
    rd_kafka_AdminOptions_t,
    rd_kafka_ListConsumerGroupOffsets_t,
    rd_kafka_AlterConsumerGroupOffsets_t,
    rd_kafka_group_result_t,
    rd_kafka_result_t,
    rd_kafka_ConfigResource_t,
    rd_kafka_ConfigEntry_t,
    rd_kafka_NewTopic_t,
    rd_kafka_topic_result_t,
    rd_kafka_ListOffsetsResultInfo_t,
);

#[repr(C)]
pub struct rd_kafka_topic_partition_t {
    pub topic: *mut c_char,
    pub partition: i32,
    pub offset: i64,
    pub metadata: *mut c_void,
    pub metadata_size: size_t,
    pub opaque: *mut c_void,
    pub err: i32,
    pub private: *mut c_void,
}

#[repr(C)]
pub struct rd_kafka_topic_partition_list_t {
    pub cnt: c_int,
    pub size: c_int,
    pub elems: *mut rd_kafka_topic_partition_t,
}

#[repr(C)]
pub struct rd_kafka_message_t {
    pub err: i32,
    pub rkt: *mut rd_kafka_topic_t,
    pub partition: i32,
    pub payload: *mut c_void,
    pub len: size_t,
    pub key: *mut c_void,
    pub key_len: size_t,
    pub offset: i64,
    pub private: *mut c_void,
}

#[repr(C)]
pub struct rd_kafka_metadata_broker_t {
    pub id: i32,
    pub host: *mut c_char,
    pub port: c_int,
}

#[repr(C)]
pub struct rd_kafka_metadata_partition_t {
    pub id: i32,
    pub err: i32,
    pub leader: i32,
    pub replica_cnt: c_int,
    pub replicas: *mut i32,
    pub isr_cnt: c_int,
    pub isrs: *mut i32,
}

#[repr(C)]
pub struct rd_kafka_metadata_topic_t {
    pub topic: *mut c_char,
    pub partition_cnt: c_int,
    pub partitions: *mut rd_kafka_metadata_partition_t,
    pub err: i32,
}

#[repr(C)]
pub struct rd_kafka_metadata_t {
    pub broker_cnt: c_int,
    pub brokers: *mut rd_kafka_metadata_broker_t,
    pub topic_cnt: c_int,
    pub topics: *mut rd_kafka_metadata_topic_t,
    pub orig_broker_id: i32,
    pub orig_broker_name: *mut c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct memory {
    pub ptr: *const c_void,
    pub size: size_t,
}

#[repr(C)]
pub union rd_kafka_vu_union {
    pub rkt: *mut rd_kafka_topic_t,
    pub int: c_int,
    pub i32: i32,
    pub i64: i64,
    pub mem: memory,
    pub headers: *mut rd_kafka_headers_t,
    pub ptr: *mut c_void,
    pub pad: [u8; 64],
}

#[repr(C)]
pub struct rd_kafka_vu_t {
    pub vtype: c_int,
    pub u: rd_kafka_vu_union,
}

pub const PRODUCER: c_int = 0;
pub const CONSUMER: c_int = 1;
pub const CONF_OK: c_int = 0;
pub const PARTITION_UA: i32 = -1;
pub const MSG_F_COPY: c_int = 0x2;
pub const DESTROY_F_NO_CONSUMER_CLOSE: c_int = 0x8;
pub const PURGE_F_QUEUE: c_int = 0x1;

pub const VTYPE_RKT: c_int = 2;
pub const VTYPE_PARTITION: c_int = 3;
pub const VTYPE_VALUE: c_int = 4;
pub const VTYPE_KEY: c_int = 5;
pub const VTYPE_OPAQUE: c_int = 6;
pub const VTYPE_MSGFLAGS: c_int = 7;
pub const VTYPE_TIMESTAMP: c_int = 8;
pub const VTYPE_HEADERS: c_int = 10;

pub const EVENT_FETCH: c_int = 0x2;
pub const EVENT_ERROR: c_int = 0x8;
pub const EVENT_REBALANCE: c_int = 0x10;
pub const EVENT_OFFSET_COMMIT: c_int = 0x20;

pub const ADMIN_OP_CREATETOPICS: c_int = 1;
pub const ADMIN_OP_DESCRIBECONFIGS: c_int = 5;
pub const ADMIN_OP_LISTCONSUMERGROUPOFFSETS: c_int = 14;
pub const ADMIN_OP_ALTERCONSUMERGROUPOFFSETS: c_int = 15;
pub const ADMIN_OP_LISTOFFSETS: c_int = 21;

pub const RESOURCE_TOPIC: c_int = 2;
pub const RESOURCE_BROKER: c_int = 4;
pub const ISOLATION_READ_UNCOMMITTED: c_int = 0;
pub const ISOLATION_READ_COMMITTED: c_int = 1;
pub const OFFSET_SPEC_EARLIEST: i64 = -2;
pub const OFFSET_SPEC_LATEST: i64 = -1;

unsafe extern "C" {
    pub fn rd_kafka_err2name(err: i32) -> *const c_char;
    pub fn rd_kafka_err2str(err: i32) -> *const c_char;
    pub fn rd_kafka_last_error() -> i32;
    pub fn rd_kafka_fatal_error(rk: *mut rd_kafka_t, errstr: *mut c_char, size: size_t) -> i32;

    pub fn rd_kafka_conf_new() -> *mut rd_kafka_conf_t;
    pub fn rd_kafka_conf_destroy(conf: *mut rd_kafka_conf_t);
    pub fn rd_kafka_conf_set(conf: *mut rd_kafka_conf_t, name: *const c_char, value: *const c_char, errstr: *mut c_char, size: size_t) -> c_int;
    pub fn rd_kafka_conf_set_events(conf: *mut rd_kafka_conf_t, events: c_int);
    pub fn rd_kafka_conf_set_opaque(conf: *mut rd_kafka_conf_t, opaque: *mut c_void);
    pub fn rd_kafka_conf_set_log_cb(conf: *mut rd_kafka_conf_t, cb: extern "C" fn(*const rd_kafka_t, c_int, *const c_char, *const c_char));
    pub fn rd_kafka_conf_set_error_cb(conf: *mut rd_kafka_conf_t, cb: extern "C" fn(*mut rd_kafka_t, c_int, *const c_char, *mut c_void));
    pub fn rd_kafka_conf_set_dr_msg_cb(conf: *mut rd_kafka_conf_t, cb: extern "C" fn(*mut rd_kafka_t, *const rd_kafka_message_t, *mut c_void));
    pub fn rd_kafka_conf_set_closesocket_cb(conf: *mut rd_kafka_conf_t, cb: extern "C" fn(c_int, *mut c_void) -> c_int);
    pub fn rd_kafka_conf_set_stats_cb(conf: *mut rd_kafka_conf_t, cb: extern "C" fn(*mut rd_kafka_t, *mut c_char, size_t, *mut c_void) -> c_int);

    pub fn rd_kafka_conf_interceptor_add_on_new(
        conf: *mut rd_kafka_conf_t,
        name: *const c_char,
        on_new: extern "C" fn(*mut rd_kafka_t, *const rd_kafka_conf_t, *mut c_void, *mut c_char, size_t) -> i32,
        opaque: *mut c_void,
    ) -> i32;
    pub fn rd_kafka_interceptor_add_on_request_sent(
        rk: *mut rd_kafka_t,
        name: *const c_char,
        on_request_sent: extern "C" fn(*mut rd_kafka_t, c_int, *const c_char, i32, i16, i16, i32, size_t, *mut c_void) -> i32,
        opaque: *mut c_void,
    ) -> i32;
    pub fn rd_kafka_interceptor_add_on_response_received(
        rk: *mut rd_kafka_t,
        name: *const c_char,
        on_response_received: extern "C" fn(*mut rd_kafka_t, c_int, *const c_char, i32, i16, i16, i32, size_t, i64, i32, *mut c_void) -> i32,
        opaque: *mut c_void,
    ) -> i32;

    pub fn rd_kafka_new(kind: c_int, conf: *mut rd_kafka_conf_t, errstr: *mut c_char, size: size_t) -> *mut rd_kafka_t;
    pub fn rd_kafka_opaque(rk: *const rd_kafka_t) -> *mut c_void;
    pub fn rd_kafka_destroy_flags(rk: *mut rd_kafka_t, flags: c_int);
    pub fn rd_kafka_poll(rk: *mut rd_kafka_t, timeout_ms: c_int) -> c_int;
    pub fn rd_kafka_outq_len(rk: *mut rd_kafka_t) -> c_int;
    pub fn rd_kafka_flush(rk: *mut rd_kafka_t, timeout_ms: c_int) -> i32;
    pub fn rd_kafka_purge(rk: *mut rd_kafka_t, purge_flags: c_int) -> i32;

    pub fn rd_kafka_error_code(error: *const rd_kafka_error_t) -> i32;
    pub fn rd_kafka_error_string(error: *const rd_kafka_error_t) -> *const c_char;
    pub fn rd_kafka_error_is_fatal(error: *const rd_kafka_error_t) -> c_int;
    pub fn rd_kafka_error_is_retriable(error: *const rd_kafka_error_t) -> c_int;
    pub fn rd_kafka_error_txn_requires_abort(error: *const rd_kafka_error_t) -> c_int;
    pub fn rd_kafka_error_destroy(error: *mut rd_kafka_error_t);

    pub fn rd_kafka_topic_partition_list_new(size: c_int) -> *mut rd_kafka_topic_partition_list_t;
    pub fn rd_kafka_topic_partition_list_destroy(list: *mut rd_kafka_topic_partition_list_t);
    pub fn rd_kafka_topic_partition_list_add(
        list: *mut rd_kafka_topic_partition_list_t,
        topic: *const c_char,
        partition: i32,
    ) -> *mut rd_kafka_topic_partition_t;

    pub fn rd_kafka_topic_partition_set_leader_epoch(partition: *mut rd_kafka_topic_partition_t, epoch: i32);
    pub fn rd_kafka_topic_partition_get_leader_epoch(partition: *const rd_kafka_topic_partition_t) -> i32;

    pub fn rd_kafka_queue_new(rk: *mut rd_kafka_t) -> *mut rd_kafka_queue_t;
    pub fn rd_kafka_queue_destroy(queue: *mut rd_kafka_queue_t);
    #[cfg(test)]
    pub fn rd_kafka_queue_length(queue: *mut rd_kafka_queue_t) -> size_t;
    pub fn rd_kafka_queue_get_consumer(rk: *mut rd_kafka_t) -> *mut rd_kafka_queue_t;
    pub fn rd_kafka_queue_get_partition(rk: *mut rd_kafka_t, topic: *const c_char, partition: i32) -> *mut rd_kafka_queue_t;
    pub fn rd_kafka_queue_forward(from: *mut rd_kafka_queue_t, to: *mut rd_kafka_queue_t);
    pub fn rd_kafka_queue_poll(queue: *mut rd_kafka_queue_t, timeout_ms: c_int) -> *mut rd_kafka_event_t;
    pub fn rd_kafka_queue_cb_event_enable(queue: *mut rd_kafka_queue_t, cb: Option<extern "C" fn(*mut rd_kafka_t, *mut c_void)>, opaque: *mut c_void);
    pub fn rd_kafka_consume_batch_queue(
        queue: *mut rd_kafka_queue_t,
        timeout_ms: c_int,
        messages: *mut *mut rd_kafka_message_t,
        size: size_t,
    ) -> ssize_t;

    pub fn rd_kafka_event_type(event: *const rd_kafka_event_t) -> c_int;
    pub fn rd_kafka_event_error(event: *mut rd_kafka_event_t) -> i32;
    pub fn rd_kafka_event_error_string(event: *mut rd_kafka_event_t) -> *const c_char;
    pub fn rd_kafka_event_error_is_fatal(event: *mut rd_kafka_event_t) -> c_int;
    pub fn rd_kafka_event_topic_partition_list(event: *mut rd_kafka_event_t) -> *mut rd_kafka_topic_partition_list_t;
    pub fn rd_kafka_event_destroy(event: *mut rd_kafka_event_t);

    pub fn rd_kafka_poll_set_consumer(rk: *mut rd_kafka_t) -> i32;
    pub fn rd_kafka_subscribe(rk: *mut rd_kafka_t, topics: *const rd_kafka_topic_partition_list_t) -> i32;
    pub fn rd_kafka_rebalance_protocol(rk: *mut rd_kafka_t) -> *const c_char;
    pub fn rd_kafka_assignment_lost(rk: *mut rd_kafka_t) -> c_int;
    pub fn rd_kafka_assign(rk: *mut rd_kafka_t, partitions: *const rd_kafka_topic_partition_list_t) -> i32;
    pub fn rd_kafka_incremental_assign(rk: *mut rd_kafka_t, partitions: *const rd_kafka_topic_partition_list_t) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_incremental_unassign(rk: *mut rd_kafka_t, partitions: *const rd_kafka_topic_partition_list_t) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_seek_partitions(
        rk: *mut rd_kafka_t,
        partitions: *mut rd_kafka_topic_partition_list_t,
        timeout_ms: c_int,
    ) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_position(rk: *mut rd_kafka_t, partitions: *mut rd_kafka_topic_partition_list_t) -> i32;
    pub fn rd_kafka_commit_queue(
        rk: *mut rd_kafka_t,
        offsets: *const rd_kafka_topic_partition_list_t,
        queue: *mut rd_kafka_queue_t,
        callback: *mut c_void,
        opaque: *mut c_void,
    ) -> i32;
    pub fn rd_kafka_consumer_close_queue(rk: *mut rd_kafka_t, queue: *mut rd_kafka_queue_t) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_consumer_closed(rk: *mut rd_kafka_t) -> c_int;

    pub fn rd_kafka_consumer_group_metadata(rk: *mut rd_kafka_t) -> *mut rd_kafka_consumer_group_metadata_t;
    pub fn rd_kafka_consumer_group_metadata_new_with_genid(
        group_id: *const c_char,
        generation: i32,
        member_id: *const c_char,
        group_instance_id: *const c_char,
    ) -> *mut rd_kafka_consumer_group_metadata_t;
    pub fn rd_kafka_consumer_group_metadata_member_id(metadata: *const rd_kafka_consumer_group_metadata_t) -> *const c_char;
    pub fn rd_kafka_consumer_group_metadata_generation_id(metadata: *const rd_kafka_consumer_group_metadata_t) -> i32;
    pub fn rd_kafka_consumer_group_metadata_destroy(metadata: *mut rd_kafka_consumer_group_metadata_t);

    pub fn rd_kafka_get_watermark_offsets(rk: *mut rd_kafka_t, topic: *const c_char, partition: i32, low: *mut i64, high: *mut i64) -> i32;

    pub fn rd_kafka_message_leader_epoch(message: *const rd_kafka_message_t) -> i32;
    pub fn rd_kafka_message_destroy(message: *mut rd_kafka_message_t);
    pub fn rd_kafka_message_errstr(message: *const rd_kafka_message_t) -> *const c_char;
    pub fn rd_kafka_message_timestamp(message: *const rd_kafka_message_t, kind: *mut c_int) -> i64;
    pub fn rd_kafka_message_headers(message: *const rd_kafka_message_t, headers: *mut *mut rd_kafka_headers_t) -> i32;
    pub fn rd_kafka_header_get_all(
        headers: *const rd_kafka_headers_t,
        index: size_t,
        name: *mut *const c_char,
        value: *mut *const c_void,
        size: *mut size_t,
    ) -> i32;
    pub fn rd_kafka_headers_new(count: size_t) -> *mut rd_kafka_headers_t;
    pub fn rd_kafka_headers_destroy(headers: *mut rd_kafka_headers_t);
    pub fn rd_kafka_header_add(
        headers: *mut rd_kafka_headers_t,
        name: *const c_char,
        name_size: ssize_t,
        value: *const c_void,
        value_size: ssize_t,
    ) -> i32;

    pub fn rd_kafka_topic_new(rk: *mut rd_kafka_t, topic: *const c_char, conf: *mut c_void) -> *mut rd_kafka_topic_t;
    pub fn rd_kafka_topic_destroy(topic: *mut rd_kafka_topic_t);
    pub fn rd_kafka_produceva(rk: *mut rd_kafka_t, arguments: *const rd_kafka_vu_t, count: size_t) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_init_transactions(rk: *mut rd_kafka_t, timeout_ms: c_int) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_begin_transaction(rk: *mut rd_kafka_t) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_send_offsets_to_transaction(
        rk: *mut rd_kafka_t,
        offsets: *const rd_kafka_topic_partition_list_t,
        metadata: *const rd_kafka_consumer_group_metadata_t,
        timeout_ms: c_int,
    ) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_commit_transaction(rk: *mut rd_kafka_t, timeout_ms: c_int) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_abort_transaction(rk: *mut rd_kafka_t, timeout_ms: c_int) -> *mut rd_kafka_error_t;

    pub fn rd_kafka_metadata(
        rk: *mut rd_kafka_t,
        all_topics: c_int,
        only: *mut rd_kafka_topic_t,
        metadata: *mut *const rd_kafka_metadata_t,
        timeout_ms: c_int,
    ) -> i32;
    pub fn rd_kafka_metadata_destroy(metadata: *const rd_kafka_metadata_t);

    pub fn rd_kafka_AdminOptions_new(rk: *mut rd_kafka_t, operation: c_int) -> *mut rd_kafka_AdminOptions_t;
    pub fn rd_kafka_AdminOptions_destroy(options: *mut rd_kafka_AdminOptions_t);
    pub fn rd_kafka_AdminOptions_set_request_timeout(
        options: *mut rd_kafka_AdminOptions_t,
        timeout_ms: c_int,
        errstr: *mut c_char,
        size: size_t,
    ) -> i32;
    pub fn rd_kafka_AdminOptions_set_require_stable_offsets(options: *mut rd_kafka_AdminOptions_t, value: c_int) -> *mut rd_kafka_error_t;
    pub fn rd_kafka_AdminOptions_set_isolation_level(options: *mut rd_kafka_AdminOptions_t, value: c_int) -> *mut rd_kafka_error_t;

    pub fn rd_kafka_ListConsumerGroupOffsets_new(
        group_id: *const c_char,
        partitions: *const rd_kafka_topic_partition_list_t,
    ) -> *mut rd_kafka_ListConsumerGroupOffsets_t;
    pub fn rd_kafka_ListConsumerGroupOffsets_destroy(request: *mut rd_kafka_ListConsumerGroupOffsets_t);
    pub fn rd_kafka_ListConsumerGroupOffsets(
        rk: *mut rd_kafka_t,
        requests: *mut *mut rd_kafka_ListConsumerGroupOffsets_t,
        count: size_t,
        options: *const rd_kafka_AdminOptions_t,
        queue: *mut rd_kafka_queue_t,
    );
    pub fn rd_kafka_event_ListConsumerGroupOffsets_result(event: *mut rd_kafka_event_t) -> *const rd_kafka_result_t;
    pub fn rd_kafka_ListConsumerGroupOffsets_result_groups(
        result: *const rd_kafka_result_t,
        count: *mut size_t,
    ) -> *mut *const rd_kafka_group_result_t;

    pub fn rd_kafka_AlterConsumerGroupOffsets_new(
        group_id: *const c_char,
        partitions: *const rd_kafka_topic_partition_list_t,
    ) -> *mut rd_kafka_AlterConsumerGroupOffsets_t;
    pub fn rd_kafka_AlterConsumerGroupOffsets_destroy(request: *mut rd_kafka_AlterConsumerGroupOffsets_t);
    pub fn rd_kafka_AlterConsumerGroupOffsets(
        rk: *mut rd_kafka_t,
        requests: *mut *mut rd_kafka_AlterConsumerGroupOffsets_t,
        count: size_t,
        options: *const rd_kafka_AdminOptions_t,
        queue: *mut rd_kafka_queue_t,
    );
    pub fn rd_kafka_event_AlterConsumerGroupOffsets_result(event: *mut rd_kafka_event_t) -> *const rd_kafka_result_t;
    pub fn rd_kafka_AlterConsumerGroupOffsets_result_groups(
        result: *const rd_kafka_result_t,
        count: *mut size_t,
    ) -> *mut *const rd_kafka_group_result_t;
    pub fn rd_kafka_group_result_error(group: *const rd_kafka_group_result_t) -> *const rd_kafka_error_t;
    pub fn rd_kafka_group_result_partitions(group: *const rd_kafka_group_result_t) -> *const rd_kafka_topic_partition_list_t;

    pub fn rd_kafka_ConfigResource_new(kind: c_int, name: *const c_char) -> *mut rd_kafka_ConfigResource_t;
    pub fn rd_kafka_ConfigResource_destroy(resource: *mut rd_kafka_ConfigResource_t);
    pub fn rd_kafka_DescribeConfigs(
        rk: *mut rd_kafka_t,
        resources: *mut *mut rd_kafka_ConfigResource_t,
        count: size_t,
        options: *const rd_kafka_AdminOptions_t,
        queue: *mut rd_kafka_queue_t,
    );
    pub fn rd_kafka_event_DescribeConfigs_result(event: *mut rd_kafka_event_t) -> *const rd_kafka_result_t;
    pub fn rd_kafka_DescribeConfigs_result_resources(result: *const rd_kafka_result_t, count: *mut size_t) -> *mut *const rd_kafka_ConfigResource_t;
    pub fn rd_kafka_ConfigResource_error(resource: *const rd_kafka_ConfigResource_t) -> i32;
    pub fn rd_kafka_ConfigResource_error_string(resource: *const rd_kafka_ConfigResource_t) -> *const c_char;
    pub fn rd_kafka_ConfigResource_configs(resource: *const rd_kafka_ConfigResource_t, count: *mut size_t) -> *mut *const rd_kafka_ConfigEntry_t;
    pub fn rd_kafka_ConfigEntry_name(entry: *const rd_kafka_ConfigEntry_t) -> *const c_char;
    pub fn rd_kafka_ConfigEntry_value(entry: *const rd_kafka_ConfigEntry_t) -> *const c_char;

    pub fn rd_kafka_NewTopic_new(
        topic: *const c_char,
        partitions: c_int,
        replication: c_int,
        errstr: *mut c_char,
        size: size_t,
    ) -> *mut rd_kafka_NewTopic_t;
    pub fn rd_kafka_NewTopic_destroy(topic: *mut rd_kafka_NewTopic_t);
    pub fn rd_kafka_CreateTopics(
        rk: *mut rd_kafka_t,
        topics: *mut *mut rd_kafka_NewTopic_t,
        count: size_t,
        options: *const rd_kafka_AdminOptions_t,
        queue: *mut rd_kafka_queue_t,
    );
    pub fn rd_kafka_event_CreateTopics_result(event: *mut rd_kafka_event_t) -> *const rd_kafka_result_t;
    pub fn rd_kafka_CreateTopics_result_topics(result: *const rd_kafka_result_t, count: *mut size_t) -> *mut *const rd_kafka_topic_result_t;
    pub fn rd_kafka_topic_result_error(topic: *const rd_kafka_topic_result_t) -> i32;
    pub fn rd_kafka_topic_result_error_string(topic: *const rd_kafka_topic_result_t) -> *const c_char;
    pub fn rd_kafka_topic_result_name(topic: *const rd_kafka_topic_result_t) -> *const c_char;

    pub fn rd_kafka_ListOffsets(
        rk: *mut rd_kafka_t,
        partitions: *mut rd_kafka_topic_partition_list_t,
        options: *const rd_kafka_AdminOptions_t,
        queue: *mut rd_kafka_queue_t,
    );
    pub fn rd_kafka_event_ListOffsets_result(event: *mut rd_kafka_event_t) -> *const rd_kafka_result_t;
    pub fn rd_kafka_ListOffsets_result_infos(result: *const rd_kafka_result_t, count: *mut size_t) -> *mut *const rd_kafka_ListOffsetsResultInfo_t;
    pub fn rd_kafka_ListOffsetsResultInfo_topic_partition(info: *const rd_kafka_ListOffsetsResultInfo_t) -> *const rd_kafka_topic_partition_t;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::bindings as generated;
    use std::mem::{align_of, offset_of, size_of};

    /// The declarations above are checked against the generated ones: a new client version that moves a field fails here.
    #[test]
    fn layouts_agree_with_the_generated_bindings() {
        assert_eq!(size_of::<rd_kafka_topic_partition_t>(), size_of::<generated::rd_kafka_topic_partition_t>());
        assert_eq!(offset_of!(rd_kafka_topic_partition_t, err), offset_of!(generated::rd_kafka_topic_partition_t, err));
        assert_eq!(size_of::<rd_kafka_message_t>(), size_of::<generated::rd_kafka_message_t>());
        assert_eq!(offset_of!(rd_kafka_message_t, offset), offset_of!(generated::rd_kafka_message_t, offset));
        assert_eq!(size_of::<rd_kafka_vu_t>(), size_of::<generated::rd_kafka_vu_t>());
        assert_eq!(align_of::<rd_kafka_vu_t>(), align_of::<generated::rd_kafka_vu_t>());
        assert_eq!(size_of::<rd_kafka_metadata_t>(), size_of::<generated::rd_kafka_metadata>());
        assert_eq!(size_of::<rd_kafka_metadata_topic_t>(), size_of::<generated::rd_kafka_metadata_topic>());
        assert_eq!(size_of::<rd_kafka_metadata_partition_t>(), size_of::<generated::rd_kafka_metadata_partition>());
        assert_eq!(offset_of!(rd_kafka_metadata_partition_t, replica_cnt), offset_of!(generated::rd_kafka_metadata_partition, replica_cnt));
    }

    #[test]
    fn constants_agree_with_the_generated_bindings() {
        use generated::rd_kafka_admin_op_t as op;
        use generated::rd_kafka_vtype_t as vtype;
        assert_eq!(ADMIN_OP_CREATETOPICS, op::RD_KAFKA_ADMIN_OP_CREATETOPICS as c_int);
        assert_eq!(ADMIN_OP_DESCRIBECONFIGS, op::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS as c_int);
        assert_eq!(ADMIN_OP_LISTCONSUMERGROUPOFFSETS, op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS as c_int);
        assert_eq!(ADMIN_OP_ALTERCONSUMERGROUPOFFSETS, op::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS as c_int);
        assert_eq!(ADMIN_OP_LISTOFFSETS, op::RD_KAFKA_ADMIN_OP_LISTOFFSETS as c_int);
        assert_eq!(VTYPE_HEADERS, vtype::RD_KAFKA_VTYPE_HEADERS as c_int);
        assert_eq!(VTYPE_RKT, vtype::RD_KAFKA_VTYPE_RKT as c_int);
        assert_eq!(VTYPE_TIMESTAMP, vtype::RD_KAFKA_VTYPE_TIMESTAMP as c_int);
        assert_eq!(DESTROY_F_NO_CONSUMER_CLOSE, generated::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE as c_int);
        assert_eq!(RESOURCE_TOPIC, generated::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC as c_int);
        assert_eq!(RESOURCE_BROKER, generated::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_BROKER as c_int);
        assert_eq!(MSG_F_COPY, generated::RD_KAFKA_MSG_F_COPY as c_int);
    }
}
