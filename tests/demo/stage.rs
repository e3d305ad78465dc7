//! Where the demo plays: a broker, three topics, a pipeline file and a directory for logs.
//!
//! Owns that nothing is left: a broker of its own goes with its data; on brokers that are not the demo's the topics have
//! names of their own and are deleted.

use crate::process::{Guard, Process};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use transom_harness::broker::{BOOTSTRAP_VARIABLE, Cluster, ClusterOptions};
use transom_harness::wire::Client;

/// Partitions of each topic: two for each of two instances.
pub(crate) const PARTITIONS: i32 = 4;

/// The names in the pipeline file.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) pipeline: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) dead_letters: String,
}

impl Names {
    fn with_prefix(prefix: &str) -> Names {
        let name = |name: &str| format!("{prefix}{name}");
        Names { pipeline: name("orders"), input: name("orders"), output: name("orders_clean"), dead_letters: name("orders_dlq") }
    }

    pub(crate) fn topics(&self) -> [&str; 3] {
        [&self.input, &self.output, &self.dead_letters]
    }
}

/// A broker to play on.
pub(crate) struct Ground {
    bootstrap: String,
    description: String,
    // Held for its guard; `None` when the brokers are somebody else's.
    cluster: Option<Cluster>,
}

impl Ground {
    /// Takes the brokers that are named, else starts one.
    pub(crate) fn find_or_start() -> Result<Ground> {
        match std::env::var(BOOTSTRAP_VARIABLE) {
            Ok(bootstrap) if !bootstrap.is_empty() => {
                let description = format!("{bootstrap}, named by {BOOTSTRAP_VARIABLE}");
                Ok(Ground { bootstrap, description, cluster: None })
            }
            _ => {
                let cluster = Cluster::start(ClusterOptions::default())?;
                Ok(Ground { bootstrap: cluster.bootstrap().to_owned(), description: cluster.description(), cluster: Some(cluster) })
            }
        }
    }

    pub(crate) fn description(&self) -> &str {
        &self.description
    }
}

/// Everything the instances need.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) names: Names,
    program: PathBuf,
    pipeline_file: PathBuf,
    guard: Arc<Mutex<Guard>>,
    directory: TempDir,
    // Last, so that the broker outlives everything that talks to it.
    ground: Ground,
}

impl Stage {
    pub(crate) fn build(ground: Ground) -> Result<Stage> {
        let client = Client::connect(&ground.bootstrap).context("connect to the broker")?;
        let names = if ground.cluster.is_some() {
            Names::with_prefix("")
        } else {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            Names::with_prefix(&format!("transom_demo_{seconds}_"))
        };
        let directory = tempfile::Builder::new().prefix("transom-demo-").tempdir()?;
        let pipeline_file = directory.path().join("pipeline.yaml");
        let replication = client.brokers()?.len().min(3);
        fs::write(&pipeline_file, pipeline(&names, replication))?;
        Ok(Stage { client, names, program: program()?, pipeline_file, guard: Guard::start()?, directory, ground })
    }

    /// Creates the topics by `transom topics create`.
    pub(crate) fn create_topics(&self) -> Result<()> {
        let output = self.transom(&["topics", "create"]).arg(&self.pipeline_file).output().context("run transom")?;
        if !output.status.success() {
            bail!("transom topics create ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        self.names.topics().iter().try_for_each(|topic| self.client.wait_for_topic(topic, PARTITIONS))
    }

    /// Starts an instance of the pipeline under this name.
    pub(crate) fn start_instance(&self, name: &str) -> Result<Process> {
        let mut command = self.transom(&["run"]);
        // Port 0: several instances share this machine.
        command.arg(&self.pipeline_file).args(["--instance", name, "--listen", "127.0.0.1:0"]);
        Process::start(name, &mut command, &self.log(name), &self.guard)
    }

    /// Starts the generator.
    pub(crate) fn start_generator(&self, options: &[&str]) -> Result<Process> {
        let mut command = self.transom(&["gen", "orders", "--pipeline"]);
        command.arg(&self.pipeline_file).args(options);
        Process::start("gen orders", &mut command, &self.log("gen"), &self.guard)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    /// Keeps the directory beyond the demo and returns it.
    pub(crate) fn keep_directory(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    fn transom(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env(BOOTSTRAP_VARIABLE, &self.ground.bootstrap).env_remove("TRANSOM_INSTANCE");
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.ground.cluster.is_some() {
            return;
        }
        for topic in self.names.topics() {
            if let Err(error) = self.client.delete_topic(topic) {
                eprintln!("demo: topic {topic} is left behind: {error:#}");
            }
        }
    }
}

/// Returns the program `transom`: the one beside the demo, unless the environment names another.
fn program() -> Result<PathBuf> {
    let program = match std::env::var_os("TRANSOM_BINARY") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe()?.with_file_name("transom"),
    };
    if !program.is_file() {
        bail!("{} is not there; make build makes it", program.display());
    }
    Ok(program)
}

/// `processors/clean_orders/pipeline.yaml`, with a session as short as a broker's default allows, so that the group gives a
/// frozen instance up in seconds.
fn pipeline(names: &Names, replication: usize) -> String {
    let Names { pipeline, input, output, dead_letters } = names;
    let topic = format!("partitions: {PARTITIONS}, replication: {replication}");
    format!(
        r#"pipeline: {pipeline}
kafka: {{ bootstrap.servers: "${{{BOOTSTRAP_VARIABLE}}}" }}
input: {{ topic: {input}, format: json, {topic} }}
steps:
  - {{ id: clean, process: clean_orders }}
output: {{ topic: {output}, format: json, {topic} }}
dead_letters: {{ topic: {dead_letters}, attempts: 3, {topic} }}
timeouts: {{ session: 6s }}
"#
    )
}
