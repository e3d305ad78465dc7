//! `transom run`: from the plan to running workers.

use crate::cli::{RunOptions, load};
use crate::config::{self, ClientProperties, Plan};
use crate::exit::{Code, Failed, of_preflight, of_stop};
use crate::{endpoints, signals};
use std::sync::Arc;
use std::time::Duration;
use transom_engine::{Limits, StopReason};
use transom_kafka::{Assignor, ConnectOptions, Facts, GroupProtocol, Guarantee, Joining, KafkaBroker, Planted, Preflight, Properties, StartOffset};
use transom_runtime::{Control, DeadLetterOptions, Metrics, PipelineOptions, ProcessorFactory, RegistryFactory, StatusBoard, StepOptions, supervise};
use transom_sdk::{KeyPointer, Registry, Route, Routes, Tombstones};

/// A batch that only steps over control records closes after this: soon enough for lag to read 0, rare enough to cost nothing.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a pipeline to its end.
pub(crate) fn run(registry: &Registry, options: &RunOptions, planted: Planted) -> Result<Code, Failed> {
    let plan = load(registry, &options.pipeline)?;
    let routes = routes(&plan)?;
    check_processor(registry, &plan)?;
    let environment = std::env::var("TRANSOM_INSTANCE").ok();
    let instance = config::instance_name(options.instance.as_deref(), environment.as_deref(), &host_name())
        .map_err(|error| Failed::new(Code::Configuration, error.to_string(), "give the instance a name with --instance"))?;
    let mut connect = connect_options(&plan, &instance);
    let board = Arc::new(StatusBoard::new(&plan.pipeline, &instance.name, plan.guarantee.as_str(), plan.workers));
    let (metrics, control) = (Metrics::new(), Control::new());
    signals::watch(&control, plan.timeouts.drain).map_err(|error| Failed::new(Code::TryAgain, format!("signals: {error}"), ""))?;
    let listen = options.listen.unwrap_or(plan.http.listen);
    let address = endpoints::serve(listen, Arc::clone(&board), Arc::clone(&metrics), plan.timeouts.poll_max).map_err(|error| {
        Failed::new(
            Code::Configuration,
            format!("the endpoints cannot listen on {listen}: {error}"),
            "choose another address with --listen or http.listen",
        )
    })?;
    tracing::info!(
        pipeline = plan.pipeline,
        instance = instance.name,
        membership = ?instance.membership,
        guarantee = plan.guarantee.as_str(),
        workers = plan.workers,
        endpoints = %address,
        "starting"
    );
    let facts = preflight(&plan, &connect)?;
    for unchecked in &facts.unchecked {
        tracing::warn!(unchecked, "not checked");
    }
    tracing::info!(brokers = facts.brokers, new_group = facts.new_group, "cluster looked at");
    if !facts.written_outputs.is_empty() {
        tracing::warn!(
            outputs = ?facts.written_outputs,
            start = ?plan.start,
            next_step = "nothing, if this pipeline is new; if it ran before, its offsets expired or were deleted: stop it, \
                         set them with kafka-consumer-groups --reset-offsets, then start it again",
            "the group has no committed offsets, but the outputs hold records"
        );
    }
    connect.planted = planted;
    connect.batch_bytes_max = facts.batch_bytes_max;
    connect.input_partitions = facts.partitions.iter().take(plan.inputs.len()).map(|(_, count)| count).sum();
    let broker = KafkaBroker::new(connect);
    let watcher = broker.watcher().map_err(|error| Failed::new(Code::Configuration, error.text, ""))?;
    let pipeline = Arc::new(pipeline_options(&plan, &instance.name, routes.clone(), &facts));
    let factory: Arc<dyn ProcessorFactory> = Arc::new(RegistryFactory {
        registry: registry.clone(),
        name: plan.step.process.clone(),
        routes,
        with: plan.step.with.expose().clone(),
        tombstones: tombstones(plan.step.tombstones),
    });
    let reason = supervise(&broker, watcher, &pipeline, &factory, (&board, &metrics, &control));
    finish(&reason, &pipeline.inputs)
}

fn finish(reason: &StopReason, inputs: &[String]) -> Result<Code, Failed> {
    let (code, hint) = of_stop(reason);
    if code == Code::Done {
        return Ok(code);
    }
    // The engine knows inputs by number; people know them by name.
    let mut what = reason.to_string();
    for (number, topic) in inputs.iter().enumerate() {
        what = what.replace(&format!("input {number} partition"), &format!("topic {topic}, partition"));
    }
    Err(Failed::new(code, what, hint))
}

fn preflight(plan: &Plan, connect: &ConnectOptions) -> Result<Facts, Failed> {
    let preflight = Preflight {
        inputs: connect.inputs.clone(),
        outputs: connect.outputs.clone(),
        group: plan.pipeline.clone(),
        start: connect.start,
        transaction_timeout: plan.timeouts.transaction,
        // Some of the start budget is left for initialising producers.
        budget: plan.timeouts.start.mul_f64(0.8),
    };
    preflight.run(&connect.admin_properties(), bootstrap(plan)).map_err(|error| of_preflight(&error))
}

/// Builds the processor once, so that a wrong `with:` or an unknown output is said before anything is started.
pub(crate) fn check_processor(registry: &Registry, plan: &Plan) -> Result<(), Failed> {
    let routes = routes(plan)?;
    let setup = transom_sdk::Setup::new(&routes, plan.step.with.expose(), tombstones(plan.step.tombstones));
    match registry.construct(&plan.step.process, &setup) {
        Ok(_) => Ok(()),
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            let what = format!("step {}: processor {}: {error}{cause}", plan.step.id, plan.step.process);
            Err(Failed::new(Code::Configuration, what, "correct the step's with: or the pipeline's outputs:"))
        }
    }
}

