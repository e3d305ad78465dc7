//! The Kafka client: the only crate that names it, and the only one with `unsafe`.
//!
//! Owns consumer, transactional producer, admin requests and the map from client errors to dispositions. Never sees
//! processors, YAML or the command line. It calls librdkafka through its C interface: the safe wrapper hides the group
//! metadata's fields, polls in 100 ms slices inside commits, and turns error codes it does not know into undefined
//! behaviour (its enum is closed).

mod admin;
mod announced;
mod broker;
mod consumer;
mod coordinator_socket;
mod disposition;
mod ffi;
mod foreign;
mod guard;
mod handle;
mod list;
mod message;
mod planted;
mod preflight;
mod producer;
mod queue;
mod sender;
mod topic_ids;

pub use admin::{Admin, NewTopic, TopicCreation};
pub use broker::{Assignor, ConnectOptions, GroupProtocol, Guarantee, Joining, KafkaBroker, KafkaWatcher};
pub use consumer::KafkaConsumer;
pub use handle::{ClientError, Nature, Properties};
pub use planted::Planted;
pub use preflight::{Facts, Preflight, PreflightError, StartOffset};
pub use producer::KafkaProducer;
pub use sender::{SendError, Sender};
