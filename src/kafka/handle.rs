//! One client handle: configuration in, errors out, callbacks contained.

use crate::consumer::Epochs;
use crate::disposition::code;
use crate::ffi;
use crate::guard::{Guard, attach};
use crate::list::c_string;
use crate::topic_ids::TopicIds;
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Client properties in librdkafka's (and mostly Kafka's own) dotted names; later ones win.
#[derive(Clone, Default)]
pub struct Properties(Vec<(String, String)>);

impl Properties {
    /// Returns no properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// Returns the properties for requests and plain sends: what the user wrote for both clients and for the producer.
    pub fn for_requests(common: &[(String, String)], producer: &[(String, String)]) -> Self {
        let mut properties = Self::new().with("client.id", "transom");
        for (name, value) in common.iter().chain(producer) {
            properties.set(name, value);
        }
        properties
    }

    /// Returns a property as it was set last.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    }

    /// Sets a property.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), value.into()));
    }
}

impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets: names only.
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// An error of the client library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {text}")]
pub struct ClientError {
    /// librdkafka's code: negative for local ones, positive for the broker's.
    pub code: i32,
    /// The code's name, such as `TOPIC_AUTHORIZATION_FAILED`.
    pub name: String,
    /// The library's words.
    pub text: String,
    /// What the library says of it.
    pub nature: Nature,
}

/// What the library says of an error; at most one is set there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// The client cannot go on.
    Fatal,
    /// The transaction must be aborted.
    RequiresAbort,
    /// The same call may be made again.
    Retriable,
    /// Nothing is said.
    Plain,
}

impl ClientError {
    /// Returns the error for a bare code.
    pub(crate) fn from_code(code: i32) -> Self {
        Self { code, name: code_name(code), text: code_text(code), nature: Nature::Plain }
    }

    /// Takes over an error object; null is success.
    pub(crate) fn check(error: *mut ffi::rd_kafka_error_t) -> Result<(), Self> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null error object is valid until destroyed, which happens here and nowhere else.
        unsafe {
            let nature = if ffi::rd_kafka_error_is_fatal(error) != 0 {
                Nature::Fatal
            } else if ffi::rd_kafka_error_txn_requires_abort(error) != 0 {
                Nature::RequiresAbort
            } else if ffi::rd_kafka_error_is_retriable(error) != 0 {
                Nature::Retriable
            } else {
                Nature::Plain
            };
            let code = ffi::rd_kafka_error_code(error);
            let text = owned(ffi::rd_kafka_error_string(error));
            ffi::rd_kafka_error_destroy(error);
            Err(Self { code, name: code_name(code), text, nature })
        }
    }

    /// Checks a bare code; 0 is success.
    pub(crate) fn check_code(code: i32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self::from_code(code)) }
    }
}

/// Returns a code's name without the library's prefix.
pub(crate) fn code_name(code: i32) -> String {
    // SAFETY: returns a static C string for any code.
    unsafe { owned(ffi::rd_kafka_err2name(code)) }
}

fn code_text(code: i32) -> String {
    // SAFETY: returns a static C string for any code.
    unsafe { owned(ffi::rd_kafka_err2str(code)) }
}

/// Copies a C string; null gives an empty one.
///
/// # Safety
/// `text` is null or a valid C string.
pub(crate) unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// An output that was not delivered.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered {
    /// Its place in the batch.
    pub(crate) index: usize,
    /// Why.
    pub(crate) error: ClientError,
}

