//! Frames of the Kafka protocol, as far as [`super`] needs them: fixed ones with lengths of two and four bytes, and flexible
//! ones (KIP-482) with variable lengths and tagged fields. Every read is checked against the frame's end.

use super::failed;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use transom_runtime::SourceError;

/// A broker that takes longer to accept is one that does not help.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a broker may take for one read or write.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Far above any answer asked for here.
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Far above any list asked for here; a larger count is a stream out of step.
const COUNT_MAX: usize = 1_000_000;

/// How lengths are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Fixed,
    Flexible,
}

/// A request's body.
pub(super) struct Writer {
    form: Form,
    body: Vec<u8>,
}

impl Writer {
    pub(super) fn fixed() -> Self {
        Self { form: Form::Fixed, body: Vec::new() }
    }

    pub(super) fn flexible() -> Self {
        Self { form: Form::Flexible, body: Vec::new() }
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Writes a length plus one, as flexible frames do.
    fn compact(mut self, length: usize) -> Self {
        let mut left = length + 1;
        while left >= 0x80 {
            self.body.push(u8::try_from(left & 0x7f).unwrap_or(0) | 0x80);
            left >>= 7;
        }
        self.body.push(u8::try_from(left).unwrap_or(0));
        self
    }

    pub(super) fn i32(self, number: i32) -> Self {
        self.put(&number.to_be_bytes())
    }

    pub(super) fn i64(self, number: i64) -> Self {
        self.put(&number.to_be_bytes())
    }

    pub(super) fn boolean(self, value: bool) -> Self {
        self.put(&[u8::from(value)])
    }

    /// Writes how many elements follow.
    pub(super) fn count(self, count: usize) -> Self {
        match self.form {
            Form::Fixed => self.put(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes()),
            Form::Flexible => self.compact(count),
        }
    }

    /// Writes a string; names are far below the limit of the fixed form.
    pub(super) fn string(self, text: &str) -> Self {
        let writer = match self.form {
            Form::Fixed => self.put(&i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes()),
            Form::Flexible => self.compact(text.len()),
        };
        writer.put(text.as_bytes())
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        self.count(bytes.len()).put(bytes)
    }

    /// Writes that there are no tagged fields.
    pub(super) fn tags(self) -> Self {
        self.put(&[0])
    }
}

/// An answer's body, read from its beginning.
pub(super) struct Reader {
    form: Form,
    frame: Vec<u8>,
    at: usize,
}

impl Reader {
    fn take(&mut self, length: usize) -> Result<&[u8], SourceError> {
        let from = self.at;
        let to = from.checked_add(length).filter(|to| *to <= self.frame.len()).ok_or_else(|| failed("an answer ends too soon"))?;
        self.at = to;
        Ok(&self.frame[from..to])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SourceError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    pub(super) fn i8(&mut self) -> Result<i8, SourceError> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, SourceError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, SourceError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, SourceError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a variable number: seven bits a byte, the lowest first.
    fn variable(&mut self) -> Result<usize, SourceError> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(failed("an answer is out of step"))
    }

    /// Reads a length; `None` is null.
    fn length(&mut self, fixed: impl FnOnce(&mut Self) -> Result<i64, SourceError>) -> Result<Option<usize>, SourceError> {
        match self.form {
            Form::Fixed => fixed(self).map(|length| usize::try_from(length).ok()),
            Form::Flexible => self.variable().map(|length| length.checked_sub(1)),
        }
    }

    /// Reads how many elements follow; null is none.
    pub(super) fn count(&mut self) -> Result<usize, SourceError> {
        let count = self.length(|reader| reader.i32().map(i64::from))?.unwrap_or(0);
        if count > COUNT_MAX { Err(failed("an answer is out of step")) } else { Ok(count) }
    }

