//! What an error asks of the one who meets it.

/// The six answers to an error of the outside world. The client's errors map to one each in one exhaustive match
/// (`kafka::disposition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The same call again, bounded.
    Retry,
    /// Abort, roll back, rewind to committed offsets, go on.
    Abort,
    /// Commit nothing; a newer producer holds the id.
    Fenced,
    /// The outcome cannot be told (EO-5): a new producer, and the owner records decide.
    Unknown,
    /// The broker refuses an output: abort, find the record, set it aside or stop.
    Poison,
    /// Stop with an exit code of its own.
    Fatal,
}
