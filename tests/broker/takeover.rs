//! What a committed offset's metadata says of its owner, and what is no owner at all.

use transom_harness::oracle::no_open_transactions;
use transom_harness::scenario::Scenario;
use transom_harness::wire::{CommittedOffset, NewRecord, Transaction};
use transom_tests::orders::{Orders, cleaned};

use crate::{CLEAN_ORDERS, SHORT, START};

/// Longer than the test, so that only a fence can end an open transaction, and within the broker's limit.
const TRANSACTION_TIMEOUT_MS: i32 = 300_000;
const ORDERS: u64 = 4_000;

/// Metadata of one partition, and the id whose open transaction it might be taken for a reason to end.
struct Planted {
    metadata: String,
    id: Option<String>,
}

/// Returns a record padded with spaces to so many bytes.
fn padded(record: &str, bytes: usize) -> String {
    format!("{record:<bytes$}")
}

/// Returns what no partition's owner is read from: missing, foreign, overlong and garbled, of another pipeline, of this process.
fn no_owners(t: &Scenario) -> Vec<Planted> {
    let ours = |instance: &str| format!("{}:{instance}:0", t.pipeline());
    let held = |id: &str| format!("transom/1 {id} 00000000000000ab 17 held");
    let planted = |metadata: String, id: String| Planted { metadata, id: Some(id) };
    let elsewhere = format!("{}:a:0", t.full("another"));
    vec![
        Planted { metadata: String::new(), id: None },
        planted(format!("written by hand for {}", ours("hand")), ours("hand")),
        planted(held(&ours("next")).replace("transom/1", "transom/2"), ours("next")),
        planted(padded(&held(&ours("long")), 513), ours("long")),
        planted(padded(&held(&ours("longest")), 4096), ours("longest")),
        planted(held(&ours("garbled")).replace("00000000000000ab", "ab"), ours("garbled")),
        planted(held(&elsewhere), elsewhere),
        // Alive: the second worker of the instance that is started.
        Planted { metadata: held(&format!("{}:a:1", t.pipeline())), id: None },
    ]
}

// Goal: only a record of ours, of this pipeline and of another process, says whom to fence. Method: before there are members, an
// offset with such metadata is committed for each partition, and the ids it names have transactions open; one partition names a dead
// owner as it should be, which shows that the others would have been fenced.
#[test]
fn metadata_that_names_no_owner_fences_nobody_and_loses_nothing() {
    let t = Scenario::shared("no-owner");
    let mut planted = no_owners(&t);
    let dead = format!("{}:dead:0", t.pipeline());
    planted.push(Planted { metadata: format!("transom/1 {dead} 00000000000000ab 17 held"), id: Some(dead.clone()) });
    let count = i32::try_from(planted.len()).expect("few partitions");
    let (input, output, letters) = (t.topic("in", count), t.topic("out", count), t.topic("dlq", count));
    let aside = t.topic("aside", 1);

    let begin = |id: &String| {
        let mut transaction = Transaction::begin(t.client(), id, TRANSACTION_TIMEOUT_MS).expect("begin a transaction");
        transaction.produce(&aside, 0, &[NewRecord::keyless(id.as_str())]).expect("write in a transaction");
        (id.clone(), transaction)
    };
    let mut open: Vec<(String, Transaction<'_>)> = planted.iter().filter_map(|planted| planted.id.as_ref()).map(begin).collect();
    let place =
        |(partition, planted): (i32, &Planted)| ((input.clone(), partition), CommittedOffset { offset: 0, metadata: planted.metadata.clone() });
    t.client().commit_offsets(t.pipeline(), &(0..).zip(&planted).map(place).collect()).expect("commit offsets of a group without members");
    t.produce(&input, Orders::seeded(31).take(ORDERS));

    let mut instance = t.start("a", &format!("{CLEAN_ORDERS}workers: 2\n"));
    t.awaits_all_committed(&[&input], START);
    let fences: Vec<String> = instance.log().lines().filter(|line| line.contains("fenced the last owner")).map(str::to_owned).collect();
    assert!(!fences.is_empty() && fences.iter().all(|line| line.contains(&dead)), "{fences:#?}; {}", instance.log_tail());

    let (_, dead_transaction) = open.pop().expect("the dead owner's transaction");
    assert!(dead_transaction.commit().is_err(), "the dead owner could commit");
    for (id, transaction) in open {
        let details = t.client().describe_transaction(&id).expect("describe a transaction");
        assert_eq!(details.state, "Ongoing", "{id}");
        assert_eq!((details.producer_id, details.producer_epoch), transaction.producer(), "{id}");
        transaction.commit().unwrap_or_else(|error| panic!("{id}: {error:#}"));
    }
    // The markers are written after the commit was answered, and readers stop before the first one that is missing.
    no_open_transactions(t.client(), &[&aside], SHORT).expect("markers");
    let committed: Vec<_> = t.read(&aside).into_iter().filter_map(|record| String::from_utf8(record.value?).ok()).collect();
    let expected: Vec<_> = planted.iter().filter_map(|planted| planted.id.clone()).filter(|id| *id != dead).collect();
    assert_eq!(committed, expected);

    instance.drains_within(SHORT);
    let report = t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));
    assert_eq!(report.inputs() as u64, ORDERS);
}
