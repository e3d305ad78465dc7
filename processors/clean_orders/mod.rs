//! Turns a shop's order into the five fields that accounting reads, with the amount in cents.
//!
//! Owns what counts as a valid order. Never repairs: an order that is not exactly right is refused with a code and the
//! text at fault, because a guess here is a wrong sum there. Texts that pass are passed on as they came.

mod amount;
mod event_time;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use transom_sdk::Failure;

/// An order as the shop writes it. Further fields (`status`, `channel`, `items`) are skipped unread.
///
/// Texts are [`Cow`]: borrowed from the record where JSON holds them as they are, owned where it escapes characters. A
/// plain `&str` would refuse the escaped ones.
#[derive(Debug, Deserialize)]
pub struct Order<'a> {
    order_id: u64,
    #[serde(borrow)]
    customer_id: Cow<'a, str>,
    #[serde(borrow)]
    amount: Cow<'a, str>,
    #[serde(borrow)]
    currency: Cow<'a, str>,
    #[serde(borrow)]
    event_time: Cow<'a, str>,
}
transom_sdk::borrowed!(Order);

/// An order as accounting reads it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct CleanOrder<'a> {
    order_id: u64,
    customer_id: Cow<'a, str>,
    amount_cents: i64,
    currency: Cow<'a, str>,
    event_time: Cow<'a, str>,
}

/// Why an order is refused. Each variant holds an excerpt of the text at fault.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The amount is not a decimal number of at most two places, or more cents than an `i64` holds.
    Amount(String),
    /// The currency is not three upper-case ASCII letters.
    Currency(String),
    /// The event time is not RFC 3339.
    EventTime(String),
}

/// Makes the clean order.
///
/// # Errors
/// [`Rejection`], always permanent: the same text is as wrong the next time.
pub fn clean_orders(order: Order<'_>) -> Result<CleanOrder<'_>, Rejection> {
    let amount_cents = amount::cents(&order.amount).ok_or_else(|| Rejection::Amount(excerpt(&order.amount)))?;
    if !is_currency(&order.currency) {
        return Err(Rejection::Currency(excerpt(&order.currency)));
    }
    if !event_time::is_rfc3339(&order.event_time) {
        return Err(Rejection::EventTime(excerpt(&order.event_time)));
    }
    Ok(CleanOrder { order_id: order.order_id, customer_id: order.customer_id, amount_cents, currency: order.currency, event_time: order.event_time })
}

// `Rejection` is not a `std::error::Error`: the blanket conversion would give all three the code `processor_error`.
impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        let (code, message) = match rejection {
            Rejection::Amount(text) => ("amount", format!("amount \"{text}\" is not like 12, 12.3 or 12.34")),
            Rejection::Currency(text) => ("currency", format!("currency \"{text}\" is not three upper-case letters")),
            Rejection::EventTime(text) => ("event_time", format!("event_time \"{text}\" is not like 2026-01-22T00:00:00.123Z (RFC 3339)")),
        };
        Self::permanent(code, message).with_exception("transom_processors::clean_orders::Rejection")
    }
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Enough to recognise any honest value, and short enough that one hostile field cannot fill a dead letter's headers.
const EXCERPT_CHARACTERS_MAX: usize = 40;

/// Returns the start of a refused text on one line.
fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT_CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT_CHARACTERS_MAX).is_some() {
        excerpt.push('…');
    }
    excerpt
}
