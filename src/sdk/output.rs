//! The output side: an arena of encoded outputs that one batch fills and one transaction sends.
//!
//! Everything a transform emits lies in one byte arena; entries hold ranges into it. A [`Savepoint`] marks a length: an
//! attempt that fails is undone by truncation, so a half-done fan-out leaves nothing (EO-1).

use crate::key_pointer::KeyPointer;
use crate::record::{Header, PartitionId, Timestamp};
use std::ops::Range;

/// Which of the pipeline's outputs an emitted record goes to; resolved from its name once, at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId(u16);

impl OutputId {
    /// The output named `default`, which every pipeline has.
    pub const DEFAULT: Self = Self(0);

    /// Returns the id of the output at this place of [`Routes`].
    #[inline]
    pub const fn from_index(index: u16) -> Self {
        Self(index)
    }

    /// Returns the place in [`Routes`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One named output of a pipeline.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name transforms use.
    pub name: String,
    /// The topic it stands for.
    pub topic: String,
    /// Where in the value the key is found, if the pipeline chose one.
    pub key: Option<KeyPointer>,
}

/// The outputs of a pipeline, `default` first.
#[derive(Clone, Debug)]
pub struct Routes {
    // Invariant: not empty, first is `default`, at most u16::MAX.
    routes: Vec<Route>,
}

impl Routes {
    /// Returns the routes.
    ///
    /// # Panics
    /// When the first is not named `default`, or there are more than 65,535.
    #[inline]
    pub fn new(routes: Vec<Route>) -> Self {
        assert!(routes.first().is_some_and(|route| route.name == "default"), "the first route is named default");
        assert!(routes.len() <= usize::from(u16::MAX), "too many routes");
        Self { routes }
    }

    /// Returns the id of a named output.
    #[inline]
    pub fn id(&self, name: &str) -> Option<OutputId> {
        let index = self.routes.iter().position(|route| route.name == name)?;
        u16::try_from(index).ok().map(OutputId)
    }

    /// Returns the route of an id.
    #[inline]
    pub fn get(&self, id: OutputId) -> &Route {
        &self.routes[id.index()]
    }

    /// Returns all routes, in the order of their ids.
    #[inline]
    pub fn as_slice(&self) -> &[Route] {
        &self.routes
    }
}

/// How an output's partition is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// murmur2 of the key, as Kafka's Java client does; any partition when the key is null.
    ByKey,
    /// This partition. Dead letters use it: source partition modulo the partitions of their topic.
    Fixed(PartitionId),
}

/// A length of an [`OutputBuffer`] to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Savepoint {
    bytes: usize,
    entries: usize,
    headers: usize,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    output: OutputId,
    source: u32,
    partitioning: Partitioning,
    timestamp: Option<Timestamp>,
    key: Option<Span>,
    value: Option<Span>,
    headers: Range<u32>,
}

/// An output to append, borrowed from wherever it lies.
#[derive(Clone, Copy, Debug)]
pub struct NewOutput<'a> {
    /// Where to.
    pub output: OutputId,
    /// Index of the input record within its batch.
    pub source: u32,
    /// Which partition.
    pub partitioning: Partitioning,
    /// Record timestamp.
    pub timestamp: Option<Timestamp>,
    /// Key bytes or null.
    pub key: Option<&'a [u8]>,
    /// Value bytes or null.
    pub value: Option<&'a [u8]>,
    /// The whole header list.
    pub headers: &'a [Header<'a>],
}

/// One appended output, borrowed from the arena.
#[derive(Clone, Copy, Debug)]
pub struct OutputView<'a> {
    buffer: &'a OutputBuffer,
    entry: &'a Entry,
}

impl<'a> OutputView<'a> {
    /// Returns where it goes.
    #[inline]
    pub const fn output(&self) -> OutputId {
        self.entry.output
    }

    /// Returns the index of the input record within its batch.
    #[inline]
    pub const fn source(&self) -> u32 {
        self.entry.source
    }

    /// Returns how its partition is found.
    #[inline]
    pub const fn partitioning(&self) -> Partitioning {
        self.entry.partitioning
    }

    /// Returns its timestamp; `None` leaves it to the client (now).
    #[inline]
    pub const fn timestamp(&self) -> Option<Timestamp> {
        self.entry.timestamp
    }

    /// Returns its key.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.entry.key.map(|span| self.buffer.slice(span))
    }

    /// Returns its value; `None` is a tombstone.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.entry.value.map(|span| self.buffer.slice(span))
    }

    /// Returns its headers in order.
    #[inline]
    pub fn headers(&self) -> impl ExactSizeIterator<Item = Header<'a>> + use<'a> {
        let buffer = self.buffer;
        let range = self.entry.headers.start as usize..self.entry.headers.end as usize;
        buffer.headers[range].iter().map(move |&(name, value)| Header { name: buffer.slice(name), value: value.map(|span| buffer.slice(span)) })
    }

    /// Returns the bytes of key and value together.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.entry.key.map_or(0, |span| span.len as usize) + self.entry.value.map_or(0, |span| span.len as usize)
    }
}

/// The arena of one batch.
#[derive(Clone, Debug, Default)]
pub struct OutputBuffer {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    headers: Vec<(Span, Option<Span>)>,
}

