//! The network: requests that are lost, carried out without an answer, or arrive long after anybody waits for them.

use crate::cluster::{Caller, Port, Refusal, Request, Response};
use crate::schedule::Weather;
use crate::world::{Happening, World};

impl World<'_> {
    /// Gives a request to the network.
    pub(crate) fn send(&mut self, request: Request, caller: Caller) {
        self.note(|| format!("w{} sends {request:?}", caller.worker));
        let way = 1 + self.random.below(self.schedule.latency_ms);
        let lot = self.random.below(1000);
        let Weather { lost, answer_lost, mut late, mut doubled, refused } = self.weather;
        if let Port::Group(_) = caller.port {
            // The group's own requests go over one connection, one at a time.
            (late, doubled) = (0, 0);
        }
        let broken_after = way + 1 + self.random.below(40);
        if matches!(caller.port, Port::Claim(_)) && self.random.per_mille(refused) {
            return self.after(2 * way, Happening::Answer(caller, Response::Refused(Refusal::NotCoordinator)));
        }
        if lot < lost {
            self.after(broken_after, Happening::Answer(caller, Response::Broken));
        } else if lot < lost + answer_lost {
            self.after(way, Happening::Arrives(request, None));
            self.after(broken_after, Happening::Answer(caller, Response::Broken));
        } else if lot < lost + answer_lost + late {
            let delay = self.lateness();
            self.after(way + delay, Happening::Arrives(request, None));
            self.after(broken_after, Happening::Answer(caller, Response::Broken));
        } else if lot < lost + answer_lost + late + doubled {
            let delay = self.lateness();
            self.after(way, Happening::Arrives(request.clone(), None));
            self.after(way + delay, Happening::Arrives(request, None));
            self.after(broken_after, Happening::Answer(caller, Response::Broken));
        } else {
            self.after(way, Happening::Arrives(request, Some(caller)));
        }
    }

    /// Mostly short, so that a late request meets the next transaction.
    const fn lateness(&mut self) -> u64 {
        let most = 10 << self.random.below(10);
        1 + self.random.below(most)
    }
}
