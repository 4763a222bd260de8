//! Numbers as text, with Redis's rules.
//!
//! Redis accepts a text as an integer only if it would print that integer the same way, so that a string stored as
//! an integer reads back byte for byte. These functions apply that rule to the protocol's lengths and to
//! every command that takes a number.

/// Parses `text` if it is exactly the decimal text of an `i64`: no spaces, no plus sign, no leading zeros, no
/// `-0`. (Redis's `string2ll`.)
///
/// ```
/// use punctual_resp::decimal::parse_i64;
///
/// assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
/// assert_eq!(parse_i64(b"0"), Some(0));
/// for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808"] {
///     assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
/// }
/// ```
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        // `-0` falls through to the digits, which `-` is not.
        [b'-', magnitude @ ..] if magnitude != b"0" => {
            let magnitude = parse_u64(magnitude)?;
            0i64.checked_sub_unsigned(magnitude)
        }
        _ => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// Parses `text` if it is exactly the decimal text of a `u64`: digits only, no leading zeros.
///
/// ```
/// use punctual_resp::decimal::parse_u64;
///
/// assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
/// assert_eq!(parse_u64(b"18446744073709551616"), None);
/// assert_eq!(parse_u64(b"00"), None);
/// ```
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    let mut value = u64::from(first.wrapping_sub(b'0'));
    if value > 9 || (value == 0 && !rest.is_empty()) {
        return None;
    }
    // Nineteen digits cannot overflow; only a twentieth can.
    let (safe, last) = rest.split_at(rest.len().min(18));
    for &byte in safe {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        value = value * 10 + digit;
    }
    match last {
        [] => Some(value),
        [byte @ b'0'..=b'9'] => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    }
}

/// Appends `value` in decimal.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Parses a double with the rule of Redis's scores and increments: the whole text as C's `strtod` takes it,
/// without leading spaces, but no NaN, overflow or underflow.
///
/// `inf`, `+inf`, `-inf` and `infinity` in any case are accepted. Hexadecimal floats, which `strtod` also
/// accepts, are refused.
///
/// ```
/// use punctual_resp::decimal::parse_f64;
///
/// assert_eq!(parse_f64(b"3.0e1"), Some(30.0));
/// assert_eq!(parse_f64(b"-INF"), Some(f64::NEG_INFINITY));
/// for text in ["", " 1", "1 ", "nan", "1e400", "1e-400", "1x"] {
///     assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
/// }
/// ```
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mantissa = || text.iter().take_while(|b| !b.eq_ignore_ascii_case(&b'e'));
    let spelled_inf = || text.iter().any(|b| b.eq_ignore_ascii_case(&b'n'));
    if value.is_nan()
        || (value.is_infinite() && !spelled_inf())
        || (value == 0.0 && mantissa().any(|b| matches!(b, b'1'..=b'9')))
    {
        return None;
    }
    Some(value)
}

/// Appends `value` as Redis 7.2 prints doubles: whole numbers up to 2⁶² as integers, others with the shortest
/// digits that read back to the same double (Ryū, Adams 2018), in plain notation unless that needs many zeros, then
/// with an exponent that has a sign and no leading zero. Also `inf`, `-inf`, `nan`, `-0`.
///
/// Redis takes its digits from Grisu2, which for a few doubles in a thousand yields one digit more than
/// needed; both texts read back to the same double.
///
/// ```
/// use punctual_resp::decimal::write_f64;
///
/// let text = |value| {
///     let mut out = Vec::new();
///     write_f64(&mut out, value);
///     String::from_utf8(out).unwrap()
/// };
/// assert_eq!(text(3.0), "3");
/// assert_eq!(text(0.1), "0.1");
/// assert_eq!(text(-2.5e-9), "-2.5e-9");
/// assert_eq!(text(1e25), "1e+25");
/// assert_eq!(text(f64::NEG_INFINITY), "-inf");
/// ```
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    if value == 0.0 {
        return out.extend_from_slice(if value.is_sign_negative() {
            b"-0"
        } else {
            b"0"
        });
    }
    const WHOLE_MAX: f64 = (1u64 << 62) as f64;
    if value.abs() <= WHOLE_MAX && value == value.trunc() {
        return write_i64(out, value as i64);
    }
    let digits = Digits::of(value.abs());
    if value < 0.0 {
        out.push(b'-');
    }
    digits.write(out, value < 0.0);
}

/// A positive double as an integer without leading and trailing zeros, times a power of ten.
struct Digits {
    digits: [u8; 24],
    len: usize,
    /// The value is `digits × 10^exponent`.
    exponent: i32,
}

impl Digits {
    fn of(value: f64) -> Self {
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(value);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut found = Digits {
            digits: [0; 24],
            len: 0,
            exponent: exponent.parse().unwrap_or(0),
        };
        let mut fraction = false;
        for byte in mantissa.bytes() {
            match byte {
                b'.' => fraction = true,
                _ => {
                    if found.len > 0 || byte != b'0' {
                        found.digits[found.len] = byte;
                        found.len += 1;
                    }
                    found.exponent -= i32::from(fraction);
                }
            }
        }
        while found.len > 1 && found.digits[found.len - 1] == b'0' {
            found.len -= 1;
            found.exponent += 1;
        }
        found
    }

    fn write(&self, out: &mut Vec<u8>, negative: bool) {
        let digits = &self.digits[..self.len];
        let len = self.len as i32;
        let scientific = self.exponent + len - 1;
        // The three notations and their limits are those of fpconv, which Redis uses since 7.2.
        if self.exponent >= 0 && scientific < len + 7 {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', self.exponent as usize));
        } else if self.exponent < 0 && (self.exponent > -7 || scientific.abs() < 4) {
            let whole = len + self.exponent;
            if whole <= 0 {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', -whole as usize));
                out.extend_from_slice(digits);
            } else {
                let (whole, fraction) = digits.split_at(whole as usize);
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            let digits = &digits[..digits.len().min(18 - usize::from(negative))];
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if scientific < 0 { b"e-" } else { b"e+" });
            write_i64(out, i64::from(scientific.abs()));
        }
    }
}

/// Appends a number in the format of C's `%.17g`: 17 digits, correctly rounded, no trailing zeros, and an exponent if it is below -4 or above 16.
pub fn write_f64_17(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 17;
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    let digits = digits.replace('.', "");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let text = if !(-4..DIGITS).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let mark = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{first}{point}{rest}e{mark}{:02}", exponent.abs())
    } else if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        format!("{sign}0.{zeros}{digits}")
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            format!("{sign}{digits:0<whole$}")
        } else {
            format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
        }
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_17_digits_equal_those_of_printf() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-120.0, "-120"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (12345678901234568.0, "12345678901234568"),
            (1234567.875, "1234567.875"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            write_f64_17(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
