//! One round of records between two looks at events: from fetched records to fates.

use crate::processing::Processing;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use transom_engine::{FateCounts, Handed, Invariant, Room, SourcePartition, StopReason, Worker};
use transom_sdk::{Offset, OutputBuffer, Record};

/// Longest time spent on records before the worker looks at events again; slow transforms must not starve a rebalance.
const ROUND_TIME_MAX: Duration = Duration::from_millis(100);

/// One round of records between two looks at events.
pub(crate) struct Round<'a> {
    engine: &'a Worker,
    pub(crate) handed: Vec<Handed>,
    /// Why the worker must stop after what was handed over.
    pub(crate) stop: Option<StopReason>,
    /// Records of partitions that are not ours to process now; the client fetches them again if they come to be.
    pub(crate) not_ours: u64,
    /// While the culprit of a refused batch is looked for, batches are small.
    room: Option<Room<'a>>,
    look: Look,
}

/// Looks at the clock after 1, 2, 4 … records as long as they are quick, and after each one when they are slow: reading it
/// for every record would cost more than a fast transform's own work, and never reading it would starve a rebalance.
struct Look {
    until: Instant,
    last: Instant,
    stride: u32,
    left: u32,
}

impl Look {
    /// Records are quick when a stride of them takes less than this.
    const QUICK: Duration = Duration::from_millis(1);
    const STRIDE_MAX: u32 = 64;

    fn new(now: Instant) -> Self {
        Self { until: now + ROUND_TIME_MAX, last: now, stride: 1, left: 1 }
    }

    /// Counts one record and returns whether the round's time is over.
    fn is_over(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        let now = Instant::now();
        let quick = now.duration_since(self.last) < Self::QUICK;
        self.stride = if quick { (self.stride * 2).min(Self::STRIDE_MAX) } else { 1 };
        (self.last, self.left) = (now, self.stride);
        now >= self.until
    }
}

impl<'a> Round<'a> {
    pub(crate) fn new(engine: &'a Worker) -> Self {
        Self { engine, handed: Vec::new(), stop: None, not_ours: 0, room: engine.room(), look: Look::new(Instant::now()) }
    }

    /// Processes one record into the batch; breaks when the round's time is over or the worker must stop.
    pub(crate) fn record(
        &mut self,
        place: SourcePartition,
        record: &Record<'_>,
        processing: &mut Processing,
        (outputs, sources): (&mut OutputBuffer, &mut Vec<(SourcePartition, Offset)>),
        wall: transom_sdk::Timestamp,
    ) -> ControlFlow<()> {
        let at = self.handed.iter().rposition(|handed| handed.partition == place);
        let expected = match at {
            Some(at) => Some(self.handed[at].next),
            None => self.engine.position(place),
        };
        let Some(expected) = expected else {
            self.not_ours += 1;
            return ControlFlow::Continue(());
        };
        // A rewind seeks, and a seek throws away what was fetched before it. So a record below the position was passed over by
        // whoever moved the position, and to drop it here would lose it.
        Invariant::NoGap.assert(record.offset() >= expected, || format!("{place}: record {} comes when {expected} is expected", record.offset()));
        let source = u32::try_from(sources.len()).unwrap_or(u32::MAX);
        let before = outputs.byte_len();
        let fate = match self.engine.hunt().sentence(place, record.offset()) {
            None => processing.process((source, place), record, outputs, wall),
            Some(sentence) => processing.condemned((source, place), record, outputs, (sentence, wall)),
        };
        let fate = match fate {
            Ok(fate) => fate,
            Err(reason) => {
                self.stop = Some(reason);
                return ControlFlow::Break(());
            }
        };
        sources.push((place, record.offset()));
        let at = at.unwrap_or_else(|| {
            let first = Some(record.offset());
            self.handed.push(Handed { partition: place, first, next: expected, records: 0, fates: FateCounts::default(), bytes: 0 });
            self.handed.len() - 1
        });
        let handed = &mut self.handed[at];
        handed.next = record.offset().next();
        handed.records += 1;
        handed.fates.add(fate);
        let input = record.value().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len);
        handed.bytes += u64::try_from(outputs.byte_len() - before + input).unwrap_or(u64::MAX);
        if let Some(room) = &mut self.room {
            room.take(place, record.offset());
        }
        let is_full = self.room.is_some_and(|room| room.is_full());
        if is_full || self.look.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
