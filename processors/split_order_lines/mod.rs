//! Splits an order into one record a line, to the output `lines`, and one summary, to the output `default`.
//!
//! Owns the numbering of lines, from 1. Never emits a part of an order: all lines and the summary, or a failure (EO-1).
//! That takes no care here: a failure returned after some lines were emitted undoes them.

mod config;
#[cfg(test)]
mod tests;

use config::{Config, EmptyOrder};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use transom_sdk::{Context, Failure, OutputId, Processor, Record, Setup, SetupError, Tombstones};

/// The processor: what the pipeline chose, and the output it writes to beside `default`.
#[derive(Debug)]
pub struct SplitOrderLines {
    config: Config,
    lines: OutputId,
    tombstones: Tombstones,
}

#[derive(Deserialize)]
struct Order<'a> {
    order_id: u64,
    #[serde(borrow)]
    event_time: Cow<'a, str>,
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

/// A line as the shop writes it. What is missing becomes an empty text or 0 here and is refused below with the line's
/// number, which the decoder cannot know. Not `Option<Cow>`: serde borrows a `Cow` only where the field itself is one.
#[derive(Deserialize)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow)]
    sku: Cow<'a, str>,
    qty: u32,
}

impl Default for Item<'_> {
    fn default() -> Self {
        Self { sku: Cow::Borrowed(""), qty: 0 }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    order_id: u64,
    line: usize,
    sku: &'a str,
    qty: u32,
    event_time: &'a str,
}

#[derive(Serialize)]
struct Summary {
    order_id: u64,
    lines: usize,
    quantity: u64,
}

impl SplitOrderLines {
    /// Returns the processor for one pipeline: an output or option that does not fit is found here, before any record.
    ///
    /// # Errors
    /// When the pipeline has no output `lines`, or `with:` does not fit.
    pub fn new(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let config: Config = setup.config()?;
        if config.lines_max == 0 {
            return Err(SetupError::Refused("lines_max is 0, which refuses every order; give 1 or more".to_owned()));
        }
        Ok(Self { config, lines: setup.output("lines")?, tombstones: setup.tombstones() })
    }

    fn check_line_count(&self, lines: usize) -> Result<(), Failure> {
        if lines > self.config.lines_max {
            return Err(Failure::permanent("too_many_lines", format!("{lines} lines; lines_max is {}", self.config.lines_max)));
        }
        match self.config.empty_order {
            EmptyOrder::DeadLetter if lines == 0 => Err(Failure::permanent("no_lines", "the order has no lines")),
            EmptyOrder::DeadLetter | EmptyOrder::Summarise => Ok(()),
        }
    }
}

impl Processor for SplitOrderLines {
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        if record.value().is_none() {
            return self.tombstones.apply(context);
        }
        let order: Order<'_> = record.json()?;
        let line_count = order.items.len();
        self.check_line_count(line_count)?;

        // Keyed by order, so that a reader finds an order's lines together and in order; the header tells it when it has all.
        let key = order.order_id.to_string();
        let line_count_text = line_count.to_string();
        let mut quantity = 0_u64;
        for (item, line) in order.items.iter().zip(1..) {
            check_item(item).map_err(|why| Failure::permanent("order_line", format!("line {line} of {line_count} {why}")))?;
            quantity += u64::from(item.qty);
            context.emit(self.lines).key(key.as_bytes()).header("line_count", Some(line_count_text.as_bytes())).json(&Line {
                order_id: order.order_id,
                line,
                sku: &item.sku,
                qty: item.qty,
                event_time: &order.event_time,
            })?;
        }
        // No key set: the pipeline chooses the summary's.
        context.emit(OutputId::DEFAULT).json(&Summary { order_id: order.order_id, lines: line_count, quantity })
    }
}

fn check_item(item: &Item<'_>) -> Result<(), &'static str> {
    match (item.sku.is_empty(), item.qty) {
        (true, _) => Err("has no sku"),
        (false, 0) => Err("has no qty above 0"),
        (false, _) => Ok(()),
    }
}
