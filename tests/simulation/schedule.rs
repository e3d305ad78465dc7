//! What one seed stands for: sizes, times, weather and faults.

use crate::cluster::ClusterOptions;
use crate::random::Random;
use transom_engine::Limits;

/// How requests fare, in cases of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Lost before it arrived.
    pub(crate) lost: u64,
    /// Carried out; the answer is lost.
    pub(crate) answer_lost: u64,
    /// The connection breaks; the request arrives later all the same.
    pub(crate) late: u64,
    /// The connection breaks; the request was carried out, and a copy of it arrives later.
    pub(crate) doubled: u64,
    /// A plain commit that the coordinator refuses for the moment.
    pub(crate) refused: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// `kill -9` of an instance after so many further steps of it.
    Kill { instance: usize, steps: u64 },
    /// SIGSTOP of an instance.
    Freeze { instance: usize, for_ms: u64 },
    /// A worker's first thread hangs, for instance in a transform.
    FreezeWorker { worker: usize, for_ms: u64 },
    /// A worker's transact thread hangs after so many further steps of it.
    FreezeTransactor { worker: usize, steps: u64, for_ms: u64 },
    /// SIGTERM of an instance.
    Drain { instance: usize },
    /// The network gets worse or better.
    Weather(Weather),
}

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) cluster: ClusterOptions,
    pub(crate) limits: Limits,
    pub(crate) instances: usize,
    pub(crate) workers: usize,
    pub(crate) is_static: bool,
    pub(crate) poll_interval_ms: u64,
    pub(crate) records: u64,
    /// From here on nothing goes wrong any more.
    pub(crate) calm_at: u64,
    pub(crate) faults: Vec<(u64, Fault)>,
    /// Longest ordinary way of a request, in milliseconds.
    pub(crate) latency_ms: u64,
}

impl Schedule {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let instances = usize::try_from(random.between(2, 3)).unwrap_or(2);
        let workers = usize::try_from(random.between(1, 2)).unwrap_or(1);
        let session_ms = random.between(1_500, 3_000);
        let poll_interval_ms = random.between(3_000, 6_000);
        let calm_at = random.between(3_000, 9_000);
        let cluster = ClusterOptions {
            inputs: usize::try_from(random.between(2, 4)).unwrap_or(2),
            outputs: usize::try_from(random.between(1, 3)).unwrap_or(1),
            ids: instances * workers,
            session_ms,
            rebalance_ms: poll_interval_ms,
            transaction_ms: random.between(2_000, 6_000),
            marker_ms: random.between(1, 40),
            cooperative: random.per_mille(500),
        };
        let limits = Limits {
            commit_interval_ms: random.between(5, 120),
            quiet_interval_ms: random.between(100, 400),
            records_max: random.between(2, 12),
            bytes_max: random.between(300, 2_000),
            revoke_budget_ms: random.between(100, 1_200),
            drain_budget_ms: random.between(500, 3_000),
        };
        let mut schedule = Self {
            cluster,
            limits,
            instances,
            workers,
            // Kafka's own follow-up rebalance can be lost when both come together.
            is_static: random.per_mille(300) && !cluster.cooperative,
            poll_interval_ms,
            records: random.between(20, 60),
            calm_at,
            faults: Vec::new(),
            latency_ms: random.between(1, 8),
        };
        schedule.draw_faults(random);
        schedule
    }

    fn draw_faults(&mut self, random: &mut Random) {
        if random.per_mille(800) {
            let at = random.below(self.calm_at / 2);
            self.faults.push((at, Fault::Weather(draw_weather(random))));
            if random.per_mille(500) {
                self.faults.push((at + random.below(self.calm_at / 2), Fault::Weather(Weather::default())));
            }
        }
        for _ in 0..random.between(0, 6) {
            let instance = random.index(self.instances);
            let worker = random.index(self.instances * self.workers);
            let for_ms = if random.per_mille(500) { random.between(20, 600) } else { random.between(600, 5_000) };
            let fault = match random.below(10) {
                0..3 => Fault::Kill { instance, steps: random.below(60) },
                3..5 => Fault::Freeze { instance, for_ms },
                5..7 => Fault::FreezeWorker { worker, for_ms },
                7..9 => Fault::FreezeTransactor { worker, steps: random.below(20), for_ms },
                _ => Fault::Drain { instance },
            };
            self.faults.push((random.below(self.calm_at), fault));
        }
    }
}

fn draw_weather(random: &mut Random) -> Weather {
    let mut some = |most: u64| if random.per_mille(600) { random.below(most) } else { 0 };
    Weather { lost: some(120), answer_lost: some(150), late: some(150), doubled: some(150), refused: some(300) }
}
