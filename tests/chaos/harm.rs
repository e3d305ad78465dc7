//! The time of faults in an episode: what is drawn when, and who carries it out.

use std::panic::resume_unwind;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::crew::{Crew, Then};
use crate::episode::Record;
use crate::faults::{BrokerFault, Fault};
use crate::network::Network;
use crate::points::Points;
use crate::stage::{Ground, Stage};

/// How long faults are drawn. The last ones may outlast it.
const FAULTS_LAST: Duration = Duration::from_secs(18);
/// Between two looks at what is due.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Between two swings of a scale storm.
const SWING_MS: (u64, u64) = (300, 1_000);

/// What is under way.
struct Harm<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stage: &'env Stage,
    network: Network,
    points: Points,
    /// Its end, and the next swing.
    storm: Option<(Instant, Instant)>,
    /// One at a time: two of three brokers must live.
    broker: Option<ScopedJoinHandle<'scope, ()>>,
}

/// Draws faults and carries them out; returns when the brokers and the network are well again. Some of the crew may not be.
pub fn play(stage: &Stage, ground: Ground, crew: &mut Crew, record: &mut Record<'_>) {
    thread::scope(|scope| {
        let (network, points) = (Network::default(), Points::new(record.setup.protocol));
        let mut harm = Harm { scope, stage, network, points, storm: None, broker: None };
        let until = Instant::now() + FAULTS_LAST;
        let mut next = Instant::now();
        while Instant::now() < until {
            harm.go_on(crew, record);
            if next <= Instant::now() {
                next = Instant::now() + record.random.between_ms(150, 1_000);
                let drawn = Fault::draw(record.random, ground, record.setup);
                // To an empty stage nothing can happen.
                let fault = if crew.up() == 0 { Fault::ScaleUp } else { drawn };
                let number = harm.begin(fault, crew, record);
                record.note(format!("{fault:?}: {number}"));
                record.count(&fault, number);
            }
            thread::sleep(LOOK_PAUSE);
        }
        harm.points.end_all();
        harm.network.end_all(&stage.proxy, record.faults);
        // Whoever ends by himself meanwhile is started again.
        while harm.broker.is_some() {
            harm.go_on(crew, record);
            thread::sleep(LOOK_PAUSE);
        }
    });
}

impl Harm<'_, '_> {
    /// Returns how often the fault is to be counted now; some are counted when it is known what they met.
    fn begin(&mut self, fault: Fault, crew: &mut Crew, record: &mut Record<'_>) -> u64 {
        match fault {
            Fault::Kill(pause) => u64::from(crew.kill(record.random, pause)),
            Fault::KillAt(point) => {
                self.points.await_at(&self.stage.proxy, crew, point, record);
                0
            }
            Fault::Freeze(lasts) | Fault::FreezeLong(lasts) => u64::from(crew.freeze(record.random, lasts)),
            Fault::Terminate => u64::from(crew.terminate(record.random, Then::ComeBack)),
            Fault::ScaleUp => crew.scale_up(),
            Fault::ScaleDown => crew.scale_down(record.random),
            Fault::ScaleStorm(_) if self.storm.is_some() => 0,
            Fault::ScaleStorm(lasts) => {
                self.storm = Some((Instant::now() + lasts, Instant::now()));
                1
            }
            Fault::Network(interference) => {
                self.network.begin(&self.stage.proxy, interference);
                0
            }
            Fault::Broker(fault) => self.begin_at_broker(fault),
        }
    }

    fn begin_at_broker(&mut self, fault: BrokerFault) -> u64 {
        if self.broker.is_some() {
            return 0;
        }
        let stage = self.stage;
        self.broker = Some(self.scope.spawn(move || stage.harm_broker(fault)));
        1
    }

    fn go_on(&mut self, crew: &mut Crew, record: &mut Record<'_>) {
        self.network.go_on(&self.stage.proxy, record.faults);
        self.points.go_on(crew, record);
        if self.storm.is_some_and(|(_, swing)| swing <= Instant::now()) {
            self.swing(crew, record);
        }
        crew.go_on();
        crew.take_happened().into_iter().for_each(|line| record.note(line));
        if let Some(broker) = self.broker.take_if(|broker| broker.is_finished()) {
            record.note("the brokers are well again".to_owned());
            if let Err(panic) = broker.join() {
                resume_unwind(panic);
            }
        }
    }

    fn swing(&mut self, crew: &mut Crew, record: &mut Record<'_>) {
        let Some((until, _)) = self.storm else { return };
        let (started, asked) = crew.swing(record.random);
        record.note(format!("the storm started {started} and asked {asked} to stop"));
        record.count(&Fault::ScaleUp, started);
        record.count(&Fault::ScaleDown, asked);
        let next = Instant::now() + record.random.between_ms(SWING_MS.0, SWING_MS.1);
        self.storm = (next < until).then_some((until, next));
    }
}
