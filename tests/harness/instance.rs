//! Processes of `transom`: started, watched through their endpoints, stopped in every way there is.
//!
//! The verbs are for tests: they panic, and say what was awaited and what the process logged last. No process outlives its
//! owner: a guard shell sees the pipe close when this program ends, by whatever cause, and kills the process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, kill_process};
use serde::Deserialize;

use crate::freeze::freeze;

pub use rustix::process::Signal;

/// Names the program under test; without it, the one beside the test programs is taken.
pub const BINARY_VARIABLE: &str = "TRANSOM_BINARY";

/// Variables that would change what an instance does; a test sets them itself or they are not there.
const REMOVED_VARIABLES: [&str; 3] = ["TRANSOM_INSTANCE", "TRANSOM_LOG", "TRANSOM_LOG_FORMAT"];
/// The endpoints listen before the cluster is looked at: this is process start and nothing else.
const LISTENING_DEADLINE: Duration = Duration::from_secs(20);
/// Short against every wait of a test, long enough not to take the processor from what is awaited.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// A frozen process accepts connections and never answers; a starved one takes its time.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Lines of log that go into a failure.
const LOG_TAIL_LINES: usize = 60;

/// Returns the program under test.
///
/// # Panics
/// When it is not there: a suite that needs it fails, it is not skipped.
pub fn binary() -> PathBuf {
    let beside_tests = || {
        let tests = std::env::current_exe().ok()?;
        let folder = tests.parent()?;
        // target/release/deps/suite-0123, or target/release/program, and target/release/transom
        Some(if folder.ends_with("deps") { folder.parent()? } else { folder }.join("transom"))
    };
    let path = std::env::var_os(BINARY_VARIABLE).map(PathBuf::from).or_else(beside_tests).unwrap_or_default();
    assert!(path.is_file(), "no program at {}: run make build first, or name one in {BINARY_VARIABLE}", path.display());
    path
}

/// A command that ran to its end.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 + n if signal n ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

/// Runs `transom` with these arguments and variables to its end.
///
/// # Panics
/// When it is still running at the deadline; it is killed.
#[track_caller]
pub fn run_to_end(arguments: &[&str], variables: &[(&str, &str)], deadline: Duration) -> Ended {
    let directory = tempfile::tempdir().expect("make a directory");
    let (out, err) = (directory.path().join("out"), directory.path().join("err"));
    let file = |path: &Path| Stdio::from(File::create(path).expect("make a file"));
    let mut command = Command::new(binary());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    for name in REMOVED_VARIABLES.iter().filter(|removed| variables.iter().all(|(name, _)| name != *removed)) {
        command.env_remove(name);
    }
    let started = Instant::now();
    let mut process = Process::spawn(&mut command);
    let ended = process.ended_within(deadline);
    let took = started.elapsed();
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let (stdout, stderr) = (text(&out), text(&err));
    let Some(code) = ended else { panic!("transom {arguments:?} still runs after {deadline:?}; it said:\n{stdout}{stderr}") };
    Ended { code, stdout, stderr, took }
}

/// `/status` of an instance, as far as tests read it.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// The worst of the workers' states.
    pub state: String,
    /// Why, where there is trouble.
    pub reason: String,
    /// What a person can do about it.
    pub next_step: String,
    /// The sum of the workers' known lags.
    pub lag: Option<i64>,
    /// Committed records by fate.
    pub fates: BTreeMap<String, u64>,
    /// 0, or an alarm.
    pub unaccounted_records: i64,
    /// Each worker.
    pub workers: Vec<Worker>,
}