/// What callbacks leave behind for whoever makes the calls.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// The last error the client reported by itself.
    last_error: Mutex<Option<ClientError>>,
    /// Outputs whose delivery failed since the mailbox was emptied.
    refused: Mutex<Vec<Undelivered>>,
    /// Producer id and epoch of the last statistics.
    producer: Mutex<Option<(i64, i32)>>,
    /// Sees the requests of consumers and transactional producers.
    pub(crate) guard: Guard,
    /// Ids of the topics a consumer reads.
    pub(crate) topics: TopicIds,
    /// Leader epochs of the offsets a consumer reads and commits.
    pub(crate) epochs: Epochs,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The values are replaced whole, so a panic elsewhere leaves them true.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    pub(crate) fn last_error(&self) -> Option<ClientError> {
        lock(&self.last_error).clone()
    }

    pub(crate) fn forget_error(&self) {
        *lock(&self.last_error) = None;
    }

    /// Notes an error. "All brokers down" follows a refused password or certificate at once and says less: it does not
    /// replace them.
    pub(crate) fn note_error(&self, error: ClientError) {
        let mut last = lock(&self.last_error);
        let specific = last.as_ref().is_some_and(|last| matches!(last.code, code::AUTHENTICATION | code::SSL));
        if !(specific && matches!(error.code, code::ALL_BROKERS_DOWN | code::TRANSPORT)) {
            *last = Some(error);
        }
    }

    pub(crate) fn has_refused(&self) -> bool {
        !lock(&self.refused).is_empty()
    }

    pub(crate) fn take_refused(&self) -> Vec<Undelivered> {
        std::mem::take(&mut *lock(&self.refused))
    }

    pub(crate) fn producer(&self) -> Option<(i64, i32)> {
        *lock(&self.producer)
    }
}

/// An owned client.
pub(crate) struct Handle {
    rk: NonNull<ffi::rd_kafka_t>,
    kind: Kind,
    mailbox: Arc<Mailbox>,
    /// The rule of [`Handle::serve_reports`], switched off by a test.
    is_served_elsewhere: AtomicBool,
}

// SAFETY: librdkafka handles may be used from any thread; the mailbox is synchronised.
unsafe impl Send for Handle {}
// SAFETY: as above; all calls through a shared handle are thread-safe in librdkafka.
unsafe impl Sync for Handle {}

/// What kind of client, and which callbacks it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A group member whose rebalances and errors arrive as events.
    Consumer,
    /// A transactional producer with delivery callbacks for refused outputs.
    TransactionalProducer,
    /// A producer without transactions.
    PlainProducer,
    /// A consumer that never joins, for admin requests about its group (see `admin`).
    GroupAdmin,
}

