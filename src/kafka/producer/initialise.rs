//! A worker's producer made and initialised: one bounded attempt, and what its failure means.

use super::meet::meet_brokers;
use super::{INIT_TIMEOUT, INIT_TIMEOUT_MS, KafkaProducer};
use crate::broker::Guarantee;
use crate::disposition::{code, is_unreachable};
use crate::ffi;
use crate::handle::{ClientError, Nature};
use std::time::Instant;
use transom_engine::StopReason;
use transom_runtime::{Call, InitError};

impl KafkaProducer {
    /// Makes a new producer if there is none, and initialises it: one bounded attempt.
    pub(super) fn initialise_once(&mut self) -> Result<(), InitError> {
        let stop = |what: String| InitError::Stop(StopReason::Configuration { what });
        let is_new = self.producer.is_none();
        if is_new {
            self.producer = Some(self.open().map_err(|error| stop(format!("the client refuses its configuration: {}", error.text)))?);
        }
        let Some(producer) = &self.producer else { return Err(InitError::NotYet("no producer".to_owned())) };
        if self.options.guarantee != Guarantee::ExactlyOnce {
            return Ok(());
        }
        if is_new {
            self.watch.during(Call::Initialise, INIT_TIMEOUT, || meet_brokers(&producer.client));
        }
        let begun = Instant::now();
        // SAFETY: the client is alive. After a retriable time-out the same call resumes.
        let initialise = || ClientError::check(unsafe { ffi::rd_kafka_init_transactions(producer.client.as_ptr(), INIT_TIMEOUT_MS) });
        let Err(error) = self.watch.during(Call::Initialise, INIT_TIMEOUT, initialise) else {
            producer.client.mailbox().forget_error();
            self.watch.answered(Call::Initialise);
            self.taint = None;
            return Ok(());
        };
        producer.client.serve(0);
        let cause = producer.client.mailbox().last_error();
        let id = &self.options.transactional_id;
        let refusal = init_refusal(&id.to_string(), &error, cause.as_ref());
        if cause.as_ref().is_some_and(is_unreachable) {
            // Waited for, however long: a new process would not reach them either.
            self.watch.forget();
        } else if refusal.is_none() {
            self.watch.silent(Call::Initialise, begun, error.to_string());
        }
        if refusal.is_some() || error.nature != Nature::Retriable {
            // A client in a fatal state cannot be used again.
            self.producer = None;
        }
        Err(refusal.map_or_else(
            || {
                let cause = cause.map_or_else(String::new, |cause| format!(" (last error of the client: {cause})"));
                InitError::NotYet(format!("the transactional id {id} cannot be initialised yet: {error}{cause}"))
            },
            InitError::Stop,
        ))
    }
}

fn init_refusal(id: &str, error: &ClientError, cause: Option<&ClientError>) -> Option<StopReason> {
    let what = format!("the transactional id {id} cannot be initialised: {error}");
    match error.code {
        code::INVALID_TRANSACTION_TIMEOUT => {
            Some(StopReason::Configuration { what: format!("{what}; timeouts.transaction is above the broker's transaction.max.timeout.ms") })
        }
        code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED | code::CLUSTER_AUTHORIZATION_FAILED => Some(StopReason::NotPermitted { what }),
        _ if cause.is_some_and(|cause| cause.code == code::AUTHENTICATION) => {
            Some(StopReason::NotPermitted { what: format!("{what}; {}", cause.map_or_else(String::new, ToString::to_string)) })
        }
        _ => None,
    }
}
