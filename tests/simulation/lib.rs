//! The engine against a simulated broker, by the hundred thousand. See `README.md`.

mod anomaly;
mod client;
mod cluster;
mod input;
mod network;
mod oracle;
pub mod planted;
mod random;
mod rules;
mod schedule;
mod search;
mod transactor;
mod worker;
mod world;

pub use anomaly::{Anomaly, Kind};
pub use rules::{Rules, TransactorBug, UnknownOutcome};
pub use search::{Search, Verdict, run, search};
