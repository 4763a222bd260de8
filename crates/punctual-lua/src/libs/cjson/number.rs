//! Numbers as C's `strtod` takes them from the beginning of a text.

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::Double;

/// Returns the number at the beginning of `text` and its length; `None` if there is none.
///
/// As glibc in the C locale: an optional sign, then decimal digits with an optional point and exponent, `0x` and hexadecimal
/// digits with an optional point and `p` exponent, or `inf`, `infinity`, `nan` or `nan(...)` in any case. Rounds correctly.
pub(super) fn scan(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let body = &text[sign..];
    let (value, len) = match integer(body) {
        Some(found) => found,
        None => hexadecimal(body)
            .or_else(|| decimal(body))
            .or_else(|| not_finite(body))?,
    };
    Some((if negative { -value } else { value }, sign + len))
}

/// Scans an integer of at most 19 digits, which is followed by neither a point nor an exponent.
fn integer(text: &[u8]) -> Option<(f64, usize)> {
    const DIGITS: usize = 19;
    let (mut value, mut len) = (0u64, 0);
    loop {
        let byte = text.get(len).copied().unwrap_or_default();
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let whole = !matches!(byte, b'.' | b'e' | b'E' | b'x' | b'X');
            return (len > 0 && whole).then_some((value as f64, len));
        }
        if len == DIGITS {
            return None;
        }
        value = value * 10 + u64::from(digit);
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

/// Returns the length of the digits, an optional point among them, and an optional exponent.
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
