//! What undelivered outputs mean: some record's fault, which is hunted down, or their topic's, which is nobody's here.

use crate::disposition::{Delivery, delivery};
use crate::handle::Undelivered;
use std::collections::BTreeMap;
use std::sync::Arc;
use transom_engine::{Proof, Refusal, RefusalKind, Refused, Suspect};
use transom_runtime::SealedBatch;

/// What a batch's undelivered outputs say together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// One of these input records, or several, became something that the broker will not take.
    Poison { suspects: Vec<Suspect>, why: String },
    /// A topic is not there any more.
    TopicGone { topic: String, why: String },
    /// An ACL is missing.
    NotPermitted { what: String },
}

/// Judges; `None` when nothing was refused for good. A topic's fault comes first: what else failed may follow from it.
pub(super) fn judge(undelivered: &[Undelivered], sealed: &SealedBatch, topics: &[String]) -> Option<Verdict> {
    let topic_of = |item: &Undelivered| sealed.outputs.get(item.index).and_then(|view| topics.get(view.output().index()));
    let first = |wanted: Delivery| undelivered.iter().find(|item| delivery(item.error.code) == wanted);
    if let Some((item, topic)) = first(Delivery::NotPermitted).and_then(|item| Some((item, topic_of(item)?))) {
        return Some(Verdict::NotPermitted { what: format!("writing to topic {topic} is not permitted: {}", item.error) });
    }
    if let Some((item, topic)) = first(Delivery::TopicGone).and_then(|item| Some((item, topic_of(item)?))) {
        return Some(Verdict::TopicGone { topic: topic.clone(), why: item.error.to_string() });
    }
    let suspects = suspects(undelivered, sealed, topics);
    let refusal = Arc::clone(&suspects.first()?.refusal);
    let count = match suspects.len() {
        1 => "its input is known".to_owned(),
        count => format!("its input is one of {count} and is looked for in smaller batches"),
    };
    Some(Verdict::Poison { suspects, why: format!("the broker refuses an output to {} ({}); {count}", refusal.topic, refusal.words) })
}

/// Returns one suspect for each input record with a refused output. Refusals are shared: a request fails whole.
fn suspects(undelivered: &[Undelivered], sealed: &SealedBatch, topics: &[String]) -> Vec<Suspect> {
    let names_culprits = undelivered.iter().any(|item| delivery(item.error.code) == Delivery::NeighbourRefused);
    let mut refusals: BTreeMap<(usize, i32), Arc<Refusal>> = BTreeMap::new();
    let mut suspects: BTreeMap<u32, Suspect> = BTreeMap::new();
    for item in undelivered {
        let Delivery::Refused(kind) = delivery(item.error.code) else { continue };
        let Some(view) = sealed.outputs.get(item.index) else { continue };
        let Some(&(partition, offset)) = sealed.sources.get(view.source() as usize) else { continue };
        let output = view.output();
        let Some(topic) = topics.get(output.index()) else { continue };
        let key = (output.index(), item.error.code);
        let new_refusal = || Arc::new(Refusal { kind, topic: topic.clone(), code: item.error.name.clone(), words: item.error.to_string() });
        let refusal = Arc::clone(refusals.entry(key).or_insert_with(new_refusal));
        // Whether its size is to blame is the broker's secret; a field that it checks, it names.
        let is_named = names_culprits && kind != RefusalKind::TooLarge;
        let proof = if is_named { Proof::Certain } else { Proof::Suspected };
        let refused = if output == sealed.dead_letters { Refused::DeadLetter } else { Refused::Output };
        suspects.entry(view.source()).or_insert(Suspect { partition, offset, refused, proof, refusal });
    }
    suspects.into_values().collect()
}
