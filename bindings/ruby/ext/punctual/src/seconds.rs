//! Conversion between Ruby's numbers of seconds and ticks of a nanosecond.
//!
//! Deadlines and readings of a clock are rounded to the nearest nanosecond. So a timer is due when
//! the clock's reading equals the deadline that the timer returns to Ruby.

use std::time::Duration;

use magnus::{Error, Ruby, TryConvert, Value};

/// The tick of an infinite deadline: such a timer never fires.
pub(crate) const NEVER: u64 = u64::MAX;

const TICKS_PER_SECOND: f64 = 1e9;

/// Converts a number to seconds. Rejects NaN, and objects that are not numbers; `what` names the
/// argument in the message.
#[inline]
pub(crate) fn parse(ruby: &Ruby, value: Value, what: &str) -> Result<f64, Error> {
    let seconds = f64::try_convert(value)?;
    if seconds.is_nan() {
        return Err(Error::new(
            ruby.exception_arg_error(),
            format!("{what} is NaN"),
        ));
    }
    Ok(seconds)
}

/// Returns the tick of a deadline: 0 for a negative time, `NEVER` for infinity.
#[inline]
pub(crate) fn deadline(seconds: f64) -> u64 {
    // The conversion saturates.
    (seconds * TICKS_PER_SECOND + 0.5) as u64
}

/// Returns the tick of a clock's reading. The tick is always less than `NEVER`.
#[inline]
pub(crate) fn reading(seconds: f64) -> u64 {
    deadline(seconds).min(NEVER - 1)
}

/// Returns the seconds of a tick.
#[inline]
pub(crate) fn of_tick(tick: u64) -> f64 {
    if tick == NEVER {
        f64::INFINITY
    } else {
        tick as f64 / TICKS_PER_SECOND
    }
}

#[inline]
pub(crate) fn of_duration(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / TICKS_PER_SECOND
}
