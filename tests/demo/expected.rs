//! What `clean_orders` should have made of each order, written a second time: another decoder, another arithmetic, no line
//! in common with the transform that is judged by it.

use serde_json::Value;
use transom_harness::oracle::{Expected, Output};
use transom_harness::wire::ReadRecord;

/// Returns what should have become of an input record: one output, or a dead letter.
pub(crate) fn expected(output_topic: &str, record: &ReadRecord) -> Expected {
    match record.value.as_deref().and_then(clean_value) {
        Some(value) => Expected::Outputs(vec![Output {
            value: Some(value.into_bytes()),
            // Key, headers and timestamp are the order's own.
            ..Output::copy(output_topic, record)
        }]),
        None => Expected::DeadLetter,
    }
}

/// Returns the clean order as it should be written, or `None` for what is none.
fn clean_value(value: &[u8]) -> Option<String> {
    let order: Value = serde_json::from_slice(value).ok()?;
    let id = order.get("order_id")?.as_u64()?;
    let customer = order.get("customer_id")?.as_str()?;
    let cents = cents(order.get("amount")?.as_str()?)?;
    let currency = order.get("currency")?.as_str().filter(|text| text.len() == 3 && text.chars().all(|c| c.is_ascii_uppercase()))?;
    // The generator writes all its event times in this one form.
    let event_time = order.get("event_time")?.as_str().filter(|text| text.len() == 24 && text.ends_with('Z'))?;
    let [customer, currency, event_time] = [customer, currency, event_time].map(|text| Value::from(text).to_string());
    Some(format!(r#"{{"order_id":{id},"customer_id":{customer},"amount_cents":{cents},"currency":{currency},"event_time":{event_time}}}"#))
}

/// Returns the cents of an amount with two decimal places, the only form the generator writes.
fn cents(amount: &str) -> Option<i64> {
    let (whole, places) = amount.split_once('.')?;
    if places.len() != 2 {
        return None;
    }
    Some(whole.parse::<i64>().ok()? * 100 + places.parse::<i64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::clean_value;

    #[test]
    fn a_good_order_is_expected_clean_and_a_bad_one_set_aside() {
        let order = r#"{"order_id":7,"customer_id":"C-1","amount":"12.05","currency":"EUR","event_time":"2026-01-22T00:00:00.000Z","items":[]}"#;
        let clean = r#"{"order_id":7,"customer_id":"C-1","amount_cents":1205,"currency":"EUR","event_time":"2026-01-22T00:00:00.000Z"}"#;
        assert_eq!(clean_value(order.as_bytes()).as_deref(), Some(clean));
        let bad = [("12.05", "N/A"), ("7", "\"7\""), ("\"customer_id\":\"C-1\",", ""), ("EUR", "eur"), ("[]}", "[")];
        for (good, bad) in bad {
            assert_eq!(clean_value(order.replacen(good, bad, 1).as_bytes()), None, "{bad}");
        }
        assert_eq!(clean_value(b""), None);
    }
}
