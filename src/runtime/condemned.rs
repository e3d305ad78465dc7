//! What is said of a record whose output the broker refuses: one line, with the next step.

use transom_engine::Sentence;
use transom_sdk::{Offset, PartitionId};

/// Says what becomes of the record at this place: worker, topic and partition, then its offset.
pub(crate) fn log((worker, topic, partition): (u16, &str, PartitionId), offset: Offset, sentence: &Sentence, may_set_aside: bool) {
    let refusal = sentence.refusal();
    let next_step = next_step(sentence, may_set_aside);
    tracing::warn!(
        worker,
        topic,
        partition = partition.get(),
        offset = offset.get(),
        output = %refusal.topic,
        code = %refusal.code,
        reason = %refusal.words,
        next_step,
        "an output of this record is refused"
    );
}

fn next_step(sentence: &Sentence, may_set_aside: bool) -> &'static str {
    match sentence {
        Sentence::Hopeless { .. } => {
            "the pipeline stops in front of it: the dead-letter topic refuses even a stub of a few KB; look at its configuration"
        }
        _ if !may_set_aside => "the pipeline stops in front of it: add dead_letters, or change the topic's limit or the transform",
        Sentence::SetAside { .. } => "it becomes a dead letter; to have it processed, change the topic's limit or the transform and replay it",
        Sentence::Stub { .. } => {
            "its dead letter is refused, too, and becomes a stub; the record itself is in the input topic as long as that keeps it"
        }
    }
}
