//! The 80-bit floats of INCRBYFLOAT: Redis's `long double` on x86.
//!
//! Ground rules: text is read as by C's `strtold` (correctly rounded, hexadecimal floats included),
//! sums round to nearest even in the x87 format, and numbers are written as `%.17Lf` without
//! trailing zeros. So replies are the same on every machine and equal those of a Redis on x86.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float as _, Round};

/// Texts of this many bytes or more are refused: Redis's buffer has this size.
const TEXT_MAX: usize = 5 * 1024;
/// Maximum number of digits after the point.
const FRACTION_DIGITS: usize = 17;
const FRACTION_SCALE: u128 = 10u128.pow(FRACTION_DIGITS as u32);
/// Bits of the significand, the leading one included.
const PRECISION: u32 = 64;
const EXPONENT_BIAS: i32 = 16_383;

/// An x87 extended-precision number; never NaN if it was parsed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Float(X87DoubleExtended);

impl Float {
    /// Parses all of `text`: an optional sign, then decimal digits with an optional point and
    /// exponent, or `0x` and hexadecimal digits with an optional point and `p` exponent, or `inf`
    /// or `infinity` in any case. Returns `None` for everything else, for NaN, and for numbers that
    /// overflow the format or underflow to zero. O(n²) for n bytes; texts of 5 KiB are refused.
    /// ```
    /// use punctual_store::value::float::Float;
    /// let text = |s: &str| Float::parse(s.as_bytes()).map(|f| String::from_utf8(f.text()).unwrap());
    /// assert_eq!(text("3.0e3").as_deref(), Some("3000"));
    /// assert_eq!(text("0x1p-2").as_deref(), Some("0.25"));
    /// assert_eq!(text(" 1"), None);
    /// ```
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_MAX {
            return None;
        }
        let (negative, magnitude) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let value = parse_magnitude(magnitude)?;
        Some(Self(if negative { -value } else { value }))
    }

    /// Returns the sum, rounded to nearest even. O(1).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self((self.0 + other.0).value)
    }

    /// Returns the difference, rounded to nearest even. O(1).
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self((self.0 - other.0).value)
    }

    /// Returns the largest finite number.
    pub fn largest() -> Self {
        Self(X87DoubleExtended::largest())
    }

    /// Returns the negative of the largest finite number.
    pub fn smallest() -> Self {
        Self(-X87DoubleExtended::largest())
    }

    /// Converts seconds to milliseconds: the product rounds to the nearest x87 number, then up to
    /// an integer. Returns `None` if the result is too large for an `i64`, and `i64::MIN` if it is
    /// too small.
    pub fn to_millis(self) -> Option<i64> {
        let thousand = X87DoubleExtended::from_i128(1000).value;
        let product = (self.0 * thousand)
            .value
            .round_to_integral(Round::TowardPositive);
        let whole = product.value.to_i128(128).value;
        if whole < 0 {
            return Some(i64::try_from(whole).unwrap_or(i64::MIN));
        }
        i64::try_from(whole).ok()
    }

    /// Returns true unless the number is infinite or NaN.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// Returns the number in plain decimal notation with at most 17 digits after the point and no
    /// trailing zeros; `-0` is `0`. At most 4,934 bytes. The text is meaningless if the number is
    /// not finite.
    pub fn text(self) -> Vec<u8> {
        let bits = self.0.to_bits();
        let significand = bits as u64;
        let biased = (bits >> PRECISION) as i32 & 0x7fff;
        // Subnormals have the exponent of the smallest normal number.
        let exponent = biased.max(1) - EXPONENT_BIAS - (PRECISION as i32 - 1);
        let mut out = Vec::with_capacity(24);
        if self.0.is_negative() {
            out.push(b'-');
        }
        if exponent > 0 {
            write_shifted(&mut out, significand, exponent.unsigned_abs());
        } else {
            write_fixed(&mut out, significand, exponent.unsigned_abs());
        }
        if out == b"-0" {
            out.remove(0);
        }
        out
    }
}

impl From<i64> for Float {
    /// Converts without loss: the significand holds any `i64`.
    fn from(int: i64) -> Self {
        Self(X87DoubleExtended::from_i128(i128::from(int)).value)
    }
}

/// Parses a number without its sign.
fn parse_magnitude(text: &[u8]) -> Option<X87DoubleExtended> {
    if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
        return Some(X87DoubleExtended::INFINITY);
    }
    let (hexadecimal, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let shape = Shape::of(digits, hexadecimal)?;
    let text = std::str::from_utf8(text).ok()?;
    let value: X87DoubleExtended = if hexadecimal && !shape.exponent {
        format!("{text}p0").parse().ok()?
    } else {
        text.parse().ok()?
    };
    let vanished = value.is_zero() && !shape.zero;
    (value.is_finite() && !vanished).then_some(value)
}

/// Properties of the text of a number.
struct Shape {
    /// The text has an exponent.
    exponent: bool,
    /// All digits of the significand are zeros.
    zero: bool,
}

