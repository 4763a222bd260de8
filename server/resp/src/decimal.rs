//! Numbers as text, with Redis's rules.
//!
//! Redis accepts a text as an integer only if printing that integer gives the same text, so that a
//! string stored as an integer reads back byte for byte. The functions for integers apply this rule
//! to the protocol's lengths and to commands that take numbers.

/// Parses `text` if it is exactly the decimal text of an `i64`: no spaces, no plus sign, no leading
/// zeros, no `-0`. (Redis's `string2ll`.)
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
        // `-0` takes the other arm, where `parse_u64` refuses the `-`.
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
    // Nineteen digits cannot overflow, so only the twentieth needs checked arithmetic.
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

/// Parses a double by the rule for Redis's scores and increments: the whole text must be a number
/// for C's `strtod`. Leading spaces, NaN, overflow and underflow are refused.
///
/// `inf`, `+inf`, `-inf` and `infinity` are accepted in upper and lower case. Hexadecimal floats,
/// which `strtod` accepts, are refused.
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

/// Appends `value` in the notation of Redis 7.2.
///
/// - Whole numbers from -2⁶² to 2⁶² are printed as integers.
/// - Other numbers have the shortest digits that read back to the same double (Ryū, Adams 2018).
/// - A number that would need many zeros has an exponent, with a sign and no leading zero.
/// - The special values are `inf`, `-inf`, `nan` and `-0`.
///
/// Redis computes its digits with Grisu2, which for a few doubles in a thousand prints one digit
/// more than necessary. Both texts read back to the same double.
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
    /// Returns the fewest digits that read back to `value`, which must be positive and finite.
    fn of(value: f64) -> Self {
        Self::read(ryu::Buffer::new().format_finite(value))
    }

    /// Reads at most 24 significant digits with an optional point and exponent.
    fn read(text: &str) -> Self {
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
        found.trim();
        found
    }

    /// Removes trailing zeros.
    fn trim(&mut self) {
        while self.len > 1 && self.digits[self.len - 1] == b'0' {
            self.len -= 1;
            self.exponent += 1;
        }
    }

    fn write(&self, out: &mut Vec<u8>, negative: bool) {
        let digits = &self.digits[..self.len];
        let len = self.len as i32;
        let scientific = self.exponent + len - 1;
        // The notations and their limits are the ones of fpconv, which Redis uses since 7.2.
        if (self.exponent >= 0 && scientific < len + 7)
            || (self.exponent < 0 && (self.exponent > -7 || scientific.abs() < 4))
        {
            self.write_plain(out);
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

/// Appends a number in the format of C's `%.*g`: rounded correctly to `precision` digits (1 to 17)
/// and without trailing zeros. An exponent is written if it would be below -4 or at least
/// `precision`.
///
/// ```
/// use punctual_resp::decimal::write_f64_rounded;
///
/// let text = |value, precision| {
///     let mut out = Vec::new();
///     write_f64_rounded(&mut out, value, precision);
///     String::from_utf8(out).unwrap()
/// };
/// assert_eq!(text(0.1, 14), "0.1");
/// assert_eq!(text(0.1, 17), "0.10000000000000001");
/// assert_eq!(text(-1e14, 14), "-1e+14");
/// ```
pub fn write_f64_rounded(out: &mut Vec<u8>, value: f64, precision: usize) {
    debug_assert!((1..=17).contains(&precision));
    let magnitude = value.abs();
    if magnitude < WHOLE_BELOW[precision] && magnitude == magnitude.trunc() {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        return write_i64(out, value as i64);
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !value.is_finite() {
        return out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    }
    let digits = Digits::rounded(magnitude, precision)
        .unwrap_or_else(|| Digits::exact(magnitude, precision));
    digits.write_general(out, precision);
}

/// Powers of ten. Integers below `WHOLE_BELOW[n]` have at most n digits.
const WHOLE_BELOW: [f64; 18] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17,
];

impl Digits {
    /// Rounds a positive number to `precision` digits by rounding its shortest text. Returns `None`
    /// if the result can differ from rounding the number itself.
    fn rounded(value: f64, precision: usize) -> Option<Self> {
        // A decimal of at most 15 digits is the shortest text of the double nearest to it, unless
        // the double is subnormal.
        const DECIMAL_DIGITS: usize = 15;
        if precision >= DECIMAL_DIGITS || value < f64::MIN_POSITIVE {
            return None;
        }
        if let Some(few) = Self::of_few_places(value, precision) {
            return Some(few);
        }
        let mut shortest = Self::of(value);
        if shortest.len <= precision {
            return Some(shortest);
        }
        // The midpoint between two neighbouring results has `precision + 1` digits. If it lay
        // between the number and its shortest text, it would be a shorter text of the number. So
        // the number and its shortest text round to the same result, unless the shortest text is
        // the midpoint itself.
        let next = shortest.digits[precision];
        if next == b'5' && shortest.len == precision + 1 {
            return None;
        }
        shortest.exponent += (shortest.len - precision) as i32;
        shortest.len = precision;
        if next >= b'5' {
            shortest.increment();
        }
        shortest.trim();
        Some(shortest)
    }

    /// Fast path for numbers such as 1.25: returns the digits of the decimal with three or six
    /// places whose nearest double is `value`, because `%.*g` prints this decimal. Returns `None`
    /// if there is no such decimal of at most `precision` digits. `precision` is at most 14.
    fn of_few_places(value: f64, precision: usize) -> Option<Self> {
        for (places, scale) in [(3, 1e3), (6, 1e6)] {
            let scaled = (value * scale).round();
            if scaled < WHOLE_BELOW[precision] && scaled / scale == value {
                let mut found = Self::read(itoa::Buffer::new().format(scaled as u64));
                found.exponent -= places;
                return Some(found);
            }
        }
        None
    }

    /// Rounds a positive number to `precision` digits, for any number and precision.
    fn exact(value: f64, precision: usize) -> Self {
        use std::io::Write as _;

        let mut text = [0; 32];
        let mut rest = &mut text[..];
        write!(rest, "{value:.*e}", precision - 1).expect("17 digits and an exponent fit");
        let unused = rest.len();
        let text = std::str::from_utf8(&text[..text.len() - unused]).unwrap_or_default();
        Self::read(text)
    }

    /// Adds 1 to the last digit, with carry. Digits that become 0 are dropped.
    fn increment(&mut self) {
        while self.len > 1 && self.digits[self.len - 1] == b'9' {
            self.len -= 1;
            self.exponent += 1;
        }
        let last = &mut self.digits[self.len - 1];
        if *last == b'9' {
            *last = b'1';
            self.exponent += 1;
        } else {
            *last += 1;
        }
    }

    /// Writes in the format of C's `%.*g`.
    fn write_general(&self, out: &mut Vec<u8>, precision: usize) {
        let digits = &self.digits[..self.len];
        let scientific = self.exponent + self.len as i32 - 1;
        if !(-4..precision as i32).contains(&scientific) {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if scientific < 0 { b"e-" } else { b"e+" });
            let magnitude = scientific.abs();
            if magnitude < 10 {
                out.push(b'0');
            }
            return write_i64(out, magnitude.into());
        }
        self.write_plain(out);
    }

    /// Writes without an exponent.
    fn write_plain(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        let whole = self.len as i32 + self.exponent;
        if whole <= 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', -whole as usize));
            out.extend_from_slice(digits);
        } else if self.exponent >= 0 {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', self.exponent as usize));
        } else {
            let (whole, fraction) = digits.split_at(whole as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(value: f64, precision: usize) -> String {
        let mut out = Vec::new();
        write_f64_rounded(&mut out, value, precision);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rounded_numbers_equal_the_output_of_printf() {
        for (value, precision, text) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 17, "1"),
            (-120.0, 17, "-120"),
            (0.1, 17, "0.10000000000000001"),
            (1.5, 17, "1.5"),
            (0.0001, 17, "0.0001"),
            (0.00001, 17, "1.0000000000000001e-05"),
            (1e16, 17, "10000000000000000"),
            (1e17, 17, "1e+17"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (12345678901234568.0, 17, "12345678901234568"),
            (1234567.875, 17, "1234567.875"),
            (f64::MAX, 17, "1.7976931348623157e+308"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (5e-324, 14, "4.9406564584125e-324"),
            (f64::NEG_INFINITY, 17, "-inf"),
            (f64::NAN, 14, "nan"),
            (-f64::NAN, 14, "-nan"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (99999999999999.0, 14, "99999999999999"),
            (99999999999999.5, 14, "1e+14"),
            (0.99999999999999999, 3, "1"),
            (9.995, 3, "9.99"),
            (2.5, 1, "2"),
            (3.5, 1, "4"),
            (25.0, 1, "2e+01"),
            (-0.00009996, 3, "-0.0001"),
        ] {
            assert_eq!(rounded(value, precision), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn rounding_the_shortest_text_is_exact(bits: u64, short in -1e7..1e7f64, precision in 1..15usize) {
            for value in [f64::from_bits(bits), short, (short * 16.0).trunc() / 16.0, short.trunc() / 1e5] {
                let magnitude = value.abs();
                if !magnitude.is_finite() || magnitude == 0.0 {
                    continue;
                }
                let Some(digits) = Digits::rounded(magnitude, precision) else {
                    continue;
                };
                let exact = Digits::exact(magnitude, precision);
                proptest::prop_assert_eq!(digits.exponent, exact.exponent);
                proptest::prop_assert_eq!(&digits.digits[..digits.len], &exact.digits[..exact.len]);
            }
        }
    }
}
