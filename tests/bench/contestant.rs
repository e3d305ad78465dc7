//! Who takes part: our pipeline in its configurations, and the peers. Each is a program that reads one topic and writes two.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use transom_harness::instance::Status;

use crate::ground::{self, Ground};
use crate::program::{Program, Used};

/// Between two looks at our status: an answer costs us a third of a millisecond of CPU, which the figures then hold.
const STATUS_PAUSE: Duration = Duration::from_millis(50);
/// The slowest run here takes a minute.
const RUN_DEADLINE: Duration = Duration::from_secs(300);
/// Everything is committed when a program is asked to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Its bytes pass through.
    Copy,
    /// JSON is read, five fields are written as JSON; orders without an amount are dead letters.
    Clean,
}

impl Work {
    /// Returns the peers' word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Clean => "clean",
        }
    }
}

/// One who takes part.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// Its name in results.
    pub name: &'static str,
    /// Which program it is.
    pub kind: Kind,
    /// Its commit interval: `100ms`, or ours `adaptive`.
    pub interval: &'static str,
}

/// Which program runs.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A pipeline of ours.
    Ours {
        /// `guarantee` of the pipeline file.
        guarantee: &'static str,
        /// `workers` of the pipeline file.
        workers: u32,
    },
    /// The bare loop on our client library: its limit.
    RawLoop,
    /// franz-go's GroupTransactSession.
    FranzGo,
    /// Kafka Streams, exactly once v2.
    Streams,
}

const EXACTLY_ONCE: Kind = Kind::Ours { guarantee: "exactly_once", workers: 1 };

/// Our pipeline with its defaults.
pub const OURS: Contestant = Contestant { name: "transom", kind: EXACTLY_ONCE, interval: "100ms" };
/// Our pipeline without transactions: what exactly-once costs is measured against it.
pub const OURS_AT_LEAST_ONCE: Contestant =
    Contestant { name: "transom-at-least-once", kind: Kind::Ours { guarantee: "at_least_once", workers: 1 }, interval: "100ms" };
/// Our pipeline that chooses the interval itself.
pub const OURS_ADAPTIVE: Contestant = Contestant { name: "transom-adaptive", kind: EXACTLY_ONCE, interval: "adaptive" };
/// The bare loop on our client library.
pub const RAW_LOOP: Contestant = Contestant { name: "rawloop", kind: Kind::RawLoop, interval: "100ms" };
/// The bare loop that commits as soon as it can: its own cycle.
pub const RAW_LOOP_5_MS: Contestant = Contestant { name: "rawloop-5ms", kind: Kind::RawLoop, interval: "5ms" };
/// franz-go.
pub const FRANZ_GO: Contestant = Contestant { name: "franz-go", kind: Kind::FranzGo, interval: "100ms" };
/// Kafka Streams.
pub const STREAMS: Contestant = Contestant { name: "streams", kind: Kind::Streams, interval: "100ms" };
/// Kafka Streams that commits ten times as often.
pub const STREAMS_10_MS: Contestant = Contestant { name: "streams-10ms", kind: Kind::Streams, interval: "10ms" };

/// The topics of one run, and its group.
pub struct Topics {
    /// Read.
    pub input: String,
    /// Written.
    pub output: String,
    /// Written; peers expect this name.
    pub dead_letters: String,
    /// Name of the group, of the log and of the pipeline.
    pub group: String,
}

impl Topics {
    /// Makes the topics of outputs; the broker stamps their records, so that all contestants are timed by one clock.
    ///
    /// # Errors
    /// If the broker refuses.
    pub fn create(ground: &Ground, input: &str, partitions: i32, contestant: &Contestant) -> Result<Self> {
        let group = ground.new_name(contestant.name);
        let topics = Self { input: input.to_owned(), output: group.clone(), dead_letters: format!("{group}_dlq"), group };
        for topic in [&topics.output, &topics.dead_letters] {
            ground.client.create_topic(topic, partitions, &[("message.timestamp.type", "LogAppendTime")])?;
        }
        Ok(topics)
    }
}

impl Contestant {
    /// Returns why it cannot take part here; `None` if it can.
    ///
    /// # Errors
    /// If our own pipeline file cannot be written or our program not be run.
    pub fn missing(&self, work: Work) -> Result<Option<String>> {
        let program = match self.kind {
            Kind::Ours { .. } => {
                let file = ground::logs().join(format!("{}-{}.yaml", self.name, work.word()));
                let program = ours(work)?;
                if !program.is_file() {
                    return Ok(Some(format!("{} is not built", program.display())));
                }
                fs::write(&file, self.pipeline("localhost:9092", "in", "out", "out_dlq", "bench", work))?;
                let checked = Command::new(&program).arg("validate").arg(&file).output()?;
                let said = String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
                let reason = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
                return Ok((!checked.status.success()).then(|| format!("{} refuses it: {reason}", program.display())));
            }
            Kind::RawLoop => ground::built("rawloop")?,
            Kind::FranzGo => franz(),
            Kind::Streams => streams().join("classes/StreamsPeer.class"),
        };
        Ok((!program.is_file()).then(|| format!("{} is not built", program.display())))
    }

