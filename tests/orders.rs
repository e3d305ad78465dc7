//! Orders as a shop writes them, and what `clean_orders` has to make of them: written again from its description, on
//! `serde_json::Value`, so that a mistake there is no mistake here.

use serde_json::Value;
use transom_harness::oracle::{Expected, Output};
use transom_harness::scenario::Random;
use transom_harness::wire::{NewRecord, ReadRecord};

/// Customers; the customer is the key, and order is promised per key.
const CUSTOMERS: u64 = 500;
/// One order in so many is one that no attempt can process.
const POISON_EVERY: u64 = 50;

/// Orders with ascending ids, so that no two values are equal.
pub struct Orders {
    random: Random,
    next_id: u64,
}

impl Orders {
    /// Returns the sequence of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { random: Random::seeded(seed), next_id: 1 }
    }

    /// Passes over the next `count` orders.
    #[must_use]
    pub fn skip(mut self, count: u64) -> Self {
        for _ in 0..count {
            let _ = self.one();
        }
        self
    }

    /// Returns the next `count` orders.
    pub fn take(&mut self, count: u64) -> Vec<NewRecord> {
        (0..count).map(|_| self.one()).collect()
    }

    fn one(&mut self) -> NewRecord {
        let id = self.next_id;
        self.next_id += 1;
        let customer = format!("C-{:05}", self.random.below(CUSTOMERS));
        let amount = format!("{}.{:02}", self.random.below(1000), self.random.below(100));
        let is_poison = id.is_multiple_of(POISON_EVERY);
        let value = match (is_poison, self.random.below(4)) {
            (false, _) => order(&id.to_string(), &customer, &amount),
            (true, 0) => order(&id.to_string(), &customer, "N/A"),
            (true, 1) => order(&format!("\"{id}\""), &customer, &amount),
            (true, 2) => order(&id.to_string(), &customer, &amount).split_at(60).0.to_owned(),
            (true, _) => String::new(),
        };
        NewRecord::new(customer, value)
    }
}

/// Returns one order; `id` stands as it is, so that it may be wrong.
pub fn order(id: &str, customer: &str, amount: &str) -> String {
    format!(
        r#"{{"order_id":{id},"customer_id":"{customer}","amount":"{amount}","currency":"EUR","event_time":"2026-01-22T00:00:00Z","status":"new"}}"#
    )
}

/// Returns what one order becomes: the clean order in `topic` with key, headers and timestamp of the input, or a dead letter.
pub fn cleaned(topic: &str, record: &ReadRecord) -> Expected {
    match record.value.as_deref().and_then(clean) {
        None => Expected::DeadLetter,
        Some(value) => Expected::Outputs(vec![Output { value: Some(value.into_bytes()), ..Output::copy(topic, record) }]),
    }
}

fn clean(value: &[u8]) -> Option<String> {
    let order: Value = serde_json::from_slice(value).ok()?;
    let id = order.get("order_id")?.as_u64()?;
    let text = |name: &str| order.get(name).filter(|value| value.is_string());
    let (customer, currency, time) = (text("customer_id")?, text("currency")?, text("event_time")?);
    let amount = order.get("amount")?.as_str()?;
    // Of the shapes that occur here: digits, a point, two digits.
    let (whole, places) = amount.split_once('.')?;
    if places.len() != 2 {
        return None;
    }
    let cents = whole.parse::<i64>().ok()? * 100 + places.parse::<i64>().ok()?;
    // A Value displays as JSON, with its escapes.
    Some(format!(r#"{{"order_id":{id},"customer_id":{customer},"amount_cents":{cents},"currency":{currency},"event_time":{time}}}"#))
}
