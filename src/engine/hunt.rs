//! The hunt for a refused output: which input record became something that the broker will not take.
//!
//! A refused produce request names all its outputs alike, so the inputs of all of them are *accused*: one of them is the
//! culprit. The batch is aborted and read again in parts that hold an eighth of the accused, until a part is refused with one
//! accused alone: that one is *condemned*, and from then on it is read as what its [`Sentence`] says. A part that commits
//! clears its accused. Eighths and not halves, because a refusal costs as much as forty commits (decision 0010). Those who were accused beside a culprit are *unproven*: there may be another one among them, so they
//! go one first, then two, four and so on, as long as they commit.
//!
//! Nothing of this is kept beyond the process: whoever reads the records after a crash finds the culprit again.

use crate::batch::Progress;
use crate::place::SourcePartition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use transom_sdk::Offset;

/// Why the broker, or the client in its place, will not take an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// Larger than a limit.
    TooLarge,
    /// A timestamp outside the topic's limits.
    Timestamp,
    /// Anything else the broker checks in a record.
    Invalid,
}

impl RefusalKind {
    /// All kinds, in the order of their metric.
    pub const ALL: [Self; 3] = [Self::TooLarge, Self::Timestamp, Self::Invalid];

    /// Returns the word used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Timestamp => "timestamp",
            Self::Invalid => "invalid",
        }
    }
}

/// A refusal, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// The output topic.
    pub topic: String,
    /// The broker's name for it, such as `MSG_SIZE_TOO_LARGE`.
    pub code: String,
    /// The broker's words.
    pub words: String,
}

/// What was refused of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An output of the transform.
    Output,
    /// Its dead letter.
    DeadLetter,
}

/// How sure it is that this very record is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is one of several that failed alike.
    Suspected,
    /// It was refused by itself, or the broker named it among the others.
    Certain,
}

/// An input record whose output was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Partition of the input record.
    pub partition: SourcePartition,
    /// Offset of the input record.
    pub offset: Offset,
    /// What was refused of it.
    pub refused: Refused,
    /// How sure it is.
    pub proof: Proof,
    /// Why.
    pub refusal: Arc<Refusal>,
}

/// What becomes of a condemned record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sentence {
    /// It is not transformed: it becomes a dead letter.
    SetAside {
        /// Why its output was refused.
        output: Arc<Refusal>,
    },
    /// Its dead letter was refused, too: the dead letter carries hashes in place of key and value.
    Stub {
        /// Why its output was refused; `None` when the transform made it a dead letter.
        output: Option<Arc<Refusal>>,
        /// Why its dead letter was refused.
        dead_letter: Arc<Refusal>,
    },
    /// Even that was refused: the pipeline stops in front of it.
    Hopeless {
        /// Why.
        stub: Arc<Refusal>,
    },
}

impl Sentence {
    /// Returns the next harder sentence after one more refusal.
    fn after(earlier: Option<Self>, refused: Refused, refusal: Arc<Refusal>) -> Self {
        match (earlier, refused) {
            (None | Some(Self::SetAside { .. }), Refused::Output) => Self::SetAside { output: refusal },
            (None, Refused::DeadLetter) => Self::Stub { output: None, dead_letter: refusal },
            (Some(Self::SetAside { output }), Refused::DeadLetter) => Self::Stub { output: Some(output), dead_letter: refusal },
            // The transform refused the record before and made an output of it this time.
            (Some(Self::Stub { dead_letter, .. }), Refused::Output) => Self::Stub { output: Some(refusal), dead_letter },
            (Some(Self::Stub { .. } | Self::Hopeless { .. }), Refused::DeadLetter) | (Some(Self::Hopeless { .. }), Refused::Output) => {
                Self::Hopeless { stub: refusal }
            }
        }
    }

    /// Returns why, most recent refusal first.
    pub const fn refusal(&self) -> &Arc<Refusal> {
        match self {
            Self::SetAside { output } => output,
            Self::Stub { dead_letter, .. } => dead_letter,
            Self::Hopeless { stub } => stub,
        }
    }
}

/// A refused batch is read again in so many parts.
const PARTS: usize = 8;

type RecordPlace = (SourcePartition, Offset);

/// What a worker knows of refused outputs.
#[derive(Debug, Default)]
pub struct Hunt {
    /// One of these is a culprit.
    accused: BTreeSet<RecordPlace>,
    /// One of these may be a culprit. Invariant: none is accused.
    unproven: BTreeSet<RecordPlace>,
    condemned: BTreeMap<RecordPlace, Sentence>,
    /// How many of the accused, or else of the unproven, the next batch may hold. Invariant: not 0 while there are any.
    suspects_max: usize,
    /// How many records the next batch may hold: halved by every refusal, so that a hunt ends whatever is reported.
    records_max: u64,
}

