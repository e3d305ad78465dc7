use super::choices::{Choice, ChoicesError, parse};
use super::{NO_CHOICE, OrderLine, Rejection, clean_restaurant_orders, price_cents};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use transom_sdk::{FailureClass, TestDriver, TestRecord};

const TABLE: &str = include_str!("data/restaurant-orders.tsv");

fn driver() -> TestDriver {
    TestDriver::new(&crate::registry(), "clean_restaurant_orders").unwrap().key("/order_id").unwrap()
}

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    TABLE.lines().skip(1).map(|row| row.split('\t').collect())
}

fn line(row: &[&str]) -> Value {
    json!({ "order_id": row[0], "quantity": row[1], "item_name": row[2], "choice_description": row[3], "item_price": row[4] })
}

fn join(choices: &[Value]) -> String {
    let part = |choice: &Value| choice.as_array().map_or_else(|| choice.as_str().unwrap().to_owned(), |list| join(list));
    format!("[{}]", choices.iter().map(part).collect::<Vec<_>>().join(", "))
}

// Goal: real input is read right. Method: the whole published table against answers computed without this program.
#[test]
fn the_published_table_gives_the_known_answers() {
    let (mut lines, mut cents, mut quantity, mut without_choice, mut orders) = (0, 0, 0, 0, BTreeSet::new());
    let mut driver = driver();
    for row in rows() {
        let piped = driver.pipe_json(&line(&row));
        let clean = piped.json();
        assert_eq!(piped.outputs[0].key.as_deref(), Some(row[0].as_bytes()));
        assert_eq!(clean["item_name"], row[2]);
        lines += 1;
        cents += clean["item_price_cents"].as_u64().unwrap();
        quantity += clean["quantity"].as_u64().unwrap();
        orders.insert(clean["order_id"].as_u64().unwrap());
        if let Some(choices) = clean.get("choices") {
            assert_eq!(join(choices.as_array().unwrap()), row[3], "joined again, a list is as it was");
        } else {
            assert_eq!(row[3], NO_CHOICE);
            without_choice += 1;
        }
    }
    assert_eq!((lines, cents, quantity, without_choice, orders.len()), (4_622, 3_450_016, 4_972, 1_246, 1_834));
}

#[test]
fn a_line_becomes_numbers_cents_and_lists() {
    let mut driver = driver();
    let plain = driver.pipe_json(&line(&["1", "1", "Chips and Fresh Tomato Salsa", "NULL", "$2.39 "]));
    let expected = r#"{"order_id":1,"quantity":1,"item_name":"Chips and Fresh Tomato Salsa","item_price_cents":239}"#;
    assert_eq!(plain.outputs[0].value.as_deref(), Some(expected.as_bytes()));
    let nested = driver.pipe_json(&line(&["3", "2", "Bowl", "[Salsa (Mild, fresh), [Rice, Cheese]]", "$16.98 "])).json();
    let choices = json!(["Salsa (Mild, fresh)", ["Rice", "Cheese"]]);
    assert_eq!(nested, json!({ "order_id": 3, "quantity": 2, "item_name": "Bowl", "choices": choices, "item_price_cents": 1698 }));
}

#[test]
fn each_field_is_refused_under_its_own_code() {
    let good = ["1", "1", "Izze", "[Clementine]", "$3.39 "];
    let mut driver = driver();
    for (field, texts, code) in [
        (0, &["", "x", "-1", "+1", " 1", "1.0", "18446744073709551616"][..], "order_id"),
        (1, &["", "0", "-1", "+1", "1.5", "4294967296"], "quantity"),
        (2, &["", "  "], "item_name"),
        (3, &["", "null", "Clementine", "[", "[]"], "choices"),
        (
            4,
            &["", "N/A", "3.39", "$3.3", "$3.390", "$3", "$.39", "$3.", "$-3.39", "$+3.39", "$3,39", " $3.39", "$1,003.39", "€3.39", "$3.39\t"],
            "item_price",
        ),
    ] {
        for text in texts {
            let mut row = good;
            row[field] = text;
            let failure = driver.pipe_json(&line(&row)).failure.unwrap();
            assert_eq!((failure.code(), failure.class()), (code, FailureClass::Permanent), "{row:?}");
        }
    }
    assert!(driver.pipe_json(&line(&good)).failure.is_none());
    let mut unknown_column = line(&good);
    unknown_column["tip"] = json!("$1.00 ");
    assert_eq!(driver.pipe_json(&unknown_column).code(), "json_decode");
    assert_eq!(driver.pipe_json(&json!({ "order_id": 1 })).code(), "json_decode");
    assert_eq!(driver.pipe(&TestRecord::default()).code(), "null_value");
}

#[test]
fn a_rejection_says_where_a_list_ends() {
    let row = ["1", "1", "Izze", "[Clementine", "$3.39 "];
    let line: OrderLine = serde_json::from_value(line(&row)).unwrap();
    let rejection = clean_restaurant_orders(line).unwrap_err();
    assert_eq!(rejection, Rejection::Choices(ChoicesError { position: 11, expected: "\", \" or \"]\"" }));
    let failure = transom_sdk::Failure::from(rejection);
    assert_eq!(failure.message(), "choice_description is not a list: byte 11 should be \", \" or \"]\"");
}

#[test]
fn lists_parse_as_the_grammar_says() {
    let one = |text: &str| Choice::One(text.to_owned());
    assert_eq!(parse("[Apple]"), Ok(vec![one("Apple")]));
    assert_eq!(parse("[a, b]"), Ok(vec![one("a"), one("b")]));
    assert_eq!(parse("[a, [b, c]]"), Ok(vec![one("a"), Choice::List(vec![one("b"), one("c")])]));
    assert_eq!(parse("[[a], [b], c]"), Ok(vec![Choice::List(vec![one("a")]), Choice::List(vec![one("b")]), one("c")]));
    assert_eq!(parse("[a (b, c), d]"), Ok(vec![one("a (b, c)"), one("d")]));
    assert_eq!(parse("[(a, [b]) é (c)]"), Ok(vec![one("(a, [b]) é (c)")]));
    assert_eq!(parse("[ a ,  b]"), Ok(vec![one(" a "), one(" b")]), "blanks are text");
}

#[test]
fn what_is_no_list_is_refused_where_it_fails() {
    for (text, position) in [
        ("", 0),
        ("a", 0),
        ("[", 1),
        ("[]", 1),
        ("[[]]", 2),
        ("[a", 2),
        ("[a,b]", 2),
        ("[a, ]", 4),
        ("[a, , b]", 4),
        ("[, a]", 1),
        ("[a]]", 3),
        ("[a] ", 3),
        ("[a][b]", 3),
        ("[a [b]]", 3),
        ("[a [b", 3),
        ("[a (b]", 6),
        ("[a (b (c))]", 6),
        ("[a b)]", 4),
        ("[é, [ü]", 9),
    ] {
        assert_eq!(parse(text).map_err(|error| error.position), Err(position), "{text:?}");
    }
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| format!("{}a{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(8)).is_ok());
    assert_eq!(parse(&nested(9)).unwrap_err().position, 8);
    assert_eq!(parse(&nested(1_000_000)).unwrap_err().position, 8);
}

#[test]
fn prices_become_cents_exactly() {
    for (text, cents) in [("$2.39 ", 239), ("$0.05", 5), ("$44.25   ", 4_425), ("$184467440737095516.15", u64::MAX)] {
        assert_eq!(price_cents(text), Some(cents), "{text}");
    }
    assert_eq!(price_cents("$184467440737095516.16"), None);
}
