//! Reads the group's offsets and owner records, also when the broker that the client remembers as the coordinator is gone.
//!
//! librdkafka 2.12.1 keeps the coordinator it found last for as long as somebody asks for it (`rd_kafka_coord_cache_find`
//! renews the entry), and waits for a broker that is gone for good. The consumer's own part looks for the new one, requests
//! beside it do not. So a question without an answer is asked again through a client that remembers nothing.

use crate::admin::{Admin, group_offsets};
use crate::handle::{ClientError, Handle, Properties};
use crate::list::PartitionEntry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) struct GroupReader {
    /// The worker's consumer, as long as it is answered.
    consumer: Arc<Handle>,
    /// Used instead, once a question was not answered; made anew at each further one.
    fresh: Mutex<Option<Handle>>,
    properties: Properties,
    group: String,
}

impl GroupReader {
    /// Returns a reader that begins with the consumer's connection.
    pub(super) const fn new(consumer: Arc<Handle>, properties: Properties, group: String) -> Self {
        Self { consumer, fresh: Mutex::new(None), properties, group }
    }

    /// Reads offsets with their metadata; all of the group's partitions without `places`.
    pub(super) fn read(&self, places: Option<&[(String, i32)]>, stable: bool, timeout: Duration) -> Result<Vec<PartitionEntry>, ClientError> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let client = fresh.as_ref().unwrap_or(&self.consumer);
        let result = group_offsets(client, &self.group, places, stable, timeout);
        if result.is_err()
            && let Ok(admin) = Admin::for_group(&self.properties, &self.group)
        {
            let old = fresh.replace(admin.client);
            // Ending a client waits for its threads, which may wait for the broker that is gone.
            std::thread::spawn(move || drop(old));
        }
        result
    }
}
