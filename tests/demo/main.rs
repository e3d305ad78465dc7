//! The program `demo`: a pipeline on a real broker, with an instance that is killed and one that is frozen, and a verdict
//! from what lies in the topics. Ends with 0 when every number is right, 1 when one is not, 69 when no broker can be had.

mod expected;
mod process;
mod stage;
mod verdict;
mod watch;

use anyhow::{Context, Result, bail};
use process::Process;
use stage::{Ground, Stage};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transom_harness::broker::NoBackend;
use transom_harness::oracle::no_open_transactions;
use transom_harness::wire::{CommittedOffset, OffsetsAsked, error_code};
use verdict::Verdict;
use watch::{Interrupted, Watch};

const ORDERS: usize = 5_000;
const POISON_SHARE: &str = "0.02";
const POISON: usize = 100;
/// Slow enough that kill and freeze fall into live traffic, fast enough for a demo.
const ORDERS_PER_SECOND: i64 = 220;

/// A step takes a second or two; a machine busy with compilers may need many times as long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a moment of the wished kind is looked for.
const MOMENT_DEADLINE: Duration = Duration::from_secs(5);
/// Between two looks for it: odd against the commit interval, so that the looks wander through it.
const MOMENT_PAUSE: Duration = Duration::from_millis(37);
/// A signal is sent before it is felt.
const SIGNAL_DELAY: Duration = Duration::from_millis(3);

const EXIT_OFF: u8 = 1;
/// EX_UNAVAILABLE of sysexits.h: something must be installed first.
const EXIT_UNAVAILABLE: u8 = 69;
/// As a shell reports SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_OFF),
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("demo: interrupted; everything it started is gone");
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::from(if error.is::<NoBackend>() { EXIT_UNAVAILABLE } else { EXIT_OFF })
        }
    }
}

fn run() -> Result<bool> {
    println!("Transom: {ORDERS} orders through clean_orders, one instance killed, one frozen, nothing lost and nothing twice.\n");
    // A signal may end us at once while the broker starts; its guard tidies up. Later we do.
    let ground = Ground::find_or_start()?;
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked_to_end))?;
    }
    println!("broker    {}", ground.description());
    let mut stage = Stage::build(ground)?;
    let played = play(&stage, &asked_to_end).and_then(|()| Verdict::read(&stage));
    if asked_to_end.load(Ordering::Relaxed) {
        return Err(Interrupted.into());
    }
    let failure = match played {
        Ok(verdict) => {
            verdict.print(&stage.names);
            if verdict.is_right() {
                return Ok(true);
            }
            None
        }
        Err(error) => Some(error),
    };
    show_logs(&mut stage);
    failure.map_or(Ok(false), Err)
}

fn play(stage: &Stage, asked_to_end: &Arc<AtomicBool>) -> Result<()> {
    stage.create_topics()?;
    println!("topics    {}, created by: transom topics create", stage.names.topics().join(", "));
    println!("instances a and b of pipeline {}, each by: transom run pipeline.yaml --instance NAME", stage.names.pipeline);
    let mut watch = Watch::start(stage, asked_to_end);
    let mut a = stage.start_instance("a")?;
    let mut b = stage.start_instance("b")?;
    watch.until("both instances own partitions", PATIENCE, |look| {
        a.expect_running()?;
        b.expect_running()?;
        Ok(look.is_stable && look.owned_by("a") > 0 && look.owned_by("b") > 0)
    })?;
    watch.say(&format!("── transom gen orders: {ORDERS} orders, {ORDERS_PER_SECOND} a second, {POISON} of them poison"));
    let (count, rate) = (ORDERS.to_string(), ORDERS_PER_SECOND.to_string());
    let mut generator = stage.start_generator(&["--count", &count, "--rate", &rate, "--poison-share", POISON_SHARE, "--duplicate-share", "0"])?;
    watch.go_on(Duration::from_secs(3))?;

    let mut a = kill_and_restart(stage, &mut watch, a)?;
    freeze_past_its_session(stage, &mut watch, &mut a, &mut b)?;

    watch.until("every order has its outcome", PATIENCE, |look| {
        a.expect_running()?;
        b.expect_running()?;
        let Some(status) = generator.ended()? else { return Ok(false) };
        if !status.success() {
            bail!("transom gen orders ended with {status}: {}", process::tail(generator.log()));
        }
        Ok(look.behind() <= 0)
    })?;
    drain(&mut watch, [&mut a, &mut b])?;
    no_open_transactions(&stage.client, &stage.names.topics(), PATIENCE)
}

/// Kills it between its produce and its commit, the worst moment there is, and starts it again under its name.
fn kill_and_restart(stage: &Stage, watch: &mut Watch<'_>, instance: Process) -> Result<Process> {
    let is_open = freeze_where(stage, &instance, |is_open| is_open)?;
    let moment = if is_open { "with its transaction open: outputs written, not committed" } else { "between two transactions" };
    let (name, id) = (instance.name().to_owned(), instance.id());
    let before = committed_of(stage, watch, &name)?;
    instance.kill()?;
    watch.say(&format!("── kill -9 {id}: instance {name}, {moment}"));
    watch.go_on(Duration::from_secs(1))?;
    let mut instance = stage.start_instance(&name)?;
    watch.say(&format!("── {name} is started again under its name: it keeps its partitions and aborts what it left open"));
    watch.until("the restarted instance commits on its partitions", PATIENCE, |look| {
        instance.expect_running()?;
        let now = stage.client.committed_offsets(&stage.names.pipeline, OffsetsAsked::EvenIfPending)?;
        let moved = before.iter().all(|(place, old)| now.get(place).is_some_and(|new| new.offset > old.offset));
        Ok(moved && look.behind() < ORDERS_PER_SECOND)
    })?;
    watch.say(&format!("── {name} commits again where the killed one stood, and has caught up"));
    watch.go_on(Duration::from_secs(1))?;
    Ok(instance)
}