impl OutputBuffer {
    /// Returns an empty arena.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many outputs it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether it holds no output.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many bytes of keys, values and headers it holds.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all outputs and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.headers.clear();
    }

    /// Returns the present length.
    #[inline]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { bytes: self.bytes.len(), entries: self.entries.len(), headers: self.headers.len() }
    }

    /// Undoes everything appended since `savepoint`.
    ///
    /// # Panics
    /// When the buffer is shorter than the savepoint: it belongs to another batch.
    #[inline]
    pub fn restore(&mut self, savepoint: Savepoint) {
        assert!(savepoint.bytes <= self.bytes.len() && savepoint.entries <= self.entries.len(), "a savepoint of another batch");
        self.bytes.truncate(savepoint.bytes);
        self.entries.truncate(savepoint.entries);
        self.headers.truncate(savepoint.headers);
    }

    /// Returns how many outputs were appended since `savepoint`.
    #[inline]
    pub fn appended_since(&self, savepoint: Savepoint) -> usize {
        self.entries.len() - savepoint.entries
    }

    /// Returns the outputs in the order they were appended.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = OutputView<'_>> {
        self.entries.iter().map(|entry| OutputView { buffer: self, entry })
    }

    /// Returns the output at `index`, in the order of appending.
    #[inline]
    pub fn get(&self, index: usize) -> Option<OutputView<'_>> {
        self.entries.get(index).map(|entry| OutputView { buffer: self, entry })
    }

    /// Appends an output, copying its parts into the arena.
    #[inline]
    pub fn push(&mut self, new: NewOutput<'_>) {
        let headers = self.header_mark();
        for header in new.headers {
            self.push_header(*header);
        }
        let key = new.key.map(|key| self.append(key));
        let value = new.value.map(|value| self.append(value));
        self.finish(new.output, new.source, new.partitioning, new.timestamp, (key, value), headers);
    }

    fn finish(
        &mut self,
        output: OutputId,
        source: u32,
        partitioning: Partitioning,
        timestamp: Option<Timestamp>,
        (key, value): (Option<Span>, Option<Span>),
        headers_start: u32,
    ) {
        let headers = headers_start..self.header_mark();
        self.entries.push(Entry { output, source, partitioning, timestamp, key, value, headers });
    }

    #[inline]
    pub(crate) fn header_mark(&self) -> u32 {
        narrow(self.headers.len())
    }

    #[inline]
    pub(crate) fn truncate_headers(&mut self, mark: u32) {
        self.headers.truncate(mark as usize);
    }

    #[inline]
    pub(crate) fn push_header(&mut self, header: Header<'_>) {
        let name = self.append(header.name);
        let value = header.value.map(|value| self.append(value));
        self.headers.push((name, value));
    }

    /// Appends the value `write` makes, then an entry for it. The key is what `key` makes of the value's bytes.
    #[inline]
    pub(crate) fn push_written<E>(
        &mut self,
        head: EntryHead,
        key: KeySource<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        key_error: impl FnOnce(crate::KeyPointerError) -> E,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        write(&mut self.bytes)?;
        let value = Span { start: narrow(start), len: narrow(self.bytes.len() - start) };
        let key = match key {
            KeySource::Null => None,
            KeySource::Bytes(bytes) => Some(self.append(bytes)),
            KeySource::Pointer(pointer) => {
                // The key is read from the value and written behind it, in the same arena: split so that both can be held.
                let mut key = Vec::with_capacity(32);
                pointer.extract(self.slice(value), &mut key).map_err(key_error)?;
                Some(self.append(&key))
            }
        };
        self.finish(head.output, head.source, Partitioning::ByKey, head.timestamp, (key, Some(value)), head.headers_start);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_tombstone(&mut self, head: EntryHead, key: Option<&[u8]>) {
        let key = key.map(|key| self.append(key));
        self.finish(head.output, head.source, Partitioning::ByKey, head.timestamp, (key, None), head.headers_start);
    }

    fn append(&mut self, bytes: &[u8]) -> Span {
        let start = narrow(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
        Span { start, len: narrow(bytes.len()) }
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..span.start as usize + span.len as usize]
    }
}

/// What an entry has besides key and value.
#[derive(Clone, Copy)]
pub(crate) struct EntryHead {
    pub(crate) output: OutputId,
    pub(crate) source: u32,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) headers_start: u32,
}

/// Where an output's key comes from.
pub(crate) enum KeySource<'a> {
    Null,
    Bytes(&'a [u8]),
    Pointer(&'a KeyPointer),
}

/// Arena places are 32 bits wide: half the size of an entry, and a batch is capped far below 4 GiB.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("a batch's arena stays below 4 GiB; the byte cap closes it long before")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_savepoint_leaves_nothing_behind() {
        let mut buffer = OutputBuffer::new();
        let output = NewOutput {
            output: OutputId::DEFAULT,
            source: 0,
            partitioning: Partitioning::ByKey,
            timestamp: None,
            key: Some(b"k"),
            value: Some(b"v"),
            headers: &[Header { name: b"h", value: None }],
        };
        buffer.push(output);
        let savepoint = buffer.savepoint();
        buffer.push(NewOutput { value: None, ..output });
        buffer.push(output);
        assert_eq!(buffer.appended_since(savepoint), 2);
        buffer.restore(savepoint);
        assert_eq!(buffer.len(), 1);
        assert_eq!(buffer.savepoint(), savepoint);
        let first = buffer.get(0).unwrap();
        assert_eq!((first.key(), first.value()), (Some(&b"k"[..]), Some(&b"v"[..])));
        assert_eq!(first.headers().collect::<Vec<_>>(), vec![Header { name: b"h", value: None }]);
    }
}