impl Handle {
    /// Makes a client.
    ///
    /// # Errors
    /// The library's words about the property it refuses.
    pub(crate) fn new(kind: Kind, properties: &Properties) -> Result<Self, ClientError> {
        let mailbox = Arc::new(Mailbox::default());
        let mut text: [c_char; 512] = [0; 512];
        // SAFETY: the configuration is ours until rd_kafka_new takes it over (on success) or we destroy it. The opaque
        // pointer is the mailbox, which lives as long as this handle, and the handle outlives all callbacks.
        unsafe {
            let conf = ffi::rd_kafka_conf_new();
            for (name, value) in &properties.0 {
                let (name, value) = (c_string(name), c_string(value));
                if ffi::rd_kafka_conf_set(conf, name.as_ptr(), value.as_ptr(), text.as_mut_ptr(), text.len()) != ffi::CONF_OK {
                    ffi::rd_kafka_conf_destroy(conf);
                    return Err(configuration(owned(text.as_ptr())));
                }
            }
            ffi::rd_kafka_conf_set_opaque(conf, Arc::as_ptr(&mailbox).cast_mut().cast());
            ffi::rd_kafka_conf_set_log_cb(conf, on_log);
            if matches!(kind, Kind::Consumer | Kind::TransactionalProducer) {
                let attached = attach(conf, &raw const mailbox.guard);
                if attached != 0 {
                    ffi::rd_kafka_conf_destroy(conf);
                    return Err(ClientError::from_code(attached));
                }
            }
            match kind {
                Kind::Consumer => ffi::rd_kafka_conf_set_events(conf, ffi::EVENT_REBALANCE | ffi::EVENT_ERROR),
                Kind::TransactionalProducer => {
                    ffi::rd_kafka_conf_set_error_cb(conf, on_error);
                    ffi::rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
                    ffi::rd_kafka_conf_set_stats_cb(conf, on_statistics);
                    ffi::rd_kafka_conf_set_closesocket_cb(conf, on_close);
                }
                Kind::PlainProducer => {
                    ffi::rd_kafka_conf_set_error_cb(conf, on_error);
                    ffi::rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
                }
                Kind::GroupAdmin => ffi::rd_kafka_conf_set_error_cb(conf, on_error),
            }
            let role = match kind {
                Kind::Consumer | Kind::GroupAdmin => ffi::CONSUMER,
                Kind::TransactionalProducer | Kind::PlainProducer => ffi::PRODUCER,
            };
            let rk = ffi::rd_kafka_new(role, conf, text.as_mut_ptr(), text.len());
            let Some(rk) = NonNull::new(rk) else {
                if ffi::rd_kafka_last_error() == code::CRIT_SYS_RESOURCE {
                    // Its threads may live on and use both, when they did not start in time.
                    std::mem::forget(mailbox);
                } else {
                    ffi::rd_kafka_conf_destroy(conf);
                }
                return Err(configuration(owned(text.as_ptr())));
            };
            Ok(Self { rk, kind, mailbox, is_served_elsewhere: AtomicBool::new(false) })
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::rd_kafka_t {
        self.rk.as_ptr()
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Serves callbacks, waiting at most this long.
    ///
    /// # Panics
    /// On a group member's handle. Its queue is the group's (`rd_kafka_poll_set_consumer`): without a rebalance callback the library
    /// would answer an assignment that waits there by giving it back, and throw it away with every other event, fatal ones too
    /// (`rd_kafka_poll_cb`). Only the worker's thread takes events from it, one by one.
    pub(crate) fn serve(&self, timeout_ms: i32) {
        assert!(
            self.kind != Kind::Consumer || self.is_served_elsewhere.load(Ordering::Relaxed),
            "a group member's events are served by its worker only"
        );
        // SAFETY: the handle is alive.
        unsafe { ffi::rd_kafka_poll(self.as_ptr(), timeout_ms) };
    }

    /// Serves callbacks without waiting, where somebody asks over this handle: not on a group member's, whose events are its worker's.
    pub(crate) fn serve_reports(&self) {
        if self.kind != Kind::Consumer || self.is_served_elsewhere.load(Ordering::Relaxed) {
            self.serve(0);
        }
    }

    /// Switches the rule of [`Handle::serve_reports`] off, for a test that must notice.
    pub(crate) fn plant_service_elsewhere(&self) {
        self.is_served_elsewhere.store(true, Ordering::Relaxed);
    }

    /// Returns how many messages are queued or unacknowledged.
    pub(crate) fn undelivered(&self) -> i32 {
        // SAFETY: the handle is alive.
        unsafe { ffi::rd_kafka_outq_len(self.as_ptr()) }
    }

    /// Drops what is queued and waits, bounded, until nothing that was sent is unanswered.
    pub(crate) fn quiesce(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        // SAFETY: the handle is alive; only producers are asked for this, which may be purged from any thread.
        unsafe { ffi::rd_kafka_purge(self.as_ptr(), ffi::PURGE_F_QUEUE) };
        self.serve(0);
        while self.undelivered() > 0 && Instant::now() < deadline {
            self.serve(1);
        }
    }

    /// Returns the fatal error this client is in, if any.
    pub(crate) fn fatal_error(&self) -> Option<ClientError> {
        let mut text: [c_char; 512] = [0; 512];
        // SAFETY: the handle is alive, the buffer has the length given.
        let (code, text) = unsafe { (ffi::rd_kafka_fatal_error(self.as_ptr(), text.as_mut_ptr(), text.len()), owned(text.as_ptr())) };
        (code != 0).then(|| ClientError { code, name: code_name(code), text, nature: Nature::Fatal })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is not used after this; librdkafka joins its threads, so no callback sees a freed mailbox. A
        // consumer that was not closed is not closed here either: that may hang, and static members must not leave.
        unsafe { ffi::rd_kafka_destroy_flags(self.as_ptr(), ffi::DESTROY_F_NO_CONSUMER_CLOSE) }
    }
}

fn configuration(text: String) -> ClientError {
    ClientError { code: -186, name: "_INVALID_ARG".to_owned(), text, nature: Nature::Plain }
}

/// syslog's number for what the `debug` property asks for.
const LOG_DEBUG: c_int = 7;

/// A panic must not cross into C: it is caught and the callback does nothing.
fn contained(body: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
}

extern "C" fn on_log(rk: *const ffi::rd_kafka_t, level: c_int, facility: *const c_char, text: *const c_char) {
    contained(|| {
        // SAFETY: librdkafka passes C strings that live during the call.
        let (facility, text) = unsafe { (owned(facility), owned(text)) };
        if level >= LOG_DEBUG && !rk.is_null() {
            // SAFETY: the opaque pointer is the mailbox, which outlives the library's threads.
            let mailbox = unsafe { ffi::rd_kafka_opaque(rk).cast::<Mailbox>().as_ref() };
            if let Some(mailbox) = mailbox {
                mailbox.topics.note_log(&text);
            }
        }
        // syslog levels: 0–3 errors, 4 warning, 5–6 information, 7 debug. What matters is reported by name elsewhere, so
        // the library's own lines are one level quieter than it thinks.
        match level {
            0..=3 => tracing::warn!(target: "librdkafka", facility, "{text}"),
            4 => tracing::info!(target: "librdkafka", facility, "{text}"),
            5..LOG_DEBUG => tracing::debug!(target: "librdkafka", facility, "{text}"),
            // Consumers always write these (see `topic_ids`): they are for whoever looks for them.
            _ => tracing::trace!(target: "librdkafka", facility, "{text}"),
        }
    });
}

extern "C" fn on_error(_: *mut ffi::rd_kafka_t, code: c_int, reason: *const c_char, opaque: *mut c_void) {
    contained(|| {
        // SAFETY: the opaque pointer is the mailbox of a living handle; the reason is a C string.
        let (mailbox, text) = unsafe { (&*opaque.cast::<Mailbox>(), owned(reason)) };
        mailbox.note_error(ClientError { code, name: code_name(code), text, nature: Nature::Plain });
    });
}

extern "C" fn on_delivery(_: *mut ffi::rd_kafka_t, message: *const ffi::rd_kafka_message_t, opaque: *mut c_void) {
    contained(|| {
        // SAFETY: the message lives during the call; the opaque pointer is the mailbox of a living handle.
        let (mailbox, message) = unsafe { (&*opaque.cast::<Mailbox>(), &*message) };
        if message.err != 0 {
            // The message's own opaque is the index of its output plus one, so that index 0 is not null.
            let index = (message.private as usize).wrapping_sub(1);
            // The code only: the broker's words for one record point into memory that librdkafka 2.12.1 has freed by now
            // (`rd_kafka_message_produce_errstr`), and `rd_kafka_message_errstr` returns the payload of an output.
            lock(&mailbox.refused).push(Undelivered { index, error: ClientError::from_code(message.err) });
        }
    });
}

extern "C" fn on_close(socket: c_int, opaque: *mut c_void) -> c_int {
    // SAFETY: the opaque pointer is the mailbox of a living handle. Nothing in here can panic.
    unsafe { &*opaque.cast::<Mailbox>() }.guard.coordinator.close(socket)
}

extern "C" fn on_statistics(_: *mut ffi::rd_kafka_t, json: *mut c_char, len: size_t, opaque: *mut c_void) -> c_int {
    contained(|| {
        // SAFETY: librdkafka passes `len` bytes that live during the call; the opaque pointer is the mailbox.
        let (mailbox, bytes) = unsafe { (&*opaque.cast::<Mailbox>(), std::slice::from_raw_parts(json.cast::<u8>(), len)) };
        let Ok(statistics) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
        let number = |name: &str| statistics["eos"][name].as_i64();
        if let (Some(id), Some(epoch)) = (number("producer_id"), number("producer_epoch"))
            && id >= 0
        {
            *lock(&mailbox.producer) = Some((id, i32::try_from(epoch).unwrap_or(-1)));
        }
    });
    0
}
