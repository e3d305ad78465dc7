//! The faults there are, how many happened, and which comes next.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use transom_harness::proxy::{Action, kind};
use transom_harness::scenario::Random;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// SIGKILL; started again under its name after the pause.
    Kill(Duration),
    /// SIGSTOP for so long, then SIGCONT.
    Freeze(Duration),
    /// SIGTERM; started again when it has drained.
    Terminate,
    /// Everybody who is down comes up.
    ScaleUp,
    /// All but one are asked to stop, and stay down until somebody scales up.
    ScaleDown,
    /// The network does this to requests of this kind, from the n-th on, so many times.
    Network(Interference),
    /// The broker stands still for so long.
    FreezeBroker(Duration),
}

/// What the network does.
#[derive(Clone, Copy, Debug)]
pub struct Interference {
    pub api_key: i16,
    pub action: Action,
    pub first: u64,
    pub times: u64,
    /// Then it ends: what is held goes on.
    pub lasts: Duration,
}

/// The kinds the network interferes with. Those of a transaction come twice: they are what the promise hangs on.
const KINDS: [(&str, i16); 14] = [
    ("produce", kind::PRODUCE),
    ("produce", kind::PRODUCE),
    ("add partitions", kind::ADD_PARTITIONS_TO_TXN),
    ("add partitions", kind::ADD_PARTITIONS_TO_TXN),
    ("add offsets", kind::ADD_OFFSETS_TO_TXN),
    ("add offsets", kind::ADD_OFFSETS_TO_TXN),
    ("offsets in a transaction", kind::TXN_OFFSET_COMMIT),
    ("offsets in a transaction", kind::TXN_OFFSET_COMMIT),
    ("end", kind::END_TXN),
    ("end", kind::END_TXN),
    ("initialise", kind::INIT_PRODUCER_ID),
    ("claim", kind::OFFSET_COMMIT),
    ("fetch", kind::FETCH),
    ("join", kind::JOIN_GROUP),
];

impl Fault {
    /// Draws the next one.
    pub fn draw(random: &mut Random) -> Self {
        match random.below(24) {
            0..6 => Self::Kill(random.between_ms(0, 2_000)),
            6..8 => Self::Freeze(random.between_ms(5_000, 12_000)),
            8..10 => Self::Terminate,
            10 => Self::ScaleUp,
            11 => Self::ScaleDown,
            12..23 => Self::Network(Interference::draw(random)),
            _ => Self::FreezeBroker(random.between_ms(500, 4_000)),
        }
    }

    /// Returns the row of the table it is counted in.
    pub fn row(&self) -> String {
        match self {
            Self::Kill(_) => "kill -9, restart".to_owned(),
            Self::Freeze(_) => "freeze past the session, thaw".to_owned(),
            Self::Terminate => "SIGTERM, restart".to_owned(),
            Self::ScaleUp => "scale up".to_owned(),
            Self::ScaleDown => "scale down".to_owned(),
            Self::Network(interference) => interference.row(),
            Self::FreezeBroker(_) => "broker frozen".to_owned(),
        }
    }
}

impl Interference {
    fn draw(random: &mut Random) -> Self {
        let index = usize::try_from(random.below(KINDS.len() as u64)).unwrap_or(0);
        let (_, api_key) = KINDS[index];
        let (action, times) = match random.below(6) {
            0 => (Action::Delay(random.between_ms(20, 1_500)), 1 + random.below(10)),
            1 => (Action::Hold, 1),
            2 => (Action::HoldAndCut, 1),
            3 => (Action::Cut, 1 + random.below(3)),
            4 => (Action::DropAnswer, 1),
            _ => (Action::CutAnswer, 1 + random.below(3)),
        };
        Self { api_key, action, first: 1 + random.below(3), times, lasts: random.between_ms(500, 5_000) }
    }

    fn row(&self) -> String {
        let name = KINDS.iter().find(|(_, api_key)| *api_key == self.api_key).map_or("?", |(name, _)| name);
        let action = match self.action {
            Action::Pass => "pass",
            Action::Delay(_) => "delay",
            Action::Hold => "hold",
            Action::HoldAndCut => "hold, cut, deliver late",
            Action::Cut => "cut before",
            Action::DropAnswer => "drop the answer",
            Action::CutAnswer => "cut instead of an answer",
            Action::Refuse(_) => "refused",
        };
        format!("network, {name}: {action}")
    }
}

/// Faults by row.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub fn count(&mut self, row: String, number: u64) {
        if number > 0 {
            *self.0.entry(row).or_default() += number;
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (row, number) in &other.0 {
            self.count(row.clone(), *number);
        }
    }

    /// Returns the counts in one line, the network's together.
    pub fn line(&self) -> String {
        let (network, own): (Vec<_>, Vec<_>) = self.0.iter().partition(|(row, _)| row.starts_with("network"));
        let mut parts: Vec<String> = own.into_iter().map(|(row, number)| format!("{number} {row}")).collect();
        parts.push(format!("{} network", network.iter().map(|(_, number)| *number).sum::<u64>()));
        parts.join("; ")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (row, number) in &self.0 {
            writeln!(f, "{number:>6}  {row}")?;
        }
        write!(f, "{:>6}  faults", self.0.values().sum::<u64>())
    }
}
