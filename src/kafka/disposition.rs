//! From the client's errors to what they ask of us: one place, one match (STYLE, Errors).

use crate::handle::{ClientError, Nature};
use transom_engine::{Disposition, RefusalKind};

/// librdkafka's codes that need an answer of their own. Negative: the library's; positive: the broker's.
pub(crate) mod code {
    pub(crate) const BAD_MSG: i32 = -199;
    pub(crate) const BAD_COMPRESSION: i32 = -198;
    pub(crate) const TRANSPORT: i32 = -195;
    pub(crate) const CRIT_SYS_RESOURCE: i32 = -194;
    pub(crate) const UNKNOWN_PARTITION: i32 = -190;
    pub(crate) const UNKNOWN_TOPIC: i32 = -188;
    pub(crate) const ALL_BROKERS_DOWN: i32 = -187;
    pub(crate) const INVALID_ARG: i32 = -186;
    pub(crate) const TIMED_OUT: i32 = -185;
    pub(crate) const QUEUE_FULL: i32 = -184;
    pub(crate) const SSL: i32 = -181;
    pub(crate) const ASSIGN_PARTITIONS: i32 = -175;
    pub(crate) const REVOKE_PARTITIONS: i32 = -174;
    pub(crate) const NOT_IMPLEMENTED: i32 = -170;
    pub(crate) const AUTHENTICATION: i32 = -169;
    pub(crate) const UNDERFLOW: i32 = -155;
    pub(crate) const MAX_POLL_EXCEEDED: i32 = -147;
    pub(crate) const FENCED: i32 = -144;
    pub(crate) const AUTO_OFFSET_RESET: i32 = -140;
    pub(crate) const INVALID_DIFFERENT_RECORD: i32 = -138;
    pub(crate) const CORRUPT_MESSAGE: i32 = 2;
    pub(crate) const UNKNOWN_TOPIC_OR_PART: i32 = 3;
    pub(crate) const MSG_SIZE_TOO_LARGE: i32 = 10;
    pub(crate) const RECORD_LIST_TOO_LARGE: i32 = 18;
    pub(crate) const TOPIC_AUTHORIZATION_FAILED: i32 = 29;
    pub(crate) const GROUP_AUTHORIZATION_FAILED: i32 = 30;
    pub(crate) const CLUSTER_AUTHORIZATION_FAILED: i32 = 31;
    pub(crate) const INVALID_TIMESTAMP: i32 = 32;
    pub(crate) const TOPIC_ALREADY_EXISTS: i32 = 36;
    pub(crate) const INVALID_PRODUCER_EPOCH: i32 = 47;
    pub(crate) const INVALID_PRODUCER_ID_MAPPING: i32 = 49;
    pub(crate) const INVALID_TRANSACTION_TIMEOUT: i32 = 50;
    pub(crate) const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i32 = 53;
    pub(crate) const UNKNOWN_PRODUCER_ID: i32 = 59;
    pub(crate) const FENCED_INSTANCE_ID: i32 = 82;
    pub(crate) const INVALID_RECORD: i32 = 87;
    pub(crate) const UNSTABLE_OFFSET_COMMIT: i32 = 88;
    pub(crate) const PRODUCER_FENCED: i32 = 90;
}

/// Request kinds that tell how far a transaction came.
pub(crate) mod api_key {
    pub(crate) const PRODUCE: i16 = 0;
    pub(crate) const TXN_OFFSET_COMMIT: i16 = 28;
}

/// The step of a transaction at which an error was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Local: nothing was sent.
    Begin,
    /// An output could not be queued.
    Produce,
    /// Offsets to the transaction; not resumable.
    SendOffsets,
    /// Resumable after a retriable time-out.
    Commit,
    /// Resumable after a retriable time-out.
    Abort,
}

