//! The program `harness`: gives a command a Kafka broker, or runs one for a person. Tests use the library instead.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use transom_harness::broker::{BOOTSTRAP_VARIABLE, Backend, Cluster, ClusterOptions, NoBackend, Probe, choose_backend, probe};

const USAGE: &str = "\
Usage: harness with-broker -- COMMAND [ARGUMENT...]   run COMMAND with KAFKA_BOOTSTRAP_SERVERS set
       harness broker                                 run one broker until Ctrl-C, its address on stdout
       harness backends                               say what would run a broker here, and why

A broker named in KAFKA_BOOTSTRAP_SERVERS is used by with-broker as it is.
Exit code of with-broker: that of COMMAND. Otherwise 0, 1 on failure, 64 on wrong usage, 69 when nothing can run a broker.";

const EXIT_FAILURE: u8 = 1;
/// EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// EX_UNAVAILABLE of sysexits.h: something must be installed first.
const EXIT_UNAVAILABLE: u8 = 69;

/// How soon a signal or the command's end is seen.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A command that was asked to end gets this long to tidy up.
const END_DEADLINE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["with-broker", "--", program, rest @ ..] => with_broker(program, rest),
        ["broker"] => run_broker(),
        ["backends"] => show_backends(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(0)
        }
        _ => {
            eprintln!("{USAGE}");
            Ok(EXIT_USAGE)
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("harness: {error:#}");
            let code = if error.is::<NoBackend>() { EXIT_UNAVAILABLE } else { EXIT_FAILURE };
            ExitCode::from(code)
        }
    }
}

fn with_broker(program: &str, arguments: &[&str]) -> anyhow::Result<u8> {
    let mut cluster = None;
    let bootstrap = match std::env::var(BOOTSTRAP_VARIABLE) {
        Ok(bootstrap) if !bootstrap.is_empty() => {
            eprintln!("harness: using the brokers at {bootstrap} ({BOOTSTRAP_VARIABLE} is set)");
            bootstrap
        }
        _ => start_and_describe(&mut cluster)?,
    };
    let signals = Signals::listen()?;
    let mut child = Command::new(program).args(arguments).env(BOOTSTRAP_VARIABLE, bootstrap).spawn().with_context(|| format!("run {program}"))?;
    let status = wait_for(&mut child, &signals)?;
    // Before the exit, so that nothing is left when the caller goes on.
    drop(cluster);
    Ok(code_of(status))
}

fn start_and_describe(cluster: &mut Option<Cluster>) -> anyhow::Result<String> {
    let began = Instant::now();
    let started = Cluster::start(ClusterOptions::default())?;
    eprintln!("harness: started a broker by {} in {:.1} s", started.description(), began.elapsed().as_secs_f64());
    let bootstrap = started.bootstrap().to_owned();
    *cluster = Some(started);
    Ok(bootstrap)
}

fn run_broker() -> anyhow::Result<u8> {
    let mut cluster = None;
    let bootstrap = start_and_describe(&mut cluster)?;
    let signals = Signals::listen()?;
    let mut output = std::io::stdout();
    writeln!(output, "{bootstrap}")?;
    output.flush()?;
    while !signals.asked_to_end() {
        std::thread::sleep(POLL_INTERVAL);
    }
    drop(cluster);
    Ok(0)
}

fn show_backends() -> anyhow::Result<u8> {
    for backend in [Backend::Docker, Backend::Java] {
        match probe(backend) {
            Probe::Ready(versions) => println!("{backend}: {versions}"),
            Probe::Missing(reason) => println!("{backend}: not usable: {reason}"),
        }
    }
    let backend = choose_backend(None)?;
    println!("chosen: {backend} (Docker is taken where it works, because it isolates the broker; Java is the fallback)");
    Ok(0)
}

/// Waits for the command; a signal to us is passed on to it, so that it can tidy up while its broker still runs.
fn wait_for(child: &mut Child, signals: &Signals) -> anyhow::Result<ExitStatus> {
    let mut deadline = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match (signals.asked_to_end(), deadline) {
            (true, None) => {
                kill_process(Pid::from_child(child), Signal::TERM)?;
                deadline = Some(Instant::now() + END_DEADLINE);
            }
            (true, Some(end)) if Instant::now() >= end => child.kill()?,
            (true, Some(_)) | (false, _) => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(EXIT_FAILURE),
        // As a shell reports it.
        (None, Some(signal)) => u8::try_from(signal + 128).unwrap_or(EXIT_FAILURE),
        (None, None) => EXIT_FAILURE,
    }
}

/// Remembers that we were asked to end, instead of ending: command and broker end first, in this order. Not used while the broker
/// starts: until then a signal may end us at once, and the broker's guard tidies up.
struct Signals {
    // Written by the signal handler.
    asked_to_end: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> anyhow::Result<Signals> {
        let asked_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&asked_to_end))?;
        }
        Ok(Signals { asked_to_end })
    }

    fn asked_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Relaxed)
    }
}
