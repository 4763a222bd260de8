//! Floating-point numbers as priorities.

use core::fmt;

/// A floating-point number that can be compared with every other one, as IEEE 754's total order has
/// it: -NaN, -∞, negative numbers, -0, +0, positive numbers, ∞, NaN.
///
/// So a `NaN` does no harm in a queue: it comes last, or first if its sign bit is set. `-0.0` comes
/// before `0.0`, and is not equal to it. It compares as fast as an integer, which is what it holds.
/// An `f32` fits: `TotalF64::new(priority.into())`.
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
    /// The number's bits, those of a negative one turned round but for the sign.
    rank: i64,
}

/// Turns ranks into bits and bits into ranks.
const fn turn(bits: i64) -> i64 {
    bits ^ (bits >> 63) & i64::MAX
}

impl TotalF64 {
    /// This number. O(1).
    ///
    /// ```
    /// use punctual::TotalF64;
    /// assert!(TotalF64::new(1.0) < TotalF64::new(2.0));
    /// ```
    #[inline]
    pub const fn new(number: f64) -> Self {
        TotalF64 {
            rank: turn(number.to_bits().cast_signed()),
        }
    }

    /// The number, bit for bit. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TotalF64::new(1.5).get(), 1.5);
    /// ```
    #[inline]
    pub const fn get(self) -> f64 {
        f64::from_bits(turn(self.rank).cast_unsigned())
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
        fn any_bits_are_ordered_and_come_back(a: u64, b: u64) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(TotalF64::new(x).get().to_bits(), a);
            prop_assert_eq!(TotalF64::new(x).cmp(&TotalF64::new(y)), x.total_cmp(&y));
        }
    }

    #[test]
    fn the_special_numbers_stand_where_they_should() {
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