/// Returns what an error of a transactional call asks of us.
pub(crate) fn disposition(step: Step, error: &ClientError) -> Disposition {
    match (error.nature, step) {
        // A newer producer took the id; the commit may still have been done before (its answer was lost).
        (Nature::Fatal, _) if is_fenced(error.code) => Disposition::Fenced,
        // INVALID_TXN_STATE, expired ids, timed out on the broker: this producer is done, the outcome must be looked up.
        (Nature::Fatal, _) => Disposition::Unknown,
        // Only a new producer helps; the library's abort asks for one only when outputs were part of the transaction already.
        (Nature::RequiresAbort, _) if is_forgotten(error.code) => Disposition::Unknown,
        // Permanent partition errors, stale generation, refused outputs: librdkafka knows it was not committed.
        (Nature::RequiresAbort, Step::Begin | Step::Produce | Step::SendOffsets | Step::Commit) => Disposition::Abort,
        // An abort that asks for an abort cannot be helped by one.
        (Nature::RequiresAbort, Step::Abort) => Disposition::Unknown,
        // Full queue: serve and try again. Time-outs of commit and abort: the same call resumes.
        (Nature::Retriable, Step::Produce | Step::Commit | Step::Abort) => Disposition::Retry,
        // Not resumable, and whether the group coordinator took the offsets is not known; an abort settles it.
        (Nature::Retriable, Step::SendOffsets | Step::Begin) => Disposition::Abort,
        (Nature::Plain, Step::Produce) if error.code == code::QUEUE_FULL => Disposition::Retry,
        (Nature::Plain, Step::Produce) if !matches!(delivery(error.code), Delivery::Failed) => Disposition::Poison,
        (Nature::Plain, Step::Produce | Step::SendOffsets) => Disposition::Abort,
        // No flag at all: treat as fatal to the producer, the outcome as unknown (EO-5).
        (Nature::Plain, Step::Begin | Step::Commit | Step::Abort) => Disposition::Unknown,
    }
}

/// Returns whether the coordinator knows the producer id no more: its transactional id expired.
const fn is_forgotten(code: i32) -> bool {
    matches!(code, code::INVALID_PRODUCER_ID_MAPPING | code::UNKNOWN_PRODUCER_ID)
}

/// Returns whether a newer producer is the cause.
pub(crate) const fn is_fenced(code: i32) -> bool {
    matches!(code, code::FENCED | code::PRODUCER_FENCED | code::INVALID_PRODUCER_EPOCH)
}

/// Returns whether an error says that there is no connection, rather than no answer.
pub(crate) const fn is_unreachable(error: &ClientError) -> bool {
    matches!(error.code, code::TRANSPORT | code::ALL_BROKERS_DOWN)
}

/// What a failed delivery says of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The record itself is refused, and would be again; all outputs of one request fail alike.
    Refused(RefusalKind),
    /// Its neighbour in the request is: the broker named the culprits.
    NeighbourRefused,
    /// Nobody's fault: the topic, or its partition, is not there.
    TopicGone,
    /// Nobody's fault: an ACL is missing.
    NotPermitted,
    /// Something that passes.
    Failed,
}

