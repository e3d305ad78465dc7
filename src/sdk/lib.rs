//! What teams write against: [`Processor`], [`Record`], [`Context`], the [`Registry`] and the [`TestDriver`].
//!
//! Owns the shape of a transform and of what it emits. Never does I/O, never knows Kafka's client, YAML or an async
//! runtime: a transform's test needs no broker.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use transom_sdk::{Failure, Registry, TestDriver};
//!
//! #[derive(Deserialize)]
//! struct Order<'a> { order_id: u64, amount: &'a str }
//! transom_sdk::borrowed!(Order);
//!
//! #[derive(Serialize)]
//! struct CleanOrder { order_id: u64, amount_cents: i64 }
//!
//! fn clean(order: Order<'_>) -> Result<CleanOrder, Failure> {
//!     let (whole, part) = order.amount.split_once('.').ok_or_else(|| Failure::permanent("amount", "no decimal point"))?;
//!     Ok(CleanOrder { order_id: order.order_id, amount_cents: whole.parse::<i64>()? * 100 + part.parse::<i64>()? })
//! }
//!
//! let mut registry = Registry::new();
//! registry.map_borrowed::<Order>("clean", clean);
//! let mut driver = TestDriver::new(&registry, "clean").unwrap();
//! let done = driver.pipe_json(&serde_json::json!({ "order_id": 1, "amount": "2.50" }));
//! assert_eq!(done.json(), serde_json::json!({ "order_id": 1, "amount_cents": 250 }));
//! ```
#![deny(missing_docs)]

mod attempt;
mod context;
mod driver;
mod failure;
mod key_pointer;
mod output;
mod processor;
mod record;
mod registry;
#[cfg(test)]
mod tests;
mod typed;

pub use attempt::{Attempt, AttemptError, attempt};
pub use context::{Context, Emission};
pub use driver::{Piped, PipedOutput, TestDriver, TestRecord};
pub use failure::{Failure, FailureClass};
pub use key_pointer::{KeyPointer, KeyPointerError};
pub use output::{NewOutput, OutputBuffer, OutputId, OutputView, Partitioning, Route, Routes, Savepoint};
pub use processor::{Processor, Setup, SetupError, Tombstones};
pub use record::{Header, Offset, PartitionId, Record, Timestamp};
pub use registry::Registry;
pub use typed::{EmitFunction, FilterMapFunction, FlatMapFunction, Input, MapFunction, Owned};
