//! The order of the time-outs: each inner deadline ends before the outer one that would cut it off.

use std::time::Duration;

use super::mirror::Mirror;
use super::mistake::{Bound, Mistake};
use super::plan::GroupProtocol;
use super::problem::Report;
use super::section::{Field, Located};
use super::unit::show_duration;

/// Reports every pair that stands in the wrong order. A field that is `None` has been reported and is skipped.
pub(super) fn check(mirror: &Mirror, report: &mut Report) {
    let interval = &mirror.commit.interval;
    let timeouts = &mirror.timeouts;
    let batch_first = "a batch must be closed before the deadline for writing it ends";
    precedes(interval, &timeouts.send_offsets, batch_first, report);
    precedes(interval, &timeouts.commit, batch_first, report);

    let broker_last = "the broker would abort the transaction while this deadline still runs";
    precedes(&timeouts.send_offsets, &timeouts.transaction, broker_last, report);
    precedes(&timeouts.commit, &timeouts.transaction, broker_last, report);

    let blocked_last = "the process would give up while this deadline still runs";
    precedes(&timeouts.send_offsets, &timeouts.blocked, blocked_last, report);
    precedes(&timeouts.commit, &timeouts.blocked, blocked_last, report);

    match &mirror.protocol {
        None => {}
        Some(protocol) if protocol.value == GroupProtocol::Consumer => refuse_session(&timeouts.session, report),
        Some(_) => {
            let revoke = "the group would give the member up while it still finishes its batch";
            precedes(&timeouts.revoke, &timeouts.session, revoke, report);
            precedes(&timeouts.session, &timeouts.poll_max, "the client library refuses it otherwise", report);
        }
    }
    batch_precedes_poll(mirror, report);
}

fn precedes(shorter: &Field<Duration>, longer: &Field<Duration>, reason: &'static str, report: &mut Report) {
    let (Some(shorter), Some(longer)) = (shorter, longer) else { return };
    if shorter.value < longer.value {
        return;
    }
    // Shown where somebody wrote something: the defaults alone are in order.
    let at = if shorter.at.written { &shorter.at } else { &longer.at };
    let mistake = Mistake::TimeoutOrder { shorter: Box::new(bound(shorter)), longer: Box::new(bound(longer)), reason };
    report.add(at.place, &at.path, mistake);
}

/// The longest batch and both deadlines pass between two polls.
fn batch_precedes_poll(mirror: &Mirror, report: &mut Report) {
    let timeouts = &mirror.timeouts;
    let (Some(interval), Some(send_offsets), Some(commit), Some(poll_max)) =
        (&mirror.commit.interval, &timeouts.send_offsets, &timeouts.commit, &timeouts.poll_max)
    else {
        return;
    };
    let parts = [interval, send_offsets, commit];
    let sum: Duration = parts.iter().map(|part| part.value).sum();
    if sum < poll_max.value {
        return;
    }
    let written = [poll_max, send_offsets, commit, interval].into_iter().find(|field| field.at.written);
    let at = &written.unwrap_or(poll_max).at;
    let mistake = Mistake::DeadlineSum { parts: Box::new(parts.map(bound)), sum: show_duration(sum), longer: bound(poll_max) };
    report.add(at.place, &at.path, mistake);
}

fn refuse_session(session: &Field<Duration>, report: &mut Report) {
    if let Some(session) = session
        && session.at.written
    {
        report.add(session.at.place, &session.at.path, Mistake::SessionOfBroker { session: bound(session) });
    }
}

fn bound(field: &Located<Duration>) -> Bound {
    Bound { path: field.at.path.clone(), value: show_duration(field.value), line: field.at.line() }
}
