//! The faults there are, how many happened, and which comes next.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use transom_harness::broker::Replicated;
use transom_harness::proxy::{Action, kind};
use transom_harness::scenario::Random;

use crate::setup::{Protocol, Setup};
use crate::stage::Ground;

/// The longest SIGSTOP.
const FREEZE_MS_MAX: u64 = 30_000;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// SIGKILL; started again under its name after the pause.
    Kill(Duration),
    /// SIGKILL of whoever stands at this point next.
    KillAt(Point),
    /// SIGSTOP for so long, then SIGCONT.
    Freeze(Duration),
    /// The same for longer than a transaction may last.
    FreezeLong(Duration),
    /// SIGTERM; started again when it has drained.
    Terminate,
    /// Everybody who is down comes up.
    ScaleUp,
    /// All but one are asked to stop, and stay down until somebody scales up.
    ScaleDown,
    /// Up and down by turns for so long.
    ScaleStorm(Duration),
    /// The network does this to requests of this kind, from the n-th on, so many times.
    Network(Interference),
    /// Something happens to a broker.
    Broker(BrokerFault),
}

/// A moment in the life of a batch or a member, and what becomes of the request that marks it.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub place: Place,
    /// From the request's arrival at the proxy, which keeps it, until SIGKILL.
    pub after: Duration,
    /// How long after the kill the request reaches the broker; it is lost if never.
    pub late: Option<Duration>,
    /// Then the victim is started again.
    pub pause: Duration,
}

/// Where the victim stands: the request named here has been sent and has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outputs are written, the group is not yet part of the transaction: AddOffsetsToTxn.
    Produced,
    /// The group is part of the transaction, its offsets are not: TxnOffsetCommit.
    SendingOffsets,
    /// Outputs and offsets are there, nothing is decided: EndTxn.
    Committing,
    /// A partition was gained and is being claimed: OffsetCommit.
    Claiming,
    /// A dead owner's transactional id is being fenced: InitProducerId of another's id.
    TakingOver,
    /// Membership is asked for: JoinGroup, or a group heartbeat of the `consumer` protocol.
    Joining,
}

/// What happens to which broker.
#[derive(Clone, Copy, Debug)]
pub struct BrokerFault {
    /// Counted from 0; of no meaning where there is one.
    pub node: usize,
    pub what: NodeFault,
}

#[derive(Clone, Copy, Debug)]
pub enum NodeFault {
    /// SIGSTOP for so long.
    Freeze(Duration),
    /// SIGKILL; started again after the pause.
    Kill(Duration),
    /// SIGTERM; started again after the pause.
    Terminate(Duration),
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
const KINDS: [(&str, i16); 15] = [
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
    ("group heartbeat", kind::CONSUMER_GROUP_HEARTBEAT),
];
/// Those at the end of [`KINDS`] that one of the two group protocols knows.
const KINDS_OF_A_PROTOCOL: usize = 2;

impl Fault {
    /// Draws the next one.
    pub fn draw(random: &mut Random, ground: Ground, setup: &Setup) -> Self {
        match random.below(36) {
            0..4 => Self::Kill(random.between_ms(0, 2_000)),
            4..11 => Self::KillAt(Point::draw(random)),
            11..13 => Self::Freeze(random.between_ms(5_000, 12_000)),
            13 => Self::draw_long_freeze(random, setup.transaction),
            14..16 => Self::Terminate,
            16 => Self::ScaleUp,
            17 => Self::ScaleDown,
            18 => Self::ScaleStorm(random.between_ms(2_000, 5_000)),
            19..33 => Self::Network(Interference::draw(random, setup.protocol)),
            _ => Self::Broker(BrokerFault::draw(random, ground)),
        }
    }

    fn draw_long_freeze(random: &mut Random, transaction: Duration) -> Self {
        let above_ms = u64::try_from(transaction.as_millis()).unwrap_or(u64::MAX).saturating_add(1_000);
        // Mostly a little longer: a freeze that outlasts the rest of the episode makes it longer.
        let below_ms = if random.below(3) == 0 { FREEZE_MS_MAX } else { above_ms + 3_000 };
        if below_ms <= above_ms || below_ms > FREEZE_MS_MAX {
            return Self::Freeze(random.between_ms(5_000, 12_000));
        }
        Self::FreezeLong(random.between_ms(above_ms, below_ms))
    }

