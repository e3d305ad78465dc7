//! `planted-transom`: the product with one of the client's rules switched off, named by `TRANSOM_PLANTED`.

use std::process::ExitCode;

use transom_service::{Planted, run_planted};

/// Names the rule that is switched off.
const PLANTED_VARIABLE: &str = "TRANSOM_PLANTED";
/// The variable is not there or names no rule.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let name = std::env::var(PLANTED_VARIABLE).unwrap_or_default();
    match planted(&name) {
        Some(planted) => run_planted(&transom_processors::registry(), planted),
        None => {
            eprintln!("planted-transom: {PLANTED_VARIABLE} is {name:?}, which names no rule");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn planted(name: &str) -> Option<Planted> {
    Some(match name {
        "nothing" => Planted::Nothing,
        "no_recycle_guard" => Planted::NoRecycleGuard,
        "offsets_one_ahead" => Planted::OffsetsOneAhead,
        "offsets_outside_transaction" => Planted::OffsetsOutsideTransaction,
        "last_output_forgotten" => Planted::LastOutputForgotten,
        "first_output_twice" => Planted::FirstOutputTwice,
        "unknown_is_aborted" => Planted::UnknownIsAborted,
        "aborts_at_once" => Planted::AbortsAtOnce { pause_ms: 0 },
        _ => return None,
    })
}
