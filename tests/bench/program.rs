//! The programs that the bench starts, and what the kernel says they used.
//!
//! Owns that none of them outlives the bench: a dropped one is killed, and a guard (a small shell) waits on a pipe that only the
//! bench holds. CPU time is the child's rusage over its whole life, from exec to exit: the kernel adds it to ours when the child
//! is waited for, which `/proc/self/stat` shows. One child is waited for at a time, so the difference is that child's.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at a child: its peak memory is a high-water mark, so nothing is missed but what it takes in its last moment.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Lines of a log that a failure shows: the reason and what led to it.
const LOG_TAIL_LINES: usize = 25;

/// What a program used, from exec to exit.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// User and system time of all its threads.
    pub cpu_s: f64,
    /// Peak resident set.
    pub rss_mb: f64,
}

/// One running program.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    guard: Child,
    log: PathBuf,
    rss_kb: u64,
}

impl Program {
    /// A word on the pipe: the child has ended, its number may be another's by now. The pipe's end without one: kill it.
    const GUARD: &str = r#"read -r ended || kill -KILL "$1""#;

    /// Starts `command`; what it prints and logs goes to a new file `log`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("make {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // Ctrl-C is for the bench; the guard ends its programs.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}: {}", command.get_program().display()))?;
        let guard = Command::new("sh")
            .args(["-c", Self::GUARD, "guard", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the guard (sh)")?;
        Ok(Self { name: name.to_owned(), child, guard, log: log.to_owned(), rss_kb: 0 })
    }

    /// Returns everything it has printed and logged.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns its peak resident set so far, in MB (1024 kB, as the kernel counts).
    pub fn rss_mb(&mut self) -> f64 {
        self.look();
        self.rss_kb as f64 / 1024.0
    }

    /// Fails if it ended.
    ///
    /// # Errors
    /// With its last words.
    pub fn expect_running(&mut self) -> Result<()> {
        self.look();
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself ({status}); its last words:\n{}", self.name, self.tail()),
        }
    }

    /// Asks it to stop by SIGTERM.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn ask_to_stop(&mut self) -> Result<()> {
        self.look();
        kill_process(Pid::from_child(&self.child), Signal::TERM).with_context(|| format!("send SIGTERM to {}", self.name))
    }

    /// Waits for its end and returns what it used.
    ///
    /// # Errors
    /// If it is not done in time, or its exit code is not 0: with its last words.
    pub fn ends_within(mut self, deadline: Duration) -> Result<Used> {
        let until = Instant::now() + deadline;
        loop {
            self.look();
            let before_s = waited_children_cpu_s()?;
            if let Some(status) = self.child.try_wait()? {
                let cpu_s = waited_children_cpu_s()? - before_s;
                return self.check(status).map(|()| Used { cpu_s, rss_mb: self.rss_kb as f64 / 1024.0 });
            }
            if Instant::now() >= until {
                bail!("{} still runs after {} s; its last words:\n{}", self.name, deadline.as_secs(), self.tail());
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Asks it to stop and waits until it has, whatever its exit code: a JVM that is told to go reports the signal.
    ///
    /// # Errors
    /// If there is no such process, or it does not stop.
    pub fn stop(mut self, deadline: Duration) -> Result<()> {
        self.ask_to_stop()?;
        let until = Instant::now() + deadline;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < until, "{} still runs {} s after SIGTERM", self.name, deadline.as_secs());
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }

    fn check(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            bail!("{} ended with {status}; its last words:\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// Notes the peak so far; a process on its way out shows none.
    fn look(&mut self) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        self.rss_kb = self.rss_kb.max(peak.unwrap_or(0));
    }

    fn tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mut pipe) = self.guard.stdin.take() {
            // A guard that is gone guards nothing any more.
            let _ = writeln!(pipe, "ended");
        }
        let _ = self.guard.wait();
    }
}

/// Returns the CPU seconds of a running process: user and system time of all its threads.
pub fn cpu_s(process: u32) -> Option<f64> {
    let (user, system) = (13, 14);
    ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?, [user, system])
}

/// Returns the CPU seconds of all children that were waited for.
fn waited_children_cpu_s() -> Result<f64> {
    let (user, system) = (15, 16);
    ticks(&fs::read_to_string("/proc/self/stat")?, [user, system]).context("/proc/self/stat without times")
}

/// Sums fields of a stat line, counted from 0 as proc(5) counts them less one, and turns clock ticks into seconds.
fn ticks(stat: &str, fields: [usize; 2]) -> Option<f64> {
    // The program's name stands in parentheses and may hold anything; behind it comes field 2.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let sum: u64 = fields.iter().map(|field| words.get(field - 2)?.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(sum as f64 / rustix::param::clock_ticks_per_second() as f64)
}
