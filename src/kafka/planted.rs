//! Rules that can be switched off, to show that the tests notice. Nothing a user can write or set reaches them: only a
//! test's own binary passes anything but [`Planted::Nothing`].

/// Which rule is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None: the product.
    #[default]
    Nothing,
    /// A tainted producer goes on (EO-5, KAFKA-17754).
    NoRecycleGuard,
    /// Offsets are committed past the batch by one (EO-3).
    OffsetsOneAhead,
    /// Offsets are committed outside the transaction (EO-1).
    OffsetsOutsideTransaction,
    /// The last output of a batch is forgotten (EO-1).
    LastOutputForgotten,
    /// The batch's first output is sent twice (EO-1).
    FirstOutputTwice,
    /// A commit without an answer counts as aborted (EO-5).
    UnknownIsAborted,
    /// The client's own position is believed also behind an error (EO-3).
    ErrorsMovePositions,
    /// Whoever asks over the consumer's handle serves its events too, and throws them away.
    EventsServedElsewhere,
    /// No rule: the first batch is begun and aborted after its first output, a thousand times, before it is sent.
    AbortsAtOnce {
        /// How long after the first output.
        pause_ms: u8,
    },
}
