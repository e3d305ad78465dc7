//! The comparison of a run with the sequential run: a pure function of the books.
//!
//! Outputs are matched to inputs by topic, key and value bytes, equal ones in the order of both logs; dead letters by the
//! origin in their headers. Everything else follows from the matches: what has none is missing, what is left over is a
//! copy, what joins streams in another order is reordered.

use std::collections::{HashMap, HashSet};

use crate::wire::{Headers, ReadRecord};

use super::books::{Books, Expected, Output};
use super::report::{Anomaly, Place, Report};

const ORIGIN_TOPIC: &str = "__streams.errors.topic";
const ORIGIN_PARTITION: &str = "__streams.errors.partition";
const ORIGIN_OFFSET: &str = "__streams.errors.offset";
/// Headers a dead letter may carry beside those of its origin.
const ADDED_PREFIXES: [&str; 2] = ["__streams.errors.", "__transom.dlq."];

/// Topic, key, value: what makes two outputs the same.
type Content<'a> = (&'a str, Option<&'a [u8]>, Option<&'a [u8]>);

/// The same, outliving the output it was taken from.
type OwnedContent = (String, Option<Vec<u8>>, Option<Vec<u8>>);

/// Input topic and partition, output topic and partition, output key: where order is promised.
type Stream<'a> = (&'a str, i32, &'a str, i32, Option<&'a [u8]>);

/// Topic, partition, offset.
type PlaceKey<'a> = (&'a str, i32, i64);

/// One input record and what was seen of it.
struct Input<'a> {
    topic: &'a str,
    record: &'a ReadRecord,
    /// A dead letter names it although it should have become something else.
    has_wrong_fate: bool,
}

/// One record an input should have led to: an output, or its dead letter if `output` is `None`.
struct Want {
    input: usize,
    output: Option<Output>,
    fate: WantFate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WantFate {
    Missing,
    /// Found, and nothing else could be meant.
    Found(usize),
    /// Found, but which of several equal records is meant cannot be told: not used for the order.
    FoundAmong(usize),
    /// Something with its key but other bytes was taken for it.
    WrongBytes,
}

impl WantFate {
    fn found(self) -> Option<usize> {
        match self {
            Self::Found(index) | Self::FoundAmong(index) => Some(index),
            Self::Missing | Self::WrongBytes => None,
        }
    }
}

/// One record found in an output or dead-letter topic.
struct Found<'a> {
    topic: &'a str,
    record: &'a ReadRecord,
}

/// A record found once too often.
struct Copy {
    /// The want that has it already; `want`'s fate names the original.
    want: usize,
    found: usize,
}

/// The state of one comparison; each step reads what the steps before it wrote.
pub(super) struct Audit<'a> {
    inputs: Vec<Input<'a>>,
    wants: Vec<Want>,
    found: Vec<Found<'a>>,
    /// How many of `found` are outputs; the rest are dead letters.
    outputs: usize,
    copies: Vec<Copy>,
    /// Outputs no want has the content of.
    strays: Vec<usize>,
    report: Report,
}

impl<'a> Audit<'a> {
    pub(super) fn of(books: &'a Books, expected: impl Fn(&str, &ReadRecord) -> Expected) -> Report {
        let mut audit = Self::open(books, &expected);
        audit.match_outputs();
        audit.match_dead_letters(books);
        audit.explain_strays(books, &expected);
        audit.report_copies();
        audit.report_missing(books);
        audit.report_order();
        audit.report
    }

    fn open(books: &'a Books, expected: &impl Fn(&str, &ReadRecord) -> Expected) -> Self {
        let mut audit = Self {
            inputs: Vec::new(),
            wants: Vec::new(),
            found: Vec::new(),
            outputs: 0,
            copies: Vec::new(),
            strays: Vec::new(),
            report: Report::default(),
        };
        for topic in &books.inputs {
            for record in &topic.records {
                let input = audit.inputs.len();
                audit.inputs.push(Input { topic: &topic.name, record, has_wrong_fate: false });
                let want = |output| Want { input, output, fate: WantFate::Missing };
                match expected(&topic.name, record) {
                    Expected::Outputs(outputs) if !outputs.is_empty() => {
                        audit.report.outputs_expected += outputs.len();
                        audit.wants.extend(outputs.into_iter().map(Some).map(want));
                    }
                    Expected::Outputs(_) | Expected::Filtered => audit.report.filtered += 1,
                    Expected::DeadLetter => {
                        audit.report.dead_letters_expected += 1;
                        audit.wants.push(want(None));
                    }
                }
            }
        }
        for topic in books.outputs.iter().chain(&books.dead_letters) {
            audit.found.extend(topic.records.iter().map(|record| Found { topic: &topic.name, record }));
        }
        audit.outputs = books.outputs.iter().map(|topic| topic.records.len()).sum();
        audit.report.inputs = audit.inputs.len();
        audit.report.outputs_found = audit.outputs;
        audit.report.dead_letters_found = audit.found.len() - audit.outputs;
        audit
    }