fn routes(plan: &Plan) -> Result<Routes, Failed> {
    let mut routes = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        let key = output.key.as_deref().map(KeyPointer::parse).transpose();
        let key = key.map_err(|error| Failed::new(Code::Configuration, format!("output {}: {error}", output.name), ""))?;
        routes.push(Route { name: output.name.clone(), topic: output.topic.name.clone(), key });
    }
    // `default` comes first, whatever the order in the file.
    routes.sort_by_key(|route| route.name != "default");
    Ok(Routes::new(routes))
}

const fn tombstones(tombstones: config::Tombstones) -> Tombstones {
    match tombstones {
        config::Tombstones::DeadLetter => Tombstones::DeadLetter,
        config::Tombstones::Forward => Tombstones::Forward,
        config::Tombstones::Filter => Tombstones::Filter,
    }
}

fn exposed(properties: &[(String, config::Property)]) -> Vec<(String, String)> {
    properties.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

fn find<'a>(properties: &'a ClientProperties, name: &str) -> Option<&'a str> {
    properties.common.iter().find(|(property, _)| property == name).map(|(_, value)| value.expose())
}

/// Returns the servers a plan connects to.
pub(crate) fn bootstrap(plan: &Plan) -> &str {
    find(&plan.kafka, "bootstrap.servers").unwrap_or_default()
}

/// Returns the client properties for admin requests and plain sends.
pub(crate) fn admin_properties(plan: &Plan) -> Properties {
    Properties::for_requests(&exposed(&plan.kafka.common), &exposed(&plan.kafka.producer))
}

fn connect_options(plan: &Plan, instance: &config::Instance) -> ConnectOptions {
    let routes = plan.outputs.iter().filter(|output| output.name == "default").chain(plan.outputs.iter().filter(|output| output.name != "default"));
    let outputs = routes.map(|output| &output.topic).chain(plan.dead_letters.iter().map(|dead| &dead.topic));
    ConnectOptions {
        pipeline: plan.pipeline.clone(),
        instance: instance.name.clone(),
        joining: match instance.membership {
            config::Membership::Static => Joining::Static,
            config::Membership::Dynamic => Joining::Dynamic,
        },
        common: exposed(&plan.kafka.common),
        consumer: exposed(&plan.kafka.consumer),
        producer: exposed(&plan.kafka.producer),
        inputs: plan.inputs.iter().map(|input| input.topic.name.clone()).collect(),
        outputs: outputs.map(|topic| topic.name.clone()).collect(),
        workers: plan.workers,
        start: match plan.start {
            config::Start::Earliest => StartOffset::Earliest,
            config::Start::Latest => StartOffset::Latest,
        },
        guarantee: match plan.guarantee {
            config::Guarantee::ExactlyOnce => Guarantee::ExactlyOnce,
            config::Guarantee::AtLeastOnce => Guarantee::AtLeastOnce,
            config::Guarantee::AtMostOnce => Guarantee::AtMostOnce,
        },
        input_partitions: 1,
        batch_bytes_max: None,
        protocol: match plan.group.protocol {
            config::GroupProtocol::Classic => GroupProtocol::Classic,
            config::GroupProtocol::Consumer => GroupProtocol::Consumer,
        },
        assignor: match plan.assignor {
            config::Assignor::Range => Assignor::Range,
            config::Assignor::Uniform => Assignor::Uniform,
        },
        session_timeout: plan.timeouts.session,
        poll_interval_max: plan.timeouts.poll_max,
        transaction_timeout: plan.timeouts.transaction,
        send_offsets_timeout: plan.timeouts.send_offsets,
        commit_timeout: plan.timeouts.commit,
        records_max: plan.commit.records_max,
        planted: Planted::Nothing,
    }
}

fn pipeline_options(plan: &Plan, instance: &str, routes: Routes, facts: &Facts) -> PipelineOptions {
    let count = |topic: &str| facts.partitions.iter().find(|(name, _)| name == topic).map_or(1, |(_, count)| *count);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let dead = plan.dead_letters.as_ref();
    PipelineOptions {
        pipeline: plan.pipeline.clone(),
        instance: instance.to_owned(),
        workers: plan.workers,
        inputs: plan.inputs.iter().map(|input| input.topic.name.clone()).collect(),
        routes,
        dead_letters: dead.map(|dead| DeadLetterOptions { topic: dead.topic.name.clone(), partitions: count(&dead.topic.name) }),
        step: StepOptions {
            id: plan.step.id.clone(),
            attempts: dead.map_or(3, |dead| dead.attempts),
            backoff: dead.map_or(Duration::from_millis(100), |dead| dead.backoff),
        },
        limits: Limits {
            commit_interval_ms: millis(plan.commit.interval),
            quiet_interval_ms: millis(QUIET_INTERVAL.max(plan.commit.interval)),
            records_max: plan.commit.records_max,
            bytes_max: plan.commit.bytes_max,
            revoke_budget_ms: millis(plan.timeouts.revoke),
            drain_budget_ms: millis(plan.timeouts.drain),
        },
        start_budget: plan.timeouts.start,
        blocked_budget: plan.timeouts.blocked,
    }
}

/// Returns the host's name; a process without one is called `localhost`.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}
