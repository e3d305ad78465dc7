//! Where the bench runs: one broker for the whole run, and the folders of the build.

use anyhow::{Context, Result};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use transom_harness::broker::{BOOTSTRAP_VARIABLE, Cluster, ClusterOptions};
use transom_harness::wire::Client;

use crate::program;

/// Names the folder of the programs under test; without it, the one that this program lies in.
const PROGRAMS_VARIABLE: &str = "TRANSOM_BENCH_PROGRAMS";

/// A broker, a client for the checks, and names that no other run has.
pub struct Ground {
    /// `host:port` of the broker.
    pub bootstrap: String,
    /// The harness' client, which shares no code with any contestant.
    pub client: Client,
    description: String,
    broker_process: Option<u32>,
    unique: String,
    numbers: Cell<u32>,
    // Held for its guard; `None` when the brokers are somebody else's.
    _cluster: Option<Cluster>,
}

impl Ground {
    /// Takes the brokers that are named in the environment, else starts one.
    ///
    /// # Errors
    /// If there is none to be had, or it does not answer.
    pub fn find_or_start() -> Result<Self> {
        let (bootstrap, description, cluster) = match std::env::var(BOOTSTRAP_VARIABLE) {
            Ok(bootstrap) if !bootstrap.is_empty() => {
                let description = format!("{bootstrap}, named by {BOOTSTRAP_VARIABLE}");
                (bootstrap, description, None)
            }
            _ => {
                let cluster = Cluster::start(ClusterOptions::default())?;
                (cluster.bootstrap().to_owned(), cluster.description(), Some(cluster))
            }
        };
        fs::create_dir_all(results())?;
        fs::create_dir_all(logs())?;
        let client = Client::connect(&bootstrap).context("connect to the broker")?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let unique = format!("bench-{:x}", since.as_millis());
        let broker_process = find_broker(&bootstrap);
        Ok(Self { bootstrap, client, description, broker_process, unique, numbers: Cell::new(0), _cluster: cluster })
    }

    /// Returns one line for a person.
    pub fn description(&self) -> String {
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let broker = self.broker_process.map_or(", its CPU is not visible from here", |_| "");
        format!("broker {}{broker}; {processors} processors", self.description)
    }

    /// Returns a name that was not used before, for topics, groups and logs.
    pub fn new_name(&self, what: &str) -> String {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        format!("{}-{number}-{what}", self.unique)
    }

    /// Returns the CPU seconds the broker has used so far, where its process can be seen.
    pub fn broker_cpu_s(&self) -> Option<f64> {
        program::cpu_s(self.broker_process?)
    }

    /// Removes topics; one that cannot be removed is named.
    pub fn remove_topics(&self, topics: &[&str]) {
        for topic in topics {
            if let Err(error) = self.client.delete_topic(topic) {
                eprintln!("bench: topic {topic} is left behind: {error:#}");
            }
        }
    }
}

/// Returns the folder of results, logs and peers.
pub fn results() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("target/bench")
}

/// Returns the folder of the programs' logs and of our pipeline files.
pub fn logs() -> PathBuf {
    results().join("logs")
}

/// Returns the path of a program that Cargo built.
///
/// # Errors
/// If this program does not know where it lies itself.
pub fn built(program: &str) -> Result<PathBuf> {
    match std::env::var_os(PROGRAMS_VARIABLE) {
        Some(folder) => Ok(Path::new(&folder).join(program)),
        None => Ok(std::env::current_exe()?.with_file_name(program)),
    }
}

/// Finds the process of a broker on this machine: a Java process whose properties name our port.
fn find_broker(bootstrap: &str) -> Option<u32> {
    let port = format!(":{}", bootstrap.split(',').next()?.rsplit_once(':')?.1);
    let names_port = |line: &str| line.split(['=', ',']).any(|word| word.trim().ends_with(&port));
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let main = words.iter().position(|word| word == "kafka.Kafka")?;
        // Of the process' own root: in a container it is another than ours.
        let properties = entry.path().join("root").join(words.get(main + 1)?.trim_start_matches('/'));
        let text = fs::read_to_string(properties).ok()?;
        text.lines().any(|line| line.contains("listeners=") && names_port(line)).then_some(process)
    })
}
