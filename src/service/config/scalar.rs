//! What a single value may be: one reader a kind of value.
//!
//! A reader says what it found or what is wrong with it; `section` records the mistake with its place.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::mistake::{Mistake, Shown};
use super::name::{BROKER_TOPICS, is_name, is_topic_name};
use super::nearest::nearest;
use super::tree::Scalar;
use super::unit::{parse_duration, parse_size, show_duration, show_size};

/// The words of a choice and what each stands for.
pub(super) type Words<T> = &'static [(&'static str, T)];

impl Scalar {
    /// Returns whether YAML reads this value as "nothing": `key:`, `key: ~` or `key: null`.
    pub(super) fn is_null(&self) -> bool {
        self.plain && !self.referenced && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Returns whether the value may be read as a number. A reference inside `{ }` needs quotes, so quotes do not make
    /// a referenced value text.
    pub(super) fn may_be_number(&self) -> bool {
        self.plain || self.referenced
    }

    pub(super) fn shown(&self) -> Shown {
        if self.referenced { Shown::redacted() } else { Shown::plain(&self.text) }
    }
}

pub(super) fn text(scalar: &Scalar) -> Result<String, Mistake> {
    if scalar.text.is_empty() { Err(Mistake::Empty) } else { Ok(scalar.text.clone()) }
}

pub(super) fn integer<T>(range: RangeInclusive<T>) -> impl FnOnce(&Scalar) -> Result<T, Mistake>
where
    T: FromStr + PartialOrd + Display,
{
    move |scalar| {
        let digits = scalar.text.strip_prefix('-').unwrap_or(&scalar.text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) || !scalar.may_be_number() {
            return Err(Mistake::NotInteger { found: scalar.shown() });
        }
        // A number that the type cannot hold is out of range as well.
        let number = scalar.text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| out_of_range(scalar, range.start().to_string(), range.end().to_string()))
    }
}

pub(super) fn duration(range: RangeInclusive<Duration>) -> impl FnOnce(&Scalar) -> Result<Duration, Mistake> {
    move |scalar| {
        let found = parse_duration(&scalar.text).ok_or_else(|| Mistake::NotDuration { found: scalar.shown() })?;
        if range.contains(&found) {
            return Ok(found);
        }
        Err(out_of_range(scalar, show_duration(*range.start()), show_duration(*range.end())))
    }
}

pub(super) fn size(range: RangeInclusive<u64>) -> impl FnOnce(&Scalar) -> Result<u64, Mistake> {
    move |scalar| {
        let found = parse_size(&scalar.text).ok_or_else(|| Mistake::NotSize { found: scalar.shown() })?;
        if range.contains(&found) {
            return Ok(found);
        }
        Err(out_of_range(scalar, show_size(*range.start()), show_size(*range.end())))
    }
}

pub(super) fn choice<T: Copy>(words: Words<T>) -> impl FnOnce(&Scalar) -> Result<T, Mistake> {
    move |scalar| {
        let known = || words.iter().map(|(word, _)| *word);
        let chosen = words.iter().find(|(word, _)| *word == scalar.text);
        chosen.map(|(_, value)| *value).ok_or_else(|| Mistake::NotAChoice {
            found: scalar.shown(),
            nearest: nearest(&scalar.text, known()).filter(|_| !scalar.referenced).map(str::to_owned),
            known: known().map(str::to_owned).collect(),
        })
    }
}

/// A name of ours: a pipeline, a step or an output.
pub(super) fn name(scalar: &Scalar) -> Result<String, Mistake> {
    if scalar.text.contains(':') {
        return Err(Mistake::SeparatorInName { found: scalar.shown() });
    }
    if is_name(&scalar.text) { Ok(scalar.text.clone()) } else { Err(Mistake::NotAName { found: scalar.shown() }) }
}

pub(super) fn topic_name(scalar: &Scalar) -> Result<String, Mistake> {
    if is_topic_name(&scalar.text) && !BROKER_TOPICS.contains(&scalar.text.as_str()) {
        return Ok(scalar.text.clone());
    }
    Err(Mistake::NotATopic { found: scalar.shown() })
}

/// A JSON pointer (RFC 6901) to something inside the value; the empty pointer, the value as a whole, is no key.
pub(super) fn pointer(scalar: &Scalar) -> Result<String, Mistake> {
    let escapes_hold = || scalar.text.split('~').skip(1).all(|tail| tail.starts_with(['0', '1']));
    if scalar.text.starts_with('/') && escapes_hold() {
        return Ok(scalar.text.clone());
    }
    Err(Mistake::NotAPointer { found: scalar.shown() })
}

pub(super) fn address(scalar: &Scalar) -> Result<SocketAddr, Mistake> {
    scalar.text.parse().map_err(|_| Mistake::NotAnAddress { found: scalar.shown() })
}

fn out_of_range(scalar: &Scalar, least: String, most: String) -> Mistake {
    Mistake::OutOfRange { found: scalar.shown(), least, most }
}
