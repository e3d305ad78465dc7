//! `run(registry)`: the command line, configuration, endpoints and wiring of a Transom binary.
//!
//! Knows every crate of `src/`, none of `processors/`: a team's own binary is five lines around its registry.

mod cli;
pub mod config;
mod endpoints;
mod exit;
mod generate;
mod generate_command;
mod logging;
mod run_command;
mod signals;
mod topics_command;

use std::process::ExitCode;
#[doc(hidden)]
pub use transom_kafka::Planted;
use transom_sdk::Registry;

/// Runs the command line of this process with the transforms of `registry`, and returns its exit code.
///
/// Codes: 0 done or drained · 1 the answer is no · 2 usage · 65 data stopped it · 69 a service is unreachable · 70 our bug ·
/// 75 try again · 77 permission · 78 configuration.
pub fn run(registry: Registry) -> ExitCode {
    cli::run(&registry, Planted::Nothing)
}

/// Runs with one of the client's rules switched off, for tests that must notice. No flag, file or variable reaches this.
#[doc(hidden)]
pub fn run_planted(registry: &Registry, planted: Planted) -> ExitCode {
    cli::run(registry, planted)
}
