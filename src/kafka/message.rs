//! One fetched record, where it lies in the library's fetch buffer.

use crate::ffi;
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::ptr::NonNull;
use transom_sdk::{Header, Timestamp};

/// Bytes of the longest length of a value: 31 bits and a sign.
const VARINT_MAX: usize = 5;

/// An owned message; pins its fetch buffer until dropped.
pub(crate) struct Message(NonNull<ffi::rd_kafka_message_t>);

impl Message {
    /// Takes over a message; null is none.
    ///
    /// # Safety
    /// `message` is null or a message that nobody else destroys.
    pub(crate) unsafe fn adopt(message: *mut ffi::rd_kafka_message_t) -> Option<Self> {
        NonNull::new(message).map(Self)
    }

    pub(crate) fn raw(&self) -> &ffi::rd_kafka_message_t {
        // SAFETY: valid until dropped.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn bytes(&self, data: *const c_void, len: usize) -> Option<&[u8]> {
        // SAFETY: librdkafka's key and payload have the length given and live as long as the message.
        (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) })
    }

    pub(crate) fn timestamp(&self) -> Option<Timestamp> {
        let mut kind: c_int = 0;
        // SAFETY: the message is alive.
        let milliseconds = unsafe { ffi::rd_kafka_message_timestamp(self.0.as_ptr(), &raw mut kind) };
        (kind != 0 && milliseconds >= 0).then(|| Timestamp::from_millis(milliseconds))
    }

    /// Returns the epoch of the leader that wrote the record, -1 if it is not known (KIP-320).
    pub(crate) fn leader_epoch(&self) -> i32 {
        // SAFETY: the message is alive.
        unsafe { ffi::rd_kafka_message_leader_epoch(self.0.as_ptr()) }
    }

    /// Returns whether the record surely has no headers: looked up where they would begin, since the library makes and
    /// destroys a buffer to tell, which is a tenth of what copying a record costs.
    ///
    /// In the record format of magic 2 (KIP-98) length and bytes of the value follow the key, and the number of headers
    /// follows the value. Where the bytes between key and value are just that length, key and value lie in such a record,
    /// and the library has checked that it is complete. Anything else is left to the library.
    fn has_surely_no_headers(&self) -> bool {
        let raw = self.raw();
        if raw.key.is_null() || raw.payload.is_null() {
            return false;
        }
        let (length, size) = varint(raw.len);
        let key_end = raw.key.cast::<u8>().wrapping_add(raw.key_len);
        if key_end.wrapping_add(size).cast::<c_void>() != raw.payload {
            return false;
        }
        // SAFETY: the value begins `size` bytes behind the key, so these are in one allocation, and initialised: all formats
        // have the value's length there. If it is the length of magic 2, a byte follows the value: the number of headers.
        unsafe { std::slice::from_raw_parts(key_end, size) == &length[..size] && *raw.payload.cast::<u8>().add(raw.len) == 0 }
    }

    /// Appends the headers; they live as long as the message.
    pub(crate) fn headers<'m>(&'m self, into: &mut Vec<Header<'m>>) {
        if self.has_surely_no_headers() {
            return;
        }
        let mut headers = std::ptr::null_mut();
        // SAFETY: the message is alive; names are C strings, values have their size, both live as long as the message.
        unsafe {
            if ffi::rd_kafka_message_headers(self.0.as_ptr(), &raw mut headers) != 0 {
                return;
            }
            let (mut name, mut value, mut size): (*const c_char, *const c_void, size_t) = (std::ptr::null(), std::ptr::null(), 0);
            while ffi::rd_kafka_header_get_all(headers, into.len(), &raw mut name, &raw mut value, &raw mut size) == 0 {
                into.push(Header { name: CStr::from_ptr(name).to_bytes(), value: self.bytes(value, size) });
            }
        }
    }
}

/// Returns a length as Kafka's records have it, zigzag in groups of seven bits, and how many bytes that is.
fn varint(length: usize) -> ([u8; VARINT_MAX], usize) {
    let mut bytes = [0; VARINT_MAX];
    let (mut rest, mut size) = (length.wrapping_mul(2), 0);
    while rest >= 0x80 && size + 1 < VARINT_MAX {
        bytes[size] = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
        size += 1;
    }
    bytes[size] = (rest & 0x7f) as u8;
    (bytes, size + 1)
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the message is ours and not used after this.
        unsafe { ffi::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::varint;

    #[test]
    fn lengths_are_zigzag_in_groups_of_seven_bits() {
        let bytes = |length| {
            let (bytes, size) = varint(length);
            bytes[..size].to_vec()
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(63), [0x7e]);
        assert_eq!(bytes(64), [0x80, 0x01]);
        assert_eq!(bytes(8_191), [0xfe, 0x7f]);
        assert_eq!(bytes(8_192), [0x80, 0x80, 0x01]);
        assert_eq!(bytes(0x7fff_ffff), [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    }
}
