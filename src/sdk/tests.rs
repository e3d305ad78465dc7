//! What teams rely on: how a record leaves a transform, and that a failed attempt leaves nothing (EO-1).

use crate::{
    Context, Failure, FailureClass, OutputId, Piped, PipedOutput, Processor, Record, Registry, Setup, SetupError, TestDriver, TestRecord, Timestamp,
    Tombstones,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;

type Headers = Vec<(String, Option<Vec<u8>>)>;

/// Returns a driver for a function that gets the decoded value and emits by itself.
fn emitting(function: impl Fn(Value, &mut Context<'_>) -> Result<(), Failure> + Send + Sync + 'static) -> TestDriver {
    let mut registry = Registry::new();
    registry.emit("emitting", function);
    TestDriver::with_setup(&registry, "emitting", &["default", "side"], Value::Null).unwrap()
}

fn keyed(value: &Value) -> TestRecord {
    TestRecord { key: Some(b"input-key".to_vec()), ..TestRecord::value(value.to_string()) }
}

fn only(piped: &Piped) -> &PipedOutput {
    assert_eq!((piped.outputs.len(), &piped.failure), (1, &None));
    &piped.outputs[0]
}

fn header(name: &str, value: Option<&[u8]>) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), value.map(<[u8]>::to_vec))
}

fn values(piped: &Piped) -> Vec<Value> {
    piped.outputs.iter().map(|output| serde_json::from_slice(output.value.as_deref().unwrap()).unwrap()).collect()
}

// ---- EO-1: a failed attempt leaves nothing ----

/// Emits three outputs, two of them with headers, and fails or panics behind as many as it is told.
fn fan_out(order: Value, context: &mut Context<'_>) -> Result<(), Failure> {
    let stop = order["stop"].as_u64();
    for line in 0..3_u64 {
        match (order["how"].as_str(), stop == Some(line)) {
            (Some("panic"), true) => panic!("line {line} is impossible"),
            (Some("fail"), true) => return Err(Failure::permanent("line", format!("line {line} is bad"))),
            _ => context.emit(OutputId::DEFAULT).header("line", Some(b"x")).json(&json!({ "line": line }))?,
        }
    }
    context.emit(OutputId::from_index(1)).tombstone()
}

// Goal: EO-1. Method: stop the fan-out at each of its places, both ways; then the same driver does a whole one.
#[test]
fn a_fan_out_that_stops_midway_leaves_nothing_and_the_driver_goes_on() {
    let mut driver = emitting(fan_out);
    for stop in 0..3 {
        for (how, code) in [("panic", "panic"), ("fail", "line")] {
            let piped = driver.pipe_json(&json!({ "how": how, "stop": stop }));
            assert_eq!((piped.outputs.len(), piped.code()), (0, code));
            let failure = piped.failure.unwrap();
            assert_eq!(failure.class(), FailureClass::Permanent);
            assert!(failure.message().starts_with(&format!("line {stop} is")), "{failure}");

            let whole = driver.pipe_json(&json!({}));
            assert_eq!((whole.outputs.len(), whole.failure), (4, None));
        }
    }
}

/// Counts its records in a field and panics at a negative one, after it has changed the field.
struct Counting {
    count: u64,
}

impl Processor for Counting {
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        self.count += 1;
        let number: i64 = record.json()?;
        assert!(number >= 0, "{number} is negative");
        context.emit(OutputId::DEFAULT).json(&self.count)
    }
}

