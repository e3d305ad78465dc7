//! A team with a repository of its own: three transforms, their registry and their tests. Depends on `transom-sdk` to write
//! them and on `transom-service` to run them, and on nothing else of Transom.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use transom_sdk::{Context, Failure, OutputId, Registry};

/// Returns the team's transforms.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.map_borrowed::<Payment>("mask_payment", mask_payment);
    registry.emit("post_transfer", post_transfer);
    registry.filter_map("screen_payment", screen_payment);
    registry
}

/// A payment by card; borrows its texts from the record.
#[derive(Debug, Deserialize)]
pub struct Payment<'a> {
    payment_id: u64,
    #[serde(borrow)]
    card_number: Cow<'a, str>,
    cents: u64,
}
transom_sdk::borrowed!(Payment);

/// A payment that may be shown: of the card no more than its last four digits.
#[derive(Debug, Serialize)]
pub struct MaskedPayment {
    payment_id: u64,
    card_last_digits: String,
    cents: u64,
}

/// Masks a payment's card.
///
/// # Errors
/// `card_number` when it is not 12 to 19 digits. The message does not show it.
pub fn mask_payment(payment: Payment<'_>) -> Result<MaskedPayment, Failure> {
    let Payment { payment_id, card_number: number, cents } = payment;
    if !(12..=19).contains(&number.len()) || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::permanent("card_number", "card_number is not 12 to 19 digits"));
    }
    let card_last_digits = number[number.len() - 4..].to_owned();
    Ok(MaskedPayment { payment_id, card_last_digits, cents })
}

/// Money from one account to another.
#[derive(Debug, Deserialize)]
pub struct Transfer {
    transfer_id: u64,
    from: String,
    to: String,
    cents: i64,
}

#[derive(Serialize)]
struct LedgerEntry<'t> {
    transfer_id: u64,
    account: &'t str,
    cents: i64,
}

/// Posts both sides of a transfer, each under its account's key. Both are in the ledger or neither.
///
/// # Errors
/// `cents` when the amount is not above 0, `same_account` when nothing would move.
pub fn post_transfer(transfer: Transfer, context: &mut Context<'_>) -> Result<(), Failure> {
    let Transfer { transfer_id, from, to, cents } = transfer;
    if cents <= 0 {
        return Err(Failure::permanent("cents", format!("a transfer of {cents} cents")));
    }
    if from == to {
        return Err(Failure::permanent("same_account", "a transfer from an account to itself"));
    }
    for (account, cents) in [(&from, -cents), (&to, cents)] {
        let entry = LedgerEntry { transfer_id, account, cents };
        context.emit(OutputId::DEFAULT).key(account.as_bytes()).json(&entry)?;
    }
    Ok(())
}

/// A payment on its way to the books.
#[derive(Debug, Deserialize)]
pub struct ScreenedPayment {
    payment_id: u64,
    cents: u64,
    /// How long its screening takes: most are quick, a suspicious one is not.
    #[serde(default)]
    screening_ms: u64,
}

/// A payment that passed.
#[derive(Debug, Serialize)]
pub struct Passed {
    payment_id: u64,
    cents: u64,
}

/// More is no payment by card.
const CENTS_MAX: u64 = 100_000_000;

/// Payments whose screening has begun before: the second time it is quick.
static SCREENED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Screens a payment; payments of nothing are left out. Slow on purpose where the payment says so, once in a process's life.
///
/// # Errors
/// `cents` when there are more of them than a payment may have.
pub fn screen_payment(payment: ScreenedPayment) -> Result<Option<Passed>, Failure> {
    let ScreenedPayment { payment_id, cents, screening_ms } = payment;
    if cents > CENTS_MAX {
        return Err(Failure::permanent("cents", format!("a payment of {cents} cents")));
    }
    if screening_ms > 0 && SCREENED.lock().unwrap_or_else(PoisonError::into_inner).insert(payment_id) {
        std::thread::sleep(Duration::from_millis(screening_ms));
    }
    Ok((cents > 0).then_some(Passed { payment_id, cents }))
}

#[cfg(test)]
mod tests {
    use super::registry;
    use serde_json::{Value, json};
    use transom_sdk::TestDriver;

    fn driver(name: &str) -> TestDriver {
        TestDriver::new(&registry(), name).unwrap()
    }

    #[test]
    fn a_masked_payment_shows_four_digits_of_its_card() {
        let mut driver = driver("mask_payment");
        let masked = driver.pipe_json(&json!({ "payment_id": 1, "card_number": "4111111111111111", "cents": 250 })).json();
        assert_eq!(masked, json!({ "payment_id": 1, "card_last_digits": "1111", "cents": 250 }));
    }

    #[test]
    fn a_card_number_that_is_none_is_refused_and_not_shown() {
        let mut driver = driver("mask_payment");
        for number in ["", "4111", "4111 1111 1111 1111", "41111111111111111111", "ééééééé", "٤١١١١١١١١١١١"] {
            let piped = driver.pipe_json(&json!({ "payment_id": 1, "card_number": number, "cents": 250 }));
            assert_eq!((piped.outputs.len(), piped.code()), (0, "card_number"));
            assert!(number.is_empty() || !piped.failure.unwrap().message().contains(number));
        }
    }

    #[test]
    fn a_screened_payment_passes_or_is_left_out_or_refused() {
        let mut driver = driver("screen_payment");
        let passed = driver.pipe_json(&json!({ "payment_id": 1, "cents": 250 })).json();
        assert_eq!(passed, json!({ "payment_id": 1, "cents": 250 }));
        assert_eq!(driver.pipe_json(&json!({ "payment_id": 2, "cents": 0, "screening_ms": 1 })).outputs.len(), 0);
        assert_eq!(driver.pipe_json(&json!({ "payment_id": 3, "cents": 100_000_001 })).code(), "cents");
    }

    #[test]
    fn a_transfer_posts_both_sides_under_their_accounts() {
        let piped = driver("post_transfer").pipe_json(&json!({ "transfer_id": 9, "from": "A", "to": "B", "cents": 100 }));
        let entries: Vec<(String, Value)> = piped
            .outputs
            .iter()
            .map(|output| {
                let key = String::from_utf8(output.key.clone().unwrap()).unwrap();
                (key, serde_json::from_slice(output.value.as_deref().unwrap()).unwrap())
            })
            .collect();
        assert_eq!(
            entries,
            [
                ("A".to_owned(), json!({ "transfer_id": 9, "account": "A", "cents": -100 })),
                ("B".to_owned(), json!({ "transfer_id": 9, "account": "B", "cents": 100 })),
            ]
        );
    }

    #[test]
    fn a_transfer_that_moves_nothing_posts_nothing() {
        let mut driver = driver("post_transfer");
        for (to, cents, code) in [("B", 0, "cents"), ("B", -1, "cents"), ("B", i64::MIN, "cents"), ("A", 1, "same_account")] {
            let piped = driver.pipe_json(&json!({ "transfer_id": 9, "from": "A", "to": to, "cents": cents }));
            assert_eq!((piped.outputs.len(), piped.code()), (0, code));
        }
    }
}
