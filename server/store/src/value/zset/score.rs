//! Scores as text, parsed as C's `strtod` parses them.

use punctual_resp::decimal::parse_f64;
use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::Double;

use crate::error::c_string;

/// Parses all of `text` as a score, as `strtod` does, hexadecimal floats and infinities included.
/// Returns `None` for spaces, NaN, overflow and underflow. O(length).
#[inline]
pub fn parse(text: &[u8]) -> Option<f64> {
    parse_digits(text).or_else(|| parse_f64(text)).or_else(|| {
        let score = parse_hexadecimal(text)?;
        let digits = text
            .iter()
            .skip_while(|&&byte| !byte.eq_ignore_ascii_case(&b'x'));
        let significand = digits.take_while(|&&byte| !byte.eq_ignore_ascii_case(&b'p'));
        let zero = significand.skip(1).all(|&byte| matches!(byte, b'0' | b'.'));
        (score.is_finite() && (score != 0.0 || zero)).then_some(score)
    })
}

/// Fast path for a text of at most 15 decimal digits.
#[inline]
fn parse_digits(text: &[u8]) -> Option<f64> {
    // Every integer of at most 15 digits is exact as a double.
    const EXACT_MAX: usize = 15;
    if text.is_empty() || text.len() > EXACT_MAX {
        return None;
    }
    let mut value = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value as f64)
}

/// Parses a bound as `strtod` does: leading spaces are skipped, overflow is infinite, underflow and
/// an empty text are zero, and a NUL ends the text. O(length).
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    if let Some(score) = parse_digits(text) {
        return Some(score);
    }
    let text = c_string(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let text = &text[start..];
    let decimal = || std::str::from_utf8(text).ok()?.parse().ok();
    decimal()
        .filter(|score: &f64| !score.is_nan())
        .or_else(|| parse_hexadecimal(text))
}

/// Parses `0x`, hexadecimal digits with an optional point, and an optional `p` with a decimal
/// exponent.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let [b'0', b'x' | b'X', digits @ ..] = magnitude else {
        return None;
    };
    let mark = digits
        .iter()
        .position(|byte| byte.eq_ignore_ascii_case(&b'p'));
    let significand = &digits[..mark.unwrap_or(digits.len())];
    let points = significand.iter().filter(|&&byte| byte == b'.').count();
    let hexadecimal = significand.iter().filter(|byte| byte.is_ascii_hexdigit());
    let count = hexadecimal.count();
    if count == 0 || points > 1 || count + points != significand.len() {
        return None;
    }
    if let Some(mark) = mark {
        let exponent = match &digits[mark + 1..] {
            [b'+' | b'-', rest @ ..] => rest,
            all => all,
        };
        if exponent.is_empty() || !exponent.iter().all(u8::is_ascii_digit) {
            return None;
        }
    }
    let text = std::str::from_utf8(magnitude).ok()?;
    let value: Double = if mark.is_some() {
        text.parse().ok()?
    } else {
        format!("{text}p0").parse().ok()?
    };
    let value = f64::from_bits(value.to_bits() as u64);
    Some(if negative { -value } else { value })
}

/// Returns the integer that stands for a score in the compact form. Returns `None` if the score has
/// a fraction or its magnitude is above 2^62. As in Redis, -0 becomes 0.
#[inline]
pub(super) fn as_int(score: f64) -> Option<i64> {
    const MAX: f64 = (1u64 << 62) as f64;
    let int = score as i64;
    (score.abs() <= MAX && int as f64 == score).then_some(int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_parsed_like_strtod() {
        for (text, score) in [
            ("1", Some(1.0)),
            ("-0", Some(-0.0)),
            ("007", Some(7.0)),
            ("+3.5e2", Some(350.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("9007199254740993", Some(9_007_199_254_740_992.0)),
            ("-InFiNiTy", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("-0X1.8p1", Some(-3.0)),
            ("0x.8", Some(0.5)),
            ("0x0p5", Some(0.0)),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1\0", None),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("0x1p5000", None),
            ("0x1p-5000", None),
            ("0x", None),
            ("0x1p", None),
            ("0xg", None),
            ("x1", None),
        ] {
            let bits = |score: Option<f64>| score.map(f64::to_bits);
            assert_eq!(bits(parse(text.as_bytes())), bits(score), "{text:?}");
        }
    }

    #[test]
    fn bounds_are_parsed_leniently() {
        for (text, score) in [
            ("", Some(0.0)),
            (" \t5", Some(5.0)),
            ("5\0x", Some(5.0)),
            ("1e400", Some(f64::INFINITY)),
            ("1e-400", Some(0.0)),
            ("0x10", Some(16.0)),
            ("0x1p5000", Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY)),
            (" ", None),
            ("5 ", None),
            ("nan", None),
            ("(5", None),
            ("a", None),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), score, "{text:?}");
        }
    }
}
