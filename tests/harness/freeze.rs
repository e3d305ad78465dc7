//! Stops the clock of a process, and is back only when it stands still.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Stops every thread of a child of ours with SIGSTOP; SIGCONT lets it go on.
///
/// The signal is only sent by `kill`: on a busy machine threads run on for a while after it has returned, and may answer a
/// request. So this waits until the kernel reports the child as stopped, which it does after the last thread (waitid(2)).
///
/// # Errors
/// When it is no child of ours, or is dead.
pub(crate) fn freeze(child: Pid) -> io::Result<()> {
    kill_process(child, Signal::STOP)?;
    // Its death ends the wait as well, and is left there for whoever waits for it.
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let is_stopped = waitid(WaitId::Pid(child), options)?.is_some_and(|status| status.stopped());
    if is_stopped { Ok(()) } else { Err(io::Error::other("it ended instead of stopping")) }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, kill_process};

    use super::freeze;

    fn state_of(child: &Child) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1[..1].to_owned()
    }

    // Goal: whoever froze a process can rely on it, the second time as well. Method: one that keeps a core busy, looked at as soon
    // as the call is back.
    #[test]
    fn a_frozen_process_stands_still_when_the_call_is_back() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let id = Pid::from_child(&child);
        for _ in 0..100 {
            freeze(id).unwrap();
            assert_eq!(state_of(&child), "T");
            kill_process(id, Signal::CONT).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_ended_cannot_be_frozen() {
        let mut child = Command::new("true").spawn().unwrap();
        while state_of(&child) != "Z" {
            std::thread::yield_now();
        }
        assert!(freeze(Pid::from_child(&child)).is_err());
        assert!(child.wait().unwrap().success(), "its end is still there to be waited for");
    }
}
