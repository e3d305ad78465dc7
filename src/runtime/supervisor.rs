//! Starts the workers and passes on the wish to stop.

use crate::broker::{Broker, Watcher};
use crate::clock::Clock;
use crate::inputs::InputWatcher;
use crate::metrics::Metrics;
use crate::options::PipelineOptions;
use crate::processing::ProcessorFactory;
use crate::status::StatusBoard;
use crate::worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use transom_engine::StopReason;

/// How often the supervisor looks up.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What the process was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Go on.
    Run,
    /// Finish, commit, leave.
    Drain,
    /// Stop at once.
    Abort,
}

/// Carries the wish to stop from signal handlers to workers.
#[derive(Debug, Default)]
pub struct Control(AtomicU8);

impl Control {
    /// Returns a control that says [`Request::Run`].
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Asks for a drain, or, if that was asked for already, for an abort.
    pub fn escalate(&self) {
        let next = |request| if request == 0 { 1 } else { 2 };
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |request| Some(next(request)));
    }

    /// Asks for a drain, if nothing was asked for yet.
    pub fn drain(&self) {
        let _ = self.0.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Returns what was asked for.
    pub fn request(&self) -> Request {
        match self.0.load(Ordering::SeqCst) {
            0 => Request::Run,
            1 => Request::Drain,
            _ => Request::Abort,
        }
    }
}

/// Runs all workers until each has stopped, and returns the first reason that is not a plain drain, else `Drained`.
pub fn supervise<B: Broker, W: Watcher + 'static>(
    broker: &B,
    watcher: W,
    options: &Arc<PipelineOptions>,
    factory: &Arc<dyn ProcessorFactory>,
    surroundings: (&Arc<StatusBoard>, &Arc<Metrics>, &Arc<Control>),
) -> StopReason {
    let (board, metrics, control) = surroundings;
    let clock = Clock::start();
    let _inputs = InputWatcher::spawn(watcher, options, board);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.workers)
            .map(|number| {
                let surroundings = worker::Surroundings {
                    options: Arc::clone(options),
                    factory: Arc::clone(factory),
                    board: Arc::clone(board),
                    metrics: Arc::clone(metrics),
                    control: Arc::clone(control),
                    clock,
                };
                std::thread::Builder::new().name(format!("worker-{number}")).spawn_scoped(scope, move || worker::run(broker, number, surroundings))
            })
            .collect();
        let mut first = StopReason::Drained;
        let mut running = Vec::new();
        for worker in workers {
            match worker {
                Ok(handle) => running.push(handle),
                Err(error) => {
                    control.drain();
                    first = StopReason::Fatal { what: format!("a worker's thread cannot be started: {error}") };
                }
            }
        }
        while !running.is_empty() {
            let (done, rest): (Vec<_>, Vec<_>) = running.into_iter().partition(std::thread::ScopedJoinHandle::is_finished);
            running = rest;
            for handle in done {
                // A panic in a worker is a broken invariant: the process must not go on (EO-1 makes that safe).
                let reason = handle.join().unwrap_or_else(|_| StopReason::Bug { what: "a worker panicked; the log says where".to_owned() });
                if first == StopReason::Drained {
                    first = reason;
                }
                control.drain();
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        first
    })
}
