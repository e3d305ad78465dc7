//! How steps and topics are joined: names that exist, no loop, nothing twice.

use super::mirror::{Mirror, MirrorOutput, MirrorStep, MirrorSteps, MirrorTopic};
use super::mistake::{Bound, Mistake};
use super::nearest::nearest;
use super::plan::Format;
use super::problem::Report;
use super::section::{Field, Located};

/// Reports every mistake in how the parts fit. A field that is `None` has been reported and is skipped.
pub(super) fn check(mirror: &Mirror, processors: &[&str], report: &mut Report) {
    step_count(&mirror.steps, report);
    step_ids(&mirror.steps.steps, report);
    for step in &mirror.steps.steps {
        processor(step, processors, report);
    }
    inputs(mirror, report);
    outputs(mirror, report);
    dead_letters(mirror, report);
}

fn step_count(steps: &MirrorSteps, report: &mut Report) {
    if steps.readable && steps.steps.is_empty() {
        report.add(steps.at.place, &steps.at.path, Mistake::NoStep);
    }
    for (index, step) in steps.steps.iter().enumerate().skip(1) {
        report.add(step.at.place, &step.at.path, Mistake::StepTooMany { number: index + 1 });
    }
}

fn step_ids(steps: &[MirrorStep], report: &mut Report) {
    let ids: Vec<&Located<String>> = steps.iter().filter_map(|step| step.id.as_ref()).collect();
    for (id, first) in repeats(&ids) {
        let mistake = Mistake::DuplicateStep { id: id.shown(), line_first: first.at.place.line };
        report.add(id.at.place, &id.at.path, mistake);
    }
}

fn processor(step: &MirrorStep, processors: &[&str], report: &mut Report) {
    let Some(process) = &step.process else { return };
    let name = process.value.text.as_str();
    if processors.contains(&name) {
        return;
    }
    let mistake = Mistake::UnknownProcessor {
        name: process.value.shown(),
        // Nothing is said that would tell a referenced value.
        nearest: nearest(name, processors.iter().copied()).filter(|_| !process.at.referenced).map(str::to_owned),
        registered: processors.iter().map(|name| (*name).to_owned()).collect(),
    };
    report.add(process.at.place, &process.at.path, mistake);
}

fn inputs(mirror: &Mirror, report: &mut Report) {
    let names: Vec<&Located<String>> = mirror.inputs.iter().filter_map(|input| input.topic.name.as_ref()).collect();
    for (name, first) in repeats(&names) {
        let mistake = Mistake::DuplicateInput { topic: name.shown(), line_first: first.at.place.line };
        report.add(name.at.place, &name.at.path, mistake);
    }
    let mut topics = mirror.inputs.iter().map(|input| &input.topic);
    let Some(first) = topics.next() else { return };
    for topic in topics {
        let reason = "a task reads one partition number of all input topics";
        partitions_agree(&topic.partitions, &first.partitions, reason, report);
    }
}

fn outputs(mirror: &Mirror, report: &mut Report) {
    let outputs = &mirror.outputs;
    if outputs.readable && !outputs.outputs.iter().any(|output| output.name == "default") {
        report.add(outputs.at.place, &outputs.at.path, Mistake::NoDefaultOutput);
    }
    for (index, output) in outputs.outputs.iter().enumerate() {
        no_loop(&output.topic, mirror, report);
        key_has_a_value(output, report);
        let Some(name) = &output.topic.name else { continue };
        let same = |other: &&MirrorOutput| other.topic.name.as_ref().is_some_and(|other| other.value == name.value);
        if let Some(first) = outputs.outputs[..index].iter().find(same) {
            let reason = "both outputs are one topic";
            partitions_agree(&output.topic.partitions, &first.topic.partitions, reason, report);
        }
    }
}

fn key_has_a_value(output: &MirrorOutput, report: &mut Report) {
    let (Some(format), Some(key)) = (&output.format, &output.key) else { return };
    if format.value == Format::Bytes && key.value.is_some() {
        report.add(key.at.place, &key.at.path, Mistake::KeyOfBytes);
    }
}

fn dead_letters(mirror: &Mirror, report: &mut Report) {
    let Some(dead_letters) = &mirror.dead_letters else { return };
    no_loop(&dead_letters.topic, mirror, report);
    let Some(name) = &dead_letters.topic.name else { return };
    let outputs = mirror.outputs.outputs.iter().filter_map(|output| output.topic.name.as_ref());
    if let Some(output) = outputs.into_iter().find(|output| output.value == name.value) {
        let mistake = Mistake::DeadLettersInOutput { topic: name.shown(), output: output.at.path.clone(), line_output: output.at.place.line };
        report.add(name.at.place, &name.at.path, mistake);
    }
}

/// A topic that is read and written grows for ever, at full speed.
fn no_loop(written: &MirrorTopic, mirror: &Mirror, report: &mut Report) {
    let Some(written) = &written.name else { return };
    let inputs = mirror.inputs.iter().filter_map(|input| input.topic.name.as_ref());
    if let Some(input) = inputs.into_iter().find(|input| input.value == written.value) {
        let mistake = Mistake::Loop { topic: written.shown(), input: input.at.path.clone(), line_input: input.at.place.line };
        report.add(written.at.place, &written.at.path, mistake);
    }
}

fn partitions_agree(these: &Field<u32>, those: &Field<u32>, reason: &'static str, report: &mut Report) {
    let (Some(these), Some(those)) = (these, those) else { return };
    if these.value == those.value {
        return;
    }
    let bound = |field: &Located<u32>| Bound { path: field.at.path.clone(), value: field.value.to_string(), line: field.at.line() };
    let at = if these.at.written { &these.at } else { &those.at };
    report.add(at.place, &at.path, Mistake::PartitionsDiffer { these: Box::new(bound(these)), those: Box::new(bound(those)), reason });
}

/// Returns each value that stands a second time, with its first occurrence.
fn repeats<'a>(values: &[&'a Located<String>]) -> Vec<(&'a Located<String>, &'a Located<String>)> {
    let mut repeats = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if let Some(first) = values[..index].iter().find(|first| first.value == value.value) {
            repeats.push((*value, *first));
        }
    }
    repeats
}
