//! One output into the client's queue.

use super::Producer;
use crate::disposition::code;
use crate::ffi;
use crate::handle::ClientError;
use libc::c_void;
use std::ptr::NonNull;
use transom_sdk::{OutputView, Partitioning};

fn memory(bytes: Option<&[u8]>) -> ffi::rd_kafka_vu_union {
    // A null pointer is a null key or value; an empty one must not be null.
    let mem = bytes.map_or(ffi::memory { ptr: std::ptr::null(), size: 0 }, |bytes| ffi::memory { ptr: bytes.as_ptr().cast(), size: bytes.len() });
    ffi::rd_kafka_vu_union { mem }
}

pub(super) fn try_produce(producer: &Producer, index: usize, view: &OutputView<'_>) -> Result<(), ClientError> {
    let Some(topic) = producer.topics.get(view.output().index()) else { return Err(ClientError::from_code(code::UNKNOWN_TOPIC)) };
    let headers = output_headers(view);
    let partition = match view.partitioning() {
        Partitioning::ByKey => ffi::PARTITION_UA,
        Partitioning::Fixed(partition) => partition.get(),
    };
    let opaque = (index + 1) as *mut c_void;
    let argument = |vtype, u| ffi::rd_kafka_vu_t { vtype, u };
    let mut arguments = [
        argument(ffi::VTYPE_RKT, ffi::rd_kafka_vu_union { rkt: topic.0.as_ptr() }),
        argument(ffi::VTYPE_PARTITION, ffi::rd_kafka_vu_union { i32: partition }),
        argument(ffi::VTYPE_MSGFLAGS, ffi::rd_kafka_vu_union { int: ffi::MSG_F_COPY }),
        argument(ffi::VTYPE_KEY, memory(view.key())),
        argument(ffi::VTYPE_VALUE, memory(view.value())),
        argument(ffi::VTYPE_OPAQUE, ffi::rd_kafka_vu_union { ptr: opaque }),
        argument(ffi::VTYPE_TIMESTAMP, ffi::rd_kafka_vu_union { i64: view.timestamp().map_or(0, transom_sdk::Timestamp::as_millis) }),
        argument(ffi::VTYPE_HEADERS, ffi::rd_kafka_vu_union { headers: headers.map_or(std::ptr::null_mut(), NonNull::as_ptr) }),
    ];
    let count = if headers.is_some() { arguments.len() } else { arguments.len() - 1 };
    // SAFETY: client and topic are alive; key and value live during the call and are copied; the headers become the
    // library's on success and stay ours on failure.
    unsafe {
        let error = ffi::rd_kafka_produceva(producer.client.as_ptr(), arguments.as_mut_ptr(), count);
        let result = ClientError::check(error);
        if let (Err(_), Some(headers)) = (&result, headers) {
            ffi::rd_kafka_headers_destroy(headers.as_ptr());
        }
        result
    }
}

fn output_headers(view: &OutputView<'_>) -> Option<NonNull<ffi::rd_kafka_headers_t>> {
    let headers = view.headers();
    if headers.len() == 0 {
        return None;
    }
    // SAFETY: the list is ours; names and values are copied. A null value has no length.
    unsafe {
        let list = ffi::rd_kafka_headers_new(headers.len());
        for header in headers {
            let value = header.value.map_or((std::ptr::null(), -1), |value| (value.as_ptr().cast::<c_void>(), value.len().cast_signed()));
            ffi::rd_kafka_header_add(list, header.name.as_ptr().cast(), header.name.len().cast_signed(), value.0, value.1);
        }
        NonNull::new(list)
    }
}
