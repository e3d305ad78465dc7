//! One partition of the output topic: records and markers in the order of the log.

use super::{ProducerId, Refusal, Response};

/// One output record, with what the oracle wants to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Out {
    /// Input partition.
    pub(crate) partition: usize,
    /// Input offset.
    pub(crate) offset: i64,
    /// Which output of that input record.
    pub(crate) ordinal: u8,
    /// Which batch wrote it: incarnation and number.
    pub(crate) batch: (u64, u64),
    /// Whether its bytes are such that the broker takes it.
    pub(crate) is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Data { id: usize, out: Out },
    Marker { id: usize, commit: bool },
}

/// What a partition knows of one producer.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    epoch: u32,
    next_sequence: u64,
    /// Whether it has records here that no marker has decided.
    open: bool,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) log: Vec<Entry>,
    writers: Vec<Writer>,
}

impl Output {
    pub(crate) fn new(ids: usize) -> Self {
        Self { log: Vec::new(), writers: vec![Writer::default(); ids] }
    }

    /// `verified`: what the transaction coordinator says of this producer and partition. It is asked for only when the log
    /// has no open transaction of this producer (Kafka 3.6 and later).
    pub(crate) fn append(&mut self, producer: ProducerId, sequence: u64, outputs: Vec<Out>, verified: Result<(), Refusal>) -> Response {
        let writer = &mut self.writers[producer.id];
        if producer.epoch < writer.epoch {
            return Response::Refused(Refusal::Fenced);
        }
        if let (false, Err(refusal)) = (writer.open && producer.epoch == writer.epoch, verified) {
            return Response::Refused(refusal);
        }
        let next = if producer.epoch > writer.epoch { 0 } else { writer.next_sequence };
        if sequence < next {
            return Response::Done; // A copy of what is there.
        }
        if sequence > next {
            return Response::Refused(Refusal::OutOfOrder);
        }
        if outputs.iter().any(|out| !out.is_taken) {
            return Response::Refused(Refusal::Poison); // The request fails whole.
        }
        *writer = Writer { epoch: producer.epoch, next_sequence: next + outputs.len() as u64, open: true };
        self.log.extend(outputs.into_iter().map(|out| Entry::Data { id: producer.id, out }));
        Response::Done
    }

    pub(crate) fn mark(&mut self, producer: ProducerId, commit: bool) {
        let writer = &mut self.writers[producer.id];
        if producer.epoch > writer.epoch {
            *writer = Writer { epoch: producer.epoch, next_sequence: 0, open: false };
        }
        writer.open = false;
        self.log.push(Entry::Marker { id: producer.id, commit });
    }

    /// Returns what a read-committed reader sees, in its order.
    pub(crate) fn visible(&self) -> Vec<Out> {
        let mut decided: Vec<(usize, Out)> = Vec::new();
        let mut open: Vec<Vec<(usize, Out)>> = vec![Vec::new(); self.writers.len()];
        for (place, entry) in self.log.iter().enumerate() {
            match *entry {
                Entry::Data { id, out } => open[id].push((place, out)),
                Entry::Marker { id, commit: true } => decided.append(&mut open[id]),
                Entry::Marker { id, commit: false } => open[id].clear(),
            }
        }
        decided.sort_unstable_by_key(|(place, _)| *place);
        decided.into_iter().map(|(_, out)| out).collect()
    }
}
