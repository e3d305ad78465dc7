//! What the library reports by itself: rebalances and errors.

use super::KafkaConsumer;
use crate::disposition::code;
use crate::ffi;
use crate::handle::{ClientError, Nature, owned};
use transom_engine::StopReason;
use transom_runtime::SourceEvent;

impl KafkaConsumer {
    pub(super) fn event(&self, event: *mut ffi::rd_kafka_event_t) -> Option<SourceEvent> {
        // SAFETY: the event is alive until destroyed by the caller.
        let (kind, error, text) =
            unsafe { (ffi::rd_kafka_event_type(event), ffi::rd_kafka_event_error(event), owned(ffi::rd_kafka_event_error_string(event))) };
        match kind {
            ffi::EVENT_REBALANCE => {
                // SAFETY: as above; the list belongs to the event.
                let list = unsafe { ffi::rd_kafka_event_topic_partition_list(event) };
                let places = self.places(list);
                // SAFETY: the client is alive.
                let lost = unsafe { ffi::rd_kafka_assignment_lost(self.client.as_ptr()) } != 0;
                Some(match error {
                    code::ASSIGN_PARTITIONS => SourceEvent::Assigned(places),
                    code::REVOKE_PARTITIONS if lost => SourceEvent::Lost(places),
                    code::REVOKE_PARTITIONS => SourceEvent::Revoked(places),
                    other => SourceEvent::Stop(StopReason::Fatal { what: format!("rebalance failed: {}", ClientError::from_code(other)) }),
                })
            }
            ffi::EVENT_ERROR => {
                // SAFETY: as above.
                let fatal = unsafe { ffi::rd_kafka_event_error_is_fatal(event) } != 0;
                let plain = ClientError { text, ..ClientError::from_code(error) };
                let error = if fatal { self.client.fatal_error().unwrap_or(plain) } else { plain };
                Some(self.trouble(error))
            }
            ffi::EVENT_FETCH => {
                let what = "a record arrived on the consumer's own queue, past its partition's queue".to_owned();
                Some(SourceEvent::Stop(StopReason::Fatal { what }))
            }
            _ => None,
        }
    }

    /// Sorts an error the client reports by itself.
    fn trouble(&self, error: ClientError) -> SourceEvent {
        match (error.code, error.nature) {
            (code::FENCED_INSTANCE_ID, _) => {
                let name = self.group_instance_id.as_deref().unwrap_or_default();
                SourceEvent::Stop(StopReason::InstanceFenced { detail: format!("group.instance.id {name} of group {}: {error}", self.group_id) })
            }
            (code::TOPIC_AUTHORIZATION_FAILED | code::GROUP_AUTHORIZATION_FAILED | code::CLUSTER_AUTHORIZATION_FAILED, _) => {
                SourceEvent::Stop(StopReason::NotPermitted { what: error.to_string() })
            }
            (_, Nature::Fatal) => SourceEvent::Stop(StopReason::Fatal { what: format!("the consumer cannot go on: {error}") }),
            (code::MAX_POLL_EXCEEDED, _) => SourceEvent::Trouble {
                why: error.to_string(),
                next_step: "the group gave this worker up while one record was processed: make the transform faster or raise timeouts.poll_max",
            },
            (_, Nature::RequiresAbort | Nature::Retriable | Nature::Plain) => SourceEvent::Trouble {
                why: error.to_string(),
                next_step: "the client goes on trying; if it stays, look at the brokers and the network between",
            },
        }
    }
}
