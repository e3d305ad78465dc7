//! A plain idempotent producer, for `transom gen`: it fills topics and waits for every acknowledgement.

use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Handle, Kind, Properties};
use crate::list::c_string;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// How long the last acknowledgements may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(60);

/// A record was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SendError(pub String);

/// Sends records to one topic.
pub struct Sender {
    // Order matters: the topic goes before the client.
    topic: TopicHandle,
    client: Handle,
}

struct TopicHandle(NonNull<ffi::rd_kafka_topic_t>);

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { ffi::rd_kafka_topic_destroy(self.0.as_ptr()) }
    }
}

// SAFETY: librdkafka objects may be used from any thread.
unsafe impl Send for Sender {}

impl Sender {
    /// Makes a sender.
    ///
    /// # Errors
    /// When the client refuses its configuration.
    pub fn new(properties: &Properties, topic: &str) -> Result<Self, ClientError> {
        let client = Handle::new(Kind::PlainProducer, properties)?;
        // SAFETY: the client is alive, the name is copied.
        let handle = unsafe { ffi::rd_kafka_topic_new(client.as_ptr(), c_string(topic).as_ptr(), std::ptr::null_mut()) };
        let topic = NonNull::new(handle).map(TopicHandle).ok_or_else(|| ClientError::from_code(code::UNKNOWN_TOPIC))?;
        Ok(Self { topic, client })
    }

    /// Queues one record; waits while the queue is full.
    ///
    /// # Errors
    /// When the record cannot be queued or an earlier one was refused.
    pub fn send(&self, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<(), SendError> {
        let memory = |bytes: Option<&[u8]>| ffi::rd_kafka_vu_union {
            mem: bytes.map_or(ffi::memory { ptr: std::ptr::null(), size: 0 }, |bytes| ffi::memory { ptr: bytes.as_ptr().cast(), size: bytes.len() }),
        };
        loop {
            let arguments = [
                ffi::rd_kafka_vu_t { vtype: ffi::VTYPE_RKT, u: ffi::rd_kafka_vu_union { rkt: self.topic.0.as_ptr() } },
                ffi::rd_kafka_vu_t { vtype: ffi::VTYPE_MSGFLAGS, u: ffi::rd_kafka_vu_union { int: ffi::MSG_F_COPY } },
                ffi::rd_kafka_vu_t { vtype: ffi::VTYPE_KEY, u: memory(key) },
                ffi::rd_kafka_vu_t { vtype: ffi::VTYPE_VALUE, u: memory(value) },
            ];
            // SAFETY: client and topic are alive; key and value live during the call and are copied.
            let result = ClientError::check(unsafe { ffi::rd_kafka_produceva(self.client.as_ptr(), arguments.as_ptr(), arguments.len()) });
            match result {
                Ok(()) => return Ok(()),
                Err(error) if error.code == code::QUEUE_FULL => {
                    self.client.serve(10);
                    self.check()?;
                }
                Err(error) => return Err(SendError(error.to_string())),
            }
        }
    }

    /// Serves acknowledgements without waiting.
    ///
    /// # Errors
    /// When a record was refused.
    pub fn check(&self) -> Result<(), SendError> {
        self.client.serve(0);
        match self.client.mailbox().take_refused().first() {
            Some(undelivered) => Err(SendError(undelivered.error.to_string())),
            None => Ok(()),
        }
    }

    /// Waits until every record is acknowledged.
    ///
    /// # Errors
    /// When one is refused or the time is over.
    pub fn flush(&self) -> Result<(), SendError> {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        loop {
            // SAFETY: the client is alive.
            let code = unsafe { ffi::rd_kafka_flush(self.client.as_ptr(), 1_000) };
            self.check()?;
            if code == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let cause = self.client.mailbox().last_error().map_or_else(String::new, |error| format!(": {error}"));
                return Err(SendError(format!("not all records were acknowledged within {} s{cause}", FLUSH_TIMEOUT.as_secs())));
            }
        }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}
