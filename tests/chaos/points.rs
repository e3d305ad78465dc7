//! Deaths at named points: a rule of the proxy keeps the request that marks the point, whoever sent it is killed, and the request is
//! lost or arrives late.

use std::time::{Duration, Instant};

use transom_harness::proxy::{Action, Armed, Proxy, Rule};

use crate::crew::Crew;
use crate::episode::Record;
use crate::faults::{Fault, Place, Point};
use crate::setup::{Protocol, SESSION_MS};

/// So long a point is waited for: a take-over begins with the end of a session.
const WAIT: Duration = Duration::from_millis(SESSION_MS + 4_000);
/// Whoever's id is to be taken over stays away for longer than a session.
const AWAY: Duration = Duration::from_millis(SESSION_MS + 2_000);

struct Waiting {
    point: Point,
    armed: Armed,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Until then.
    Armed(Instant),
    /// Somebody stands there, and is killed then.
    Reached(Instant),
    /// The victim is dead; its request arrives then.
    Late(Instant),
}

/// The points that are waited for.
pub struct Points {
    protocol: Protocol,
    waiting: Vec<Waiting>,
}

impl Points {
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, waiting: Vec::new() }
    }

    /// Waits for somebody at the point. Where nobody comes by of themselves, a death is what brings them there.
    pub fn await_at(&mut self, proxy: &Proxy, crew: &mut Crew, point: Point, record: &mut Record<'_>) {
        let rule = Rule::next(point.place.api_key(self.protocol), Action::Hold);
        let pause = match point.place {
            Place::Produced | Place::SendingOffsets | Place::Committing => None,
            Place::Claiming | Place::Joining => Some(Duration::ZERO),
            Place::TakingOver => Some(AWAY),
        };
        let dead = pause.and_then(|pause| crew.kill_named(record.random, pause));
        let rule = match (point.place, &dead) {
            (Place::TakingOver, None) => return,
            (Place::TakingOver, Some(dead)) => rule.naming(&format!(":{dead}:")),
            (Place::Produced | Place::SendingOffsets | Place::Committing | Place::Claiming | Place::Joining, _) => rule,
        };
        if let Some(dead) = dead {
            record.count(&Fault::Kill(Duration::ZERO), 1);
            record.note(format!("{dead} was killed for {:?}", point.place));
        }
        self.waiting.push(Waiting { point, armed: proxy.arm(rule), stage: Stage::Armed(Instant::now() + WAIT) });
    }

    /// Kills who stands at a point, lets go what is due.
    pub fn go_on(&mut self, crew: &mut Crew, record: &mut Record<'_>) {
        let now = Instant::now();
        for mut waiting in std::mem::take(&mut self.waiting) {
            let Waiting { point, armed, stage } = &waiting;
            let next = match *stage {
                Stage::Armed(_) if armed.caught() > 0 => Some(Stage::Reached(now + point.after)),
                Stage::Armed(until) => (now < until).then_some(*stage),
                Stage::Reached(at) if now < at => Some(*stage),
                Stage::Reached(_) => {
                    let victim = armed.caught_from().unwrap_or_default();
                    let is_dead = crew.kill_by_name(&victim, point.pause);
                    record.note(format!("{victim} at {:?}: {}", point.place, if is_dead { "killed" } else { "gone already" }));
                    record.count(&Fault::KillAt(*point), u64::from(is_dead));
                    point.late.map(|late| Stage::Late(now + late))
                }
                Stage::Late(at) if now < at => Some(*stage),
                Stage::Late(_) => {
                    armed.release();
                    None
                }
            };
            // Dropped without a release, a rule throws away what it holds.
            if let Some(next) = next {
                waiting.stage = next;
                self.waiting.push(waiting);
            }
        }
    }

    /// Waits for nobody any more; what shall arrive late arrives now.
    pub fn end_all(&mut self) {
        // To whom nobody has killed yet it was a slow network.
        self.waiting.drain(..).for_each(|waiting| waiting.armed.release());
    }
}
