//! A broker as a Java process of this machine, from jars that Maven fetched. Keeps its data, properties and log in one directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{KAFKA_VERSION, POLL_INTERVAL, Probe, STOP_DEADLINE, last_lines, output_of};
use crate::freeze::freeze;

/// The oldest Java that Kafka 4 runs on.
const JAVA_MAJOR_MIN: u32 = 17;
/// Any id in Kafka's form will do; a fixed one makes logs comparable.
pub(super) const CLUSTER_ID: &str = "5L6g3nShT-eMCtK--X86sw";

#[derive(Debug)]
pub(super) struct Node {
    directory: PathBuf,
    // `None` while the broker is stopped.
    process: Option<Child>,
}

/// Java counts as there when it is new enough and the jars are fetched or can be.
pub(super) fn probe() -> Probe {
    // Prints to stderr unless asked with two dashes.
    let version = match output_of(Command::new("java").arg("--version")) {
        Ok(text) => text.lines().next().unwrap_or_default().to_owned(),
        Err(error) => return Probe::Missing(format!("no java: {error:#}")),
    };
    match major_of(&version) {
        Some(major) if major >= JAVA_MAJOR_MIN => {}
        _ => return Probe::Missing(format!("Java {JAVA_MAJOR_MIN} or newer is needed, found: {version}")),
    }
    match libraries() {
        Ok(_) => Probe::Ready(format!("{version}, Kafka {KAFKA_VERSION}")),
        Err(error) => Probe::Missing(format!("no broker jars: {error:#}")),
    }
}

fn major_of(version: &str) -> Option<u32> {
    version.split([' ', '.', '-', '+']).find_map(|word| word.parse().ok())
}

/// Returns the directory of the broker's jars, which the first call on a machine fetches.
fn libraries() -> anyhow::Result<PathBuf> {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    if let Some(libraries) = LIBRARIES.get() {
        return Ok(libraries.clone());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka/fetch.sh");
    let libraries = PathBuf::from(output_of(Command::new("bash").arg(script))?);
    Ok(LIBRARIES.get_or_init(|| libraries).clone())
}

impl Node {
    pub(super) fn start(directory: &Path, properties: &BTreeMap<String, String>) -> anyhow::Result<Node> {
        let mut text = String::new();
        for (key, value) in properties {
            text.push_str(&format!("{key}={value}\n"));
        }
        let mut node = Node { directory: directory.to_owned(), process: None };
        fs::write(node.properties(), text)?;
        output_of(
            java()?
                // A short run: compile little, start soon.
                .args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
                .args(["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER_ID, "-c"])
                .arg(node.properties()),
        )
        .context("format the broker's storage")?;
        node.restart()?;
        Ok(node)
    }

    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        if self.process.is_some() {
            bail!("the broker already runs");
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let process = java()?
            // The same heap as in the container.
            .args(["-Xms128m", "-Xmx512m", "kafka.Kafka"])
            .arg(self.properties())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the test; the broker goes when the test has gone.
            .process_group(0)
            .spawn()
            .context("start the broker's process")?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_DEADLINE;
        while self.ended()?.is_none() {
            if Instant::now() >= deadline {
                bail!("the broker runs on {} s after SIGTERM:\n{}", STOP_DEADLINE.as_secs(), last_lines(&self.log()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.process = None;
        Ok(())
    }

    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        let mut process = self.process.take().context("the broker is stopped")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    pub(super) fn freeze(&mut self) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the broker is stopped")?;
        freeze(Pid::from_child(process)).context("freeze the broker")
    }

    pub(super) fn thaw(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    pub(super) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    pub(super) fn ended(&mut self) -> anyhow::Result<Option<String>> {
        let process = self.process.as_mut().context("the broker is stopped")?;
        Ok(process.try_wait()?.map(|status| status.to_string()))
    }

    pub(super) fn log(&self) -> String {
        match fs::read(self.log_path()) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("(no log: {error})"),
        }
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the broker is stopped")?;
        // Not yet waited for, so the id is still its own.
        kill_process(Pid::from_child(process), signal).with_context(|| format!("send {signal:?} to the broker"))
    }

    fn properties(&self) -> PathBuf {
        self.directory.join("server.properties")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("broker.log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Already ended is as good as killed; the guard has the last word in any case.
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn java() -> anyhow::Result<Command> {
    let mut command = Command::new("java");
    command.arg("-cp").arg(libraries()?.join("*")).args([
        "-Dorg.slf4j.simpleLogger.logFile=System.out",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    ]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::major_of;

    #[test]
    fn the_major_version_is_read_from_every_vendors_first_line() {
        assert_eq!(major_of("openjdk 17.0.15 2025-04-15"), Some(17));
        assert_eq!(major_of("openjdk 25-ea 2025-09-16"), Some(25));
        assert_eq!(major_of("java 21.0.2 2024-01-16 LTS"), Some(21));
        assert_eq!(major_of("command not understood"), None);
    }
}
