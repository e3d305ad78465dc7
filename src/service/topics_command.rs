//! `transom topics create`.

use crate::cli::load;
use crate::config::Plan;
use crate::exit::{Code, Failed};
use crate::run_command::{admin_properties, bootstrap};
use std::path::Path;
use std::time::Duration;
use transom_kafka::{Admin, ClientError, NewTopic, TopicCreation};
use transom_sdk::Registry;

/// How long the controller may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Creates the topics of a pipeline that are missing; those that exist are left as they are.
pub(crate) fn create(registry: &Registry, path: &Path) -> Result<Code, Failed> {
    let plan = load(registry, path)?;
    let topics = topics(&plan);
    let failed = |error: ClientError| {
        Failed::new(
            Code::Unreachable,
            format!("the cluster at {} did not create topics: {error}", bootstrap(&plan)),
            "check kafka: in the file and whether the brokers run",
        )
    };
    let admin = Admin::new(&admin_properties(&plan)).map_err(|error| {
        Failed::new(Code::Configuration, format!("the client refuses its configuration: {}", error.text), "correct the property under kafka:")
    })?;
    let created = admin.create_topics(&topics, TIMEOUT).map_err(failed)?;
    let mut refused = None;
    for (name, creation) in created {
        match creation {
            TopicCreation::Created => println!("{name}: created"),
            TopicCreation::Existed => println!("{name}: exists, left as it is"),
            TopicCreation::Refused(error) => {
                println!("{name}: refused: {error}");
                refused = Some(error);
            }
        }
    }
    match refused {
        None => Ok(Code::Done),
        Some(error) => {
            let permission = error.name.ends_with("AUTHORIZATION_FAILED");
            let code = if permission { Code::Permission } else { Code::Configuration };
            Err(Failed::new(
                code,
                format!("not every topic could be created: {error}"),
                "correct partitions and replication in the file, or grant Create",
            ))
        }
    }
}

fn topics(plan: &Plan) -> Vec<NewTopic> {
    let all = plan.inputs.iter().map(|input| &input.topic).chain(plan.outputs.iter().map(|output| &output.topic));
    let mut topics: Vec<NewTopic> = Vec::new();
    for topic in all.chain(plan.dead_letters.iter().map(|dead| &dead.topic)) {
        if topics.iter().all(|known| known.name != topic.name) {
            let partitions = i32::try_from(topic.partitions).unwrap_or(i32::MAX);
            topics.push(NewTopic { name: topic.name.clone(), partitions, replication: i32::from(topic.replication) });
        }
    }
    topics
}