/// Returns what the code of a failed delivery says.
pub(crate) const fn delivery(code: i32) -> Delivery {
    match code {
        code::MSG_SIZE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE => Delivery::Refused(RefusalKind::TooLarge),
        code::INVALID_TIMESTAMP => Delivery::Refused(RefusalKind::Timestamp),
        code::INVALID_RECORD => Delivery::Refused(RefusalKind::Invalid),
        code::INVALID_DIFFERENT_RECORD => Delivery::NeighbourRefused,
        code::UNKNOWN_TOPIC_OR_PART | code::UNKNOWN_TOPIC | code::UNKNOWN_PARTITION => Delivery::TopicGone,
        code::TOPIC_AUTHORIZATION_FAILED => Delivery::NotPermitted,
        _ => Delivery::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::code_name;

    fn error(code: i32, nature: Nature) -> ClientError {
        ClientError { code, name: String::new(), text: String::new(), nature }
    }

    #[test]
    fn codes_are_the_librarys() {
        for (code, name) in [
            (code::MAX_POLL_EXCEEDED, "_MAX_POLL_EXCEEDED"),
            (code::FENCED, "_FENCED"),
            (code::BAD_MSG, "_BAD_MSG"),
            (code::BAD_COMPRESSION, "_BAD_COMPRESSION"),
            (code::NOT_IMPLEMENTED, "_NOT_IMPLEMENTED"),
            (code::UNDERFLOW, "_UNDERFLOW"),
            (code::CORRUPT_MESSAGE, "INVALID_MSG"),
            (code::AUTO_OFFSET_RESET, "_AUTO_OFFSET_RESET"),
            (code::AUTHENTICATION, "_AUTHENTICATION"),
            (code::SSL, "_SSL"),
            (code::QUEUE_FULL, "_QUEUE_FULL"),
            (code::ASSIGN_PARTITIONS, "_ASSIGN_PARTITIONS"),
            (code::REVOKE_PARTITIONS, "_REVOKE_PARTITIONS"),
            (code::UNSTABLE_OFFSET_COMMIT, "UNSTABLE_OFFSET_COMMIT"),
            (code::FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID"),
            (code::PRODUCER_FENCED, "PRODUCER_FENCED"),
            (code::INVALID_TRANSACTION_TIMEOUT, "INVALID_TRANSACTION_TIMEOUT"),
            (code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
            (code::INVALID_PRODUCER_ID_MAPPING, "INVALID_PRODUCER_ID_MAPPING"),
            (code::UNKNOWN_PRODUCER_ID, "UNKNOWN_PRODUCER_ID"),
            (code::INVALID_RECORD, "INVALID_RECORD"),
            (code::UNKNOWN_TOPIC, "_UNKNOWN_TOPIC"),
            (code::UNKNOWN_PARTITION, "_UNKNOWN_PARTITION"),
            (code::TRANSPORT, "_TRANSPORT"),
            (code::CRIT_SYS_RESOURCE, "_CRIT_SYS_RESOURCE"),
            (code::INVALID_DIFFERENT_RECORD, "_INVALID_DIFFERENT_RECORD"),
            (code::MSG_SIZE_TOO_LARGE, "MSG_SIZE_TOO_LARGE"),
            (code::RECORD_LIST_TOO_LARGE, "RECORD_LIST_TOO_LARGE"),
            (code::INVALID_TIMESTAMP, "INVALID_TIMESTAMP"),
            (code::UNKNOWN_TOPIC_OR_PART, "UNKNOWN_TOPIC_OR_PART"),
            (code::TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION_FAILED"),
            (code::ALL_BROKERS_DOWN, "_ALL_BROKERS_DOWN"),
            (code::INVALID_ARG, "_INVALID_ARG"),
            (code::TIMED_OUT, "_TIMED_OUT"),
            (code::TOPIC_ALREADY_EXISTS, "TOPIC_ALREADY_EXISTS"),
            (code::CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_AUTHORIZATION_FAILED"),
            (code::GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION_FAILED"),
        ] {
            assert_eq!(code_name(code), name);
        }
    }

    #[test]
    fn a_commit_without_an_answer_is_never_success() {
        assert_eq!(disposition(Step::Commit, &error(code::TIMED_OUT, Nature::Retriable)), Disposition::Retry);
        assert_eq!(disposition(Step::Commit, &error(-1, Nature::Plain)), Disposition::Unknown);
        assert_eq!(disposition(Step::Commit, &error(code::FENCED, Nature::Fatal)), Disposition::Fenced);
        assert_eq!(disposition(Step::Commit, &error(48, Nature::Fatal)), Disposition::Unknown);
    }

    // An abort of a transaction without outputs is local, and the next one would be refused alike, for ever.
    #[test]
    fn a_forgotten_producer_id_is_replaced_and_not_aborted_over_and_over() {
        for code in [code::INVALID_PRODUCER_ID_MAPPING, code::UNKNOWN_PRODUCER_ID] {
            assert_eq!(disposition(Step::SendOffsets, &error(code, Nature::RequiresAbort)), Disposition::Unknown);
        }
    }

    #[test]
    fn stale_membership_aborts_and_goes_on() {
        for code in [22, 25, 82, 113] {
            assert_eq!(disposition(Step::SendOffsets, &error(code, Nature::RequiresAbort)), Disposition::Abort);
        }
    }
}
