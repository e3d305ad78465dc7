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
    /// An abort that was not answered counts as done.
    AbortWithoutAnswerIsDone,
    /// Offsets are read although a transaction holds newer ones back.
    ReadsUnstableOffsets,
    /// Outputs are sent after the commit's first attempt got no answer: the commit's error is ignored for them.
    ForgetsAnOutput,
    /// The consumer does not move when it is told to seek.
    IgnoresSeek,
    /// A new producer is not initialised: the old epoch goes on after an unknown outcome.
    KeepsTheEpoch,
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
    /// The mistake in force.
    pub bug: TransactorBug,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            captured_membership: true,
            unknown_outcome: UnknownOutcome::OwnerRecordsDecide,
            recycle_guard: true,
            claim_guard: true,
            bug: TransactorBug::None,
        }
    }
}