/// One worker in `/status`.
#[derive(Clone, Debug, Deserialize)]
pub struct Worker {
    /// What it is doing.
    pub state: String,
    /// What went wrong last, if anything did.
    pub last_trouble: Option<Trouble>,
    /// Its producer's number and incarnation, once known.
    pub producer_id: Option<i64>,
    /// See [`Worker::producer_id`].
    pub producer_epoch: Option<i32>,
    /// The group's generation, as of its last batch.
    pub generation: Option<i32>,
    /// Batches committed.
    pub batches_committed: u64,
    /// Batches aborted.
    pub batches_aborted: u64,
    /// Why, where there is trouble.
    pub reason: String,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// What went wrong last in a worker.
#[derive(Clone, Debug, Deserialize)]
pub struct Trouble {
    /// In one word.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What a person can do about it.
    pub next_step: String,
}

/// One partition in `/status`.
#[derive(Clone, Debug, Deserialize)]
pub struct Partition {
    /// Input topic.
    pub topic: String,
    /// Number.
    pub partition: i32,
    /// Committed offset, once known.
    pub committed: Option<i64>,
    /// Last stable offset − committed offset, once known.
    pub lag: Option<i64>,
    /// High watermark − committed offset, once known.
    pub lag_to_log_end: Option<i64>,
    /// Somebody else's transaction that holds it up.
    pub blocked: Option<Blocked>,
}

/// What holds a partition up, in `/status`.
#[derive(Clone, Debug, Deserialize)]
pub struct Blocked {
    /// For how long.
    pub seconds: u64,
    /// Whose transaction it is.
    pub producer_id: Option<i64>,
    /// Its name.
    pub transactional_id: Option<String>,
    /// How long it has been open.
    pub transaction_age_seconds: Option<u64>,
    /// All of that in words.
    pub reason: String,
}

impl Status {
    /// Returns the last trouble of the first worker in one line; empty if there was none.
    pub fn last_trouble(&self) -> String {
        let trouble = self.workers.first().and_then(|worker| worker.last_trouble.as_ref());
        trouble.map_or_else(String::new, |trouble| format!("{}: {}; next step: {}", trouble.what, trouble.reason, trouble.next_step))
    }

    /// Returns how many topic-partitions all workers have.
    pub fn partitions(&self) -> usize {
        self.workers.iter().map(|worker| worker.partitions.len()).sum()
    }

    /// Returns how many records were committed, whatever their fate.
    pub fn records(&self) -> u64 {
        self.fates.values().sum()
    }
}

/// How to start an [`Instance`].
#[derive(Clone, Debug, Default)]
pub struct InstanceOptions {
    /// `--instance`; `None` leaves the host name and dynamic membership.
    pub name: Option<String>,
    /// The pipeline's file.
    pub pipeline: PathBuf,
    /// Where the log goes; a restarted instance appends.
    pub log: PathBuf,
    /// Environment variables.
    pub variables: Vec<(String, String)>,
    /// Another program than the one under test.
    pub program: Option<PathBuf>,
}

/// One `transom run`.
#[derive(Debug)]
pub struct Instance {
    options: InstanceOptions,
    process: Process,
    endpoints: SocketAddr,
}

impl Instance {
    /// Starts an instance and returns when its endpoints listen.
    #[track_caller]
    pub fn start(options: InstanceOptions) -> Self {
        let (process, endpoints) = Self::spawn(&options);
        Self { options, process, endpoints }
    }

    /// Starts an instance that has ended again, under the same name.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.process.ended().is_some(), "{} still runs", self.name());
        (self.process, self.endpoints) = Self::spawn(&self.options);
    }

    #[track_caller]
    fn spawn(options: &InstanceOptions) -> (Process, SocketAddr) {
        let log = OpenOptions::new().create(true).append(true).open(&options.log).expect("open the instance's log");
        let before = log.metadata().map_or(0, |metadata| metadata.len());
        let mut command = Command::new(options.program.clone().unwrap_or_else(binary));
        command.arg("run").arg(&options.pipeline).args(["--listen", "127.0.0.1:0"]);
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        if let Some(name) = &options.name {
            command.args(["--instance", name]);
        }
        command.envs(options.variables.iter().cloned()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("share the log")).stderr(log);
        let mut process = Process::spawn(&mut command);
        let deadline = Instant::now() + LISTENING_DEADLINE;
        loop {
            if let Some(address) = find_endpoints(&options.log, before) {
                return (process, address);
            }
            let ended = process.ended();
            if ended.is_some() || Instant::now() >= deadline {
                panic!("the endpoints do not listen (exit code {ended:?}); {}", tail_of(&options.log));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Returns the instance's name, for messages.
    pub fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or("(host name)")
    }

    /// Returns everything it has logged, over all its lives.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.options.log).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        tail_of(&self.options.log)
    }

    /// Returns `/status`.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn status(&self) -> anyhow::Result<Status> {
        let (_, body) = self.get("/status")?;
        serde_json::from_str(&body).with_context(|| format!("read /status: {body}"))
    }