    /// Starts it. Our pipeline runs until it is asked to stop, a peer until it has seen `records` records.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(&self, ground: &Ground, topics: &Topics, work: Work, records: u64) -> Result<Program> {
        let log = ground::logs().join(format!("{}.log", topics.group));
        let Topics { input, output, dead_letters, group } = topics;
        let records = records.to_string();
        let interval_ms = self.interval.trim_end_matches("ms");
        let for_peer = [&ground.bootstrap, input, output, &records, work.word(), interval_ms, group];
        let mut command = match self.kind {
            Kind::Ours { .. } => {
                let file = log.with_extension("yaml");
                fs::write(&file, self.pipeline(&ground.bootstrap, input, output, dead_letters, group, work))?;
                let mut command = Command::new(ours(work)?);
                command.arg("run").arg(file).args(["--listen", "127.0.0.1:0"]);
                for name in ["TRANSOM_INSTANCE", "TRANSOM_LOG", "TRANSOM_LOG_FORMAT"] {
                    command.env_remove(name);
                }
                command
            }
            Kind::RawLoop => {
                let mut command = Command::new(ground::built("rawloop")?);
                command.arg("run").args(for_peer);
                command
            }
            Kind::FranzGo => {
                let mut command = Command::new(franz());
                command.args(for_peer);
                command
            }
            Kind::Streams => {
                let classes = format!("{}:{}", streams().join("classes").display(), streams().join("libs/*").display());
                let mut command = Command::new("java");
                command.args(["-Xmx1g", "-cp", &classes, "StreamsPeer"]).args(for_peer);
                command
            }
        };
        Program::start(&format!("{} ({group})", self.name), &mut command, &log)
    }

    /// Lets a started one finish its work and returns what it used over its whole life.
    ///
    /// # Errors
    /// If it fails or is not done in time.
    pub fn finish(&self, mut program: Program, records: u64) -> Result<Used> {
        if let Kind::Ours { .. } = self.kind {
            await_committed(&mut program, records)?;
            program.ask_to_stop()?;
            return program.ends_within(STOP_DEADLINE);
        }
        program.ends_within(RUN_DEADLINE)
    }

    fn pipeline(&self, bootstrap: &str, input: &str, output: &str, dead_letters: &str, group: &str, work: Work) -> String {
        let (guarantee, workers) = match self.kind {
            Kind::Ours { guarantee, workers } => (guarantee, workers),
            Kind::RawLoop | Kind::FranzGo | Kind::Streams => ("exactly_once", 1),
        };
        let (format, process) = match work {
            Work::Copy => ("bytes", "copy"),
            Work::Clean => ("json", "clean_orders"),
        };
        format!(
            r#"pipeline: {group}
guarantee: {guarantee}
workers: {workers}
kafka: {{ bootstrap.servers: "{bootstrap}" }}
input: {{ topic: {input}, format: {format} }}
steps:
  - {{ id: step, process: {process} }}
output: {{ topic: {output}, format: {format} }}
dead_letters: {{ topic: {dead_letters} }}
commit: {{ interval: {interval} }}
"#,
            interval = self.interval,
        )
    }
}

/// Returns the binary that knows the work: the shipped one, unless there is only the bench's.
fn ours(work: Work) -> Result<PathBuf> {
    ground::built(match work {
        Work::Copy => "bench-transom",
        Work::Clean => "transom",
    })
}

fn franz() -> PathBuf {
    ground::results().join("franz")
}

fn streams() -> PathBuf {
    ground::results().join("streams")
}

/// Waits until an instance of ours has committed this many records.
fn await_committed(program: &mut Program, records: u64) -> Result<()> {
    let until = Instant::now() + RUN_DEADLINE;
    let mut address = None;
    loop {
        program.expect_running()?;
        if address.is_none() {
            address = find_endpoints(&program.output());
        }
        let committed = address.as_deref().and_then(|address| committed(address).ok());
        if committed.is_some_and(|committed| committed >= records) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{committed:?} of {records} records are committed after {} s", RUN_DEADLINE.as_secs());
        std::thread::sleep(STATUS_PAUSE);
    }
}

fn find_endpoints(log: &str) -> Option<String> {
    let address = log.split_once("endpoints=")?.1;
    // The line is whole when something stands behind the address.
    Some(address.split_once(char::is_whitespace)?.0.to_owned())
}

fn committed(address: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
    write!(stream, "GET /status HTTP/1.1\r\nHost: transom\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    let status: Status = serde_json::from_str(body)?;
    Ok(status.records())
}