    /// Returns the row of the table it is counted in.
    pub fn row(&self, protocol: Protocol) -> String {
        match self {
            Self::Kill(_) => "kill -9 at random".to_owned(),
            Self::KillAt(point) => point.row(protocol),
            Self::Freeze(_) => "SIGSTOP 5 to 12 s, past the session".to_owned(),
            Self::FreezeLong(_) => "SIGSTOP up to 30 s, past the transaction's time-out".to_owned(),
            Self::Terminate => "SIGTERM, restart".to_owned(),
            Self::ScaleUp => "scale up, instances".to_owned(),
            Self::ScaleDown => "scale down, instances".to_owned(),
            Self::ScaleStorm(_) => "scale storm".to_owned(),
            Self::Network(interference) => interference.row(),
            Self::Broker(BrokerFault { what, .. }) => match what {
                NodeFault::Freeze(_) => "broker: SIGSTOP".to_owned(),
                NodeFault::Kill(_) => "broker: kill -9, restart".to_owned(),
                NodeFault::Terminate(_) => "broker: SIGTERM, restart".to_owned(),
            },
        }
    }
}

impl Point {
    fn draw(random: &mut Random) -> Self {
        let places = [Place::Produced, Place::SendingOffsets, Place::Committing, Place::Claiming, Place::TakingOver, Place::Joining];
        let index = usize::try_from(random.below(places.len() as u64)).unwrap_or(0);
        Self {
            place: places[index],
            after: random.between_ms(20, 300),
            late: (random.below(2) == 0).then(|| random.between_ms(0, 3_000)),
            pause: random.between_ms(0, 2_000),
        }
    }

    fn row(&self, protocol: Protocol) -> String {
        let place = match self.place {
            Place::Produced => "after produce, AddOffsetsToTxn",
            Place::SendingOffsets => "before the offsets, TxnOffsetCommit",
            Place::Committing => "between offsets and commit, EndTxn",
            Place::Claiming => "in a claim, OffsetCommit",
            Place::TakingOver => "in a take-over, InitProducerId",
            Place::Joining => match protocol {
                Protocol::Classic => "in a join, JoinGroup",
                Protocol::Consumer => "in a join, ConsumerGroupHeartbeat",
            },
        };
        format!("kill -9 {place} {}", if self.late.is_some() { "arrives late" } else { "lost" })
    }
}

impl Place {
    /// Returns the request that marks it.
    pub fn api_key(self, protocol: Protocol) -> i16 {
        match self {
            Self::Produced => kind::ADD_OFFSETS_TO_TXN,
            Self::SendingOffsets => kind::TXN_OFFSET_COMMIT,
            Self::Committing => kind::END_TXN,
            Self::Claiming => kind::OFFSET_COMMIT,
            Self::TakingOver => kind::INIT_PRODUCER_ID,
            Self::Joining => match protocol {
                Protocol::Classic => kind::JOIN_GROUP,
                Protocol::Consumer => kind::CONSUMER_GROUP_HEARTBEAT,
            },
        }
    }
}

impl BrokerFault {
    fn draw(random: &mut Random, ground: Ground) -> Self {
        match ground {
            Ground::Lone => Self { node: 0, what: NodeFault::Freeze(random.between_ms(500, 4_000)) },
            Ground::Three => {
                let node = usize::try_from(random.below(Replicated::NODES as u64)).unwrap_or(0);
                let what = match random.below(3) {
                    0 => NodeFault::Freeze(random.between_ms(1_000, 15_000)),
                    1 => NodeFault::Kill(random.between_ms(0, 5_000)),
                    _ => NodeFault::Terminate(random.between_ms(0, 5_000)),
                };
                Self { node, what }
            }
        }
    }
}

impl Interference {
    fn draw(random: &mut Random, protocol: Protocol) -> Self {
        let index = usize::try_from(random.below((KINDS.len() - KINDS_OF_A_PROTOCOL + 1) as u64)).unwrap_or(0);
        let (_, api_key) = match (KINDS[index], protocol) {
            ((_, kind::JOIN_GROUP), Protocol::Consumer) => KINDS[KINDS.len() - 1],
            (drawn, _) => drawn,
        };
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

    /// Returns the row of the table it is counted in.
    pub fn row(&self) -> String {
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

/// Numbers by row.
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

    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the sums in one line, each of the rows that begin alike.
    pub fn line(&self) -> String {
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for (row, number) in &self.0 {
            let begins =
                ["kill -9 at random", "kill -9", "SIGSTOP", "SIGTERM", "scale", "network", "broker"].into_iter().find(|group| row.starts_with(group));
            *groups.entry(begins.unwrap_or(row)).or_default() += number;
        }
        let named = groups.remove("kill -9").map(|number| ("kill -9 at a named point", number));
        groups.into_iter().chain(named).map(|(group, number)| format!("{number} {group}")).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(row, number)| writeln!(f, "{number:>6}  {row}"))
    }
}
