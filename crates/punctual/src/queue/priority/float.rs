//! Floating-point numbers as priorities.

use core::fmt;

/// A floating-point number with the total order of IEEE 754: -NaN, -∞, negative numbers, -0, +0,
/// positive numbers, ∞, NaN.
///
/// A `NaN` is safe in a queue: it comes last, or first if its sign bit is set. `-0.0` comes before
/// `0.0` and is not equal to it. The comparison is an integer comparison. An `f32` can be used as
/// `TotalF64::new(priority.into())`.
///
/// ```
/// use punctual::TotalF64;
///
/// let mut numbers = [3.5, f64::NAN, -1.0, f64::INFINITY, 0.0].map(TotalF64::new);
/// numbers.sort();
/// assert_eq!(numbers[..4], [-1.0, 0.0, 3.5, f64::INFINITY].map(TotalF64::new));
/// assert!(numbers[4].get().is_nan());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TotalF64 {
    /// The number's bits. If the number is negative, all bits except the sign bit are inverted.
    rank: i64,
}

/// Converts bits to a rank, and a rank to bits.
const fn flip(bits: i64) -> i64 {
    bits ^ (bits >> 63) & i64::MAX
}

impl TotalF64 {
    /// Wraps a number. O(1).
    ///
    /// ```
    /// use punctual::TotalF64;
    /// assert!(TotalF64::new(1.0) < TotalF64::new(2.0));
    /// ```
    #[inline]
    pub const fn new(number: f64) -> Self {
        TotalF64 {
            rank: flip(number.to_bits().cast_signed()),
        }
    }

    /// Returns the number, bit for bit. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TotalF64::new(1.5).get(), 1.5);
    /// ```
    #[inline]
    pub const fn get(self) -> f64 {
        f64::from_bits(flip(self.rank).cast_unsigned())
    }
}

impl From<f64> for TotalF64 {
    #[inline]
    fn from(number: f64) -> Self {
        TotalF64::new(number)
    }
}

impl From<TotalF64> for f64 {
    #[inline]
    fn from(number: TotalF64) -> f64 {
        number.get()
    }
}

impl Default for TotalF64 {
    fn default() -> Self {
        TotalF64::new(0.0)
    }
}

impl fmt::Debug for TotalF64 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), formatter)
    }
}

impl fmt::Display for TotalF64 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::queue::model::random::cases(512))]

        #[test]
        fn any_bits_are_ordered_and_round_trip(a: u64, b: u64) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(TotalF64::new(x).get().to_bits(), a);
            prop_assert_eq!(TotalF64::new(x).cmp(&TotalF64::new(y)), x.total_cmp(&y));
        }
    }

    #[test]
    fn special_numbers_are_ordered() {
        let numbers = [
            -f64::NAN,
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(numbers.map(TotalF64::new).is_sorted_by(|a, b| a < b));
    }
}
