//! Dead letters: the source record's bytes, and headers that say why and from where (KIP-1034 names, and our own). What
//! does not fit its topic becomes a stub, which says what the record was: place, lengths, hashes.

use crate::options::DeadLetterOptions;
use transom_engine::SourcePartition;
use transom_sdk::{Failure, Header, NewOutput, OutputBuffer, OutputId, PartitionId, Partitioning, Record, Timestamp};

/// Longest message kept in a header, in bytes: with the other headers it stays within a few KB, far from record limits.
const MESSAGE_BYTES_MAX: usize = 2048;
/// Longest key that a stub keeps: with its headers it stays within a few KB.
const STUB_KEY_BYTES_MAX: usize = 1024;

/// What a dead letter says beside the record itself.
pub(crate) struct DeadLetter<'a> {
    pub(crate) pipeline: &'a str,
    pub(crate) step: &'a str,
    pub(crate) failure: &'a Failure,
    pub(crate) attempts: u32,
    pub(crate) failed_at: Timestamp,
    pub(crate) form: Form<'a>,
}

/// How much of the source a dead letter holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// Key, value and headers, byte for byte.
    Whole,
    /// The same under today's timestamp: the topic would not take the record's own, which goes into a header.
    Restamped,
    /// None of the value and the headers: the topic would not take them.
    Stub {
        /// The broker's words.
        why: &'a str,
    },
}

/// Where the dead letters of a pipeline are appended: behind its routes.
pub(crate) fn dead_letter_output(routes: usize) -> OutputId {
    OutputId::from_index(u16::try_from(routes).unwrap_or(u16::MAX))
}

/// Appends the dead letter of `record`: key, value and header list byte for byte, then the added headers; or its stub.
pub(crate) fn append(
    outputs: &mut OutputBuffer,
    output: OutputId,
    source: (u32, SourcePartition),
    record: &Record<'_>,
    options: &DeadLetterOptions,
    letter: &DeadLetter<'_>,
) {
    let failure = letter.failure;
    let partition = record.partition().to_string();
    let offset = record.offset().to_string();
    let attempts = letter.attempts.to_string();
    let failed_at = letter.failed_at.as_millis().to_string();
    let fingerprint = fingerprint(letter.step, failure);
    let replay_count = record.header("__transom.dlq.replay_count").flatten().unwrap_or(b"0");
    let added: [(&str, &[u8]); 13] = [
        ("__streams.errors.exception", failure.exception().as_bytes()),
        ("__streams.errors.message", truncated(failure.message(), MESSAGE_BYTES_MAX).as_bytes()),
        ("__streams.errors.topic", record.topic().as_bytes()),
        ("__streams.errors.partition", partition.as_bytes()),
        ("__streams.errors.offset", offset.as_bytes()),
        ("__transom.dlq.pipeline", letter.pipeline.as_bytes()),
        ("__transom.dlq.step", letter.step.as_bytes()),
        ("__transom.dlq.code", failure.code().as_bytes()),
        ("__transom.dlq.class", failure.class().as_str().as_bytes()),
        ("__transom.dlq.attempts", attempts.as_bytes()),
        ("__transom.dlq.fingerprint", fingerprint.as_bytes()),
        ("__transom.dlq.failed_at", failed_at.as_bytes()),
        ("__transom.dlq.replay_count", replay_count),
    ];
    let substitutes = substitutes(record, letter.form);
    let (key, value, mut headers) = match letter.form {
        Form::Whole | Form::Restamped => (record.key(), record.value(), record.headers().to_vec()),
        Form::Stub { .. } => (record.key().filter(|key| key.len() <= STUB_KEY_BYTES_MAX), None, Vec::new()),
    };
    headers.extend(added.iter().map(|&(name, value)| Header { name: name.as_bytes(), value: Some(value) }));
    headers.extend(substitutes.iter().map(|(name, value)| Header { name: name.as_bytes(), value: Some(value.as_bytes()) }));
    let partition = PartitionId::new(record.partition().get() % options.partitions).unwrap_or_default();
    outputs.push(NewOutput {
        output,
        source: source.0,
        partitioning: Partitioning::Fixed(partition),
        timestamp: record.timestamp().filter(|_| matches!(letter.form, Form::Whole)),
        key,
        value,
        headers: &headers,
    });
}

/// Returns the headers that stand for what a dead letter leaves out.
fn substitutes(record: &Record<'_>, form: Form<'_>) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if let (Form::Restamped | Form::Stub { .. }, Some(timestamp)) = (form, record.timestamp()) {
        headers.push(("__transom.dlq.timestamp", timestamp.as_millis().to_string()));
    }
    let Form::Stub { why } = form else { return headers };
    headers.push(("__transom.dlq.stub", truncated(why, MESSAGE_BYTES_MAX).to_owned()));
    let parts = [
        ("__transom.dlq.key_bytes", "__transom.dlq.key_sha256", record.key()),
        ("__transom.dlq.value_bytes", "__transom.dlq.value_sha256", record.value()),
    ];
    // A null key or value has neither length nor hash.
    for (length, hash, bytes) in parts.into_iter().filter_map(|(length, hash, bytes)| Some((length, hash, bytes?))) {
        headers.push((length, bytes.len().to_string()));
        headers.push((hash, sha256(bytes)));
    }
    headers.push(("__transom.dlq.headers", record.headers().len().to_string()));
    headers
}