impl Hunt {
    /// Returns whether a culprit is looked for.
    pub fn is_on(&self) -> bool {
        !self.accused.is_empty() || !self.unproven.is_empty()
    }

    /// Returns how many records are suspected.
    pub fn suspects(&self) -> usize {
        self.accused.len() + self.unproven.len()
    }

    /// Returns what becomes of a record that is condemned.
    pub fn sentence(&self, partition: SourcePartition, offset: Offset) -> Option<&Sentence> {
        self.condemned.get(&(partition, offset))
    }

    /// Returns how much more a batch may take that holds so much already; `None`: as much as ever.
    pub(crate) fn room(&self, holds: Option<(&Progress, u64)>) -> Option<Room<'_>> {
        if self.condemned.is_empty() && !self.is_on() {
            return None;
        }
        let mut room = Room { hunt: self, suspects: usize::MAX, records: u64::MAX };
        if self.is_on() {
            (room.suspects, room.records) = (self.suspects_max, self.records_max);
        }
        let Some((progress, records)) = holds else { return Some(room) };
        let held = |(partition, offset): &&RecordPlace| holds_record(progress, *partition, *offset);
        room.suspects = room.suspects.saturating_sub(self.counted().iter().filter(held).count());
        let has_condemned = self.condemned.keys().any(|place| held(&place));
        room.records = if has_condemned { 0 } else { room.records.saturating_sub(records) };
        Some(room)
    }

    fn counted(&self) -> &BTreeSet<RecordPlace> {
        if self.accused.is_empty() { &self.unproven } else { &self.accused }
    }

    /// A batch of so many records was refused: returns who is condemned by it.
    pub(crate) fn refused(&mut self, records: u64, mut suspects: Vec<Suspect>) -> Vec<RecordPlace> {
        // A record with several refused outputs is one suspect.
        suspects.sort_by_key(|suspect| (suspect.partition, suspect.offset));
        suspects.dedup_by_key(|suspect| (suspect.partition, suspect.offset));
        let is_alone = suspects.len() == 1;
        let (certain, suspected): (Vec<_>, Vec<_>) = suspects.into_iter().partition(|suspect| is_alone || suspect.proof == Proof::Certain);
        self.unproven.append(&mut self.accused);
        self.records_max = (records / 2).max(1);
        let suspected = suspected.into_iter().map(|suspect| (suspect.partition, suspect.offset));
        if certain.is_empty() {
            self.accused = suspected.collect();
            self.unproven.retain(|place| !self.accused.contains(place));
            self.suspects_max = (self.accused.len() / PARTS).max(1);
            return Vec::new();
        }
        self.unproven.extend(suspected);
        self.suspects_max = 1;
        let mut condemned = Vec::with_capacity(certain.len());
        for Suspect { partition, offset, refused, refusal, .. } in certain {
            let place = (partition, offset);
            let earlier = self.condemned.remove(&place);
            self.condemned.insert(place, Sentence::after(earlier, refused, refusal));
            self.unproven.remove(&place);
            condemned.push(place);
        }
        condemned
    }

    /// A batch was committed: what it held is cleared, and the next one may hold more.
    pub(crate) fn committed(&mut self, progress: &Progress) {
        if self.condemned.is_empty() && !self.is_on() {
            return;
        }
        let before = self.suspects();
        self.drop_where(|place| holds_record(progress, place.0, place.1));
        self.records_max = self.records_max.saturating_mul(2);
        if !self.accused.is_empty() {
            // What is left of one part must hold the culprit: to send it whole would be refused for sure.
            let is_one_part = self.accused.len() <= self.suspects_max;
            self.suspects_max = if is_one_part { (self.accused.len() / PARTS).max(1) } else { self.suspects_max };
        } else if self.suspects() < before {
            // A batch with nobody but the condemned proves nothing.
            self.suspects_max = self.suspects_max.saturating_mul(2);
        }
    }

    /// A partition goes on from this committed offset.
    pub(crate) fn resumed(&mut self, partition: SourcePartition, at: Offset) {
        self.drop_where(|place| place.0 == partition && place.1 < at);
    }

    /// These partitions are somebody else's, who will find out by himself.
    pub(crate) fn forget(&mut self, partitions: &BTreeSet<SourcePartition>) {
        self.drop_where(|place| partitions.contains(&place.0));
    }

    fn drop_where(&mut self, is_gone: impl Fn(&RecordPlace) -> bool) {
        self.accused.retain(|place| !is_gone(place));
        self.unproven.retain(|place| !is_gone(place));
        self.condemned.retain(|place, _| !is_gone(place));
    }
}

