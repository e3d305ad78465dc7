//! Turns a restaurant's order lines, all text as they were published, into numbers, cents and lists.
//!
//! Owns what the published columns mean. Never guesses: a line that is not of the known form is refused with its code.
//!
//! The known form is that of `data/restaurant-orders.tsv`: order lines of a restaurant chain, published by The Upshot (New
//! York Times) with a 2015 article, in their public repository `TheUpshot/chipotle`; data only, as published. The tests run
//! all of it against answers computed without this program.

mod choices;
#[cfg(test)]
mod tests;

use choices::{Choice, ChoicesError};
use serde::{Deserialize, Serialize};
use transom_sdk::Failure;

/// What the published table writes for "no choice". Not an empty text: that would be a column somebody lost.
const NO_CHOICE: &str = "NULL";

/// A line of the published table. The texts go on into the output, so they are owned from the start.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderLine {
    order_id: String,
    quantity: String,
    item_name: String,
    choice_description: String,
    item_price: String,
}

/// A clean order line.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct CleanOrderLine {
    order_id: u64,
    quantity: u32,
    item_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Vec<Choice>>,
    item_price_cents: u64,
}

/// Why a line is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The order's id is not a whole number.
    OrderId,
    /// The quantity is not a whole number from 1.
    Quantity,
    /// The item has no name.
    ItemName,
    /// The choices are neither a bracket list nor `NULL`.
    Choices(ChoicesError),
    /// The price is not like `$16.98`.
    ItemPrice,
}

/// Makes the clean line.
///
/// # Errors
/// [`Rejection`], always permanent. It names the field and not its text: the dead letter holds the whole record.
pub fn clean_restaurant_orders(line: OrderLine) -> Result<CleanOrderLine, Rejection> {
    let order_id = whole_number(&line.order_id).ok_or(Rejection::OrderId)?;
    let quantity = whole_number(&line.quantity).and_then(|number| u32::try_from(number).ok()).filter(|&quantity| quantity > 0);
    let quantity = quantity.ok_or(Rejection::Quantity)?;
    if line.item_name.trim().is_empty() {
        return Err(Rejection::ItemName);
    }
    let choices = match line.choice_description.as_str() {
        NO_CHOICE => None,
        list => Some(choices::parse(list).map_err(Rejection::Choices)?),
    };
    let item_price_cents = price_cents(&line.item_price).ok_or(Rejection::ItemPrice)?;
    Ok(CleanOrderLine { order_id, quantity, item_name: line.item_name, choices, item_price_cents })
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        let (code, message) = match rejection {
            Rejection::OrderId => ("order_id", "order_id is not a whole number".to_owned()),
            Rejection::Quantity => ("quantity", "quantity is not a whole number from 1".to_owned()),
            Rejection::ItemName => ("item_name", "item_name is empty".to_owned()),
            Rejection::Choices(ChoicesError { position, expected }) => {
                ("choices", format!("choice_description is not a list: byte {position} should be {expected}"))
            }
            Rejection::ItemPrice => ("item_price", "item_price is not like \"$16.98\"".to_owned()),
        };
        Self::permanent(code, message).with_exception("transom_processors::clean_restaurant_orders::Rejection")
    }
}

/// Digits alone: `parse` by itself would let a plus pass.
fn whole_number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The published prices end in a blank; it means nothing.
fn price_cents(text: &str) -> Option<u64> {
    let (dollars, cents) = text.strip_prefix('$')?.trim_end_matches(' ').split_once('.')?;
    if cents.len() != 2 {
        return None;
    }
    whole_number(dollars)?.checked_mul(100)?.checked_add(whole_number(cents)?)
}
