//! The input topic: records and gaps that become readable as time passes. What a record must become is a function of its place.

use crate::random::Random;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// When it can be read.
    at: u64,
    is_record: bool,
}

/// What the broker takes of a record that has outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Outputs,
    /// Not its last output, but its dead letter.
    DeadLetter,
    /// Neither, but a stub.
    Stub,
}

/// Numbers a dead letter and a stub among the outputs of a record.
pub(crate) const DEAD_LETTER: u8 = 100;
pub(crate) const STUB: u8 = 101;

#[derive(Debug)]
pub(crate) struct Input {
    partitions: Vec<Vec<Slot>>,
    outputs: usize,
    /// What decides which outputs are refused, and how many of a thousand records have one.
    salt: u64,
    refused_per_mille: u64,
}

impl Input {
    /// Returns about `records` records over the partitions, appended until `until`.
    pub(crate) fn new(partitions: usize, outputs: usize, records: u64, until: u64, random: &mut Random) -> Self {
        let refused_per_mille = if random.per_mille(500) { random.between(10, 400) } else { 0 };
        let mut input = Self { partitions: vec![Vec::new(); partitions], outputs, salt: random.next(), refused_per_mille };
        for slots in &mut input.partitions {
            let mut at = random.below(until / 2);
            for _ in 0..records / partitions as u64 {
                if random.per_mille(350) {
                    at = (at + random.below(until / 6)).min(until);
                }
                for _ in 0..if random.per_mille(200) { random.between(1, 2) } else { 0 } {
                    slots.push(Slot { at, is_record: false });
                }
                slots.push(Slot { at, is_record: true });
            }
            if random.per_mille(500) {
                slots.push(Slot { at, is_record: false });
            }
        }
        input
    }

    fn readable(&self, partition: usize, from: i64, now: u64) -> impl Iterator<Item = (i64, Slot)> + '_ {
        let from = usize::try_from(from).unwrap_or(0);
        let slots = self.partitions[partition].iter().enumerate().skip(from).take_while(move |(_, slot)| slot.at <= now);
        slots.map(|(offset, slot)| (i64::try_from(offset).unwrap_or(i64::MAX), *slot))
    }

    /// Returns the offset of the first readable record at or after a position.
    pub(crate) fn next_record(&self, partition: usize, position: i64, now: u64) -> Option<i64> {
        self.readable(partition, position, now).find(|(_, slot)| slot.is_record).map(|(offset, _)| offset)
    }

    /// Returns the end of what is readable, if no record lies between the position and it.
    pub(crate) fn quiet_position(&self, partition: usize, position: i64, now: u64) -> Option<i64> {
        let mut end = position;
        for (offset, slot) in self.readable(partition, position, now) {
            if slot.is_record {
                return None;
            }
            end = offset + 1;
        }
        Some(end)
    }

    /// Returns when something becomes readable.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.partitions.iter().flatten().map(|slot| slot.at).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the offsets of all records of a partition.
    pub(crate) fn records(&self, partition: usize) -> impl Iterator<Item = i64> + '_ {
        self.readable(partition, 0, u64::MAX).filter(|(_, slot)| slot.is_record).map(|(offset, _)| offset)
    }

    pub(crate) fn end(&self, partition: usize) -> i64 {
        i64::try_from(self.partitions[partition].len()).unwrap_or(i64::MAX)
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Returns the output partitions that a record's outputs go to: none, one or two.
    pub(crate) fn expected_outputs(&self, partition: usize, offset: i64) -> Vec<usize> {
        let first = partition % self.outputs;
        match offset % 7 {
            3 => Vec::new(),
            5 => vec![first, (partition + 1) % self.outputs],
            _ => vec![first],
        }
    }

    /// Returns what the broker takes of a record's outputs.
    pub(crate) fn takes(&self, partition: usize, offset: i64) -> Takes {
        let place = (partition as u64) << 32 | offset.unsigned_abs();
        let drawn = Random::new(self.salt ^ place).next();
        match (drawn % 1_000 < self.refused_per_mille, drawn % 3) {
            (false, _) => Takes::Outputs,
            (true, 0) => Takes::Stub,
            (true, _) => Takes::DeadLetter,
        }
    }

    /// Returns what must be visible of a record in the end: number and output partition of each.
    pub(crate) fn expected(&self, partition: usize, offset: i64) -> Vec<(u8, usize)> {
        let outputs = self.expected_outputs(partition, offset);
        match (outputs.first(), self.takes(partition, offset)) {
            (None, _) | (_, Takes::Outputs) => (0..).zip(outputs).collect(),
            (Some(first), Takes::DeadLetter) => vec![(DEAD_LETTER, *first)],
            (Some(first), Takes::Stub) => vec![(STUB, *first)],
        }
    }
}