/// Returns 64 hex digits, as `sha256sum` prints them.
fn sha256(bytes: &[u8]) -> String {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns at most `bytes_max` bytes of `text`, cut at a character's end.
fn truncated(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns a stable word to group alike failures by: FNV-1a over step, code and exception, not the message, which often
/// holds the record's own data.
fn fingerprint(step: &str, failure: &Failure) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in [step, failure.code(), failure.exception()] {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::TopicId;
    use transom_sdk::Offset;

    #[test]
    fn a_dead_letter_is_the_record_byte_for_byte_and_says_why() {
        let headers = [Header { name: b"a", value: Some(b"1") }, Header { name: b"a", value: None }, Header { name: b"b", value: Some(b"") }];
        let partition = PartitionId::new(5).unwrap();
        let record = Record::new("orders", partition, Offset::new(175).unwrap())
            .with_key(Some(b"k"))
            .with_value(Some(b"\xff\x00"))
            .with_headers(&headers)
            .with_timestamp(Some(Timestamp::from_millis(7)));
        let failure = Failure::permanent("amount", "é".repeat(2000));
        let letter =
            DeadLetter { pipeline: "p", step: "clean", failure: &failure, attempts: 1, failed_at: Timestamp::from_millis(9), form: Form::Whole };
        let mut outputs = OutputBuffer::new();
        let options = DeadLetterOptions { topic: "orders_dlq".to_owned(), partitions: 3 };
        append(&mut outputs, dead_letter_output(1), (0, SourcePartition { topic: TopicId(0), partition }), &record, &options, &letter);
        let view = outputs.get(0).unwrap();
        assert_eq!((view.key(), view.value(), view.timestamp()), (record.key(), record.value(), record.timestamp()));
        assert_eq!(view.partitioning(), Partitioning::Fixed(PartitionId::new(2).unwrap()));
        let written: Vec<_> = view.headers().collect();
        assert_eq!(written[..3], headers);
        let value = |name: &str| written.iter().find(|h| h.name == name.as_bytes()).unwrap().value.unwrap();
        assert_eq!(value("__streams.errors.topic"), b"orders");
        assert_eq!(value("__streams.errors.partition"), b"5");
        assert_eq!(value("__streams.errors.offset"), b"175");
        assert_eq!(value("__transom.dlq.code"), b"amount");
        assert_eq!(value("__transom.dlq.class"), b"permanent");
        assert_eq!(value("__transom.dlq.replay_count"), b"0");
        assert_eq!(value("__streams.errors.message").len(), MESSAGE_BYTES_MAX);
        assert_eq!(value("__transom.dlq.fingerprint").len(), 16);
    }

    #[test]
    fn a_stub_says_what_the_record_was_and_keeps_the_reason() {
        let headers = [Header { name: b"a", value: Some(b"1") }];
        let partition = PartitionId::new(1).unwrap();
        let record = Record::new("orders", partition, Offset::new(9).unwrap()).with_key(Some(b"k")).with_value(Some(b"abc")).with_headers(&headers);
        let failure = Failure::permanent("amount", "not a number");
        let form = Form::Stub { why: "too large" };
        let letter = DeadLetter { pipeline: "p", step: "clean", failure: &failure, attempts: 1, failed_at: Timestamp::from_millis(9), form };
        let mut outputs = OutputBuffer::new();
        let options = DeadLetterOptions { topic: "orders_dlq".to_owned(), partitions: 3 };
        let place = SourcePartition { topic: TopicId(0), partition };
        append(&mut outputs, dead_letter_output(1), (0, place), &record, &options, &letter);
        let large = vec![b'k'; STUB_KEY_BYTES_MAX + 1];
        append(&mut outputs, dead_letter_output(1), (0, place), &record.with_key(Some(&large)).with_value(None), &options, &letter);

        let view = outputs.get(0).unwrap();
        assert_eq!((view.key(), view.value()), (Some(&b"k"[..]), None));
        let header = |index: usize, name: &str| {
            let found = outputs.get(index).unwrap().headers().find(|header| header.name == name.as_bytes())?;
            Some(String::from_utf8_lossy(found.value.unwrap()).into_owned())
        };
        // sha256sum of "abc": FIPS 180-2, appendix B.1.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (name, value) in [
            ("__streams.errors.message", "not a number"),
            ("__streams.errors.offset", "9"),
            ("__transom.dlq.code", "amount"),
            ("__transom.dlq.stub", "too large"),
            ("__transom.dlq.key_bytes", "1"),
            ("__transom.dlq.value_bytes", "3"),
            ("__transom.dlq.value_sha256", hash),
            ("__transom.dlq.headers", "1"),
        ] {
            assert_eq!(header(0, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(header(0, "a"), None);
        assert_eq!((outputs.get(1).unwrap().key(), header(1, "__transom.dlq.key_bytes").as_deref()), (None, Some("1025")));
        assert_eq!(header(1, "__transom.dlq.value_bytes"), None);
    }

    #[test]
    fn a_dead_letter_with_a_refused_timestamp_is_whole_and_names_it() {
        let partition = PartitionId::new(0).unwrap();
        let record =
            Record::new("orders", partition, Offset::new(9).unwrap()).with_value(Some(b"abc")).with_timestamp(Some(Timestamp::from_millis(7)));
        let failure = Failure::permanent("output_refused", "out of range");
        let failed_at = Timestamp::from_millis(9);
        let letter = DeadLetter { pipeline: "p", step: "clean", failure: &failure, attempts: 1, failed_at, form: Form::Restamped };
        let mut outputs = OutputBuffer::new();
        let options = DeadLetterOptions { topic: "orders_dlq".to_owned(), partitions: 1 };
        append(&mut outputs, dead_letter_output(1), (0, SourcePartition { topic: TopicId(0), partition }), &record, &options, &letter);
        let view = outputs.get(0).unwrap();
        assert_eq!((view.value(), view.timestamp()), (Some(&b"abc"[..]), None));
        let named = view.headers().find(|header| header.name == b"__transom.dlq.timestamp").unwrap();
        assert_eq!(named.value, Some(&b"7"[..]));
    }
}
