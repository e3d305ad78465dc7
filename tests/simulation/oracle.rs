//! Compares what a read-committed reader sees with what the input asks for. It knows the input and the broker's logs,
//! nothing of the workers beside the batches they counted.

use crate::anomaly::{Anomaly, Kind};
use crate::cluster::Cluster;
use crate::input::Input;
use std::collections::{BTreeMap, BTreeSet};
use transom_engine::Batch;

/// Returns everything wrong once all is quiet and every offset is at its end.
pub(crate) fn judge(input: &Input, cluster: &Cluster, accounted: &[(u64, Batch)]) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<(usize, i64, u8), Vec<usize>> = BTreeMap::new();
    for (to, output) in cluster.output.iter().enumerate() {
        let mut last: BTreeMap<usize, (i64, u8)> = BTreeMap::new();
        for out in output.visible() {
            let place = (out.offset, out.ordinal);
            let copies = seen.entry((out.partition, out.offset, out.ordinal)).or_default();
            copies.push(to);
            if copies.len() == 1 && last.get(&out.partition).is_some_and(|last| *last > place) {
                let detail = format!("output {to}: input {} offset {} after {:?}", out.partition, out.offset, last.get(&out.partition));
                found.push(Anomaly { kind: Kind::Reordered, detail });
            }
            let last = last.entry(out.partition).or_insert(place);
            *last = place.max(*last);
        }
    }
    for partition in 0..input.partitions() {
        for offset in input.records(partition) {
            let expected = input.expected(partition, offset);
            let copies: Vec<_> = expected.iter().map(|(ordinal, to)| (to, seen.remove(&(partition, offset, *ordinal)).unwrap_or_default())).collect();
            let missing = copies.iter().filter(|(_, copies)| copies.is_empty()).count();
            let kind = if copies.iter().any(|(_, copies)| copies.len() > 1) {
                Kind::Duplicate
            } else if missing > 0 && missing == copies.len() {
                Kind::Lost
            } else if missing > 0 {
                Kind::Torn
            } else if copies.iter().any(|(to, copies)| copies[0] != **to) {
                Kind::Unexpected
            } else {
                continue;
            };
            found.push(Anomaly { kind, detail: format!("input {partition} offset {offset}: expected in {expected:?}, seen in {copies:?}") });
        }
    }
    found.extend(seen.keys().map(|place| Anomaly { kind: Kind::Unexpected, detail: format!("{place:?}") }));
    found.extend(judge_books(cluster, accounted));
    found
}

/// What a worker counted as committed must be in the log, once, with as many fates as records.
fn judge_books(cluster: &Cluster, accounted: &[(u64, Batch)]) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let committed: BTreeSet<(u64, u64)> = cluster.group.committed.iter().map(|owner| (owner.incarnation.0, owner.batch.0)).collect();
    let mut counted = BTreeSet::new();
    for (incarnation, batch) in accounted {
        let name = (*incarnation, batch.id.0);
        if !committed.contains(&name) {
            found.push(Anomaly {
                kind: Kind::Phantom,
                detail: format!("batch {} of {incarnation:016x} was counted and is not in the log", batch.id.0),
            });
        }
        if !counted.insert(name) || batch.fates.total() != batch.records {
            found.push(Anomaly { kind: Kind::Unbalanced, detail: format!("batch {}: {} records, {:?}", batch.id.0, batch.records, batch.fates) });
        }
    }
    found
}
