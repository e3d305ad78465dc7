//! A pipeline with several inputs whose assignor splits a task.

use transom_harness::instance::run_to_end;
use transom_tests::late::with_orders;
use transom_tests::orders::cleaned;

use crate::{ORDERS, Pipeline, SHORT, START, awaits};

// Goal: equal partition numbers of several inputs stay together or the worker stops. Method: `range` keeps them together as long as
// all members read the same topics, so one of two members of the group reads only one of them.
#[test]
fn a_worker_that_is_given_half_a_task_stops_with_78_and_says_which() {
    let orders = Pipeline::shared("split", 2);
    let second = orders.t.topic("in2", 2);
    let both = ORDERS.replace("input: { topic: @in }", "inputs: [{ topic: @in }, { topic: @in2 }]");
    let mut a = orders.start_with("a", &both);
    a.awaits_partitions(4, START);
    let mut b = orders.start("b");
    with_orders(&orders.t, &orders.input, || {
        assert_eq!(a.exits_within(START), 78, "{}", a.log_tail());
    });
    let log = a.log();
    for words in ["of the input topics is split between workers", "range", "same inputs"] {
        assert!(log.contains(words), "{words:?} is missing; {}", a.log_tail());
    }
    // Without the stranger it goes on where it stood.
    b.drains_within(SHORT);
    awaits("the end of b's membership", START, || {
        let group = orders.t.client().describe_group(orders.t.pipeline()).expect("describe the group");
        group.members.iter().all(|member| member.instance_id.as_deref() != Some("b:0"))
    });
    a.restart();
    a.awaits_partitions(4, START);
    let (input, output) = (orders.input.as_str(), orders.output.as_str());
    orders.t.awaits_all_committed(&[input, &second], START);
    a.drains_within(SHORT);
    let report = orders.t.expect_exactly_once(&[input, &second], &[output], &[&orders.letters], |_, record| cleaned(output, record));
    println!("split task: {report}");
}

// Goal: nobody can ask for an assignor that splits tasks. Method: the pipeline's file does, in both protocols.
#[test]
fn an_assignor_that_would_split_tasks_is_refused_in_the_file() {
    let orders = Pipeline::shared("assignor", 1);
    for (protocol, property) in [("classic", "partition.assignment.strategy: cooperative-sticky"), ("consumer", "group.remote.assignor: uniform")] {
        let yaml = ORDERS
            .replace("input: { topic: @in }", &format!("group: {{ protocol: {protocol} }}\ninputs: [{{ topic: @in }}, {{ topic: @out }}]"))
            .replace("client.id: CLIENT", property);
        let file = orders.t.file(&yaml);
        let ended = run_to_end(&["validate", file.to_str().expect("a path")], &[], SHORT);
        assert_eq!(ended.code, 78, "{protocol}: {}{}", ended.stdout, ended.stderr);
        let name = property.split(':').next().unwrap_or_default();
        assert!(ended.stderr.contains(name), "{}", ended.stderr);
    }
}
