//! What a pipeline may choose about [`SplitOrderLines`](super::SplitOrderLines), under the step's `with:`.

use serde::Deserialize;

/// The step's `with:`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Most lines an order may have, 1 or more; a larger order is a dead letter. Default 1,000: several times the largest
    /// honest order, and a fan-out that one transaction carries without notice.
    pub lines_max: usize,
    /// What becomes of an order without lines. Default `dead_letter`: a shop that sends one has a fault somebody should see.
    pub empty_order: EmptyOrder,
}

/// What becomes of an order without lines.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EmptyOrder {
    /// A dead letter with the code `no_lines`.
    DeadLetter,
    /// A summary with 0 lines.
    Summarise,
}

impl Default for Config {
    fn default() -> Self {
        Self { lines_max: 1_000, empty_order: EmptyOrder::DeadLetter }
    }
}