/// Returns the committed offsets of the partitions an instance owns.
fn committed_of(stage: &Stage, watch: &Watch<'_>, instance: &str) -> Result<BTreeMap<(String, i32), CommittedOffset>> {
    let mut offsets = stage.client.committed_offsets(&stage.names.pipeline, OffsetsAsked::EvenIfPending)?;
    let look = watch.look()?;
    offsets.retain(|(_, partition), _| look.owners.get(instance).is_some_and(|owned| owned.contains(partition)));
    Ok(offsets)
}

/// Makes `frozen` a zombie: the group gives its partitions away, and it wakes up in the belief that they are still its own.
fn freeze_past_its_session(stage: &Stage, watch: &mut Watch<'_>, other: &mut Process, frozen: &mut Process) -> Result<()> {
    let name = frozen.name().to_owned();
    // With its transaction open: its successor has to end that before it may go on.
    let is_open = freeze_where(stage, frozen, |is_open| is_open)?;
    let moment = if is_open { "in an open transaction" } else { "between two transactions" };
    let (log_of_frozen, log_of_other) = (log_length(frozen)?, log_length(other)?);
    watch.say(&format!("── kill -STOP {}: instance {name} is frozen {moment}, for longer than its session of 6 s", frozen.id()));
    watch.until("the group gives the frozen instance up", PATIENCE, |look| {
        other.expect_running()?;
        Ok(look.is_stable && look.owned_by(&name) == 0)
    })?;
    watch.say(&format!("── the group has given {name} up; {} owns its partitions now", other.name()));
    watch.go_on(Duration::from_secs(2))?;
    show_log_since(other, log_of_other)?;
    frozen.thaw()?;
    watch.say(&format!("── kill -CONT {}: {name} wakes up with a batch of records that are no longer its own", frozen.id()));
    watch.until("the thawed instance owns partitions again", PATIENCE, |look| {
        other.expect_running()?;
        frozen.expect_running()?;
        Ok(look.is_stable && look.owned_by(&name) > 0)
    })?;
    watch.say(&format!("── {name} is back in the group"));
    show_log_since(frozen, log_of_frozen)
}

/// Freezes an instance at a moment when its transaction is open, or is not; returns whether it is open.
///
/// Looking comes after freezing: the other way round the moment would be over before the signal is felt.
fn freeze_where(stage: &Stage, instance: &Process, wished: impl Fn(bool) -> bool) -> Result<bool> {
    let transactional_id = format!("{}:{}:0", stage.names.pipeline, instance.name());
    let deadline = Instant::now() + MOMENT_DEADLINE;
    loop {
        instance.freeze()?;
        std::thread::sleep(SIGNAL_DELAY);
        let is_open = match stage.client.describe_transaction(&transactional_id) {
            Ok(transaction) => transaction.state == "Ongoing",
            Err(error) if error_code(&error).is_some() => false,
            Err(error) => return Err(error),
        };
        if wished(is_open) || Instant::now() >= deadline {
            return Ok(is_open);
        }
        instance.thaw()?;
        std::thread::sleep(MOMENT_PAUSE);
    }
}

fn log_length(instance: &Process) -> Result<u64> {
    Ok(std::fs::metadata(instance.log())?.len())
}

/// Prints what an instance logged since its log had this length: its own lines, not the client library's, without what a
/// person does not need.
fn show_log_since(instance: &Process, length: u64) -> Result<()> {
    const LINES_MAX: usize = 8;
    const LINE_CHARACTERS_MAX: usize = 130;
    let bytes = std::fs::read(instance.log())?;
    let since = bytes.get(usize::try_from(length)?..).unwrap_or_default();
    let text = String::from_utf8_lossy(since);
    let own = text.lines().filter_map(|line| line.split_once(" transom_runtime::worker: ").or_else(|| line.split_once(" transom_kafka::producer: ")));
    for (_, line) in own.take(LINES_MAX) {
        let line = line.replace(" worker=0", "").replace(" reason=", ": ");
        let cut: String = line.chars().take(LINE_CHARACTERS_MAX).collect();
        let more = if cut.len() < line.len() { "…" } else { "" };
        println!("         {} logs: {}{more}", instance.name(), cut.trim_end_matches(": "));
    }
    Ok(())
}

/// SIGTERM to all: finish, commit, leave.
fn drain(watch: &mut Watch<'_>, instances: [&mut Process; 2]) -> Result<()> {
    watch.say("── kill -TERM: both finish, commit and leave");
    for instance in &instances {
        instance.ask_to_stop()?;
    }
    for instance in instances {
        let mut ended = None;
        watch.until("the instances have drained", PATIENCE, |_| {
            ended = instance.ended()?;
            Ok(ended.is_some())
        })?;
        let status = ended.context("no exit status")?;
        if !status.success() {
            bail!("instance {} drained with {status} instead of 0", instance.name());
        }
    }
    watch.say("── both have drained, exit code 0");
    Ok(())
}

/// Keeps the logs and shows their ends.
fn show_logs(stage: &mut Stage) {
    for name in ["a", "b", "gen"] {
        let log = stage.log(name);
        if log.exists() {
            eprintln!("\nthe end of {}:\n{}", log.display(), process::tail(&log));
        }
    }
    eprintln!("\nall logs: {}\n", stage.keep_directory().display());
}