fn holds_record(progress: &Progress, partition: SourcePartition, offset: Offset) -> bool {
    progress.get(partition).is_some_and(|interval| interval.start <= offset && offset < interval.end)
}

/// How much more the open batch may take while a culprit is known or looked for.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    hunt: &'a Hunt,
    suspects: usize,
    records: u64,
}

impl Room<'_> {
    /// Notes that the batch took this record. A condemned one closes the batch behind it, so that its fate does not hang on
    /// others'.
    pub fn take(&mut self, partition: SourcePartition, offset: Offset) {
        let place = (partition, offset);
        self.suspects -= usize::from(self.hunt.counted().contains(&place)).min(self.suspects);
        self.records = if self.hunt.condemned.contains_key(&place) { 0 } else { self.records.saturating_sub(1) };
    }

    /// Returns whether the batch may take nothing more.
    pub const fn is_full(&self) -> bool {
        self.suspects == 0 || self.records == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::TopicId;
    use transom_sdk::PartitionId;

    fn partition() -> SourcePartition {
        SourcePartition { topic: TopicId(0), partition: PartitionId::default() }
    }

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    fn refusal(kind: RefusalKind) -> Arc<Refusal> {
        Arc::new(Refusal { kind, topic: "out".to_owned(), code: "CODE".to_owned(), words: "words".to_owned() })
    }

    /// What of the records a broker refuses.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Takes {
        /// Everything but the outputs of these.
        DeadLetters,
        /// Nothing but the stubs of these.
        Stubs,
        /// Nothing at all of these.
        Nothing,
    }

    /// One partition, read by the rules against a broker whose requests hold so many records and fail whole.
    struct Run {
        hunt: Hunt,
        request: i64,
        culprits: Vec<i64>,
        takes: Takes,
        names_culprits: bool,
        refusals: usize,
        commits: usize,
    }

    impl Run {
        fn new(culprits: &[i64], takes: Takes) -> Self {
            let culprits = culprits.to_vec();
            Self { hunt: Hunt::default(), request: i64::MAX, culprits, takes, names_culprits: false, refusals: 0, commits: 0 }
        }

        fn refuses(&self, offset: i64) -> Option<Refused> {
            if !self.culprits.contains(&offset) {
                return None;
            }
            match self.hunt.sentence(partition(), at(offset)) {
                None => Some(Refused::Output),
                Some(Sentence::SetAside { .. }) => (self.takes != Takes::DeadLetters).then_some(Refused::DeadLetter),
                Some(Sentence::Stub { .. }) => (self.takes == Takes::Nothing).then_some(Refused::DeadLetter),
                Some(Sentence::Hopeless { .. }) => panic!("a hopeless record is not sent again"),
            }
        }

        /// Reads `records` records in batches of at most `batch_max`; returns where it had to stop, if it had to.
        fn read(&mut self, records: i64, batch_max: i64) -> Option<i64> {
            let mut committed = 0;
            while committed < records {
                assert!(self.refusals + self.commits < 100_000, "no end");
                let mut room = self.hunt.room(None);
                let mut end = committed;
                while end < records && end - committed < batch_max && !room.is_some_and(|room| room.is_full()) {
                    if let Some(Sentence::Hopeless { .. }) = self.hunt.sentence(partition(), at(end)) {
                        break;
                    }
                    if let Some(room) = &mut room {
                        room.take(partition(), at(end));
                    }
                    end += 1;
                }
                if end == committed {
                    return Some(end);
                }
                let mut progress = Progress::default();
                progress.extend(partition(), at(committed), at(end));
                let holds = u64::try_from(end - committed).unwrap();
                let whole = self.hunt.room(Some((&progress, holds)));
                assert_eq!(whole.map(|room| room.is_full()), room.map(|room| room.is_full()), "both ways of counting agree");
                let suspects = self.suspects(committed, end);
                if suspects.is_empty() {
                    self.commits += 1;
                    self.hunt.committed(&progress);
                    committed = end;
                } else {
                    self.refusals += 1;
                    self.hunt.refused(holds, suspects);
                }
            }
            assert!(!self.hunt.is_on() && self.hunt.condemned.is_empty(), "nothing is left over: {:?}", self.hunt);
            None
        }

        fn suspects(&self, start: i64, end: i64) -> Vec<Suspect> {
            let mut suspects = Vec::new();
            let mut first = start;
            while first < end {
                let last = end.min(first.saturating_add(self.request));
                if (first..last).any(|offset| self.refuses(offset).is_some()) {
                    let named = |offset: &i64| !self.names_culprits || self.refuses(*offset).is_some();
                    suspects.extend((first..last).filter(named).map(|offset| Suspect {
                        partition: partition(),
                        offset: at(offset),
                        refused: self.refuses(offset).unwrap_or(Refused::Output),
                        proof: if self.names_culprits { Proof::Certain } else { Proof::Suspected },
                        refusal: refusal(RefusalKind::TooLarge),
                    }));
                }
                first = last;
            }
            suspects
        }
    }

    // The way down takes log8 of the batch in refusals, each with up to seven commits; the way up again log2 in commits.
    #[test]
    fn a_culprit_is_found_by_reading_again_in_eighths() {
        for (culprits, refusals, commits) in [
            (&[500][..], 5, 40),
            (&[0], 5, 40),
            (&[999], 5, 40),
            (&[0, 999], 10, 80),
            (&[17, 18], 7, 40),
            (&[100, 400, 401, 800], 20, 120),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 16, 50),
        ] {
            let mut run = Run::new(culprits, Takes::DeadLetters);
            assert_eq!(run.read(1_000, 1_000), None);
            assert!(run.refusals <= refusals && run.commits <= commits, "{culprits:?}: {} refused, {} committed", run.refusals, run.commits);
            assert!(run.refusals >= culprits.len(), "each is refused once by itself");
        }
    }

    #[test]
    fn a_hunt_ends_whatever_requests_hold_together() {
        for request in [1, 2, 7, 100] {
            for culprits in [&[0][..], &[499, 500], &[3, 250, 251, 252, 999]] {
                let mut run = Run { request, ..Run::new(culprits, Takes::DeadLetters) };
                assert_eq!(run.read(1_000, 300), None);
                assert!(run.refusals <= culprits.len() * 12, "{request}, {culprits:?}: {}", run.refusals);
            }
        }
    }

    #[test]
    fn every_record_a_culprit_costs_two_transactions_each() {
        let culprits: Vec<i64> = (0..200).collect();
        let mut run = Run::new(&culprits, Takes::DeadLetters);
        assert_eq!(run.read(200, 200), None);
        assert!(run.refusals <= 200 + 8 && run.commits <= 200 + 8, "{} refused, {} committed", run.refusals, run.commits);
    }

    #[test]
    fn culprits_that_the_broker_names_are_condemned_at_once() {
        let mut run = Run { names_culprits: true, ..Run::new(&[3, 500, 998], Takes::DeadLetters) };
        assert_eq!(run.read(1_000, 1_000), None);
        assert_eq!(run.refusals, 1);
    }

    #[test]
    fn a_dead_letter_that_is_refused_becomes_a_stub_and_a_refused_stub_stops() {
        let mut run = Run::new(&[700], Takes::Stubs);
        assert_eq!(run.read(1_000, 1_000), None);
        let mut run = Run::new(&[700], Takes::Nothing);
        assert_eq!(run.read(1_000, 1_000), Some(700), "everything before it is committed");
    }

    #[test]
    fn a_sentence_keeps_the_first_reason() {
        let (first, second) = (refusal(RefusalKind::Timestamp), refusal(RefusalKind::TooLarge));
        let set_aside = Sentence::after(None, Refused::Output, Arc::clone(&first));
        assert_eq!(set_aside, Sentence::SetAside { output: Arc::clone(&first) });
        let stub = Sentence::after(Some(set_aside), Refused::DeadLetter, Arc::clone(&second));
        assert_eq!(stub, Sentence::Stub { output: Some(first), dead_letter: Arc::clone(&second) });
        let own = Sentence::after(None, Refused::DeadLetter, Arc::clone(&second));
        assert_eq!(own, Sentence::Stub { output: None, dead_letter: second });
    }

    #[test]
    fn a_partition_that_goes_away_takes_its_suspects_along() {
        let mut run = Run::new(&[500], Takes::DeadLetters);
        let suspects = run.suspects(0, 1_000);
        run.hunt.refused(1_000, suspects);
        assert_eq!((run.hunt.is_on(), run.hunt.suspects()), (true, 1_000));
        run.hunt.resumed(partition(), at(600));
        assert_eq!(run.hunt.suspects(), 400);
        run.hunt.forget(&BTreeSet::from([partition()]));
        assert!(!run.hunt.is_on() && run.hunt.room(None).is_none());
    }
}
