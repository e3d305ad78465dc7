//! Requests and answers as frames: a length, then that many bytes. Source: the Kafka protocol guide.

use std::io::Read;

use anyhow::{Context, ensure};

/// Larger than any request or answer here; beyond it the stream is no Kafka stream.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
const LENGTH_BYTES: usize = 4;
/// Where an answer's body begins: behind its length and its correlation id (answers with tagged headers have one byte more).
pub(super) const ANSWER_BODY: usize = LENGTH_BYTES + 4;

/// What every request begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) api_key: i16,
    pub(super) api_version: i16,
    pub(super) correlation_id: i32,
    pub(super) client_id: Option<String>,
}

impl Header {
    /// Reads the header of a whole frame, its length included.
    pub(super) fn of(frame: &[u8]) -> anyhow::Result<Self> {
        let mut rest = frame.get(LENGTH_BYTES..).context("a frame without a length")?;
        let api_key = i16::from_be_bytes(take(&mut rest)?);
        let api_version = i16::from_be_bytes(take(&mut rest)?);
        let correlation_id = i32::from_be_bytes(take(&mut rest)?);
        let length = i16::from_be_bytes(take(&mut rest)?);
        let client_id = match usize::try_from(length) {
            // -1: none.
            Err(_) => None,
            Ok(length) => Some(String::from_utf8_lossy(rest.get(..length).context("a client id cut short")?).into_owned()),
        };
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }
}

/// Reads one frame, its length included; an error at the end of the stream.
pub(super) fn read_frame(stream: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let bytes = usize::try_from(i32::from_be_bytes(length)).context("negative frame length")?;
    ensure!(bytes <= FRAME_BYTES_MAX, "a frame of {bytes} bytes");
    let mut frame = vec![0; LENGTH_BYTES + bytes];
    frame[..LENGTH_BYTES].copy_from_slice(&length);
    stream.read_exact(&mut frame[LENGTH_BYTES..])?;
    Ok(frame)
}

/// Returns which request an answer belongs to.
pub(super) fn correlation_id_of_answer(frame: &[u8]) -> anyhow::Result<i32> {
    let mut rest = frame.get(LENGTH_BYTES..).context("a frame without a length")?;
    Ok(i32::from_be_bytes(take(&mut rest)?))
}

fn take<const N: usize>(rest: &mut &[u8]) -> anyhow::Result<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>().context("a frame cut short")?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client_id: Option<&str>) -> Vec<u8> {
        let mut body = vec![0, 26, 0, 3, 0, 0, 1, 2];
        match client_id {
            None => body.extend([0xff, 0xff]),
            Some(id) => {
                body.extend(i16::try_from(id.len()).unwrap().to_be_bytes());
                body.extend(id.as_bytes());
            }
        }
        body.extend(b"the rest");
        let mut frame = i32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(body);
        frame
    }

    /// A stream that gives one byte at a time, as a slow network may.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(self.0.len()).min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn frames_are_cut_out_of_a_stream_whole_and_in_order() {
        let (first, second) = (request(Some("transom")), request(None));
        let both = [first.clone(), second.clone()].concat();
        let mut stream = Drops(&both);
        assert_eq!(read_frame(&mut stream).unwrap(), first);
        assert_eq!(read_frame(&mut stream).unwrap(), second);
        assert!(read_frame(&mut stream).is_err(), "the stream has ended");
    }

    #[test]
    fn a_header_tells_kind_version_number_and_client() {
        let header = Header::of(&request(Some("transom"))).unwrap();
        let expected = Header { api_key: 26, api_version: 3, correlation_id: 258, client_id: Some("transom".to_owned()) };
        assert_eq!(header, expected);
        assert_eq!(Header::of(&request(None)).unwrap().client_id, None);
        assert_eq!(correlation_id_of_answer(&[0, 0, 0, 4, 0, 0, 1, 2]).unwrap(), 258);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        assert!(read_frame(&mut Drops(&[0xff; 8])).is_err(), "a negative length");
        assert!(read_frame(&mut Drops(&[0x7f, 0xff, 0xff, 0xff])).is_err(), "two gigabytes");
        assert!(read_frame(&mut Drops(&[0, 0, 0, 9, 1])).is_err(), "cut short");
        assert!(Header::of(&[0, 0, 0, 2, 0, 26]).is_err());
        assert!(Header::of(&[0, 0, 0, 10, 0, 26, 0, 3, 0, 0, 1, 2, 0, 9]).is_err(), "a client id that is not there");
    }
}
