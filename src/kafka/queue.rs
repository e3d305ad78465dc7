//! A queue of the library that wakes a sleeping worker.

use crate::ffi;
use libc::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes the worker when a queue becomes non-empty or the transact thread has news.
#[derive(Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    condition: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_one();
    }

    pub(crate) fn wait(&self, limit: Duration) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut raised, _) = self.condition.wait_timeout_while(raised, limit, |raised| !*raised).unwrap_or_else(PoisonError::into_inner);
        *raised = false;
    }
}

extern "C" fn on_queue_filled(_: *mut ffi::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the opaque pointer is a signal that the consumer keeps alive until its queues are gone.
    unsafe { &*opaque.cast::<Signal>() }.raise();
}

/// A queue of the library that wakes the signal.
pub(crate) struct Queue {
    queue: NonNull<ffi::rd_kafka_queue_t>,
    /// Kept alive for the callback.
    _signal: Arc<Signal>,
}

impl Queue {
    /// Takes over a queue reference.
    ///
    /// # Safety
    /// `queue` is null or a reference that nobody else frees.
    pub(crate) unsafe fn adopt(queue: *mut ffi::rd_kafka_queue_t, signal: &Arc<Signal>) -> Option<Self> {
        let queue = NonNull::new(queue)?;
        // SAFETY: the queue is alive; the signal outlives the callback, which `drop` takes away first.
        unsafe { ffi::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(on_queue_filled), Arc::as_ptr(signal).cast_mut().cast()) };
        Some(Self { queue, _signal: Arc::clone(signal) })
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::rd_kafka_queue_t {
        self.queue.as_ptr()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the reference is ours; without callback first, so that the signal is not called any more.
        unsafe {
            ffi::rd_kafka_queue_cb_event_enable(self.as_ptr(), None, std::ptr::null_mut());
            ffi::rd_kafka_queue_destroy(self.as_ptr());
        }
    }
}
