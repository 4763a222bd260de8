//! `math.random` and `math.randomseed`: the 48-bit generator of POSIX's `lrand48`. As in Redis,
//! scripts get the same numbers on every machine and after each start of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::Stack;
use crate::raw::function::Raise;

/// A linear congruential generator (Lehmer, 1949) with the constants of POSIX. Clones share one
/// sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(Arc<AtomicU64>);

impl Default for Random {
    fn default() -> Self {
        // POSIX's initial state.
        Self(Arc::new(AtomicU64::new(0x1234_abcd_330e)))
    }
}

impl Random {
    /// Sets the state that POSIX's `srand48` sets for a seed.
    fn seed(&self, seed: u32) {
        let state = u64::from(seed) << 16 | 0x330e;
        self.0.store(state, Ordering::Relaxed);
    }

    /// Returns the next number, of 31 bits.
    fn next(&self) -> u32 {
        let last = self.0.load(Ordering::Relaxed);
        let next = last.wrapping_mul(0x5_deec_e66d).wrapping_add(11) & ((1 << 48) - 1);
        self.0.store(next, Ordering::Relaxed);
        (next >> 17) as u32
    }
}

/// `math.random([m [, n]])`.
pub(crate) fn random(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    const MAX: u32 = i32::MAX as u32;
    let drawn = stack.context().session().random.borrow().next();
    let fraction = f64::from(drawn % MAX) / f64::from(MAX);
    let arguments = stack.top();
    let bound = |at| stack.check_integer(at).map(|n| n as i32);
    let value = match arguments {
        0 => fraction,
        1 => {
            let high = bound(1)?;
            if high < 1 {
                return Err(stack.argument_error(1, "interval is empty"));
            }
            (fraction * f64::from(high)).floor() + 1.0
        }
        2 => {
            let (low, high) = (bound(1)?, bound(2)?);
            if low > high {
                return Err(stack.argument_error(2, "interval is empty"));
            }
            (fraction * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low)
        }
        _ => return Err(Raise::message("wrong number of arguments")),
    };
    stack.push_number(value);
    Ok(1)
}

/// `math.randomseed(seed)`.
pub(crate) fn random_seed(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let seed = stack.check_integer(1)?;
    stack.context().session().random.borrow().seed(seed as u32);
    Ok(0)
}