    /// Joins outputs to wants of the same content, both in the order of their logs.
    fn match_outputs(&mut self) {
        let mut groups: HashMap<Content<'_>, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (index, want) in self.wants.iter().enumerate() {
            if let Some(output) = &want.output {
                groups.entry(content_of(output)).or_default().0.push(index);
            }
        }
        for (index, found) in self.found[..self.outputs].iter().enumerate() {
            let content = (found.topic, found.record.key.as_deref(), found.record.value.as_deref());
            groups.entry(content).or_default().1.push(index);
        }
        // Indexes only from here on: the groups borrow the wants they are about to change.
        let groups: Vec<(Vec<usize>, Vec<usize>)> = groups.into_values().collect();
        for (wants, found) in groups {
            let Some(last) = wants.last().copied() else {
                self.strays.extend(found);
                continue;
            };
            let clear = self.is_clear(&wants, &found);
            for (want, found) in wants.iter().zip(&found) {
                self.wants[*want].fate = if clear { WantFate::Found(*found) } else { WantFate::FoundAmong(*found) };
                if clear {
                    self.check_attributes(*want, *found);
                } else {
                    self.report.order_unchecked += 1;
                }
            }
            let extra = found.iter().skip(wants.len());
            self.copies.extend(extra.map(|found| Copy { want: last, found: *found }));
        }
        // The groups came in the order of a hash; examples shall not.
        self.strays.sort_unstable();
        self.copies.sort_unstable_by_key(|copy| copy.found);
    }

    /// Whether equal records can be told apart: there is one, or as many as wanted, all of one input partition.
    fn is_clear(&self, wants: &[usize], found: &[usize]) -> bool {
        let source = |want: usize| {
            let input = &self.inputs[self.wants[want].input];
            (input.topic, input.record.partition)
        };
        let is_of_one_source = wants.iter().all(|want| source(*want) == source(wants[0]));
        wants.len() == 1 || (wants.len() == found.len() && is_of_one_source)
    }

    fn check_attributes(&mut self, want: usize, found: usize) {
        let Some(output) = &self.wants[want].output else { return };
        let record = self.found[found].record;
        let headers_differ = output.headers.as_ref().is_some_and(|headers| *headers != record.headers);
        let time_differs = output.timestamp_ms.is_some_and(|timestamp_ms| timestamp_ms != record.timestamp_ms);
        if headers_differ || time_differs {
            let what = if headers_differ { "headers" } else { "timestamp" };
            let detail = format!("{what} differ from what {} asks for", self.input_place(want));
            self.report.add(Anomaly::WrongBytes, self.found_place(found), || detail);
        }
    }

    /// Joins dead letters to inputs by the origin in their headers and compares them byte for byte.
    fn match_dead_letters(&mut self, books: &Books) {
        let aborted: HashSet<PlaceKey<'_>> = books.aborted_inputs().iter().map(|(topic, record)| place_key(topic, record)).collect();
        let inputs: HashMap<PlaceKey<'_>, usize> =
            self.inputs.iter().enumerate().map(|(index, input)| (place_key(input.topic, input.record), index)).collect();
        let wanted: HashMap<usize, usize> =
            self.wants.iter().enumerate().filter(|(_, want)| want.output.is_none()).map(|(index, want)| (want.input, index)).collect();
        for found in self.outputs..self.found.len() {
            let place = self.found_place(found);
            let record = self.found[found].record;
            let Some(origin) = origin_of(record) else {
                self.report.add(Anomaly::Unexpected, place, || "dead letter without a readable origin".to_owned());
                continue;
            };
            let named = || format!("dead letter of {}:{}@{}", origin.0, origin.1, origin.2);
            let Some(input) = inputs.get(&origin).copied() else {
                let is_aborted = aborted.contains(&origin);
                let anomaly = if is_aborted { Anomaly::AbortedRead } else { Anomaly::Unexpected };
                self.report.add(anomaly, place, || format!("{}, which no committed reader sees", named()));
                continue;
            };
            let Some(want) = wanted.get(&input).copied() else {
                self.inputs[input].has_wrong_fate = true;
                self.report.add(Anomaly::Unexpected, place, || format!("{}, which is no bad record", named()));
                continue;
            };
            if let Some(difference) = dead_letter_difference(self.inputs[input].record, record) {
                self.report.add(Anomaly::WrongBytes, place, || format!("{}: its {difference} differ", named()));
            }
            match self.wants[want].fate {
                WantFate::Missing => self.wants[want].fate = WantFate::Found(found),
                _ => self.copies.push(Copy { want, found }),
            }
        }
    }

    /// Gives outputs no input asked for a name: read from an aborted transaction, spoilt, or out of nowhere.
    fn explain_strays(&mut self, books: &Books, expected: &impl Fn(&str, &ReadRecord) -> Expected) {
        let mut aborted: HashMap<OwnedContent, Place> = HashMap::new();
        if !self.strays.is_empty() {
            for (topic, record) in books.aborted_inputs() {
                if let Expected::Outputs(outputs) = expected(topic, record) {
                    let place = place_of(topic, record);
                    aborted.extend(outputs.into_iter().map(|o| ((o.topic, o.key, o.value), place.clone())));
                }
            }
        }
        let mut missing: HashMap<(String, Option<Vec<u8>>), Vec<usize>> = HashMap::new();
        for (index, want) in self.wants.iter().enumerate().rev() {
            if let (WantFate::Missing, Some(output)) = (want.fate, &want.output) {
                missing.entry((output.topic.clone(), output.key.clone())).or_default().push(index);
            }
        }
        for found in std::mem::take(&mut self.strays) {
            let place = self.found_place(found);
            let (topic, record) = (self.found[found].topic.to_owned(), self.found[found].record);
            let content = (topic.clone(), record.key.clone(), record.value.clone());
            if let Some(origin) = aborted.get(&content) {
                self.report.add(Anomaly::AbortedRead, place, || format!("comes from the aborted {origin}"));
            } else if let Some(want) = missing.get_mut(&(topic, record.key.clone())).and_then(Vec::pop) {
                self.wants[want].fate = WantFate::WrongBytes;
                let detail = format!("value is not the one {} asks for, which is missing", self.input_place(want));
                self.report.add(Anomaly::WrongBytes, place, || detail);
            } else {
                self.report.add(Anomaly::Unexpected, place, || format!("{} has no input", brief(record)));
            }
        }
    }

    /// Names what was found too often, and tells zombies from replays.
    ///
    /// A replay's producer begins after the original's. A copy by a producer that wrote for the same input partition
    /// *before* the original's producer began comes from a former owner: a zombie.
    fn report_copies(&mut self) {
        let mut began: HashMap<(&str, i32, &str, i32, i64, i16), i64> = HashMap::new();
        let matched = self.wants.iter().enumerate().filter_map(|(index, want)| Some((index, want.fate.found()?)));
        let copied = self.copies.iter().map(|copy| (copy.want, copy.found));
        for (want, found) in matched.chain(copied) {
            let first = began.entry(self.writer_of(want, found)).or_insert(i64::MAX);
            *first = (*first).min(self.found[found].record.offset);
        }
        let mut findings = Vec::new();
        for copy in &self.copies {
            let Some(original) = self.wants[copy.want].fate.found() else { continue };
            let place = self.found_place(copy.found);
            let source = self.input_place(copy.want);
            let detail = format!("stands at {} already, input {source}", self.found_place(original));
            findings.push((Anomaly::Duplicate, place.clone(), detail));
            let (of_original, of_copy) = (self.writer_of(copy.want, original), self.writer_of(copy.want, copy.found));
            if is_known(of_copy.4) && of_original != of_copy && began[&of_copy] < began[&of_original] {
                let (id, epoch) = (of_copy.4, of_copy.5);
                let detail = format!("producer {id} epoch {epoch} wrote after another had taken {source} over");
                findings.push((Anomaly::ZombieWrite, place, detail));
            }
        }
        for (anomaly, place, detail) in findings {
            self.report.add(anomaly, place, || detail);
        }
    }

    /// Input partition, output partition, producer: who wrote a record, for which part of the work.
    fn writer_of(&self, want: usize, found: usize) -> (&'a str, i32, &'a str, i32, i64, i16) {
        let input = &self.inputs[self.wants[want].input];
        let Found { topic, record } = &self.found[found];
        (input.topic, input.record.partition, topic, record.partition, record.producer_id, record.producer_epoch)
    }

    /// Names inputs whose wants are missing, wholly or in part, and checks committed offsets against what is visible.
    fn report_missing(&mut self, books: &Books) {
        let mut start = 0;
        while start < self.wants.len() {
            let input = self.wants[start].input;
            let run = self.wants[start..].iter().take_while(|want| want.input == input).count();
            let missing: Vec<usize> = (start..start + run).filter(|index| self.wants[*index].fate == WantFate::Missing).collect();
            let visible = run - missing.len();
            let place = self.input_place(start);
            let committed = books.committed.as_ref().map(|offsets| offsets.get(&(place.topic.clone(), place.partition)).copied().unwrap_or(-1));
            if let Some(first) = missing.first().copied() {
                let what = self.want_in_words(first);
                if visible > 0 {
                    let detail = format!("{} of {run} outputs missing, first {what}", missing.len());
                    self.report.add(Anomaly::Torn, place.clone(), || detail);
                } else if !self.inputs[input].has_wrong_fate {
                    self.report.add(Anomaly::Lost, place.clone(), || format!("has no {what}"));
                    if let Some(offset) = committed.filter(|offset| *offset > place.offset) {
                        let detail = format!("has no {what}, committed offset is {offset}");
                        self.report.add(Anomaly::Skipped, place.clone(), || detail);
                    }
                }
            }
            if let Some(offset) = committed.filter(|offset| visible > 0 && *offset <= place.offset) {
                let detail = format!("its outputs are visible, but the committed offset is {offset}");
                self.report.add(Anomaly::Torn, place, || detail);
            }
            start += run;
        }
    }

    /// Follows the outputs of each input partition and key through each output partition, in input order.
    fn report_order(&mut self) {
        let mut last: HashMap<Stream<'_>, usize> = HashMap::new();
        let mut findings = Vec::new();
        for want in &self.wants {
            let WantFate::Found(found) = want.fate else { continue };
            let input = &self.inputs[want.input];
            let Found { topic, record } = &self.found[found];
            let stream = (input.topic, input.record.partition, *topic, record.partition, record.key.as_deref());
            let before = last.entry(stream).or_insert(found);
            if record.offset < self.found[*before].record.offset {
                let source = place_of(input.topic, input.record);
                let detail = format!("from {source}, {}, stands before {}", brief(record), self.found_place(*before));
                findings.push((self.found_place(found), detail));
            } else {
                *before = found;
            }
        }
        for (place, detail) in findings {
            self.report.add(Anomaly::Reordered, place, || detail);
        }
    }

    fn want_in_words(&self, want: usize) -> String {
        match &self.wants[want].output {
            Some(output) => format!("output in {} with key {}", output.topic, brief_bytes(output.key.as_deref())),
            None => "dead letter".to_owned(),
        }
    }

    fn input_place(&self, want: usize) -> Place {
        let input = &self.inputs[self.wants[want].input];
        place_of(input.topic, input.record)
    }

    fn found_place(&self, found: usize) -> Place {
        place_of(self.found[found].topic, self.found[found].record)
    }
}

