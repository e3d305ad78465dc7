//! The two instances of a combination: the victim, and the other one.

use std::time::{Duration, Instant};

use transom_harness::instance::Instance;
use transom_harness::scenario::Scenario;

use crate::combination::{Combination, Kind, Membership};
use crate::streams::Streams;

/// As a supervisor would wait before it starts somebody again who ended by itself.
const SUPERVISOR_PAUSE: Duration = Duration::from_millis(500);
const DRAIN_DEADLINE: Duration = Duration::from_secs(40);

/// The default is 10 s. With the `consumer` protocol the broker decides, and it was told the same.
const CLASSIC_SESSION: &str = "session: 6s, ";

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap", client.id: CLIENT }
input: { topic: @in }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @out_dlq }
timeouts: { SESSIONrevoke: 3s, transaction: 60s }
group: { protocol: PROTOCOL }
"#;

/// One instance, over all its lives.
#[derive(Debug)]
pub struct Member {
    /// What its client ids begin with.
    client: String,
    program: Program,
    ended_at: Option<Instant>,
}

#[derive(Debug)]
enum Program {
    Ours(Box<Instance>),
    Streams(Streams),
}

impl Member {
    /// Starts an instance; what it is called in the group depends on its membership.
    #[track_caller]
    pub fn start(t: &Scenario, combination: &Combination, name: &str, membership: Membership) -> Self {
        let client = format!("{}-{name}", t.pipeline());
        let program = match combination.kind {
            Kind::Ours { protocol } => {
                let session = if protocol == "classic" { CLASSIC_SESSION } else { "" };
                let yaml = PIPELINE.replace("CLIENT", &client).replace("PROTOCOL", protocol).replace("SESSION", session);
                let given = (membership == Membership::Static).then_some(name);
                Program::Ours(Box::new(t.start_with(given, &yaml, &[])))
            }
            Kind::Streams { properties } => Program::Streams(Streams::start(t, name, &client, membership, properties)),
        };
        Self { client, program, ended_at: None }
    }

    /// Whether a client id of the group's description is one of its own.
    pub fn has_client(&self, client_id: &str) -> bool {
        client_id.starts_with(&self.client)
    }

    /// Returns the client id of its producer.
    pub fn producer_client(&self) -> String {
        match &self.program {
            Program::Ours(_) => self.client.clone(),
            Program::Streams(_) => format!("{}-StreamThread-1-producer", self.client),
        }
    }

    #[track_caller]
    pub fn kill9(&mut self) {
        match &mut self.program {
            Program::Ours(instance) => instance.kill9(),
            Program::Streams(streams) => streams.kill9(),
        }
    }

    /// Starts it again under its name.
    #[track_caller]
    pub fn restart(&mut self) {
        self.ended_at = None;
        match &mut self.program {
            Program::Ours(instance) => instance.restart(),
            Program::Streams(streams) => streams.restart(),
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.exit_code().is_none()
    }

    fn exit_code(&mut self) -> Option<i32> {
        match &mut self.program {
            Program::Ours(instance) => instance.exit_code(),
            Program::Streams(streams) => streams.exit_code(),
        }
    }

    /// Starts it again if it ended, after a supervisor's pause.
    #[track_caller]
    pub fn is_supervised(&mut self) {
        if self.exit_code().is_some() && self.ended_at.get_or_insert_with(Instant::now).elapsed() >= SUPERVISOR_PAUSE {
            self.restart();
        }
    }

    /// Ends it politely, as far as it knows how.
    #[track_caller]
    pub fn drains(&mut self) {
        match &mut self.program {
            Program::Ours(instance) => instance.drains_within(DRAIN_DEADLINE),
            // The peer has no polite end; its work is committed by now.
            Program::Streams(streams) => streams.kill9(),
        }
    }

    /// Returns what it logged last.
    pub fn log_tail(&self) -> String {
        match &self.program {
            Program::Ours(instance) => instance.log_tail(),
            Program::Streams(streams) => streams.log(),
        }
    }
}
