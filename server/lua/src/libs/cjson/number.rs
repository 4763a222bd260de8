//! Numbers at the beginning of a text, as C's `strtod` parses them.

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::Double;

/// Returns the number at the beginning of `text` and its length, or `None` if `text` does not begin
/// with a number.
///
/// The syntax is glibc's in the C locale. An optional sign is followed by decimal digits with an
/// optional point and exponent; by `0x` and hexadecimal digits with an optional point and `p`
/// exponent; or by `inf`, `infinity`, `nan` or `nan(...)` in upper or lower case. The number is
/// rounded correctly.
pub(super) fn scan(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let body = &text[sign..];
    let (value, len) = match short(body) {
        Some(found) => found,
        None => hexadecimal(body)
            .or_else(|| decimal(body))
            .or_else(|| not_finite(body))?,
    };
    Some((if negative { -value } else { value }, sign + len))
}

/// Scans a short decimal number: it has no exponent, its digits form an integer of at most 2^53,
/// and at most 15 digits are after the point. A division of two exact doubles rounds correctly
/// (Clinger, 1990). Returns `None` for all other numbers.
fn short(text: &[u8]) -> Option<(f64, usize)> {
    const POWERS: [f64; 16] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
    ];
    const EXACT: u64 = 1 << 53;
    let (mut digits, mut len, mut point) = (0u64, 0, None);
    loop {
        let byte = text.get(len).copied().unwrap_or_default();
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit <= 9 {
            digits = digits * 10 + digit;
            if digits > EXACT {
                return None;
            }
        } else if byte == b'.' && point.is_none() && len > 0 {
            point = Some(len + 1);
        } else {
            if len == 0 || matches!(byte, b'e' | b'E' | b'x' | b'X') {
                return None;
            }
            let fraction = point.map_or(0, |point| len - point);
            return Some((digits as f64 / POWERS.get(fraction)?, len));
        }
        len += 1;
    }
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let len = extent(text, u8::is_ascii_digit, b'e')?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    Some((text.parse().ok()?, len))
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    const PREFIX: usize = 2;
    let [b'0', b'x' | b'X', rest @ ..] = text else {
        return None;
    };
    let len = PREFIX + extent(rest, u8::is_ascii_hexdigit, b'p')?;
    let mut text = std::str::from_utf8(&text[..len]).ok()?.to_ascii_lowercase();
    if !text.contains('p') {
        text.push_str("p0");
    }
    let value: Double = text.parse().ok()?;
    Some((f64::from_bits(value.to_bits() as u64), len))
}

/// Returns the length of the number at the beginning of `text`: digits with an optional point, and
/// an optional exponent that starts with the letter `exponent`.
fn extent(text: &[u8], is_digit: fn(&u8) -> bool, exponent: u8) -> Option<usize> {
    let count =
        |from: usize, is: fn(&u8) -> bool| text[from..].iter().take_while(|b| is(b)).count();
    let whole = count(0, is_digit);
    let mut len = whole;
    let mut fraction = 0;
    if text.get(len) == Some(&b'.') {
        fraction = count(len + 1, is_digit);
        len += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if text
        .get(len)
        .is_some_and(|b| b.eq_ignore_ascii_case(&exponent))
    {
        let signed = matches!(text.get(len + 1), Some(b'-' | b'+'));
        let first = len + 1 + usize::from(signed);
        let digits = text
            .get(first..)
            .map_or(0, |_| count(first, u8::is_ascii_digit));
        if digits > 0 {
            len = first + digits;
        }
    }
    Some(len)
}

fn not_finite(text: &[u8]) -> Option<(f64, usize)> {
    let begins = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if begins(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if begins(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !begins(b"nan") {
        return None;
    }
    let is_payload = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let len = match &text[3..] {
        [b'(', rest @ ..] => {
            let payload = rest.iter().take_while(is_payload).count();
            if rest.get(payload) == Some(&b')') {
                3 + 2 + payload
            } else {
                3
            }
        }
        _ => 3,
    };
    Some((f64::NAN, len))
}
