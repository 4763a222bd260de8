//! Estimate of the number of elements from the histogram of the registers: algorithm 6 of O. Ertl,
//! "New cardinality estimation algorithms for HyperLogLog sketches" (2017). It needs neither
//! correction constants nor special cases.

use super::REGISTERS;
use super::hash::COUNTED_BITS;

/// Number of registers with each value.
pub(super) type Histogram = [u32; 64];

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Returns the estimate. O(1): a few hundred steps at most.
pub(super) fn cardinality(registers: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let largest = COUNTED_BITS as usize + 1;
    let mut z = m * tau((m - f64::from(registers[largest])) / m);
    for value in (1..largest).rev() {
        z = 0.5 * (z + f64::from(registers[value]));
    }
    z += m * sigma(f64::from(registers[0]) / m);
    let estimate = ALPHA * m * m / z;
    if estimate.is_finite() {
        estimate.round() as u64
    } else {
        // All registers hold values that no element sets. Redis returns this number for them.
        1 << 63
    }
}

/// Contribution of the empty registers: x + sum of x^(2^k) 2^(k-1).
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

/// Contribution of the full registers: (1 - x - sum of (1 - x^(2^-k))^2 2^-k) / 3.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}
