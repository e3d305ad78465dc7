//! A part of the file whose meaning is somebody else's: YAML as JSON, by the core schema of YAML 1.2.

use serde_json::{Map, Number, Value};

use super::mistake::{Mistake, Shown};
use super::plan::ProcessorConfig;
use super::problem::Report;
use super::secret::{Exposure, REDACTED};
use super::tree::{Content, Entry, Node, Scalar, path_of};

/// Returns the node as JSON, and again with its secrets replaced. A mistake in one part does not hide those in others.
pub(super) fn json(node: &Node, path: &str, report: &mut Report) -> Option<ProcessorConfig> {
    json_of(node, path, Exposure::Open, report)
}

fn json_of(node: &Node, path: &str, exposure: Exposure, report: &mut Report) -> Option<ProcessorConfig> {
    match &node.content {
        Content::Scalar(scalar) if scalar.broken => None,
        Content::Scalar(scalar) => match json_scalar(scalar, exposure) {
            Ok(value) => {
                let hidden = exposure == Exposure::Hidden || scalar.referenced;
                let redacted = if hidden { Value::from(REDACTED) } else { value.clone() };
                Some(ProcessorConfig { value, redacted })
            }
            Err(mistake) => {
                report.add(node.place, path, mistake);
                None
            }
        },
        Content::List(items) => json_list(items, path, exposure, report),
        Content::Mapping(entries) => json_mapping(entries, path, exposure, report),
    }
}

fn json_list(items: &[Node], path: &str, exposure: Exposure, report: &mut Report) -> Option<ProcessorConfig> {
    let (mut values, mut redacted) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        if let Some(part) = json_of(item, &format!("{path}[{index}]"), exposure, report) {
            values.push(part.value);
            redacted.push(part.redacted);
        }
    }
    let whole = values.len() == items.len();
    whole.then_some(ProcessorConfig { value: Value::Array(values), redacted: Value::Array(redacted) })
}

fn json_mapping(entries: &[Entry], path: &str, exposure: Exposure, report: &mut Report) -> Option<ProcessorConfig> {
    let (mut values, mut redacted) = (Map::new(), Map::new());
    for entry in entries {
        let exposure = exposure.below(&entry.key);
        if let Some(part) = json_of(&entry.value, &path_of(path, &entry.key), exposure, report) {
            values.insert(entry.key.clone(), part.value);
            redacted.insert(entry.key.clone(), part.redacted);
        }
    }
    // Fewer: a part was wrong or a key was given twice, and both have been reported.
    let whole = values.len() == entries.len();
    whole.then_some(ProcessorConfig { value: Value::Object(values), redacted: Value::Object(redacted) })
}

fn json_scalar(scalar: &Scalar, exposure: Exposure) -> Result<Value, Mistake> {
    let text = scalar.text.as_str();
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    if !scalar.plain {
        return Ok(Value::from(text));
    }
    let number = match text {
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        text if is_integer(text) => integer(text),
        text if is_float(text) => text.parse().ok().and_then(Number::from_f64),
        text if is_not_finite(text) => None,
        text => return Ok(Value::from(text)),
    };
    let found = || if exposure == Exposure::Hidden { Shown::redacted() } else { scalar.shown() };
    number.map(Value::Number).ok_or_else(|| Mistake::NumberNotJson { found: found() })
}

/// `[-+]?[0-9]+`, `0o[0-7]+` or `0x[0-9a-fA-F]+`.
fn is_integer(text: &str) -> bool {
    if let Some(octal) = text.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return !hexadecimal.is_empty() && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    is_digits(unsigned(text))
}

fn integer(text: &str) -> Option<Number> {
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok().map(Number::from);
    }
    let signed = text.parse::<i64>().ok().map(Number::from);
    signed.or_else(|| text.parse::<u64>().ok().map(Number::from))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match unsigned(text).split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned(text), None),
    };
    let mantissa_holds = match mantissa.split_once('.') {
        Some(("", fraction)) => is_digits(fraction),
        Some((whole, fraction)) => is_digits(whole) && (fraction.is_empty() || is_digits(fraction)),
        None => is_digits(mantissa),
    };
    mantissa_holds && exponent.is_none_or(|exponent| is_digits(unsigned(exponent)))
}

fn is_not_finite(text: &str) -> bool {
    matches!(unsigned(text), ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
