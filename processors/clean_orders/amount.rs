//! Amounts of money from text to whole cents, exactly: no floating point, no rounding, no locale.

/// Returns the cents of `[-]digits[.d[d]]`, or `None` for any other text and for more than an `i64` of cents.
///
/// A minus is a refund. A plus, blanks, exponents, thousand separators, a third decimal place or a bare point are refused:
/// each of them is somebody's habit for something else.
pub fn cents(text: &str) -> Option<i64> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, places) = match unsigned.split_once('.') {
        Some((whole, places)) if matches!(places.len(), 1 | 2) => (whole, places),
        Some(_) => return None,
        None => (unsigned, ""),
    };
    if whole.is_empty() {
        return None;
    }
    // Missing places are zeros. Accumulated with the sign, because i64::MIN has no positive counterpart.
    let zeros = std::iter::repeat_n(b'0', 2 - places.len());
    whole.bytes().chain(places.bytes()).chain(zeros).try_fold(0_i64, |sum, byte| {
        let digit = i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        sum.checked_mul(10)?.checked_add(if negative { -digit } else { digit })
    })
}