fn content_of(output: &Output) -> Content<'_> {
    (&output.topic, output.key.as_deref(), output.value.as_deref())
}

fn place_of(topic: &str, record: &ReadRecord) -> Place {
    Place { topic: topic.to_owned(), partition: record.partition, offset: record.offset }
}

fn place_key<'a>(topic: &'a str, record: &ReadRecord) -> PlaceKey<'a> {
    (topic, record.partition, record.offset)
}

/// Producers without an id cannot be told apart.
fn is_known(producer_id: i64) -> bool {
    producer_id >= 0
}

/// The origin a dead letter names. The last header of a name counts: a replayed record may carry older ones.
fn origin_of(record: &ReadRecord) -> Option<PlaceKey<'_>> {
    let read = |name| std::str::from_utf8(record.last_header(name)?).ok();
    Some((read(ORIGIN_TOPIC)?, read(ORIGIN_PARTITION)?.parse().ok()?, read(ORIGIN_OFFSET)?.parse().ok()?))
}

/// What of the source a dead letter does not repeat byte for byte.
fn dead_letter_difference(source: &ReadRecord, letter: &ReadRecord) -> Option<&'static str> {
    if source.key != letter.key {
        return Some("key bytes");
    }
    if source.value != letter.value {
        return Some("value bytes");
    }
    // The source of a replayed record has such headers of its own: then they must stand in front, untouched.
    let stands_in_front =
        letter.headers.starts_with(&source.headers) && letter.headers[source.headers.len()..].iter().all(|(name, _)| is_added(name));
    (!stands_in_front && without_added(&source.headers) != without_added(&letter.headers)).then_some("headers")
}

fn without_added(headers: &Headers) -> Vec<&(String, Option<Vec<u8>>)> {
    headers.iter().filter(|(name, _)| !is_added(name)).collect()
}

fn is_added(name: &str) -> bool {
    ADDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn brief(record: &ReadRecord) -> String {
    format!("key {} value {}", brief_bytes(record.key.as_deref()), brief_bytes(record.value.as_deref()))
}

fn brief_bytes(bytes: Option<&[u8]>) -> String {
    /// Enough to recognise a record by.
    const SHOWN_BYTES_MAX: usize = 40;
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if bytes.len() > SHOWN_BYTES_MAX => {
            format!("\"{}\"… ({} bytes)", bytes[..SHOWN_BYTES_MAX].escape_ascii(), bytes.len())
        }
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
    }
}
