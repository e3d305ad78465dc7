//! The pipeline an episode plays, drawn from what its file may say.

use std::time::Duration;

use transom_harness::scenario::Random;

/// The instances there are; some of them begin.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The classic session, and the one the brokers of an episode give to members of the `consumer` protocol.
pub const SESSION_MS: u64 = 6_000;

const PIPELINE: &str = r#"
pipeline: @pipeline
kafka: { bootstrap.servers: "@bootstrap", client.id: CLIENT }
workers: WORKERS
inputs: INPUTS
group: { protocol: PROTOCOL }
steps: [{ id: clean, process: clean_orders }]
output: { topic: @out }
dead_letters: { topic: @dlq }
commit: { interval: INTERVAL }
timeouts: { TIMEOUTS }
"#;

/// What was drawn.
#[derive(Clone, Debug)]
pub struct Setup {
    pub workers: u64,
    pub interval: &'static str,
    pub protocol: Protocol,
    /// The first instance has no name of its own. One at most: the host's name is its transactional id's.
    pub has_dynamic: bool,
    /// Short names of the input topics.
    pub inputs: &'static [&'static str],
    /// `timeouts.transaction`
    pub transaction: Duration,
    /// How many of the instances begin.
    pub up: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Classic,
    Consumer,
}

impl Setup {
    pub fn draw(random: &mut Random) -> Self {
        let one_of = |random: &mut Random, number: u64| usize::try_from(random.below(number)).unwrap_or(0);
        Self {
            workers: 1 + random.below(2),
            interval: ["10ms", "50ms", "100ms", "adaptive"][one_of(random, 4)],
            protocol: if random.below(3) == 0 { Protocol::Consumer } else { Protocol::Classic },
            has_dynamic: random.below(3) == 0,
            inputs: if random.below(3) == 0 { &["in", "in_b"] } else { &["in"] },
            transaction: Duration::from_secs([8, 12, 30][one_of(random, 3)]),
            up: 2 + one_of(random, 3),
        }
    }

    /// Returns the pipeline's file for the instance of this name, which its requests carry as their client id.
    pub fn yaml(&self, client: &str) -> String {
        let inputs: Vec<String> = self.inputs.iter().map(|topic| format!("{{ topic: @{topic} }}")).collect();
        let session = match self.protocol {
            Protocol::Classic => format!("session: {SESSION_MS}ms, "),
            Protocol::Consumer => String::new(),
        };
        let timeouts = format!("{session}revoke: 3s, send_offsets: 5s, commit: 5s, transaction: {}s", self.transaction.as_secs());
        let values = [
            ("CLIENT", client),
            ("WORKERS", &self.workers.to_string()),
            ("INPUTS", &format!("[{}]", inputs.join(", "))),
            ("PROTOCOL", self.protocol.name()),
            ("INTERVAL", self.interval),
            ("TIMEOUTS", &timeouts),
        ];
        values.into_iter().fold(PIPELINE.to_owned(), |yaml, (word, value)| yaml.replace(word, value))
    }

    /// Returns the `--instance` of one of [`NAMES`].
    pub fn instance_name<'name>(&self, name: &'name str) -> Option<&'name str> {
        (!self.has_dynamic || name != NAMES[0]).then_some(name)
    }

    /// Returns the rows of the closing table this episode counts in.
    pub fn rows(&self) -> Vec<String> {
        let members = if self.has_dynamic { "one dynamic member, the others static" } else { "static members" };
        let inputs = if self.inputs.len() == 1 { "one input topic" } else { "two input topics" };
        let workers = if self.workers == 1 { "one worker an instance" } else { "two workers an instance" };
        vec![format!("protocol {}", self.protocol.name()), members.to_owned(), inputs.to_owned(), workers.to_owned()]
    }

    /// Returns everything in one line.
    pub fn words(&self) -> String {
        let Self { interval, transaction, up, .. } = self;
        format!("{}, commit interval {interval}, transaction {transaction:?}, {up} of {} instances up", self.rows().join(", "), NAMES.len())
    }
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}