#[test]
fn a_processor_that_panicked_is_built_anew() {
    let mut registry = Registry::new();
    registry.processor("counting", |_: &Setup<'_>| Ok(Counting { count: 0 }));
    let mut driver = TestDriver::new(&registry, "counting").unwrap();
    assert_eq!(driver.pipe_json(&1).json(), json!(1));
    assert_eq!(driver.pipe_json("refused").code(), "json_decode");
    assert_eq!(driver.pipe_json(&1).json(), json!(3), "a failure keeps the processor");
    assert_eq!(driver.pipe_json(&-1).code(), "panic");
    assert_eq!(driver.pipe_json(&1).json(), json!(1), "a panic does not");
}

#[test]
fn a_panic_without_text_is_a_failure_too() {
    let mut driver = emitting(|_, _| std::panic::panic_any(5_u8));
    let failure = driver.pipe_json(&json!({})).failure.unwrap();
    assert_eq!((failure.code(), failure.exception()), ("panic", "panic"));
    assert!(failure.message().contains("not text"));
}

#[test]
fn an_emission_that_is_dropped_or_fails_leaves_no_header_to_the_next() {
    let mut driver = emitting(|_, context| {
        drop(context.emit(OutputId::DEFAULT).header("dropped", Some(b"1")));
        let refused = context.emit(OutputId::DEFAULT).header("refused", Some(b"2")).json(&Unserialisable);
        assert_eq!(refused.unwrap_err().code(), "json_encode");
        context.emit(OutputId::DEFAULT).header("kept", Some(b"3")).json(&json!(1))
    });
    let piped = driver.pipe_json(&json!({}));
    assert_eq!(only(&piped).headers, [header("kept", Some(b"3"))]);
    assert_eq!(only(&piped).value.as_deref(), Some(&b"1"[..]));
}

struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeSeq};
        let mut sequence = serializer.serialize_seq(None)?;
        sequence.serialize_element("half-written")?;
        Err(S::Error::custom("this far"))
    }
}

// ---- Failures ----

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] Inner);

#[derive(Debug, thiserror::Error)]
#[error("inner")]
struct Inner;

#[test]
fn a_failure_keeps_its_class_code_and_cause() {
    let mut driver = emitting(|how, _| match how.as_str() {
        Some("transient") => Err(Failure::transient("rates_unavailable", "no rates yet").with_exception("payments::Rates")),
        Some("error") => Err(Outer(Inner).into()),
        _ => Ok(()),
    });
    let transient = driver.pipe_json("transient").failure.unwrap();
    assert_eq!((transient.class(), transient.code(), transient.exception()), (FailureClass::Transient, "rates_unavailable", "payments::Rates"));
    assert_eq!(transient.to_string(), "rates_unavailable (transient): no rates yet");

    let error = driver.pipe_json("error").failure.unwrap();
    assert_eq!((error.class(), error.code(), error.message()), (FailureClass::Permanent, "processor_error", "outer: inner"));
    assert!(error.exception().ends_with("::Outer"), "{}", error.exception());

    let filtered = driver.pipe_json("neither");
    assert_eq!((filtered.outputs.len(), filtered.failure), (0, None));
}

#[test]
fn what_does_not_decode_is_permanent() {
    let mut driver = emitting(fan_out);
    for value in [&b""[..], b"{", b"{} {}", b"\xff", b"N/A"] {
        let failure = driver.pipe(&TestRecord::value(value)).failure.unwrap();
        assert_eq!((failure.code(), failure.class(), failure.exception()), ("json_decode", FailureClass::Permanent, "serde_json::Error"));
    }
}

// ---- Tombstones ----

fn copying() -> Registry {
    let mut registry = Registry::new();
    registry.map("copying", |value: Value| Ok::<_, Failure>(value));
    registry
}

#[test]
fn a_null_value_is_a_dead_letter_unless_the_step_says_otherwise() {
    let null = TestRecord { key: Some(b"input-key".to_vec()), headers: vec![header("h", None)], ..TestRecord::default() };
    let driver = || TestDriver::new(&copying(), "copying").unwrap();

    let dead = driver().pipe(&null);
    assert_eq!((dead.outputs.len(), dead.code()), (0, "null_value"));
    assert_eq!(driver().tombstones(Tombstones::DeadLetter).unwrap().pipe(&null), dead, "it is the default");

    let forwarded = driver().tombstones(Tombstones::Forward).unwrap().pipe(&null);
    let output = only(&forwarded);
    assert_eq!((output.output.as_str(), output.key.as_deref(), &output.value), ("default", Some(&b"input-key"[..]), &None));
    assert_eq!(output.headers, null.headers);

    let filtered = driver().tombstones(Tombstones::Filter).unwrap().pipe(&null);
    assert_eq!((filtered.outputs.len(), filtered.failure), (0, None));
}

