//! The test harness: real brokers, a Kafka client that shares nothing with the product, and the oracle.
//! It never links the product's crates: it sees `transom` only as a program and its topics only as bytes.

pub mod broker;
pub mod oracle;
pub mod wire;
