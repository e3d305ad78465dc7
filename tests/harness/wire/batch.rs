//! Record batches (format v2) to bytes and back.
//!
//! The protocol crate's own record type keeps headers in a map, which loses repeated names; the oracle must see every
//! header in its place, so the format is read and written here. Compression and messages stay the crate's.
//! Source: the "Record Batch" chapter of the Kafka protocol documentation.

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::compression::{Compressor, Decompressor, Gzip, Lz4, Snappy};

use super::records::{Compression, Headers, NewRecord, ReadRecord};

/// Base offset and batch length, which the length does not count.
const PREFIX_BYTES: usize = 12;
/// From the leader epoch to the record count, inclusive.
const HEADER_BYTES: usize = 49;
/// Leader epoch, magic and the checksum itself: what the checksum does not cover.
const UNCHECKED_BYTES: usize = 9;
const MAGIC: i8 = 2;
const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// Who writes a batch and where it stands in the writer's sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
    pub(super) is_transactional: bool,
}

/// One batch of the log; its records are still encoded.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    attributes: i16,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    record_count: i32,
    payload: Bytes,
}

/// What a control batch says of the transaction before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Abort,
    Commit,
    /// A marker that ends no transaction (leader changes, for instance).
    Other,
}

/// Takes the next whole batch off a fetch answer; `None` at the end or when the broker cut the last one short.
pub(super) fn next_batch(log: &mut Bytes) -> Result<Option<Batch>> {
    if log.len() < PREFIX_BYTES + HEADER_BYTES {
        return Ok(None);
    }
    let mut prefix = log.slice(..PREFIX_BYTES);
    let base_offset = prefix.get_i64();
    let length = usize::try_from(prefix.get_i32()).context("negative batch length")?;
    ensure!(length >= HEADER_BYTES, "a batch of {length} bytes at offset {base_offset}");
    if log.len() < PREFIX_BYTES + length {
        return Ok(None);
    }
    let mut body = log.split_to(PREFIX_BYTES + length).slice(PREFIX_BYTES..);
    let checked = body.slice(UNCHECKED_BYTES..);
    let _leader_epoch = body.get_i32();
    let magic = body.get_i8();
    ensure!(magic == MAGIC, "record batch format {magic} at offset {base_offset}");
    let checksum = body.get_u32();
    ensure!(checksum == crc32c(&checked), "checksum of the batch at offset {base_offset} is wrong");
    let attributes = body.get_i16();
    let last_offset = base_offset + i64::from(body.get_i32());
    let base_timestamp_ms = body.get_i64();
    let max_timestamp_ms = body.get_i64();
    let producer_id = body.get_i64();
    let producer_epoch = body.get_i16();
    let _base_sequence = body.get_i32();
    let record_count = body.get_i32();
    ensure!(record_count >= 0, "a batch of {record_count} records at offset {base_offset}");
    Ok(Some(Batch {
        base_offset,
        last_offset,
        producer_id,
        producer_epoch,
        attributes,
        base_timestamp_ms,
        max_timestamp_ms,
        record_count,
        payload: body,
    }))
}

impl Batch {
    pub(super) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(super) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Decodes the records; `partition` is only noted in them.
    pub(super) fn records(&self, partition: i32) -> Result<Vec<ReadRecord>> {
        let mut payload = self.decompressed().with_context(|| format!("batch at {partition}:{}", self.base_offset))?;
        let mut records = Vec::new();
        for _ in 0..self.record_count {
            records.push(self.record(partition, &mut payload)?);
        }
        ensure!(!payload.has_remaining(), "bytes after the last record of batch {}", self.base_offset);
        Ok(records)
    }

    /// Reads a control batch's marker.
    pub(super) fn marker(&self) -> Result<Marker> {
        let records = self.records(0)?;
        let key = records.first().and_then(|record| record.key.as_deref()).context("a control batch without key")?;
        ensure!(key.len() >= 4, "a control key of {} bytes", key.len());
        Ok(match i16::from_be_bytes([key[2], key[3]]) {
            0 => Marker::Abort,
            1 => Marker::Commit,
            _ => Marker::Other,
        })
    }

