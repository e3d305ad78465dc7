//! RFC 3339 date-times, checked and never changed. Source: RFC 3339 section 5.6 (grammar) and 5.7 (ranges).
//!
//! Written out instead of taken from a date library: those read more than the RFC allows (blanks for `T`, signed years) and
//! turn a leap second into `:59`, while here the question is only whether the text may pass as it is.

/// Returns whether `text` is an RFC 3339 date-time.
///
/// As the RFC has it, `t` and `z` may be lower case, a fraction has one digit or more, and the offset is `Z` or `±hh:mm`.
/// A leap second is taken where it can be one: at 23:59:60 UTC at the end of a June or December. `24:00` is not a time.
pub fn is_rfc3339(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = parse_date(date)?;
    let (time, rest) = rest.split_at_checked(9)?;
    let (hour, minute, second) = parse_time(time)?;
    let offset_minutes = parse_offset(skip_fraction(rest)?)?;
    let dates = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    let times = hour <= 23 && minute <= 59 && second <= 60;
    let utc_minute = i64::from(hour * 60 + minute) - offset_minutes;
    (dates && times && (second < 60 || may_be_leap_second(month, day, utc_minute))).then_some(())
}

fn parse_date(text: &[u8]) -> Option<(u32, u32, u32)> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    Some((number([y1, y2])? * 100 + number([y3, y4])?, number([m1, m2])?, number([d1, d2])?))
}

fn parse_time(text: &[u8]) -> Option<(u32, u32, u32)> {
    let [b'T' | b't', h1, h2, b':', m1, m2, b':', s1, s2] = *text else { return None };
    Some((number([h1, h2])?, number([m1, m2])?, number([s1, s2])?))
}

/// Returns what stands behind the fraction, if there is one.
fn skip_fraction(text: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = text.strip_prefix(b".") else { return Some(text) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { None } else { Some(&fraction[digits..]) }
}

/// Returns the minutes that local time is ahead of UTC.
fn parse_offset(text: &[u8]) -> Option<i64> {
    let (sign, h1, h2, m1, m2) = match *text {
        [b'Z' | b'z'] => return Some(0),
        [b'+', h1, h2, b':', m1, m2] => (1, h1, h2, m1, m2),
        [b'-', h1, h2, b':', m1, m2] => (-1, h1, h2, m1, m2),
        _ => return None,
    };
    let (hours, minutes) = (number([h1, h2])?, number([m1, m2])?);
    (hours <= 23 && minutes <= 59).then(|| sign * i64::from(hours * 60 + minutes))
}

fn number(digits: [u8; 2]) -> Option<u32> {
    let [tens, ones] = digits;
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

/// Returns 0 for a month that does not exist, so that no day lies in it.
const fn days_in_month(year: u32, month: u32) -> u32 {
    let leap_year = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap_year => 29,
        2 => 28,
        _ => 0,
    }
}

/// `utc_minute` counts from local midnight of the local date: negative is UTC's day before. An offset is shorter than a day, so
/// 23:59 UTC falls on the local date or, east of Greenwich, on the day before it.
const fn may_be_leap_second(month: u32, day: u32, utc_minute: i64) -> bool {
    const LAST_MINUTE: i64 = 23 * 60 + 59;
    match utc_minute {
        LAST_MINUTE => matches!((month, day), (6, 30) | (12, 31)),
        -1 => matches!((month, day), (1 | 7, 1)),
        _ => false,
    }
}
