//! Kafka Streams: the peer of the bench, killed and started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use transom_harness::instance::Process;
use transom_harness::scenario::Scenario;

use crate::combination::{Membership, Property};

/// More records than any run has: it goes on until it is killed.
const ENDLESS: &str = "1000000000000";

/// One instance of the peer, over all its lives; it keeps its state directory.
#[derive(Debug)]
pub struct Streams {
    arguments: Vec<String>,
    log: PathBuf,
    process: Process,
}

/// Returns where `make bench-peers` builds it.
fn built() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("target/bench/streams")
}

/// Whether it was built.
pub fn is_built() -> bool {
    built().join("classes/StreamsPeer.class").is_file()
}

impl Streams {
    #[track_caller]
    pub fn start(t: &Scenario, name: &str, client: &str, membership: Membership, properties: &[Property]) -> Self {
        let state = t.directory().join(format!("state-{name}"));
        let set = |name: &str, value: &str| format!("-Dpeer.{name}={value}");
        let mut arguments = vec!["-Xmx512m".to_owned(), set("state.dir", &state.to_string_lossy()), set("client.id", client)];
        if membership == Membership::Static {
            arguments.push(set("main.consumer.group.instance.id", name));
        }
        arguments.extend(properties.iter().map(|(name, value)| set(name, value)));
        let classes = format!("{}:{}", built().join("classes").display(), built().join("libs/*").display());
        arguments.extend(["-cp".to_owned(), classes, "StreamsPeer".to_owned()]);
        arguments.extend([t.bootstrap(), &t.full("in"), &t.full("out"), ENDLESS, "clean", "100", t.pipeline()].map(str::to_owned));
        let log = t.directory().join(format!("streams-{name}.log"));
        let process = spawn(&arguments, &log);
        Self { arguments, log, process }
    }

    #[track_caller]
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.process.ended().is_some(), "it still runs");
        self.process = spawn(&self.arguments, &self.log);
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.process.ended()
    }

    /// Returns everything it has printed.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

#[track_caller]
fn spawn(arguments: &[String], log: &Path) -> Process {
    let log = OpenOptions::new().create(true).append(true).open(log).expect("open the peer's log");
    let mut command = Command::new("java");
    command.args(arguments).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("share the log")).stderr(log);
    Process::spawn(&mut command)
}