    pub(super) fn string(&mut self) -> Result<Option<String>, SourceError> {
        let Some(length) = self.length(|reader| reader.i16().map(i64::from))? else { return Ok(None) };
        self.take(length).map(|bytes| Some(String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Passes over tagged fields.
    pub(super) fn tags(&mut self) -> Result<(), SourceError> {
        for _ in 0..self.variable()? {
            self.variable()?;
            let length = self.variable()?;
            self.take(length)?;
        }
        Ok(())
    }

    /// Reads an error code.
    pub(super) fn check(&mut self, what: &str) -> Result<(), SourceError> {
        match self.i16()? {
            0 => Ok(()),
            code => Err(failed(format!("{what}: {}", crate::handle::code_name(i32::from(code))))),
        }
    }
}

/// A connected socket; one request at a time.
pub(super) struct Connection {
    stream: TcpStream,
    address: String,
}

impl Connection {
    pub(super) fn open(address: &str) -> Result<Self, SourceError> {
        let said = |error: std::io::Error| failed(format!("broker {address}: {error}"));
        let resolved = address.to_socket_addrs().map_err(said)?.next().ok_or_else(|| failed(format!("broker {address} has no address")))?;
        let stream = TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT).map_err(said)?;
        stream.set_nodelay(true).map_err(said)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(said)?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(said)?;
        Ok(Self { stream, address: address.to_owned() })
    }

    /// Sends a request and returns its answer's body.
    pub(super) fn call(&mut self, api_key: i16, version: i16, request: Writer) -> Result<Reader, SourceError> {
        let form = request.form;
        let header = Writer::fixed().put(&api_key.to_be_bytes()).put(&version.to_be_bytes()).i32(0).string("transom");
        let header = if form == Form::Flexible { header.tags() } else { header };
        let length = u32::try_from(header.body.len() + request.body.len()).unwrap_or(u32::MAX);
        let frame = [&length.to_be_bytes()[..], &header.body, &request.body].concat();
        let answer = self.stream.write_all(&frame).and_then(|()| self.receive());
        let frame = answer.map_err(|error| failed(format!("broker {}: {error}", self.address)))?;
        let mut reader = Reader { form, frame, at: 0 };
        // One request at a time: the correlation id says nothing.
        reader.i32()?;
        if form == Form::Flexible {
            reader.tags()?;
        }
        Ok(reader)
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a frame of an impossible length"));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(form: Form, frame: Vec<u8>) -> Reader {
        Reader { form, frame, at: 0 }
    }

    #[test]
    fn what_is_written_is_read_in_both_forms() {
        let long = "x".repeat(300);
        for writer in [Writer::fixed(), Writer::flexible()] {
            let form = writer.form;
            let mut read = reader(form, writer.count(200).string("in").string(&long).i32(-7).i64(1 << 40).tags().body);
            assert_eq!(read.count().unwrap(), 200);
            assert_eq!((read.string().unwrap().as_deref(), read.string().unwrap()), (Some("in"), Some(long.clone())));
            assert_eq!((read.i32().unwrap(), read.i64().unwrap()), (-7, 1 << 40));
            read.tags().unwrap();
            assert!(read.i8().is_err(), "nothing is left");
        }
    }

    #[test]
    fn null_and_tagged_fields_are_passed_over() {
        let mut flexible = reader(Form::Flexible, vec![0, 0, 1, 5, 2, 9, 9, 7]);
        assert_eq!((flexible.string().unwrap(), flexible.count().unwrap()), (None, 0));
        flexible.tags().unwrap();
        assert_eq!(flexible.i8().unwrap(), 7);
        let mut fixed = reader(Form::Fixed, vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!((fixed.string().unwrap(), fixed.count().unwrap()), (None, 0));
    }

    #[test]
    fn a_broken_answer_is_an_error_and_no_more() {
        assert!(reader(Form::Flexible, vec![0xff; 9]).count().is_err());
        assert!(reader(Form::Flexible, vec![9, b'a']).string().is_err());
        assert!(reader(Form::Fixed, vec![0x7f, 0xff, 0xff, 0xff]).count().is_err());
    }
}
