//! Exit codes, and what to do next: one row for each reason.

use std::process::ExitCode;
use transom_engine::StopReason;
use transom_kafka::PreflightError;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Done = 0,
    DataStopped = 65,
    Unreachable = 69,
    Bug = 70,
    TryAgain = 75,
    Permission = 77,
    Configuration = 78,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// A command that did not do what it was asked: what happened, and what to do next.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: Code,
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Failed {
    pub(crate) fn new(code: Code, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, what: what.into(), hint: hint.into() }
    }

    /// Prints it on stderr and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.what);
        if !self.hint.is_empty() {
            eprintln!("  hint: {}", self.hint);
        }
        self.code.into()
    }
}

/// Returns exit code and next step for the reason a pipeline stopped for.
pub(crate) fn of_stop(reason: &StopReason) -> (Code, &'static str) {
    match reason {
        StopReason::Drained => (Code::Done, ""),
        StopReason::DrainCutShort => (Code::TryAgain, "start it again; it goes on where the last committed batch ended"),
        StopReason::BadRecord { .. } => {
            (Code::DataStopped, "add dead_letters to the pipeline to set such records aside, or mend the transform; the offset has not moved")
        }
        StopReason::PoisonOutput { .. } => {
            (Code::DataStopped, "add dead_letters to set such records aside, or raise the output topic's max.message.bytes; the offset has not moved")
        }
        StopReason::OffsetsMissing { .. } => {
            (Code::DataStopped, "the group's offsets expired or were deleted; set them with kafka-consumer-groups --reset-offsets, then start again")
        }
        StopReason::PositionOutOfRange { .. } => (
            Code::DataStopped,
            "records were deleted before they were read; the offset has not moved: decide where to go on with kafka-consumer-groups --reset-offsets",
        ),
        StopReason::CorruptData { .. } => (
            Code::DataStopped,
            "the offset has not moved; look at the log segment on the partition's leader (kafka-dump-log.sh --deep-iteration --files …), let another \
             replica lead if one is whole, or decide what to skip with kafka-consumer-groups --reset-offsets",
        ),
        StopReason::LogTruncated { .. } => (
            Code::DataStopped,
            "the cluster lost acknowledged records (an unclean election, or a restored disk); the offset has not moved: decide where to go on with \
             kafka-consumer-groups --reset-offsets, and compare the outputs with their source",
        ),
        StopReason::TopicRecreated { .. } => (
            Code::DataStopped,
            "start it again: it reads the new topic from its beginning if the old offsets went with the old topic; if it stops again, decide \
             where to go on with kafka-consumer-groups --reset-offsets",
        ),
        StopReason::FencedTooOften { .. } | StopReason::InstanceFenced { .. } => (
            Code::Configuration,
            "give every process its own --instance name and every pipeline its own name; \
             kafka-consumer-groups --describe --members --group PIPELINE shows the host of the other one",
        ),
        StopReason::SplitTask { .. } => {
            (Code::Configuration, "all members of the group must use the range assignor and have the same inputs; give another pipeline another name")
        }
        StopReason::Disagreement { .. } => (Code::Bug, "please report this with the log; nothing more was committed"),
        StopReason::Bug { .. } => (Code::Bug, "please report this with the log; what was committed is consistent (EO-1)"),
        StopReason::Blocked { .. } => (
            Code::TryAgain,
            "start it again: a new process takes its own transactional id over; if it stays so, look at the coordinator's log and at kafka-transactions.sh describe",
        ),
        StopReason::Unreachable { .. } => (Code::Unreachable, "check bootstrap.servers and whether the brokers run; start it again when they do"),
        StopReason::NotPermitted { .. } => (Code::Permission, "grant the missing ACL to this pipeline's user"),
        StopReason::Configuration { .. } => (Code::Configuration, "change the pipeline's YAML file or the broker's setting"),
        StopReason::Fatal { .. } => (Code::TryAgain, "start it again; it goes on where the last committed batch ended"),
        _ => (Code::TryAgain, "start it again"),
    }
}

/// Returns the failure for what the first look at the cluster found.
pub(crate) fn of_preflight(error: &PreflightError) -> Failed {
    let (code, hint) = match error {
        PreflightError::Unreachable { .. } => (Code::Unreachable, "check kafka.bootstrap.servers, the network and whether the brokers run"),
        PreflightError::Authentication(_) => (Code::Permission, "check sasl.mechanism, sasl.username and sasl.password"),
        PreflightError::Tls(_) => (Code::Configuration, "check security.protocol, ssl.ca.location and the broker's certificate"),
        PreflightError::MissingTopic { .. } => {
            (Code::Configuration, "correct the name, or create the pipeline's topics: transom topics create PIPELINE.yaml")
        }
        PreflightError::PartitionCounts { .. } => {
            (Code::Configuration, "inputs of one pipeline are processed by partition number: give them equal counts")
        }
        PreflightError::Broker(_) => (Code::Configuration, "the guarantee rests on this; nothing was started"),
        PreflightError::NotPermitted(_) => (Code::Permission, "grant the missing ACL to this pipeline's user"),
        PreflightError::Configuration(_) => (Code::Configuration, "correct the property under kafka: in the pipeline's YAML file"),
        PreflightError::NoAnswer(_) => (Code::Unreachable, "the cluster answered before; look at the broker's log and try again"),
        _ => (Code::TryAgain, "try again"),
    };
    Failed::new(code, error.to_string(), hint)
}
