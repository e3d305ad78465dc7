//! The verdict: computed from the topics alone, by a client and an oracle that share no code with the product.

use crate::expected::expected;
use crate::stage::{Names, Stage};
use crate::{ORDERS, POISON};
use anyhow::Result;
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};
use transom_harness::oracle::{Anomaly, Books, Report};
use transom_harness::wire::{OffsetsAsked, ReadRecord};

/// The order that every generated sequence with poison holds as poison.
const KNOWN_POISON: &str = "\"order_id\":175,";
/// How many cleaned records are shown.
const SHOWN: usize = 3;
/// The header with the time of day, in milliseconds since 1970.
const FAILED_AT: &str = "__transom.dlq.failed_at";
/// Widest name among the dead letter's headers.
const HEADER_WIDTH: usize = 30;

/// What was found.
pub(crate) struct Verdict {
    report: Report,
    inputs: Vec<ReadRecord>,
    outputs: Vec<ReadRecord>,
    dead_letters: Vec<ReadRecord>,
    /// Records of transactions that never committed: they lie in the log, and no committed-only reader sees them.
    aborted: usize,
    /// Records that the group's committed offsets do not cover.
    behind: i64,
}

impl Verdict {
    /// Reads all topics and compares each order with what should have become of it.
    pub(crate) fn read(stage: &Stage) -> Result<Verdict> {
        let Stage { client, names, .. } = stage;
        let committed = client.committed_offsets(&names.pipeline, OffsetsAsked::Stable)?;
        let books = Books::read(client, &[&names.input], &[&names.output], &[&names.dead_letters])?.committed(&committed);
        let report = books.audit(|_, record| expected(&names.output, record));
        let ends = client.end_offsets(&names.input)?;
        let covered = |partition: i32| committed.get(&(names.input.clone(), partition)).map_or(0, |committed| committed.offset);
        let (outputs, dead_letters) = (client.read_committed(&names.output)?, client.read_committed(&names.dead_letters)?);
        let written = client.read_uncommitted(&names.output)?.len() + client.read_uncommitted(&names.dead_letters)?.len();
        Ok(Verdict {
            report,
            inputs: client.read_committed(&names.input)?,
            aborted: written - outputs.len() - dead_letters.len(),
            outputs,
            dead_letters,
            behind: ends.iter().map(|(partition, ends)| (ends.high_watermark - covered(*partition)).abs()).sum(),
        })
    }

    pub(crate) fn is_right(&self) -> bool {
        let counts = (self.report.inputs(), self.report.outputs(), self.report.dead_letters());
        self.report.is_exact() && counts == (ORDERS, ORDERS - POISON, POISON) && self.report.order_unchecked() == 0 && self.behind == 0
    }

    pub(crate) fn print(&self, names: &Names) {
        self.print_cleaned(names);
        self.print_dead_letter(names);
        println!("\n{} records were written in transactions that did not commit; no committed-only reader ever sees them", self.aborted);
        let Self { report, behind, .. } = self;
        let reordered = report.count(Anomaly::Reordered);
        let order = match (reordered, report.order_unchecked()) {
            (0, 0) => "order kept".to_owned(),
            (0, unchecked) => format!("order of {unchecked} not checked"),
            (reordered, _) => format!("{reordered} out of order"),
        };
        println!(
            "\nin {} = produced {} + dead letters {}; lost {}, duplicates {}, {order}",
            report.inputs(),
            report.outputs(),
            report.dead_letters(),
            report.count(Anomaly::Lost),
            report.count(Anomaly::Duplicate)
        );
        if !self.is_right() {
            println!("\nThat is wrong: it should be in {ORDERS} = produced {} + dead letters {POISON}.", ORDERS - POISON);
            println!("The committed offsets lie {behind} records off the ends of the input. The oracle says:\n{report}");
        }
    }

    fn print_cleaned(&self, names: &Names) {
        println!("\nsome of the cleaned records: as they lie in {}, and what became of them in {}", names.input, names.output);
        let by_id: HashMap<String, &ReadRecord> = self.inputs.iter().filter_map(|record| Some((order_id(record)?, record))).collect();
        for output in self.outputs.iter().step_by((self.outputs.len() / SHOWN).max(1)).take(SHOWN) {
            if let Some(input) = order_id(output).and_then(|id| by_id.get(&id)) {
                println!("  {} {}", place(input), text(input.value.as_deref()));
            }
            println!("  {} {}", place(output), text(output.value.as_deref()));
        }
    }

    fn print_dead_letter(&self, names: &Names) {
        println!("\nthe dead letter of order 175, in {}", names.dead_letters);
        let Some(letter) = self.dead_letters.iter().find(|letter| text(letter.value.as_deref()).contains(KNOWN_POISON)) else {
            println!("  is missing");
            return;
        };
        println!("  {:HEADER_WIDTH$}{}", "place", place(letter));
        println!("  {:HEADER_WIDTH$}{}", "key", text(letter.key.as_deref()));
        println!("  {:HEADER_WIDTH$}{}", "value", text(letter.value.as_deref()));
        for (name, value) in &letter.headers {
            let ago = if name == FAILED_AT { seconds_ago(value.as_deref()) } else { String::new() };
            println!("  {name:HEADER_WIDTH$}{}{ago}", text(value.as_deref()));
        }
    }
}

fn place(record: &ReadRecord) -> String {
    format!("partition {} offset {:>4}", record.partition, record.offset)
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn seconds_ago(milliseconds: Option<&[u8]>) -> String {
    let at: Option<u64> = milliseconds.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
    let ago = at.and_then(|at| (UNIX_EPOCH + Duration::from_millis(at)).elapsed().ok());
    ago.map_or_else(String::new, |ago| format!(", {} s ago", ago.as_secs()))
}

/// Returns the id as it is written, from records whose id is a number.
fn order_id(record: &ReadRecord) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
    value.get("order_id")?.as_u64().map(|id| id.to_string())
}
