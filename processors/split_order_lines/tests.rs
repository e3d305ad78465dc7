use serde_json::{Value, json};
use transom_sdk::{PipedOutput, SetupError, TestDriver, TestRecord};

fn setup(outputs: &[&str], with: Value) -> Result<TestDriver, SetupError> {
    TestDriver::with_setup(&crate::registry(), "split_order_lines", outputs, with)
}

fn driver(with: Value) -> TestDriver {
    setup(&["default", "lines"], with).unwrap().key("/order_id").unwrap()
}

fn order(items: &Value) -> TestRecord {
    let value = json!({ "order_id": 7, "customer_id": "C-00123", "event_time": "2026-01-22T00:00:00Z", "items": items });
    let headers = vec![("trace".to_owned(), Some(b"abc".to_vec())), ("trace".to_owned(), None)];
    TestRecord { key: Some(b"C-00123".to_vec()), headers, ..TestRecord::value(value.to_string()) }
}

fn five_items() -> Vec<Value> {
    (1..=5).map(|number| json!({ "sku": format!("SKU-{number}"), "qty": number })).collect()
}

fn value(output: &PipedOutput) -> Value {
    serde_json::from_slice(output.value.as_deref().unwrap()).unwrap()
}

#[test]
fn an_order_becomes_its_lines_and_one_summary() {
    let piped = driver(Value::Null).pipe(&order(&json!([{ "sku": "A\u{e9}\n", "qty": 2 }, { "sku": "B", "qty": 3, "gift": true }])));
    assert_eq!(piped.failure, None);
    let names: Vec<&str> = piped.outputs.iter().map(|output| output.output.as_str()).collect();
    assert_eq!(names, ["lines", "lines", "default"]);
    let time = "2026-01-22T00:00:00Z";
    assert_eq!(value(&piped.outputs[0]), json!({ "order_id": 7, "line": 1, "sku": "Aé\n", "qty": 2, "event_time": time }));
    assert_eq!(value(&piped.outputs[1]), json!({ "order_id": 7, "line": 2, "sku": "B", "qty": 3, "event_time": time }));
    assert_eq!(value(&piped.outputs[2]), json!({ "order_id": 7, "lines": 2, "quantity": 5 }));
    assert!(piped.outputs.iter().all(|output| output.key.as_deref() == Some(b"7")), "keyed by order, not by the input's customer");
}

#[test]
fn lines_carry_their_count_behind_the_headers_of_the_input() {
    let record = order(&json!(five_items()));
    let piped = driver(Value::Null).pipe(&record);
    let mut expected = record.headers.clone();
    assert_eq!(piped.outputs[5].headers, expected, "the summary has the input's alone");
    expected.push(("line_count".to_owned(), Some(b"5".to_vec())));
    assert!(piped.outputs[..5].iter().all(|output| output.headers == expected));
}

// Goal: EO-1 within a record. Method: spoil each line of five in each way; nothing but the failure may be left.
#[test]
fn a_bad_line_leaves_nothing_of_its_order() {
    let mut driver = driver(Value::Null);
    for bad_line in 1..=5 {
        for (bad_item, why) in [
            (json!({ "sku": "A", "qty": 0 }), "has no qty above 0"),
            (json!({ "sku": "A" }), "has no qty above 0"),
            (json!({ "qty": 1 }), "has no sku"),
            (json!({ "sku": "", "qty": 1 }), "has no sku"),
            (json!({}), "has no sku"),
        ] {
            let mut items = five_items();
            items[bad_line - 1] = bad_item;
            let piped = driver.pipe(&order(&json!(items)));
            assert_eq!((piped.outputs.len(), piped.code()), (0, "order_line"));
            assert_eq!(piped.failure.unwrap().message(), format!("line {bad_line} of 5 {why}"));
        }
        assert_eq!(driver.pipe(&order(&json!(five_items()))).outputs.len(), 6, "the next order is whole");
    }
}

#[test]
fn what_is_no_order_is_a_dead_letter() {
    let mut driver = driver(Value::Null);
    for items in
        [json!(null), json!({}), json!([1]), json!([{ "sku": 1, "qty": 1 }]), json!([{ "sku": "A", "qty": -1 }]), json!([{ "sku": "A", "qty": "1" }])]
    {
        assert_eq!(driver.pipe(&order(&items)).code(), "json_decode", "{items}");
    }
    assert_eq!(driver.pipe(&TestRecord::value("{}")).code(), "json_decode");
    assert_eq!(driver.pipe(&TestRecord::default()).code(), "null_value");
}

#[test]
fn the_number_of_lines_has_a_limit() {
    let mut driver = driver(json!({ "lines_max": 5 }));
    let mut items = five_items();
    assert_eq!(driver.pipe(&order(&json!(items))).outputs.len(), 6);
    items.push(items[0].clone());
    assert_eq!(driver.pipe(&order(&json!(items))).code(), "too_many_lines");
}

#[test]
fn an_order_without_lines_is_what_the_pipeline_says() {
    assert_eq!(driver(Value::Null).pipe(&order(&json!([]))).code(), "no_lines");
    let summary = driver(json!({ "empty_order": "summarise" })).pipe(&order(&json!([]))).json();
    assert_eq!(summary, json!({ "order_id": 7, "lines": 0, "quantity": 0 }));
}

#[test]
fn a_pipeline_that_does_not_fit_is_refused_before_any_record() {
    let error = setup(&["default"], Value::Null).unwrap_err();
    assert!(matches!(&error, SetupError::UnknownOutput { name, known } if name == "lines" && known == "default"), "{error}");
    for with in [json!({ "line_max": 5 }), json!({ "lines_max": -1 }), json!({ "empty_order": "drop" }), json!(5)] {
        let error = setup(&["default", "lines"], with).unwrap_err();
        assert!(matches!(error, SetupError::Config(_)), "{error}");
    }
    let error = setup(&["default", "lines"], json!({ "lines_max": 0 })).unwrap_err();
    assert!(matches!(&error, SetupError::Refused(why) if why.contains("lines_max")), "{error}");
}
