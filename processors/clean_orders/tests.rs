use super::amount::cents;
use super::event_time::is_rfc3339;
use super::{Order, Rejection, clean_orders};
use serde_json::json;
use std::borrow::Cow;
use transom_sdk::{FailureClass, TestDriver, TestRecord};

fn driver() -> TestDriver {
    TestDriver::new(&crate::registry(), "clean_orders").unwrap()
}

fn order(amount: &str, currency: &str, event_time: &str) -> String {
    json!({
        "order_id": 175, "customer_id": "C-00123", "amount": amount, "currency": currency, "event_time": event_time,
        "status": "new", "channel": "web", "items": [{ "sku": "SKU-0001", "qty": 2 }],
    })
    .to_string()
}

const TIME: &str = "2026-01-22T00:00:00.123Z";

#[test]
fn an_order_keeps_five_fields_its_key_and_its_order() {
    let record = TestRecord { key: Some(b"C-00123".to_vec()), ..TestRecord::value(order("12.34", "EUR", TIME)) };
    let piped = driver().pipe(&record);
    let expected = r#"{"order_id":175,"customer_id":"C-00123","amount_cents":1234,"currency":"EUR","event_time":"2026-01-22T00:00:00.123Z"}"#;
    assert_eq!(piped.outputs[0].value.as_deref(), Some(expected.as_bytes()));
    assert_eq!(piped.outputs[0].key.as_deref(), Some(&b"C-00123"[..]));
    assert_eq!((piped.outputs.len(), piped.outputs[0].output.as_str()), (1, "default"));
}

#[test]
fn the_well_known_poison_is_refused_with_its_text() {
    let poison = r#"{"order_id":175,"amount":"N/A","customer_id":"C-00123","currency":"EUR","event_time":"2026-01-22T00:00:00Z"}"#;
    let piped = driver().pipe(&TestRecord::value(poison));
    assert!(piped.outputs.is_empty());
    let failure = piped.failure.unwrap();
    assert_eq!((failure.code(), failure.class()), ("amount", FailureClass::Permanent));
    assert_eq!(failure.message(), "amount \"N/A\" is not like 12, 12.3 or 12.34");
    assert_eq!(failure.exception(), "transom_processors::clean_orders::Rejection");
}

