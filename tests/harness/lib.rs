//! The test harness: real brokers, processes of `transom`, a Kafka client that shares nothing with the product, the oracle.
//! It never links the product's crates: it sees `transom` only as a program and its topics only as bytes.

pub mod broker;
mod freeze;
pub mod instance;
pub mod oracle;
pub mod proxy;
pub mod scenario;
pub mod wire;
