//! Answers the proxy gives itself, in the broker's place: one error code for the whole request.

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnResponse, FindCoordinatorResponse, InitProducerIdResponse,
    RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

use super::frame::Header;
use super::rule::kind;

/// Returns the frame that answers a request with an error code.
pub(super) fn refusal(frame: &[u8], header: &Header, error: i16) -> anyhow::Result<Vec<u8>> {
    let version = header.api_version;
    match header.api_key {
        // From version 4 on the code stands beside each of several keys.
        kind::FIND_COORDINATOR if version < 4 => answer(header, &FindCoordinatorResponse::default().with_error_code(error)),
        kind::INIT_PRODUCER_ID => answer(header, &InitProducerIdResponse::default().with_error_code(error)),
        kind::ADD_OFFSETS_TO_TXN => answer(header, &AddOffsetsToTxnResponse::default().with_error_code(error)),
        kind::END_TXN => answer(header, &EndTxnResponse::default().with_error_code(error)),
        kind::ADD_PARTITIONS_TO_TXN => {
            let mut body = Bytes::copy_from_slice(frame.get(4..).context("a frame without a length")?);
            RequestHeader::decode(&mut body, AddPartitionsToTxnRequest::header_version(version))?;
            let request = AddPartitionsToTxnRequest::decode(&mut body, version)?;
            let refused =
                |partition: i32| AddPartitionsToTxnPartitionResult::default().with_partition_index(partition).with_partition_error_code(error);
            let topics = request.v3_and_below_topics.into_iter().map(|topic| {
                let partitions = topic.partitions.into_iter().map(refused).collect();
                AddPartitionsToTxnTopicResult::default().with_name(topic.name).with_results_by_partition(partitions)
            });
            answer(header, &AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics.collect()))
        }
        other => bail!("the proxy cannot answer requests of kind {other}, version {version}"),
    }
}

fn answer<T: Encodable + HeaderVersion>(header: &Header, body: &T) -> anyhow::Result<Vec<u8>> {
    let version = header.api_version;
    let mut bytes = BytesMut::new();
    ResponseHeader::default().with_correlation_id(header.correlation_id).encode(&mut bytes, T::header_version(version))?;
    body.encode(&mut bytes, version)?;
    let mut frame = u32::try_from(bytes.len())?.to_be_bytes().to_vec();
    frame.extend_from_slice(&bytes);
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn every_partition_of_a_refused_request_gets_the_error() {
        let topic = AddPartitionsToTxnTopic::default().with_name(StrBytes::from_static_str("out").into()).with_partitions(vec![0, 3]);
        let request = AddPartitionsToTxnRequest::default().with_v3_and_below_topics(vec![topic]);
        let mut bytes = BytesMut::from(&[0; 4][..]);
        let header = RequestHeader::default().with_request_api_key(kind::ADD_PARTITIONS_TO_TXN).with_request_api_version(0).with_correlation_id(9);
        header.encode(&mut bytes, AddPartitionsToTxnRequest::header_version(0)).unwrap();
        request.encode(&mut bytes, 0).unwrap();

        let frame = refusal(&bytes, &Header::of(&bytes).unwrap(), 51).unwrap();
        let mut rest = Bytes::copy_from_slice(&frame[4..]);
        assert_eq!(ResponseHeader::decode(&mut rest, 0).unwrap().correlation_id, 9);
        let answer = AddPartitionsToTxnResponse::decode(&mut rest, 0).unwrap();
        let codes = answer.results_by_topic_v3_and_below[0].results_by_partition.iter();
        assert_eq!(codes.map(|result| (result.partition_index, result.partition_error_code)).collect::<Vec<_>>(), [(0, 51), (3, 51)]);
    }
}