impl Shape {
    /// Checks the syntax of a number without its sign or `0x`. Returns `None` if the text is not a
    /// number.
    fn of(text: &[u8], hexadecimal: bool) -> Option<Self> {
        let is_mark = |b: u8| b.eq_ignore_ascii_case(if hexadecimal { &b'p' } else { &b'e' });
        let mark = text.iter().position(|&b| is_mark(b));
        let (significand, exponent) = match mark {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let is_digit = |b: &u8| {
            if hexadecimal {
                b.is_ascii_hexdigit()
            } else {
                b.is_ascii_digit()
            }
        };
        let digits = significand.iter().filter(|b| is_digit(b)).count();
        let points = significand.iter().filter(|&&b| b == b'.').count();
        if digits == 0 || points > 1 || digits + points != significand.len() {
            return None;
        }
        if let Some(exponent) = exponent {
            let digits = match exponent {
                [b'+' | b'-', digits @ ..] => digits,
                digits => digits,
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return None;
            }
        }
        Some(Self {
            exponent: exponent.is_some(),
            zero: significand.iter().all(|&b| matches!(b, b'0' | b'.')),
        })
    }
}

/// Writes `significand / 2^shift`, rounded to nearest even at the last digit after the point.
fn write_fixed(out: &mut Vec<u8>, significand: u64, shift: u32) {
    // The product is below 2^64 x 2^57, so it does not overflow.
    let scaled = u128::from(significand) * FRACTION_SCALE;
    let rounded = if shift < u128::BITS {
        let floor = scaled >> shift;
        let rest = scaled & ((1 << shift) - 1);
        let half = if shift == 0 {
            u128::MAX
        } else {
            1 << (shift - 1)
        };
        floor + u128::from(rest > half || (rest == half && floor & 1 == 1))
    } else {
        0
    };
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(rounded / FRACTION_SCALE).as_bytes());
    let fraction = rounded % FRACTION_SCALE;
    if fraction > 0 {
        let digits = format!("{fraction:0FRACTION_DIGITS$}");
        out.push(b'.');
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

/// Writes `significand x 2^shift`: schoolbook arithmetic in base 10^9. O(shift^2).
fn write_shifted(out: &mut Vec<u8>, significand: u64, shift: u32) {
    const BASE: u64 = 1_000_000_000;
    let mut limbs: Vec<u32> = Vec::new();
    let mut rest = significand;
    while rest > 0 {
        limbs.push((rest % BASE) as u32);
        rest /= BASE;
    }
    let mut left = shift;
    while left > 0 {
        let step = left.min(32);
        let mut carry = 0;
        for limb in &mut limbs {
            // The sum is below 2^30 x 2^32 + 2^33, so it does not overflow.
            let wide = (u64::from(*limb) << step) + carry;
            *limb = (wide % BASE) as u32;
            carry = wide / BASE;
        }
        while carry > 0 {
            limbs.push((carry % BASE) as u32);
            carry /= BASE;
        }
        left -= step;
    }
    let mut limbs = limbs.iter().rev();
    out.extend_from_slice(limbs.next().map_or("0".into(), u32::to_string).as_bytes());
    for limb in limbs {
        out.extend_from_slice(format!("{limb:09}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(a: &str, b: &str) -> String {
        let (Some(a), Some(b)) = (Float::parse(a.as_bytes()), Float::parse(b.as_bytes())) else {
            return "not a float".into();
        };
        let sum = a.plus(b);
        if !sum.is_finite() {
            return "not finite".into();
        }
        let text = String::from_utf8(sum.text()).unwrap();
        match text.len() {
            0..=120 => text,
            len => format!("{}...{} ({len})", &text[..20], &text[len - 20..]),
        }
    }

    #[test]
    fn sums_equal_those_of_redis() {
        let lines = include_str!("float_sums.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let [a, b, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("expected three fields: {line:?}");
            };
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
    }

    #[test]
    fn spaces_and_long_texts_are_refused() {
        for text in ["5 ", " 5", "\t5", "5\n", "5\0", "\u{661}"] {
            assert!(Float::parse(text.as_bytes()).is_none(), "{text:?}");
        }
        assert!(Float::parse(b"\xff").is_none());
        assert!(Float::parse("1".repeat(4932).as_bytes()).is_some());
        assert!(
            Float::parse("1".repeat(4934).as_bytes()).is_none(),
            "infinite"
        );
        let long = |zeros: usize| format!("0.{}1e{zeros}", "0".repeat(zeros));
        assert_eq!(sum(&long(5100), "0"), "0.1");
        assert!(Float::parse(long(TEXT_MAX).as_bytes()).is_none());
    }

    #[test]
    fn the_longest_text_fits() {
        let most = Float::parse(b"-0x1.fffffffffffffffep16383").unwrap();
        assert_eq!(most.text().len(), 4934);
        let least = Float::parse(b"0x1p-16445").unwrap();
        assert_eq!(least.text(), b"0");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?(0x)?[0-9a-f.]{0,30}([ep][-+]?[0-9]{0,6})?") {
            if let Some(float) = Float::parse(text.as_bytes()).filter(|f| f.is_finite()) {
                let text = float.text();
                prop_assert!(Float::parse(&text).is_some());
                prop_assert_eq!(float.plus(Float::from(0)).text(), text);
            }
        }

        #[test]
        fn the_smallest_numbers_are_read(digits in "[0-9]{1,40}", point in 0..40usize, exponent in 4880..5000) {
            let at = point.min(digits.len());
            let text = format!("{}.{}e-{exponent}", &digits[..at], &digits[at..]);
            if let Some(float) = Float::parse(text.as_bytes()) {
                prop_assert_eq!(float.text(), b"0");
            }
        }

        #[test]
        fn integers_round_trip(a in any::<i64>(), b in any::<i64>()) {
            let sum = i128::from(a) + i128::from(b);
            prop_assume!(sum.unsigned_abs() <= 1 << 64);
            prop_assert_eq!(Float::from(a).plus(Float::from(b)).text(), sum.to_string().into_bytes());
        }

        #[test]
        fn doubles_round_trip(double in -1e15..1e15f64) {
            let text = format!("{double}");
            let float = Float::parse(text.as_bytes()).unwrap();
            let again: f64 = String::from_utf8(float.text()).unwrap().parse().unwrap();
            prop_assert!((again - double).abs() <= 1e-17 + double.abs() * f64::EPSILON, "{again} {double}");
        }
    }
}
