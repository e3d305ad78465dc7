//! From the mirror to the plan, once everything has been checked.

use super::mirror::{Mirror, MirrorCommit, MirrorDeadLetters, MirrorInput, MirrorOutput, MirrorStep, MirrorTimeouts, MirrorTopic};
use super::plan::{Assignor, ClientProperties, Commit, DeadLetters, Group, GroupProtocol, Http, Input, Output, Plan, Step, Timeouts, Topic};

/// Returns the plan, or `None` if a part is missing; then the report is not empty.
pub(super) fn plan(mirror: Mirror, kafka: ClientProperties) -> Option<Plan> {
    let assignor = assignor(&mirror);
    let dead_letters = match mirror.dead_letters {
        Some(section) => Some(dead_letters(section)?),
        None => None,
    };
    Some(Plan {
        pipeline: mirror.pipeline?.value,
        kafka,
        start: mirror.start?.value,
        inputs: mirror.inputs.into_iter().map(input).collect::<Option<Vec<_>>>()?,
        step: step(mirror.steps.steps.into_iter().next()?)?,
        outputs: mirror.outputs.outputs.into_iter().map(output).collect::<Option<Vec<_>>>()?,
        dead_letters,
        guarantee: mirror.guarantee?.value,
        workers: mirror.workers?.value,
        commit: commit(&mirror.commit)?,
        timeouts: timeouts(&mirror.timeouts)?,
        group: Group { protocol: mirror.protocol?.value },
        assignor,
        http: Http { listen: mirror.listen?.value },
    })
}

/// Sticky and uniform assignors split equal partition numbers of several topics between members; range does not. The
/// classic protocol always gets range, see decision 0008.
pub(super) fn assignor(mirror: &Mirror) -> Assignor {
    let consumer = mirror.protocol.as_ref().is_some_and(|protocol| protocol.value == GroupProtocol::Consumer);
    if mirror.inputs.len() > 1 || !consumer { Assignor::Range } else { Assignor::Uniform }
}

fn topic(topic: MirrorTopic) -> Option<Topic> {
    Some(Topic { name: topic.name?.value, partitions: topic.partitions?.value, replication: topic.replication?.value })
}

fn input(input: MirrorInput) -> Option<Input> {
    Some(Input { topic: topic(input.topic)?, format: input.format?.value })
}

fn output(output: MirrorOutput) -> Option<Output> {
    Some(Output { name: output.name, topic: topic(output.topic)?, format: output.format?.value, key: output.key?.value })
}

fn step(step: MirrorStep) -> Option<Step> {
    Some(Step { id: step.id?.value, process: step.process?.value.text, tombstones: step.tombstones?.value, with: step.with? })
}

fn dead_letters(section: MirrorDeadLetters) -> Option<DeadLetters> {
    Some(DeadLetters { topic: topic(section.topic)?, attempts: section.attempts?.value, backoff: section.backoff?.value })
}

fn commit(section: &MirrorCommit) -> Option<Commit> {
    Some(Commit {
        interval: section.interval.as_ref()?.value,
        records_max: section.records_max.as_ref()?.value,
        bytes_max: section.bytes_max.as_ref()?.value,
    })
}

fn timeouts(section: &MirrorTimeouts) -> Option<Timeouts> {
    Some(Timeouts {
        send_offsets: section.send_offsets.as_ref()?.value,
        commit: section.commit.as_ref()?.value,
        transaction: section.transaction.as_ref()?.value,
        revoke: section.revoke.as_ref()?.value,
        session: section.session.as_ref()?.value,
        poll_max: section.poll_max.as_ref()?.value,
        drain: section.drain.as_ref()?.value,
        blocked: section.blocked.as_ref()?.value,
        start: section.start.as_ref()?.value,
    })
}