#[test]
fn an_empty_value_is_no_tombstone() {
    let mut driver = TestDriver::new(&copying(), "copying").unwrap().tombstones(Tombstones::Filter).unwrap();
    assert_eq!(driver.pipe(&TestRecord::value("")).code(), "json_decode");
    assert_eq!(driver.pipe(&TestRecord::value("null")).json(), Value::Null, "nor is JSON's null");
}

#[test]
fn a_tombstone_takes_no_key_from_a_value_it_does_not_have() {
    let null = TestRecord { key: Some(b"input-key".to_vec()), ..TestRecord::default() };
    let mut forwarding = TestDriver::new(&copying(), "copying").unwrap().tombstones(Tombstones::Forward).unwrap().key("/id").unwrap();
    assert_eq!(forwarding.pipe(&null).code(), "tombstone_without_key");

    let mut choosing = emitting(|_, context| context.emit(OutputId::DEFAULT).key(b"chosen").tombstone()).key("/id").unwrap();
    let piped = choosing.pipe(&keyed(&json!({ "id": 1 })));
    assert_eq!((only(&piped).key.as_deref(), &only(&piped).value), (Some(&b"chosen"[..]), &None));
}

// ---- Headers ----

fn awkward_headers() -> Headers {
    vec![
        header("b", Some(b"1")),
        header("a", None),
        header("b", Some(b"")),
        header("b", Some(b"\xff\x00")),
        header("", Some(b"unnamed")),
        header("a", None),
    ]
}

#[test]
fn headers_pass_as_they_are_with_repeats_and_nulls() {
    let record = TestRecord { headers: awkward_headers(), ..keyed(&json!({ "id": 1 })) };
    let piped = TestDriver::new(&copying(), "copying").unwrap().pipe(&record);
    assert_eq!(only(&piped).headers, awkward_headers());
}

#[test]
fn every_output_of_a_fan_out_has_the_headers_of_the_input() {
    let record = TestRecord { headers: awkward_headers(), ..keyed(&json!({})) };
    let piped = emitting(fan_out).pipe(&record);
    let mut with_line = awkward_headers();
    with_line.push(header("line", Some(b"x")));
    assert_eq!(piped.outputs.iter().map(|output| &output.headers).collect::<Vec<_>>(), [&with_line, &with_line, &with_line, &awkward_headers()]);
}

#[test]
fn added_headers_stand_behind_those_of_the_input_in_their_order() {
    let record = TestRecord { headers: vec![header("b", Some(b"1"))], ..keyed(&json!({})) };
    let mut driver = emitting(|_, context| context.emit(OutputId::DEFAULT).header("z", None).header("a", Some(b"2")).header("b", Some(b"")).json(&1));
    let expected = [header("b", Some(b"1")), header("z", None), header("a", Some(b"2")), header("b", Some(b""))];
    assert_eq!(only(&driver.pipe(&record)).headers, expected);
}

#[test]
fn headers_are_left_behind_when_told() {
    let record = TestRecord { headers: awkward_headers(), ..keyed(&json!({})) };
    let mut bare = emitting(|_, context| context.emit(OutputId::DEFAULT).without_input_headers().json(&1));
    assert_eq!(only(&bare.pipe(&record)).headers, []);
    let mut own =
        emitting(|_, context| context.emit(OutputId::DEFAULT).header("before", None).without_input_headers().header("after", Some(b"1")).json(&1));
    assert_eq!(only(&own.pipe(&record)).headers, [header("after", Some(b"1"))]);
}

#[test]
fn the_last_header_of_a_name_is_the_one_that_counts() {
    let mut registry = Registry::new();
    registry.emit("headers", |_: Value, context: &mut Context<'_>| {
        let read = |name| context.record().header(name).map(|value| value.map(<[u8]>::to_vec));
        let found = [read("b"), read("a"), read("none")];
        context.emit(OutputId::DEFAULT).json(&found)
    });
    let record = TestRecord { headers: vec![header("b", Some(b"1")), header("a", None), header("b", Some(b"2"))], ..keyed(&json!({})) };
    let found: Value = TestDriver::new(&registry, "headers").unwrap().pipe(&record).json();
    assert_eq!(found, json!([[50], null, null]));
}

