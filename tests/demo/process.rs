//! The programs that the demo starts: instances and the generator, each with a log file.
//!
//! Owns that none of them outlives the demo: a dropped one is killed, and a guard (a small shell) waits on a pipe that only
//! the demo holds; however the demo ends, SIGKILL included, the pipe closes and the guard kills what is left.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of a log that a failure shows: the reason and what led to it.
const LOG_TAIL_LINES: usize = 25;

/// Kills every process it knows as soon as the demo is gone.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    watched: BTreeSet<u32>,
}

impl Guard {
    // Each line names all processes to kill; the last one counts.
    const SCRIPT: &str = r#"
        while read -r line; do pids=$line; done
        [ -n "$pids" ] && kill -KILL $pids
    "#;

    pub(crate) fn start() -> Result<Arc<Mutex<Guard>>> {
        let shell = Command::new("sh")
            .args(["-c", Self::SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends the demo, not the one that tidies up after it.
            .process_group(0)
            .spawn()
            .context("start the guard (sh)")?;
        Ok(Arc::new(Mutex::new(Guard { shell, watched: BTreeSet::new() })))
    }

    fn tell(&mut self) -> Result<()> {
        let line: Vec<String> = self.watched.iter().map(u32::to_string).collect();
        let pipe = self.shell.stdin.as_mut().context("the guard has no pipe")?;
        writeln!(pipe, "{}", line.join(" ")).context("write to the guard")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It was told to end; when it cannot even be waited for, there is nobody left to tell.
        let _ = self.shell.wait();
    }
}

/// One running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    guard: Arc<Mutex<Guard>>,
}

impl Process {
    /// Starts `command`; what it says goes to the end of `log`.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path, guard: &Arc<Mutex<Guard>>) -> Result<Process> {
        let file = File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // Ctrl-C is for the demo, which then ends its programs itself.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}: {}", command.get_program().display()))?;
        let process = Process { name: name.to_owned(), child, log: log.to_owned(), guard: Arc::clone(guard) };
        process.note(|guard, id| guard.watched.insert(id))?;
        Ok(process)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// SIGSTOP: its connections stay open, it does nothing any more.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGKILL, frozen or not.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.note(|guard, id| guard.watched.remove(&id))
    }

    /// Returns how it ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.note(|guard, id| guard.watched.remove(&id))?;
        }
        Ok(status)
    }

    /// Fails if it ended.
    pub(crate) fn expect_running(&mut self) -> Result<()> {
        let name = self.name.clone();
        let ended = self.ended()?;
        ensure!(ended.is_none(), "{name} ended by itself: {}", ended.map_or_else(String::new, |status| status.to_string()));
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).with_context(|| format!("send {signal:?} to {}", self.name))
    }

    fn note(&self, change: impl FnOnce(&mut Guard, u32) -> bool) -> Result<()> {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut guard, self.child.id());
        guard.tell()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.note(|guard, id| guard.watched.remove(&id));
    }
}

/// Returns the last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let bytes = match std::fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) => return format!("{}: {error}", log.display()),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}