    fn decompressed(&self) -> Result<Bytes> {
        let keep = |bytes: &mut Bytes| Ok(bytes.split_to(bytes.len()));
        let mut payload = self.payload.clone();
        match self.attributes & COMPRESSION_MASK {
            0 => Ok(payload),
            1 => Gzip::decompress(&mut payload, keep),
            2 => Snappy::decompress(&mut payload, keep),
            3 => Lz4::decompress(&mut payload, keep),
            other => bail!("compression {other} is not spoken by the oracle"),
        }
    }

    fn record(&self, partition: i32, payload: &mut Bytes) -> Result<ReadRecord> {
        let length = usize::try_from(varint(payload)?).context("negative record length")?;
        let mut body = take(payload, length)?;
        let _attributes = take(&mut body, 1)?;
        let timestamp_delta = varint(&mut body)?;
        let offset_delta = varint(&mut body)?;
        let key = nullable(&mut body)?;
        let value = nullable(&mut body)?;
        let headers = read_headers(&mut body)?;
        ensure!(!body.has_remaining(), "bytes after a record of batch {}", self.base_offset);
        let timestamp_ms = if self.attributes & LOG_APPEND_TIME == 0 { self.base_timestamp_ms + timestamp_delta } else { self.max_timestamp_ms };
        Ok(ReadRecord {
            partition,
            offset: self.base_offset + offset_delta,
            timestamp_ms,
            key,
            value,
            headers,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
        })
    }
}

/// Encodes one batch; its base offset is the broker's to give.
pub(super) fn encode(records: &[NewRecord], compression: Compression, writer: Writer) -> Result<Bytes> {
    let first = records.first().context("a batch has at least one record")?;
    let max_timestamp_ms = records.iter().map(|record| record.timestamp_ms).max().unwrap_or(first.timestamp_ms);
    let count = i32::try_from(records.len())?;
    let mut plain = BytesMut::new();
    for (index, record) in records.iter().enumerate() {
        write_record(&mut plain, record, i64::try_from(index)?, first.timestamp_ms)?;
    }
    let mut attributes = if writer.is_transactional { TRANSACTIONAL } else { 0 };
    let payload = match compression {
        Compression::None => plain,
        Compression::Lz4 => {
            attributes |= 3;
            let mut compressed = BytesMut::new();
            Lz4::compress(&mut compressed, |target: &mut BytesMut| {
                target.extend_from_slice(&plain);
                Ok(())
            })?;
            compressed
        }
    };
    let mut checked = BytesMut::with_capacity(HEADER_BYTES + payload.len());
    checked.put_i16(attributes);
    checked.put_i32(count - 1);
    checked.put_i64(first.timestamp_ms);
    checked.put_i64(max_timestamp_ms);
    checked.put_i64(writer.producer_id);
    checked.put_i16(writer.producer_epoch);
    checked.put_i32(writer.base_sequence);
    checked.put_i32(count);
    checked.extend_from_slice(&payload);
    let mut batch = BytesMut::with_capacity(PREFIX_BYTES + UNCHECKED_BYTES + checked.len());
    batch.put_i64(0);
    batch.put_i32(i32::try_from(UNCHECKED_BYTES + checked.len())?);
    batch.put_i32(-1);
    batch.put_i8(MAGIC);
    batch.put_u32(crc32c(&checked));
    batch.extend_from_slice(&checked);
    Ok(batch.freeze())
}

fn write_record(target: &mut BytesMut, record: &NewRecord, index: i64, base_timestamp_ms: i64) -> Result<()> {
    let mut body = BytesMut::with_capacity(record.encoded_bytes_max());
    body.put_i8(0);
    put_varint(&mut body, record.timestamp_ms - base_timestamp_ms);
    put_varint(&mut body, index);
    put_nullable(&mut body, record.key.as_deref())?;
    put_nullable(&mut body, record.value.as_deref())?;
    put_varint(&mut body, i64::try_from(record.headers.len())?);
    for (name, value) in &record.headers {
        put_nullable(&mut body, Some(name.as_bytes()))?;
        put_nullable(&mut body, value.as_deref())?;
    }
    put_varint(target, i64::try_from(body.len())?);
    target.extend_from_slice(&body);
    Ok(())
}

