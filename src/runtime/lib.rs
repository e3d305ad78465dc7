//! Drives the engine: worker threads, processing, dead letters, drain, status, metrics.
//!
//! Owns the threads and the clock. Never sees the Kafka client (it knows the [`Broker`] trait, which `kafka` and a
//! simulator implement), the command line or YAML.

mod books;
mod broker;
mod clock;
mod condemned;
mod dead_letter;
mod ending;
mod inputs;
mod metrics;
mod next_step;
mod options;
mod processing;
mod round;
mod status;
mod supervisor;
mod transact;
mod watch;
mod worker;

pub use broker::{Broker, Ends, InitError, Membership, OpenTransaction, SealedBatch, Source, SourceError, SourceEvent, Transactor, Watcher};
pub use clock::Clock;
pub use metrics::Metrics;
pub use options::{DeadLetterOptions, PipelineOptions, StepOptions};
pub use processing::{ProcessorFactory, RegistryFactory};
pub use status::{BlockedStatus, PartitionStatus, PipelineStatus, Readiness, StatusBoard, WorkerStatus};
pub use supervisor::{Control, Request, supervise};
pub use watch::{Call, Party, Watch};