    /// Returns the text of `/metrics`.
    ///
    /// # Errors
    /// As [`Instance::status`].
    pub fn metrics(&self) -> anyhow::Result<String> {
        self.get("/metrics").map(|(_, body)| body)
    }

    /// Returns how often its producers were replaced, by reason; nothing while it does not answer.
    pub fn recycled(&self) -> BTreeMap<String, u64> {
        self.counted("transom_producer_recycled_total{reason=")
    }

    /// Returns how many transactions ended how; nothing while it does not answer.
    pub fn transactions(&self) -> BTreeMap<String, u64> {
        self.counted("transom_transactions_total{outcome=")
    }

    /// Returns a counter's values by its one label.
    fn counted(&self, name: &str) -> BTreeMap<String, u64> {
        let metrics = self.metrics().unwrap_or_default();
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('"')?.split_once("\"} "));
        lines.filter_map(|(label, count)| Some((label.to_owned(), count.parse().ok()?))).collect()
    }

    /// Returns code and body of an endpoint's answer.
    ///
    /// # Errors
    /// As [`Instance::status`].
    pub fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.endpoints, ANSWER_DEADLINE)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: transom\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
        let code = head.split(' ').nth(1).context("an answer without a code")?.parse()?;
        Ok((code, body.to_owned()))
    }

    /// Returns the address of the endpoints.
    pub fn endpoints(&self) -> SocketAddr {
        self.endpoints
    }

    /// Waits until the status is as wished.
    #[track_caller]
    pub fn awaits(&mut self, what: &str, deadline: Duration, mut wished: impl FnMut(&Status) -> bool) -> Status {
        let until = Instant::now() + deadline;
        loop {
            let status = self.status();
            match &status {
                Ok(status) if wished(status) => return status.clone(),
                _ => {}
            }
            if let Some(code) = self.process.ended() {
                panic!("{} ended with {code} while this was awaited: {what}; {}", self.name(), self.log_tail());
            }
            if Instant::now() >= until {
                panic!("{}: after {deadline:?} still awaited: {what}; status {status:?}; {}", self.name(), self.log_tail());
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Waits until this many topic-partitions are its own.
    #[track_caller]
    pub fn awaits_partitions(&mut self, count: usize, deadline: Duration) -> Status {
        self.awaits(&format!("{count} partitions"), deadline, |status| status.partitions() == count)
    }

    /// Waits until its log holds a text.
    #[track_caller]
    pub fn awaits_log(&mut self, text: &str, deadline: Duration) {
        let until = Instant::now() + deadline;
        while !self.log().contains(text) {
            let ended = self.process.ended();
            if ended.is_some() || Instant::now() >= until {
                panic!("{} did not log {text:?} (exit code {ended:?}); {}", self.name(), self.log_tail());
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Ends it at once, as a power cut would.
    #[track_caller]
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.exits_within(Duration::from_secs(10));
    }

    /// Asks it to stop.
    #[track_caller]
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Stops its clock: its connections stay open, nothing answers.
    #[track_caller]
    pub fn freeze(&mut self) {
        self.expect_alive();
        freeze(self.process.id).expect("freeze a child of ours");
    }

    /// Lets it go on after [`Instance::freeze`].
    #[track_caller]
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Returns how much processor time it has used so far.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.process.child.id());
        let stat = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
        // The name in parentheses may hold anything; user and system time are the 12th and 13th words behind it.
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let words = behind_name.split_ascii_whitespace().skip(11).take(2);
        let ticks: u64 = words.map(|word| word.parse::<u64>().expect("a number of clock ticks")).sum();
        // Linux counts in hundredths of a second for every program.
        Duration::from_millis(ticks * 10)
    }

    /// Returns its exit code if it has ended; 128 + n if signal n ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.process.ended()
    }

    /// Waits for its end and returns the exit code; 128 + n if signal n ended it.
    #[track_caller]
    pub fn exits_within(&mut self, deadline: Duration) -> i32 {
        match self.process.ended_within(deadline) {
            Some(code) => code,
            None => panic!("{} still runs after {deadline:?}; {}", self.name(), self.log_tail()),
        }
    }

    /// Asks it to stop and waits until it has drained.
    #[track_caller]
    pub fn drains_within(&mut self, deadline: Duration) {
        self.terminate();
        let code = self.exits_within(deadline);
        assert_eq!(code, 0, "{} ended with {code}; {}", self.name(), self.log_tail());
    }

    /// Sends a signal unless it has ended by itself; returns whether it had not. For tests in which it may.
    #[track_caller]
    pub fn is_sent(&mut self, signal: Signal) -> bool {
        let is_alive = self.process.ended().is_none();
        if is_alive {
            // Ended a moment ago it is still a child of ours, which nobody has waited for.
            kill_process(self.process.id, signal).expect("signal a child of ours");
        }
        is_alive
    }

    #[track_caller]
    fn signal(&mut self, signal: Signal) {
        self.expect_alive();
        kill_process(self.process.id, signal).expect("signal a child of ours");
    }

    #[track_caller]
    fn expect_alive(&mut self) {
        let ended = self.process.ended();
        assert!(ended.is_none(), "{} has ended with {ended:?} already; {}", self.name(), self.log_tail());
    }
}

impl Drop for Instance {
    // The failure may be elsewhere, in the audit for instance; what its instances did belongs to it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.process.ended();
            eprintln!("instance {} (exit code {ended:?}), {}", self.name(), self.log_tail());
        }
    }
}

