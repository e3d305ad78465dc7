//! What can be switched off or broken in the simulated half of the worker, to see whether the oracle notices.

/// How an end without an answer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOutcome {
    /// EO-5: the producer is replaced, the owner records decide.
    OwnerRecordsDecide,
    /// No answer is taken for success.
    Success,
    /// No answer is taken for failure.
    Failure,
}

/// A mistake in the simulated transactor or consumer; those in the engine are planted in a copy of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactorBug {
    /// None.
    None,
    /// A produce request that got no answer is sent again as a new one.
    RetriesProduceAsNew,
    /// The last partition's offset is not sent.
    ForgetsAnOffset,
    /// A stale generation on the offsets is overlooked and the transaction committed without them.
    CommitsWithoutOffsets,
    /// Only an end without an answer makes a producer be replaced (KAFKA-17754), not the other requests.
    TaintsByEndsOnly,
    /// Offsets are read although a transaction holds newer ones back.
    ReadsUnstableOffsets,
    /// A produce request without an answer is left at that.
    ForgetsAnOutput,
    /// The consumer does not move when it is told to seek.
    IgnoresSeek,
}

/// The rules in force.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Membership is read at batch close and never again for that batch.
    pub captured_membership: bool,
    /// What follows from a commit without an answer.
    pub unknown_outcome: UnknownOutcome,
    /// After a transaction with a request that broke, the producer's epoch rises before the next batch (KAFKA-17754).
    pub recycle_guard: bool,
    /// After a plain commit that broke, the member changes its generation before it goes on.
    pub claim_guard: bool,
    /// The mistake in force in the simulated half.
    pub bug: TransactorBug,
    /// The number of the mistake in force in the engine, 0 for none. Only the copy with planted mistakes knows any.
    pub planted: u16,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            captured_membership: true,
            unknown_outcome: UnknownOutcome::OwnerRecordsDecide,
            recycle_guard: true,
            claim_guard: true,
            bug: TransactorBug::None,
            planted: 0,
        }
    }
}

impl Rules {
    /// Returns the rules with one of them off, or a mistake in place, by its name on the command line.
    pub fn without(name: &str) -> Option<Self> {
        let rules = Self::default();
        let bug = |bug| Some(Self { bug, ..rules });
        match name {
            "captured-membership" => Some(Self { captured_membership: false, ..rules }),
            "unknown-is-not-success" => Some(Self { unknown_outcome: UnknownOutcome::Success, ..rules }),
            "unknown-is-not-failure" => Some(Self { unknown_outcome: UnknownOutcome::Failure, ..rules }),
            "recycle-guard" => Some(Self { recycle_guard: false, ..rules }),
            "claim-guard" => Some(Self { claim_guard: false, ..rules }),
            "produce-sequence" => bug(TransactorBug::RetriesProduceAsNew),
            "every-offset" => bug(TransactorBug::ForgetsAnOffset),
            "offsets-before-commit" => bug(TransactorBug::CommitsWithoutOffsets),
            "taint-by-every-request" => bug(TransactorBug::TaintsByEndsOnly),
            "stable-offsets" => bug(TransactorBug::ReadsUnstableOffsets),
            "every-output" => bug(TransactorBug::ForgetsAnOutput),
            "seek" => bug(TransactorBug::IgnoresSeek),
            _ => None,
        }
    }

    /// The names that [`Rules::without`] knows.
    pub const NAMES: [&'static str; 12] = [
        "captured-membership",
        "unknown-is-not-success",
        "unknown-is-not-failure",
        "recycle-guard",
        "claim-guard",
        "produce-sequence",
        "every-offset",
        "offsets-before-commit",
        "taint-by-every-request",
        "stable-offsets",
        "every-output",
        "seek",
    ];
}