// ---- Keys and timestamps ----

#[test]
fn a_key_is_the_transforms_then_the_pipelines_then_the_inputs() {
    type Choose = fn(Value, &mut Context<'_>) -> Result<(), Failure>;
    let plain: Choose = |value, context| context.emit(OutputId::DEFAULT).json(&value);
    let chosen: Choose = |value, context| context.emit(OutputId::DEFAULT).key(b"chosen").json(&value);
    let null: Choose = |value, context| context.emit(OutputId::DEFAULT).null_key().json(&value);
    let bytes: Choose = |_, context| context.emit(OutputId::DEFAULT).bytes(br#"{"id":"from bytes"}"#);
    let last: Choose = |value, context| context.emit(OutputId::DEFAULT).null_key().key(b"last").json(&value);
    let record = keyed(&json!({ "id": 175 }));
    for (choose, pointer, key) in [
        (plain, None, Some("input-key")),
        (plain, Some("/id"), Some("175")),
        (chosen, None, Some("chosen")),
        (chosen, Some("/id"), Some("chosen")),
        (null, None, None),
        (null, Some("/id"), None),
        (bytes, None, Some("input-key")),
        (bytes, Some("/id"), Some("from bytes")),
        (last, Some("/id"), Some("last")),
    ] {
        let driver = emitting(choose);
        let mut driver = if let Some(pointer) = pointer { driver.key(pointer).unwrap() } else { driver };
        let piped = driver.pipe(&record);
        assert_eq!(only(&piped).key.as_deref(), key.map(str::as_bytes), "pointer {pointer:?}");
    }
    let unkeyed = emitting(plain).pipe_json(&json!({ "id": 1 }));
    assert_eq!(only(&unkeyed).key, None, "a null key stays null");
}

#[test]
fn the_pipelines_key_is_of_its_output_alone() {
    let mut driver = emitting(|value, context| {
        context.emit(OutputId::from_index(1)).json(&value)?;
        context.emit(OutputId::DEFAULT).json(&value)
    });
    driver = driver.key("/id").unwrap();
    let piped = driver.pipe(&keyed(&json!({ "id": 175 })));
    let keys: Vec<_> = piped.outputs.iter().map(|output| (output.output.as_str(), output.key.as_deref().unwrap())).collect();
    assert_eq!(keys, [("side", &b"input-key"[..]), ("default", b"175")]);
}

#[test]
fn a_value_without_the_pipelines_key_fails_the_whole_record() {
    let mut driver = emitting(|value, context| {
        context.emit(OutputId::DEFAULT).json(&json!({ "id": 1 }))?;
        context.emit(OutputId::DEFAULT).json(&value)
    });
    driver = driver.key("/id").unwrap();
    for value in [json!({}), json!({ "id": null }), json!({ "id": [1] }), json!(5)] {
        let piped = driver.pipe(&keyed(&value));
        assert_eq!((piped.outputs.len(), piped.code()), (0, "key_missing"), "{value}");
    }
    assert_eq!(driver.pipe(&keyed(&json!({ "id": 2 }))).outputs.len(), 2);
    assert!(emitting(fan_out).key("id").is_err());
}

#[test]
fn a_timestamp_is_the_inputs_unless_set() {
    let record = TestRecord { timestamp: Some(Timestamp::from_millis(5)), ..keyed(&json!({})) };
    let mut driver = emitting(|_, context| {
        let now = context.now();
        context.emit(OutputId::DEFAULT).json(&1)?;
        context.emit(OutputId::DEFAULT).timestamp(now).json(&2)
    });
    driver.set_now(Timestamp::from_millis(9));
    let piped = driver.pipe(&record);
    let timestamps: Vec<_> = piped.outputs.iter().map(|output| output.timestamp.map(Timestamp::as_millis)).collect();
    assert_eq!(timestamps, [Some(5), Some(9)]);
}

// ---- Registration ----

#[derive(Deserialize)]
struct Borrowed<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    numbers: Vec<u32>,
}
crate::borrowed!(Borrowed);

#[derive(Deserialize)]
struct OwnedInput {
    name: String,
    numbers: Vec<u32>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: Cow<'a, str>,
    sum: u32,
}

fn map_borrowed(input: Borrowed<'_>) -> Result<Named<'_>, Failure> {
    let Borrowed { name, numbers } = input;
    Ok(Named { name, sum: numbers.iter().sum() })
}

fn map_owned(input: OwnedInput) -> Result<Named<'static>, Failure> {
    Ok(Named { name: Cow::Owned(input.name), sum: input.numbers.iter().sum() })
}

/// Filters what has no numbers, refuses the name `bad` with an error of the standard library.
fn filter_map_borrowed(input: Borrowed<'_>) -> Result<Option<Named<'_>>, std::num::ParseIntError> {
    if input.name == "bad" {
        input.name.parse::<u32>()?;
    }
    let sum = input.numbers.iter().sum();
    Ok((!input.numbers.is_empty()).then_some(Named { name: input.name, sum }))
}

fn filter_map_owned(input: OwnedInput) -> Result<Option<String>, Failure> {
    Ok((!input.numbers.is_empty()).then_some(input.name))
}

fn flat_map_borrowed(input: Borrowed<'_>) -> Result<Vec<Named<'_>>, Failure> {
    let Borrowed { name, numbers } = input;
    Ok(numbers.into_iter().map(|sum| Named { name: name.clone(), sum }).collect())
}

fn flat_map_owned(input: OwnedInput) -> Result<Vec<u32>, Failure> {
    Ok(input.numbers)
}

fn emit_borrowed(input: Borrowed<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
    context.emit(OutputId::DEFAULT).key(input.name.as_bytes()).json(&input.numbers)
}

fn every_shape() -> Registry {
    let mut registry = Registry::new();
    registry.map("map_owned", map_owned);
    registry.map_borrowed::<Borrowed>("map_borrowed", map_borrowed);
    registry.filter_map("filter_map_owned", filter_map_owned);
    registry.filter_map_borrowed::<Borrowed>("filter_map_borrowed", filter_map_borrowed);
    registry.flat_map("flat_map_owned", flat_map_owned);
    registry.flat_map_borrowed::<Borrowed>("flat_map_borrowed", flat_map_borrowed);
    registry.emit_borrowed::<Borrowed>("emit_borrowed", emit_borrowed);
    registry
}

// Goal: owned and borrowed inputs are the same to a pipeline. Method: each shape both ways, over a text that can be borrowed
// and one whose escapes cannot.
#[test]
fn every_shape_takes_owned_and_borrowed_inputs() {
    for (record, name) in [(r#"{"name":"n","numbers":[1,2]}"#, "n"), (r#"{"name":"\u00e9\n","numbers":[1,2]}"#, "é\n")] {
        for (processor, expected) in [
            ("map_owned", vec![json!({ "name": name, "sum": 3 })]),
            ("map_borrowed", vec![json!({ "name": name, "sum": 3 })]),
            ("filter_map_owned", vec![json!(name)]),
            ("filter_map_borrowed", vec![json!({ "name": name, "sum": 3 })]),
            ("flat_map_owned", vec![json!(1), json!(2)]),
            ("flat_map_borrowed", vec![json!({ "name": name, "sum": 1 }), json!({ "name": name, "sum": 2 })]),
            ("emit_borrowed", vec![json!([1, 2])]),
        ] {
            let piped = TestDriver::new(&every_shape(), processor).unwrap().pipe(&TestRecord::value(record));
            assert_eq!(values(&piped), expected, "{processor} of {record}");
        }
    }
}

#[test]
fn nothing_made_is_filtered_and_not_failed() {
    for processor in ["filter_map_owned", "filter_map_borrowed", "flat_map_owned", "flat_map_borrowed"] {
        let piped = TestDriver::new(&every_shape(), processor).unwrap().pipe_json(&json!({ "name": "n", "numbers": [] }));
        assert_eq!((piped.outputs.len(), piped.failure), (0, None), "{processor}");
    }
    let refused = TestDriver::new(&every_shape(), "filter_map_borrowed").unwrap().pipe_json(&json!({ "name": "bad", "numbers": [] }));
    assert_eq!(refused.code(), "processor_error");
    assert_eq!(refused.failure.unwrap().exception(), "core::num::error::ParseIntError");
}

#[test]
fn plain_texts_are_borrowed_from_the_record() {
    let value = br#"{"name":"plain","numbers":[]}"#;
    let record = Record::new("input", crate::PartitionId::default(), crate::Offset::ZERO).with_value(Some(value));
    let borrowed: Borrowed<'_> = record.json().unwrap();
    assert!(matches!(borrowed.name, Cow::Borrowed("plain")));
    let without_value = Record::new("input", crate::PartitionId::default(), crate::Offset::ZERO);
    assert_eq!(without_value.json::<Borrowed<'_>>().map(|_| ()).unwrap_err().code(), "null_value");
}

#[test]
fn a_registry_lists_its_names() {
    let names = every_shape().names();
    assert_eq!(names.len(), 7);
    assert!(names.is_sorted());
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SideConfig {
    copies: usize,
}

impl Default for SideConfig {
    fn default() -> Self {
        Self { copies: 1 }
    }
}

struct ToSide {
    side: OutputId,
    copies: usize,
}

impl ToSide {
    fn new(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let config: SideConfig = setup.config()?;
        if config.copies == 0 {
            return Err(SetupError::Refused("copies is 0".to_owned()));
        }
        Ok(Self { side: setup.output("side")?, copies: config.copies })
    }
}

impl Processor for ToSide {
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        for _ in 0..self.copies {
            context.emit(self.side).bytes(record.value().unwrap_or_default())?;
        }
        Ok(())
    }
}

#[test]
fn what_does_not_fit_the_pipeline_is_refused_at_construction() {
    let mut registry = Registry::new();
    registry.processor("to_side", ToSide::new);
    let build = |name, outputs: &[&str], with| TestDriver::with_setup(&registry, name, outputs, with);

    let mut driver = build("to_side", &["default", "other", "side"], json!({ "copies": 2 })).unwrap();
    let piped = driver.pipe_json(&json!({}));
    assert_eq!(piped.outputs.iter().map(|output| output.output.as_str()).collect::<Vec<_>>(), ["side", "side"]);
    assert_eq!(build("to_side", &["default", "side"], Value::Null).unwrap().pipe_json(&1).outputs.len(), 1, "no `with` is an empty one");

    let unknown = build("to_sied", &["default", "side"], Value::Null).unwrap_err();
    assert!(matches!(&unknown, SetupError::UnknownProcessor { name } if name == "to_sied"), "{unknown}");
    let output = build("to_side", &["default", "other"], Value::Null).unwrap_err();
    assert!(matches!(&output, SetupError::UnknownOutput { name, known } if name == "side" && known == "default, other"), "{output}");
    for with in [json!({ "copy": 1 }), json!({ "copies": "1" }), json!("copies")] {
        let config = build("to_side", &["default", "side"], with.clone()).map(|_| ()).unwrap_err();
        assert!(matches!(config, SetupError::Config(_)), "{with}: {config}");
    }
    let refused = build("to_side", &["default", "side"], json!({ "copies": 0 })).unwrap_err();
    assert!(matches!(&refused, SetupError::Refused(why) if why == "copies is 0"), "{refused}");
}

#[test]
#[should_panic(expected = "two processors are registered as \"copying\"")]
fn a_name_is_registered_once() {
    copying().clone().map("other", map_owned);
    let mut registry = copying();
    registry.map("copying", map_owned);
}

#[test]
#[should_panic(expected = "snake_case")]
fn a_name_is_snake_case() {
    Registry::new().map("CleanOrders", map_owned);
}
