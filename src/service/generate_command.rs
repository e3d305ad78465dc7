//! `transom gen orders`.

use crate::cli::{GenOrdersOptions, load};
use crate::exit::{Code, Failed};
use crate::generate::{GenerateOptions, GeneratedOrder, Kind, OrderGenerator};
use crate::run_command::admin_properties;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};
use transom_kafka::Sender;
use transom_sdk::Registry;

/// Acknowledgements are looked at after this many records.
const CHECK_EVERY: u64 = 1_000;

/// Generates orders.
pub(crate) fn orders(registry: &Registry, options: &GenOrdersOptions) -> Result<Code, Failed> {
    for (name, share) in [("--poison-share", options.poison_share), ("--duplicate-share", options.duplicate_share)] {
        if !(0.0..=1.0).contains(&share) {
            return Err(Failed::new(Code::Configuration, format!("{name} is {share}, it must be from 0 to 1"), ""));
        }
    }
    let generator = OrderGenerator::new(GenerateOptions {
        seed: options.seed,
        count: options.count,
        poison_share: options.poison_share,
        duplicate_share: options.duplicate_share,
        customers: options.customers,
    });
    let mut counts = Counts::default();
    let pace = Pace { rate: options.rate, started: Instant::now() };
    let Some(path) = &options.pipeline else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for (index, order) in (0_u64..).zip(generator) {
            pace.wait_for(index);
            counts.add(&order);
            let written = out.write_all(&order.value).and_then(|()| out.write_all(b"\n"));
            written.map_err(|error| Failed::new(Code::TryAgain, format!("stdout: {error}"), ""))?;
        }
        out.flush().map_err(|error| Failed::new(Code::TryAgain, format!("stdout: {error}"), ""))?;
        return Ok(Code::Done);
    };
    let plan = load(registry, path)?;
    let topic = options.topic.clone().or_else(|| plan.inputs.first().map(|input| input.topic.name.clone())).unwrap_or_default();
    let properties = admin_properties(&plan).with("linger.ms", "20").with("compression.type", "lz4").with("partitioner", "murmur2_random");
    let properties = properties.with("queue.buffering.max.messages", "1000000").with("enable.idempotence", "true");
    let refused =
        |what: String| Failed::new(Code::Unreachable, format!("topic {topic}: {what}"), "check the topic's name and whether the brokers run");
    let sender = Sender::new(&properties, &topic).map_err(|error| refused(error.to_string()))?;
    for (index, order) in (0_u64..).zip(generator) {
        pace.wait_for(index);
        counts.add(&order);
        sender.send(Some(&order.key), Some(&order.value)).map_err(|error| refused(error.to_string()))?;
        if index % CHECK_EVERY == 0 {
            sender.check().map_err(|error| refused(error.to_string()))?;
        }
    }
    sender.flush().map_err(|error| refused(error.to_string()))?;
    println!("sent {} orders to {topic}: {} poison, {} duplicates, seed {}", options.count, counts.poison, counts.duplicates, options.seed);
    Ok(Code::Done)
}

#[derive(Default)]
struct Counts {
    poison: u64,
    duplicates: u64,
}

impl Counts {
    fn add(&mut self, order: &GeneratedOrder) {
        match order.kind {
            Kind::Order => {}
            Kind::Duplicate => self.duplicates += 1,
            Kind::Poison(_) => self.poison += 1,
        }
    }
}

struct Pace {
    rate: u64,
    started: Instant,
}

impl Pace {
    /// Waits until record `index` is due; a late one does not wait, so the mean rate holds.
    fn wait_for(&self, index: u64) {
        if self.rate == 0 {
            return;
        }
        let due = Duration::from_micros(index.saturating_mul(1_000_000) / self.rate);
        let ahead = due.saturating_sub(self.started.elapsed());
        if ahead > Duration::from_millis(1) {
            std::thread::sleep(ahead);
        }
    }
}