/// Finds the address in what a log holds behind `before`.
fn find_endpoints(log: &Path, before: u64) -> Option<SocketAddr> {
    let bytes = std::fs::read(log).ok()?;
    let text = String::from_utf8_lossy(bytes.get(usize::try_from(before).ok()?..)?).into_owned();
    let address = text.split_once("endpoints=")?.1;
    // The line is whole when something stands behind the address.
    address.split_once(char::is_whitespace)?.0.parse().ok()
}

fn tail_of(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    format!("its last {} of {} log lines:\n  {}", tail.len(), lines.len(), tail.join("\n  "))
}

/// A child that dies with its owner; for programs that are no [`Instance`].
#[derive(Debug)]
pub struct Process {
    child: Child,
    id: Pid,
    guard: Child,
}

impl Process {
    /// A word on the pipe: the child has ended, its number may be another's by now. The pipe's end without one: kill it.
    const GUARD: &str = r#"read -r ended || kill -KILL "$1""#;

    /// Starts a command.
    #[track_caller]
    pub fn spawn(command: &mut Command) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let id = Pid::from_child(&child);
        let guard = Command::new("sh")
            .args(["-c", Self::GUARD, "guard", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends this program, not the one that tidies up after it.
            .process_group(0)
            .spawn()
            .expect("start the instance's guard (sh)");
        Self { child, id, guard }
    }

    /// Returns its exit code if it has ended; 128 + n if signal n ended it.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("ask for a child of ours")?;
        if let Some(mut pipe) = self.guard.stdin.take() {
            // A guard that is gone guards nothing any more.
            let _ = writeln!(pipe, "ended");
        }
        Some(code_of(status))
    }

    /// Ends it at once, as a power cut would.
    #[track_caller]
    pub fn kill9(&mut self) {
        assert_eq!(self.ended(), None, "it has ended already");
        kill_process(self.id, Signal::KILL).expect("kill a child of ours");
        assert!(self.ended_within(Duration::from_secs(10)).is_some(), "it outlives SIGKILL");
    }

    /// Waits for its end and returns the exit code, if it comes in time.
    pub fn ended_within(&mut self, deadline: Duration) -> Option<i32> {
        let until = Instant::now() + deadline;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() >= until {
                return ended;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // SIGKILL also ends a frozen process. Errors mean that it ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = self.ended();
        }
        let _ = self.guard.wait();
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
