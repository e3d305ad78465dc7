//! Durations and sizes as they are written: a whole number and a unit.

use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Returns the duration that `text` names, such as `100ms`, `5s`, `5m` or `1h`. The unit is not optional.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let (_, milliseconds) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*milliseconds).map(Duration::from_millis)
}

/// Returns the number of bytes that `text` names, such as `16MiB` or `1000000`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*bytes)
}

/// Returns `duration` in the largest unit that shows it as a whole number. It must be whole milliseconds.
pub(super) fn show_duration(duration: Duration) -> String {
    // Every duration here was parsed from milliseconds that fit.
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show(milliseconds, &DURATION_UNITS)
}

/// Returns `bytes` in the largest unit that shows it as a whole number.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| number >= *factor && number.is_multiple_of(*factor));
    match fitting.or(units.last()) {
        Some((unit, factor)) => format!("{}{unit}", number / factor),
        None => number.to_string(),
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_duration, parse_size, show_duration, show_size};

    #[test]
    fn a_duration_is_a_whole_number_with_a_unit() {
        let cases = [("100ms", 100), ("5s", 5_000), ("5m", 300_000), ("2h", 7_200_000), ("0s", 0)];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "ms", "1.5s", "-5s", "5 s", "5S", "5d", "18446744073709551615h", "99999999999999999999s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_is_a_whole_number_with_or_without_a_unit() {
        let cases = [("1000000", 1_000_000), ("16MiB", 16 << 20), ("1KiB", 1024), ("1GiB", 1 << 30), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "16MB", "16mib", "1.5MiB", "-1", "18446744073709551615KiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for text in ["100ms", "5s", "5m", "1h", "90s", "0ms"] {
            assert_eq!(parse_duration(text).map(show_duration).as_deref(), Some(text));
        }
        for text in ["16MiB", "1000000B", "1GiB", "0B"] {
            assert_eq!(parse_size(text).map(show_size).as_deref(), Some(text));
        }
    }
}
