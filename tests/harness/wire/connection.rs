//! One socket to one broker: framing, correlation, version negotiation.
//!
//! Source: the Kafka protocol guide. Requests are answered one at a time, so no pipelining and no reordering.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message, Request, StrBytes, VersionRange};

/// A local broker answers a connect at once; a frozen one must not hold a test for long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the broker-side time-outs sent in requests, so that the broker's own answer arrives first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Far above any fetch asked for here; a larger frame is a broken stream, not an answer.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The version every broker answers, whatever it is.
const API_VERSIONS_VERSION: i16 = 0;

/// The versions this client wants to speak of one request, both ends inclusive.
///
/// The upper ends keep topic *names* in requests (topic ids came later) and the transaction protocol before KIP-890
/// part 2, which is what librdkafka speaks too. The lower ends are where the batched form of a request begins.
fn wanted_versions(api_key: i16) -> VersionRange {
    let (min, max) = match ApiKey::try_from(api_key) {
        Ok(ApiKey::Produce) => (7, 11),
        Ok(ApiKey::Fetch) => (10, 12),
        Ok(ApiKey::ListOffsets) => (4, 9),
        Ok(ApiKey::Metadata) => (4, 12),
        Ok(ApiKey::DeleteTopics) => (1, 5),
        Ok(ApiKey::FindCoordinator) => (4, 6),
        Ok(ApiKey::OffsetFetch) => (8, 9),
        Ok(ApiKey::OffsetCommit) => (2, 9),
        Ok(ApiKey::DescribeGroups) => (0, 5),
        Ok(ApiKey::InitProducerId) => (0, 4),
        Ok(ApiKey::AddPartitionsToTxn) => (0, 3),
        Ok(ApiKey::AddOffsetsToTxn) => (0, 3),
        Ok(ApiKey::TxnOffsetCommit) => (0, 3),
        Ok(ApiKey::EndTxn) => (0, 3),
        _ => (0, i16::MAX),
    };
    VersionRange { min, max }
}

/// A connected socket and what its broker speaks.
pub(super) struct Connection {
    stream: TcpStream,
    versions: HashMap<i16, VersionRange>,
    correlation_id_next: i32,
}

impl Connection {
    /// Connects and asks for the broker's versions.
    pub(super) fn open(address: &str) -> Result<Self> {
        let resolved =
            address.to_socket_addrs().with_context(|| format!("resolving {address}"))?.next().with_context(|| format!("{address} has no address"))?;
        let stream = TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut connection = Self { stream, versions: HashMap::new(), correlation_id_next: 0 };
        let answer: ApiVersionsResponse = connection.exchange(&ApiVersionsRequest::default(), API_VERSIONS_VERSION)?;
        ensure!(answer.error_code == 0, "broker {address} refused the version request: {}", answer.error_code);
        connection.versions =
            answer.api_keys.into_iter().map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version })).collect();
        Ok(connection)
    }

    /// Sends one request in the highest version all sides speak and waits for its answer.
    pub(super) fn call<R: Request>(&mut self, request: &R) -> Result<R::Response> {
        let Some(broker) = self.versions.get(&R::KEY) else {
            bail!("the broker does not know request {}", R::KEY);
        };
        let common = broker.intersect(&R::VERSIONS).intersect(&<R::Response as Message>::VERSIONS).intersect(&wanted_versions(R::KEY));
        ensure!(!common.is_empty(), "no common version of request {}: the broker speaks {broker}", R::KEY);
        self.exchange(request, common.max)
    }

    fn exchange<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        let correlation_id = self.correlation_id_next;
        self.correlation_id_next = self.correlation_id_next.wrapping_add(1);
        self.send(request, version, correlation_id)?;
        let mut frame = self.receive()?;
        let header = ResponseHeader::decode(&mut frame, <R::Response as HeaderVersion>::header_version(version))?;
        ensure!(header.correlation_id == correlation_id, "answer {} to request {correlation_id}: the stream is out of step", header.correlation_id);
        R::Response::decode(&mut frame, version).with_context(|| format!("answer to request {} v{version}", R::KEY))
    }

    fn send<R: Request>(&mut self, request: &R, version: i16, correlation_id: i32) -> Result<()> {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("oracle")));
        let mut frame = BytesMut::new();
        frame.extend_from_slice(&[0; 4]);
        header.encode(&mut frame, R::header_version(version))?;
        request.encode(&mut frame, version).with_context(|| format!("request {} v{version}", R::KEY))?;
        let length = u32::try_from(frame.len() - 4).context("request too large for one frame")?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Bytes> {
        let mut length = [0_u8; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes: the stream is out of step");
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(Bytes::from(frame))
    }
}