fn read_headers(body: &mut Bytes) -> Result<Headers> {
    let count = varint(body)?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = nullable(body)?.context("a header without name")?;
        let name = String::from_utf8(name).context("a header name that is not UTF-8")?;
        headers.push((name, nullable(body)?));
    }
    Ok(headers)
}

fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes> {
    ensure!(bytes.len() >= length, "{length} bytes wanted, {} left", bytes.len());
    Ok(bytes.split_to(length))
}

fn nullable(bytes: &mut Bytes) -> Result<Option<Vec<u8>>> {
    match varint(bytes)? {
        -1 => Ok(None),
        length => Ok(Some(take(bytes, usize::try_from(length).context("negative length")?)?.to_vec())),
    }
}

fn put_nullable(target: &mut BytesMut, bytes: Option<&[u8]>) -> Result<()> {
    match bytes {
        None => put_varint(target, -1),
        Some(bytes) => {
            put_varint(target, i64::try_from(bytes.len())?);
            target.extend_from_slice(bytes);
        }
    }
    Ok(())
}

fn varint(bytes: &mut Bytes) -> Result<i64> {
    let mut raw = 0_u64;
    for shift in (0..64).step_by(7) {
        ensure!(bytes.has_remaining(), "a number is cut short");
        let byte = bytes.get_u8();
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
        }
    }
    bail!("a number longer than ten bytes")
}

fn put_varint(target: &mut BytesMut, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        target.put_u8((raw & 0x7f) as u8 | 0x80);
        raw >>= 7;
    }
    target.put_u8(raw as u8);
}

/// The checksum of record batches (Castagnoli), byte by byte: fast enough for a test.
fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc32c_table();
    !data.iter().fold(!0_u32, |sum, byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

const fn crc32c_table() -> [u32; 256] {
    let mut table = [0_u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut sum = index as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> Writer {
        Writer { producer_id: 7, producer_epoch: 3, base_sequence: 0, is_transactional: true }
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_survive_the_round_trip() {
        for value in [0, -1, 1, 63, -64, 64, 1 << 40, i64::MAX, i64::MIN] {
            let mut bytes = BytesMut::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&mut bytes.freeze()).unwrap(), value);
        }
    }

    /// Goal: headers keep order, duplicates and nulls; times may go back; nulls stay nulls, in both compressions.
    #[test]
    fn records_survive_the_round_trip_to_the_last_byte() {
        let written = [
            NewRecord::new("k", "v").with_header("a", "1").with_null_header("a").with_header("a", "").at_ms(1000),
            NewRecord { key: None, value: None, headers: vec![], timestamp_ms: 5 },
            NewRecord::new(vec![0xff, 0], vec![0; 10_000]).at_ms(2000),
        ];
        for compression in [Compression::None, Compression::Lz4] {
            let mut log = encode(&written, compression, writer()).unwrap();
            let batch = next_batch(&mut log).unwrap().expect("one batch");
            assert!(log.is_empty() && batch.is_transactional() && !batch.is_control());
            assert_eq!((batch.last_offset, batch.max_timestamp_ms), (2, 2000));
            for (offset, (read, written)) in batch.records(4).unwrap().iter().zip(&written).enumerate() {
                assert_eq!((read.partition, read.offset), (4, offset as i64));
                assert_eq!((&read.key, &read.value), (&written.key, &written.value));
                assert_eq!((&read.headers, read.timestamp_ms), (&written.headers, written.timestamp_ms));
                assert_eq!((read.producer_id, read.producer_epoch), (7, 3));
            }
        }
    }

    #[test]
    fn a_batch_cut_short_is_left_alone_and_a_spoilt_one_is_refused() {
        let whole = encode(&[NewRecord::new("k", "v")], Compression::None, writer()).unwrap();
        assert!(next_batch(&mut whole.slice(..whole.len() - 1)).unwrap().is_none());
        let mut spoilt = whole.to_vec();
        *spoilt.last_mut().unwrap() ^= 1;
        assert!(next_batch(&mut Bytes::from(spoilt)).unwrap_err().to_string().contains("checksum"));
    }
}
