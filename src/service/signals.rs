//! SIGTERM and SIGINT: the first drains, the second aborts at once. Past the budget the process ends by itself.

use crate::exit::Code;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::time::Duration;
use transom_runtime::Control;

/// How long an abort may take before the process just ends: threads may hang in the client (EO-1 makes the end safe).
const ABORT_BUDGET: Duration = Duration::from_secs(2);
/// How much longer than the drain budget a drain may take: closing consumer and producer.
const CLOSE_BUDGET: Duration = Duration::from_secs(8);

/// Passes signals on to `control`.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn watch(control: &Arc<Control>, drain: Duration) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    let control = Arc::clone(control);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut budget = Some(drain + CLOSE_BUDGET);
        for signal in &mut signals {
            tracing::info!(signal, "asked to stop; a second signal aborts at once");
            control.escalate();
            let limit = budget.take().unwrap_or(ABORT_BUDGET);
            std::thread::spawn(move || {
                std::thread::sleep(limit);
                tracing::error!(limit_s = limit.as_secs(), "still not stopped; ending the process");
                std::process::exit(Code::TryAgain as i32);
            });
        }
    })?;
    Ok(())
}
