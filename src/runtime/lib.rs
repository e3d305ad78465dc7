//! Drives the engine: worker threads, processing, dead letters, drain, status, metrics.
//!
//! Owns the threads and the clock. Never sees the Kafka client (it knows the [`Broker`] trait, which `kafka` and a
//! simulator implement), the command line or YAML.

mod books;
mod broker;
mod clock;
mod dead_letter;
mod metrics;
mod next_step;
mod options;
mod processing;
mod round;
mod status;
mod supervisor;
mod transact;
mod worker;

pub use broker::{Broker, InitError, Membership, SealedBatch, Source, SourceError, SourceEvent, Transactor, Watcher};
pub use clock::Clock;
pub use metrics::Metrics;
pub use options::{DeadLetterOptions, PipelineOptions, StepOptions};
pub use processing::{ProcessorFactory, RegistryFactory};
pub use status::{PartitionStatus, PipelineStatus, Readiness, StatusBoard, WorkerStatus};
pub use supervisor::{Control, Request, supervise};
