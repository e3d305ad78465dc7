//! The network's part: rules of the proxy that come and end.

use std::time::Instant;

use transom_harness::proxy::{Action, Armed, Proxy, Rule};

use crate::faults::{Interference, Tally};

/// What the network is doing.
#[derive(Default)]
pub struct Network {
    active: Vec<(Interference, Armed, Instant)>,
}

impl Network {
    /// Begins to interfere.
    pub fn begin(&mut self, proxy: &Proxy, interference: Interference) {
        let rule = Rule::next(interference.api_key, interference.action).nth(interference.first).times(interference.times, 1);
        self.active.push((interference, proxy.arm(rule), Instant::now() + interference.lasts));
    }

    /// Ends what is over, and counts what it did to requests: a rule that met none is no fault.
    pub fn go_on(&mut self, proxy: &Proxy, tally: &mut Tally) {
        let (over, active) = std::mem::take(&mut self.active).into_iter().partition(|(_, _, until)| *until <= Instant::now());
        self.active = active;
        Self::end(over, proxy, tally);
    }

    /// Ends everything.
    pub fn end_all(&mut self, proxy: &Proxy, tally: &mut Tally) {
        Self::end(std::mem::take(&mut self.active), proxy, tally);
    }

    fn end(over: Vec<(Interference, Armed, Instant)>, proxy: &Proxy, tally: &mut Tally) {
        for (interference, armed, _) in over {
            tally.count(interference.row(), armed.caught());
            armed.release();
            // The library waits a minute for an answer; a network that loses packets also loses connections.
            if interference.action == Action::DropAnswer && armed.caught() > 0 && interference.first.is_multiple_of(2) {
                proxy.cut_all();
            }
        }
    }
}