#[test]
fn escaped_texts_decode_and_plain_ones_are_not_copied() {
    let plain: Order<'_> =
        serde_json::from_str(r#"{"order_id":1,"customer_id":"C-\u00e9","amount":"1\u002e50","currency":"EUR","event_time":"x"}"#).unwrap();
    assert!(matches!(&plain.currency, Cow::Borrowed("EUR")));
    assert!(matches!(&plain.customer_id, Cow::Owned(text) if text == "C-é"));

    let escaped = r#"{"order_id":1,"customer_id":"C-\u00e9\n","amount":"1\u002e50","currency":"\u0045UR","event_time":"2026-01-22T00:00:00Z"}"#;
    let clean = driver().pipe(&TestRecord::value(escaped)).json();
    assert_eq!(clean, json!({ "order_id": 1, "customer_id": "C-é\n", "amount_cents": 150, "currency": "EUR", "event_time": "2026-01-22T00:00:00Z" }));
}

#[test]
fn what_does_not_decode_is_a_dead_letter_and_the_next_record_passes() {
    let good = order("1", "EUR", TIME);
    let cases = [
        String::new(),
        "not json".to_owned(),
        good[..good.len() / 2].to_owned(),
        format!("{good} trailing"),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        good.replace(r#""amount":"1","#, ""),
        good.replace(r#""currency":"EUR","#, ""),
        good.replace(r#""amount":"1""#, r#""amount":1"#),
        good.replace(r#""amount":"1""#, r#""amount":null"#),
        good.replace(r#""amount":"1""#, r#""amount":NaN"#),
        good.replace(r#""order_id":175"#, r#""order_id":"175""#),
        good.replace(r#""order_id":175"#, r#""order_id":-1"#),
        good.replace(r#""order_id":175"#, r#""order_id":1.5"#),
        good.replace(r#""order_id":175"#, r#""order_id":18446744073709551616"#),
        good.replace(r#""order_id":175"#, r#""order_id":1,"order_id":2"#),
    ];
    let mut driver = driver();
    for value in cases {
        assert_ne!(value, good, "the case changes something");
        assert_eq!(driver.pipe(&TestRecord::value(value.clone())).code(), "json_decode", "{value}");
        assert_eq!(driver.pipe(&TestRecord::value(good.clone())).json()["amount_cents"], 100);
    }
    let not_utf8 = [&good.as_bytes()[..40], b"\xff", &good.as_bytes()[40..]].concat();
    assert_eq!(driver.pipe(&TestRecord::value(not_utf8)).code(), "json_decode");
    assert_eq!(driver.pipe(&TestRecord::default()).code(), "null_value");
}

#[test]
fn each_field_is_refused_under_its_own_code() {
    let rejection = |amount: &str, currency: &str, event_time: &str| {
        clean_orders(serde_json::from_str(&order(amount, currency, event_time)).unwrap()).map(|_| ()).unwrap_err()
    };
    assert_eq!(rejection("N/A", "EUR", TIME), Rejection::Amount("N/A".to_owned()));
    assert_eq!(rejection("1", "eur", TIME), Rejection::Currency("eur".to_owned()));
    assert_eq!(rejection("1", "EUR", "yesterday"), Rejection::EventTime("yesterday".to_owned()));
    for currency in ["", "EU", "EURO", "EuR", "E R", "E1R", "ÄÖ", "€"] {
        assert_eq!(rejection("1", currency, TIME), Rejection::Currency(currency.to_owned()));
    }
    let mut driver = driver();
    assert_eq!(driver.pipe(&TestRecord::value(order("1", "eur", TIME))).code(), "currency");
    assert_eq!(driver.pipe(&TestRecord::value(order("1", "EUR", "2026-02-30T00:00:00Z"))).code(), "event_time");
}

#[test]
fn a_hostile_text_is_shown_short_and_on_one_line() {
    for text in ["9".repeat(1_000_000), "é\n".repeat(500_000), "\u{7f}\"".repeat(100)] {
        let failure = driver().pipe(&TestRecord::value(order(&text, "EUR", TIME))).failure.unwrap();
        assert_eq!(failure.code(), "amount");
        assert!(failure.message().len() < 400 && failure.message().contains('…'), "{}", failure.message());
        assert!(!failure.message().contains('\n'));
    }
}

#[test]
fn amounts_become_cents_exactly() {
    for (text, expected) in [
        ("12", 1_200),
        ("12.3", 1_230),
        ("12.34", 1_234),
        ("0", 0),
        ("0.01", 1),
        ("0.1", 10),
        ("007.50", 750),
        ("-12.34", -1_234),
        ("-0.05", -5),
        ("-0", 0),
        ("92233720368547758.07", i64::MAX),
        ("-92233720368547758.08", i64::MIN),
    ] {
        assert_eq!(cents(text), Some(expected), "{text}");
    }
}

#[test]
fn what_is_no_amount_is_refused() {
    for text in [
        "",
        "N/A",
        "1.234",
        "1e5",
        "1E5",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "1,234.00",
        "1.234,00",
        "1_000",
        "1 000",
        " 1",
        "1 ",
        "1\n",
        "+1",
        "--1",
        "-",
        ".",
        "1.",
        ".5",
        "-.5",
        "1..2",
        "1.2.3",
        "1.-2",
        "1.+2",
        "0x10",
        "$1",
        "1€",
        "١٢",
        "１２",
        "1.٣",
        "1.é",
        "12.3a",
        "a2.34",
        "null",
        "92233720368547758.08",
        "-92233720368547758.09",
        "92233720368547759",
        "99999999999999999999999999",
    ] {
        assert_eq!(cents(text), None, "{text:?}");
    }
}

// Goal: text → cents is the inverse of cents → text, and nothing else is accepted. Method: edges, then a seeded walk.
#[test]
fn every_number_of_cents_comes_back() {
    let mut numbers = vec![0, 1, -1, 9, 10, 99, 100, -99, -100, -101, i64::MAX, i64::MIN, i64::MIN + 1];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for shift in 0..200_000_u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.push(state.cast_signed() >> (shift % 64));
    }
    for number in numbers {
        let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
        let text = format!("{sign}{}.{:02}", size / 100, size % 100);
        assert_eq!(cents(&text), Some(number), "{text}");
        if size.is_multiple_of(10) {
            assert_eq!(cents(&text[..text.len() - 1]), Some(number), "{text}");
        }
        if size.is_multiple_of(100) {
            assert_eq!(cents(&text[..text.len() - 3]), Some(number), "{text}");
        }
        assert_eq!(cents(&format!("{text}0")), None);
    }
}

// Goal: no byte in the wrong place passes. Method: change each position of a good text to each ASCII character.
#[test]
fn one_changed_character_never_yields_another_shape() {
    let good = "-12.34";
    for position in 0..good.len() {
        for byte in 0..128_u8 {
            let mut changed = good.as_bytes().to_vec();
            changed[position] = byte;
            let changed = String::from_utf8(changed).unwrap();
            let fits = match position {
                0 => byte == b'-' || byte.is_ascii_digit(),
                // A digit for the point makes a longer whole number.
                3 => byte == b'.' || byte.is_ascii_digit(),
                _ => byte.is_ascii_digit(),
            };
            assert_eq!(cents(&changed).is_some(), fits, "{changed:?}");
        }
    }
}

#[test]
fn rfc_3339_times_pass() {
    for text in [
        "2026-01-22T00:00:00Z",
        "2026-01-22T00:00:00.123Z",
        "2026-01-22t00:00:00z",
        "2026-01-22T23:59:59.999999999999Z",
        "2026-01-22T12:00:00+05:30",
        "2026-01-22T12:00:00-00:00",
        "2026-01-22T12:00:00.5+23:59",
        "2024-02-29T00:00:00Z",
        "2000-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        // Leap seconds: RFC 3339 section 5.8, then the same one east of Greenwich, then a June.
        "1990-12-31T23:59:60Z",
        "1990-12-31T15:59:60-08:00",
        "1991-01-01T05:29:60+05:30",
        "2015-06-30T23:59:60.9Z",
        "2015-07-01T08:59:60+09:00",
    ] {
        assert!(is_rfc3339(text), "{text}");
    }
}

#[test]
fn what_is_not_rfc_3339_is_refused() {
    for text in [
        "",
        "Z",
        "yesterday",
        "1769040000",
        "2026-01-22",
        "2026-01-22T00:00Z",
        "2026-01-22T00:00:00",
        "2026-01-22 00:00:00Z",
        "2026-01-22T00:00:00 Z",
        " 2026-01-22T00:00:00Z",
        "2026-01-22T00:00:00Z ",
        "2026-01-22T00:00:00.Z",
        "2026-01-22T00:00:00,5Z",
        "2026-01-22T00:00:00+0530",
        "2026-01-22T00:00:00+05",
        "2026-01-22T00:00:00+5:30",
        "2026-01-22T00:00:00+24:00",
        "2026-01-22T00:00:00+05:60",
        "2026-01-22T00:00:00.5",
        "26-01-22T00:00:00Z",
        "2026-1-22T00:00:00Z",
        "+2026-01-22T00:00:00Z",
        "-026-01-22T00:00:00Z",
        "2026/01/22T00:00:00Z",
        "2026-00-22T00:00:00Z",
        "2026-13-22T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "2026-01-22T24:00:00Z",
        "2026-01-22T23:60:00Z",
        "2026-01-22T23:59:61Z",
        // Second 60 where no leap second can be.
        "2026-01-22T23:59:60Z",
        "2026-06-29T23:59:60Z",
        "2026-06-30T12:00:60Z",
        "2026-06-30T23:59:60+09:00",
        "1991-01-01T23:59:60+05:30",
        "2026-01-22T0a:00:00Z",
        "２026-01-22T00:00:00Z",
        "2026-01-22T00:00:0٣Z",
    ] {
        assert!(!is_rfc3339(text), "{text:?}");
    }
}

// Goal: exactly the days of the calendar exist. Method: count them over 400 years, which always hold 146,097.
#[test]
fn four_centuries_have_their_days() {
    let exists = |year: u32, month: u32, day: u32| is_rfc3339(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z"));
    let days = (1900..2300)
        .flat_map(|year| (0..=13).flat_map(move |month| (0..=32).map(move |day| (year, month, day))))
        .filter(|&(year, month, day)| exists(year, month, day))
        .count();
    assert_eq!(days, 146_097);
}
