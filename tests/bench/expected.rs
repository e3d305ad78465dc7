//! What should become of each input, written a second time and from nothing of the contestants': a wrong output must not be able
//! to judge itself.

use serde::Deserialize;

/// The order's fields that count; the others are skipped.
#[derive(Deserialize)]
struct Order<'a> {
    order_id: u64,
    customer_id: &'a str,
    amount: &'a str,
    currency: &'a str,
    event_time: &'a str,
}

/// Returns the clean order's bytes, or `None` for an order that goes to the dead letters.
///
/// It knows the generator's orders and no others: no escapes in texts, amounts of digits with two decimal places, or `N/A`.
pub fn clean(order: &[u8]) -> Option<Vec<u8>> {
    let Order { order_id, customer_id, amount, currency, event_time } = serde_json::from_slice(order).ok()?;
    let digits = amount.replacen('.', "", 1);
    let is_amount = amount.len() > 3 && amount.as_bytes()[amount.len() - 3] == b'.' && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_amount {
        return None;
    }
    let amount_cents: u64 = digits.parse().ok()?;
    let clean = format!(
        r#"{{"order_id":{order_id},"customer_id":"{customer_id}","amount_cents":{amount_cents},"currency":"{currency}","event_time":"{event_time}"}}"#
    );
    Some(clean.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn an_order_keeps_five_fields_and_one_without_an_amount_is_set_aside() {
        let order = |amount: &str| {
            format!(
                r#"{{"order_id":7,"customer_id":"C-1","amount":"{amount}","currency":"EUR","event_time":"2026-01-22T00:00:00.123Z","status":"new","items":[]}}"#
            )
        };
        let text = |amount: &str| clean(order(amount).as_bytes()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let expected = r#"{"order_id":7,"customer_id":"C-1","amount_cents":4905,"currency":"EUR","event_time":"2026-01-22T00:00:00.123Z"}"#;
        assert_eq!(text("49.05").as_deref(), Some(expected));
        for refused in ["N/A", "", "1", "1.5", ".55", "-1.00", "1.234"] {
            assert_eq!(text(refused), None, "{refused}");
        }
    }
}
