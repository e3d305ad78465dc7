//! The named points of a batch's life at which an instance is killed.

use transom_harness::proxy::{Action, kind};

/// Between what was carried out and what was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The outputs are written, the offsets are not yet part of the transaction.
    AfterProduce,
    /// The offsets are pending in the transaction, its end was never asked for.
    BeforeCommit,
    /// Partitions were given, the claim never arrived.
    BeforeClaim,
    /// The claim was carried out, its answer never came.
    AfterClaim,
    /// There was nothing to do for a second.
    Idle,
}

impl Point {
    pub const ALL: [Self; 5] = [Self::AfterProduce, Self::BeforeCommit, Self::BeforeClaim, Self::AfterClaim, Self::Idle];
    pub const WITHOUT_CLAIMS: [Self; 3] = [Self::AfterProduce, Self::BeforeCommit, Self::Idle];

    /// Returns what the table calls it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AfterProduce => "after produce",
            Self::BeforeCommit => "between send-offsets and commit",
            Self::BeforeClaim => "inside a claim: never delivered",
            Self::AfterClaim => "inside a claim: never answered",
            Self::Idle => "idle",
        }
    }
}

/// The request at which the network stops, and what it does with it.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    pub api_key: i16,
    pub action: Action,
}

impl Catch {
    const fn held(api_key: i16) -> Self {
        Self { api_key, action: Action::Hold }
    }

    /// Returns what follows the outputs: the offsets, as part of the transaction. Not the request that announces them, which the older
    /// protocol has: it may go out before the partitions are part of the transaction, and those wait behind it.
    pub const fn of_offsets() -> Self {
        Self::held(kind::TXN_OFFSET_COMMIT)
    }

    /// Returns the end of a transaction.
    pub const fn of_end() -> Self {
        Self::held(kind::END_TXN)
    }

    /// Returns a claim that never arrives.
    pub const fn of_claim() -> Self {
        Self::held(kind::OFFSET_COMMIT)
    }

    /// Returns a claim that nobody hears of.
    pub const fn of_claims_answer() -> Self {
        Self { api_key: kind::OFFSET_COMMIT, action: Action::DropAnswer }
    }
}
