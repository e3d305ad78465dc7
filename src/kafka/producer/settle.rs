//! How a transaction that went wrong ends: aborted by its producer, or left to the next one.

use super::{Broken, KafkaProducer, Producer, milliseconds, waiting_for};
use crate::broker::Guarantee;
use crate::disposition::{Step, disposition, is_fenced};
use crate::ffi;
use crate::handle::ClientError;
use std::time::{Duration, Instant};
use transom_engine::{Disposition, Outcome, StopReason, Suspect};
use transom_runtime::{Call, Transactor};

/// How long an abort may take before the producer is replaced instead.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same after a refused output: the library may wait for others that it will never send, and a new producer is due anyway.
const REFUSED_ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows an abort.
enum Then {
    Again,
    Hunt(Vec<Suspect>),
    Stop(StopReason),
}

impl KafkaProducer {
    pub(super) fn settle(&mut self, broken: Broken) -> Outcome {
        let (then, why) = match broken {
            Broken::Replace { why, fenced } => return self.replace(why, fenced),
            Broken::Abort(why) => (Then::Again, why),
            Broken::AbortAndStop(reason) => (Then::Stop(reason.clone()), reason.to_string()),
            Broken::Poison { suspects, why } => (Then::Hunt(suspects), why),
            Broken::TopicGone { topic, why } => {
                let why = waiting_for(&topic, &why);
                self.missing = Some(topic);
                (Then::Again, why)
            }
        };
        let aborted = match (&self.producer, self.options.guarantee) {
            // librdkafka 2.12.1 counts such requests, forgets the count when the transaction ends, and ends the process by an
            // assertion when one of them fails after that (`rd_kafka_txn_handle_AddPartitionsToTxn`), at the latest when the
            // client is destroyed. So the transaction does not end here: the next producer aborts it.
            (Some(producer), Guarantee::ExactlyOnce) if producer.client.mailbox().guard.awaits_registration() => {
                Err(Broken::Replace { why: "not aborted: a request of the transaction is unanswered".to_owned(), fenced: false })
            }
            (Some(producer), Guarantee::ExactlyOnce) => {
                self.abort(producer, if matches!(then, Then::Hunt(_)) { REFUSED_ABORT_TIMEOUT } else { ABORT_TIMEOUT })
            }
            // What is queued must not be delivered behind our back while the records are read again.
            (Some(_), Guarantee::AtLeastOnce | Guarantee::AtMostOnce) => {
                Err(Broken::Replace { why: "no transaction to abort".to_owned(), fenced: false })
            }
            (None, _) => Ok(()),
        };
        let transacted = self.options.guarantee == Guarantee::ExactlyOnce;
        match (aborted, then) {
            (Ok(()), Then::Again) => Outcome::Aborted { why },
            (Ok(()), Then::Hunt(suspects)) => Outcome::Poisoned { suspects, why },
            (Err(_), Then::Hunt(suspects)) if !transacted => {
                // The next transaction makes a new one.
                self.producer = None;
                Outcome::Poisoned { suspects, why }
            }
            // The first act of a new producer under the same id is to abort what the old one left open.
            (Err(Broken::Replace { fenced: false, why: also }), Then::Hunt(suspects)) => {
                self.producer = None;
                match self.initialise() {
                    Ok(()) => Outcome::Poisoned { suspects, why },
                    Err(_) => self.replace(format!("{why}; {also}"), false),
                }
            }
            // A transaction that could not be aborted is never committed by us either; the next producer aborts it.
            (Ok(()), Then::Stop(reason)) => Outcome::Stop(reason),
            (Err(_), Then::Stop(reason)) => {
                self.producer = None;
                Outcome::Stop(reason)
            }
            // The suspects are forgotten: the batch is refused again.
            (Err(Broken::Replace { why: also, fenced }), Then::Again | Then::Hunt(_)) => self.replace(format!("{why}; {also}"), fenced),
            (Err(_), Then::Again | Then::Hunt(_)) => Outcome::Aborted { why },
        }
    }

    /// The old producer is gone before anything else is said: it can send nothing late.
    fn replace(&mut self, why: String, fenced: bool) -> Outcome {
        self.producer = None;
        Outcome::Replace { why, fenced }
    }

    fn abort(&self, producer: &Producer, within: Duration) -> Result<(), Broken> {
        let begun = Instant::now();
        let deadline = begun + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            // SAFETY: the client is alive.
            let abort = || ClientError::check(unsafe { ffi::rd_kafka_abort_transaction(producer.client.as_ptr(), milliseconds(left)) });
            let Err(error) = self.watch.during(Call::Abort, left, abort) else { return Ok(()) };
            let disposition = disposition(Step::Abort, &error);
            if disposition == Disposition::Retry && Instant::now() >= deadline && within == ABORT_TIMEOUT {
                self.watch.silent(Call::Abort, begun, error.to_string());
            }
            if disposition != Disposition::Retry || Instant::now() >= deadline {
                return Err(Broken::Replace { why: format!("abort failed: {error}"), fenced: is_fenced(error.code) });
            }
        }
    }
}
