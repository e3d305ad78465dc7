//! The client against a real broker. Each test has topics of its own and leaves them behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kafka_protocol::ResponseError;

use super::records::now_ms;
use super::{Client, CommittedOffset, Compression, EndOffsets, NewRecord, OffsetsAsked, ReadRecord, Transaction, error_code, partition_for_key};
use crate::oracle::no_open_transactions;

fn client() -> Client {
    Client::connect(&bootstrap()).unwrap()
}

/// A name no other test and no earlier run has.
fn fresh(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("wire-{name}-{}-{}", now_ms(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn fresh_topic(client: &Client, partitions: i32) -> String {
    let topic = fresh("topic");
    client.create_topic(&topic, partitions, &[]).unwrap();
    topic
}

fn numbered(range: std::ops::Range<i32>) -> Vec<NewRecord> {
    range.map(|n| NewRecord::new(format!("k{n}"), format!("v{n}")).at_ms(i64::from(1_000_000 + n))).collect()
}

fn values(records: &[ReadRecord]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.value.clone().unwrap()).unwrap()).collect()
}

#[test]
fn records_come_back_to_the_last_byte() {
    for compression in [Compression::None, Compression::Lz4] {
        let client = client().with_compression(compression);
        let topic = fresh_topic(&client, 1);
        let written = vec![
            NewRecord::new("k", "v").with_header("a", "1").with_null_header("a").with_header("a", "1").at_ms(5000),
            NewRecord::tombstone(vec![0xff, 0x00]).at_ms(4000),
            NewRecord::keyless("").at_ms(6000),
        ];
        assert_eq!(client.produce(&topic, 0, &written).unwrap(), [0, 1, 2]);
        let read = client.read_committed(&topic).unwrap();
        assert_eq!(read, client.read_uncommitted(&topic).unwrap());
        assert_eq!(read.len(), 3);
        for (read, written) in read.iter().zip(written) {
            let back = NewRecord { key: read.key.clone(), value: read.value.clone(), headers: read.headers.clone(), timestamp_ms: read.timestamp_ms };
            assert_eq!(back, written);
        }
    }
}

#[test]
fn many_records_take_many_batches_and_keep_their_order() {
    let client = client();
    let topic = fresh_topic(&client, 3);
    let records: Vec<_> = (0..20_000).map(|n| NewRecord::new(format!("k{}", n % 50), format!("{n:0>300}"))).collect();
    let placed = client.produce_keyed(&topic, records.clone()).unwrap();
    let read = client.read_committed(&topic).unwrap();
    let by_place: BTreeMap<_, _> = read.iter().map(|record| ((record.partition, record.offset), record)).collect();
    assert_eq!((read.len(), by_place.len()), (20_000, 20_000));
    for (place, written) in placed.iter().zip(&records) {
        assert_eq!(by_place[place].value, written.value);
        assert_eq!(place.0, partition_for_key(written.key.as_deref().unwrap(), 3));
    }
}

/// Goal: the aborted filter. Method: committed, aborted and plain records of several producers mixed in one log, with
/// the same producer id aborting and then committing, and an aborted tail.
#[test]
fn read_committed_leaves_out_aborted_transactions_and_ends_at_an_aborted_tail() {
    let client = client();
    let topic = fresh_topic(&client, 1);
    let (one, two) = (fresh("one"), fresh("two"));
    client.produce(&topic, 0, &numbered(0..2)).unwrap();
    let mut aborted = Transaction::begin(&client, &one, 30_000).unwrap();
    let mut kept = Transaction::begin(&client, &two, 30_000).unwrap();
    aborted.produce(&topic, 0, &numbered(100..103)).unwrap();
    kept.produce(&topic, 0, &numbered(2..4)).unwrap();
    aborted.produce(&topic, 0, &numbered(103..105)).unwrap();
    client.produce(&topic, 0, &numbered(4..5)).unwrap();
    kept.commit().unwrap();
    aborted.abort().unwrap();
    let mut again = Transaction::begin(&client, &one, 30_000).unwrap();
    again.produce(&topic, 0, &numbered(5..6)).unwrap();
    again.commit().unwrap();
    let mut tail = Transaction::begin(&client, &two, 30_000).unwrap();
    tail.produce(&topic, 0, &numbered(200..210)).unwrap();
    tail.abort().unwrap();
    no_open_transactions(&client, &[&topic], Duration::from_secs(20)).unwrap();
    assert_eq!(values(&client.read_committed(&topic).unwrap()), ["v0", "v1", "v2", "v3", "v4", "v5"]);
    assert_eq!(client.read_uncommitted(&topic).unwrap().len(), 6 + 5 + 10);
}

/// Goal: the filter knows a transaction it meets in the middle. Method: an aborted one that takes several fetches.
#[test]
fn an_aborted_transaction_larger_than_a_fetch_stays_unread() {
    let client = client();
    let topic = fresh_topic(&client, 1);
    let mut large = Transaction::begin(&client, &fresh("large"), 60_000).unwrap();
    let records: Vec<_> = (0..2500).map(|n| NewRecord::new(format!("k{n}"), vec![b'x'; 8000])).collect();
    large.produce(&topic, 0, &records).unwrap();
    client.produce(&topic, 0, &numbered(0..2)).unwrap();
    large.abort().unwrap();
    no_open_transactions(&client, &[&topic], Duration::from_secs(20)).unwrap();
    assert_eq!(values(&client.read_committed(&topic).unwrap()), ["v0", "v1"]);
    assert_eq!(client.read_uncommitted(&topic).unwrap().len(), 2502);
}

/// Goal: an open transaction is seen, holds the LSO back, and committed records behind it are not read yet.
#[test]
fn an_open_transaction_is_listed_and_holds_readers_back() {
    let client = client();
    let topic = fresh_topic(&client, 1);
    let id = fresh("open");
    client.produce(&topic, 0, &numbered(0..1)).unwrap();
    let mut open = Transaction::begin(&client, &id, 30_000).unwrap();
    open.produce(&topic, 0, &numbered(1..2)).unwrap();
    client.produce(&topic, 0, &numbered(2..3)).unwrap();
    let ends = client.end_offsets_of(&topic, 0).unwrap();
    assert_eq!(ends, EndOffsets { log_start: 0, last_stable: 1, high_watermark: 3 });
    assert_eq!(values(&client.read_committed(&topic).unwrap()), ["v0"]);
    assert_eq!(values(&client.read_uncommitted(&topic).unwrap()), ["v0", "v1", "v2"]);
    let listed = client.open_transactions().unwrap();
    let found = listed.iter().find(|found| found.transactional_id == id).expect("listed");
    assert_eq!((found.state.as_str(), found.producer_id), ("Ongoing", open.producer().0));
    let details = client.describe_transaction(&id).unwrap();
    assert_eq!((details.partitions, details.timeout_ms), (vec![(topic.clone(), 0)], 30_000));
    let refused = no_open_transactions(&client, &[&topic], Duration::ZERO).unwrap_err().to_string();
    assert!(refused.contains(&id) && refused.contains("LSO 1 of 3"), "{refused}");
    open.commit().unwrap();
    no_open_transactions(&client, &[&topic], Duration::from_secs(20)).unwrap();
    assert_eq!(values(&client.read_committed(&topic).unwrap()), ["v0", "v1", "v2"]);
}

#[test]
fn a_second_begin_fences_the_first() {
    let client = client();
    let topic = fresh_topic(&client, 1);
    let id = fresh("fenced");
    let mut first = Transaction::begin(&client, &id, 30_000).unwrap();
    first.produce(&topic, 0, &numbered(0..1)).unwrap();
    let second = Transaction::begin(&client, &id, 30_000).unwrap();
    let refused = error_code(&first.commit().unwrap_err());
    assert!(matches!(refused, Some(ResponseError::InvalidProducerEpoch | ResponseError::ProducerFenced)), "{refused:?}");
    second.abort().unwrap_or_default();
    assert!(client.read_committed(&topic).unwrap().is_empty());
}

#[test]
fn committed_offsets_are_read_with_their_metadata_and_wait_for_open_transactions() {
    let client = client();
    let topic = fresh_topic(&client, 2);
    let group = fresh("group");
    assert!(client.committed_offsets(&group, OffsetsAsked::Stable).unwrap().is_empty());
    let committed = CommittedOffset { offset: 17, metadata: "words".to_owned() };
    let offsets = BTreeMap::from([((topic.clone(), 1), committed)]);
    client.commit_offsets(&group, &offsets).unwrap();
    assert_eq!(client.committed_offsets(&group, OffsetsAsked::Stable).unwrap(), offsets);
    let mut transaction = Transaction::begin(&client, &fresh("offsets"), 30_000).unwrap();
    transaction.send_offsets(&group, &topic, &[(0, 5)]).unwrap();
    let seen = client.committed_offsets(&group, OffsetsAsked::EvenIfPending).unwrap();
    assert_eq!(seen, offsets);
    transaction.commit().unwrap();
    let seen = client.committed_offsets(&group, OffsetsAsked::Stable).unwrap();
    assert_eq!((seen[&(topic, 0)].offset, seen.len()), (5, 2));
    assert_eq!(client.describe_group(&group).unwrap().state, "Empty");
    assert_eq!(client.describe_group(&fresh("nobody")).unwrap().state, "Dead");
}

#[test]
fn topics_grow_change_shrink_and_go() {
    let client = client();
    let topic = fresh_topic(&client, 1);
    assert_eq!(error_code(&client.create_topic(&topic, 1, &[]).unwrap_err()), Some(ResponseError::TopicAlreadyExists));
    client.create_partitions(&topic, 4).unwrap();
    assert_eq!(client.partition_count(&topic).unwrap(), 4);
    assert_eq!(client.topics().unwrap()[&topic], 4);
    client.set_topic_config(&topic, "max.message.bytes", "2000").unwrap();
    assert_eq!(client.topic_configs(&topic).unwrap()["max.message.bytes"], "2000");
    let large = [NewRecord::new("k", vec![0; 5000])];
    // The change reaches the partition's leader a moment after it is answered.
    let refused = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        client.produce(&topic, 3, &large).err()
    });
    assert_eq!(error_code(&refused.expect("refused")), Some(ResponseError::MessageTooLarge));
    client.produce(&topic, 0, &numbered(0..10)).unwrap();
    client.delete_records(&topic, 0, 4).unwrap();
    assert_eq!(client.end_offsets_of(&topic, 0).unwrap().log_start, 4);
    assert_eq!(values(&client.read_committed(&topic).unwrap())[0], "v4");
    client.delete_topic(&topic).unwrap();
    assert!(!client.topics().unwrap().contains_key(&topic));
    client.create_topic(&topic, 1, &[("cleanup.policy", "compact")]).unwrap();
    client.produce(&topic, 0, &numbered(0..1)).unwrap();
    assert_eq!(client.read_committed(&topic).unwrap().len(), 1);
}

#[test]
fn nobody_listening_is_an_error() {
    // Port 1 is reserved and never a broker; the deadline of one attempt is short because it is refused at once.
    assert!(super::connection::Connection::open("127.0.0.1:1").is_err());
}

/// The broker of the test run; its handle lives as long as the process.
fn bootstrap() -> String {
    crate::broker::Cluster::shared().bootstrap().to_owned()
}
