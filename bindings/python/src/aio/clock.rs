//! Conversion between loop times and ticks: a loop counts seconds as floats, its wheel nanoseconds.
//!
//! The system's clock is read in nanoseconds and reported as the nearest float, as by
//! `time.monotonic()`. A deadline becomes the first nanosecond whose float is not below it. So a
//! timer fires as soon as `loop.time()` reaches its deadline, and never before.
//!
//! A clock that a program supplies (`time` of a subclass) counts only in floats. As in asyncio, the
//! tolerance is the clock's resolution: a deadline that differs from the current time only by
//! rounding errors is due.

pub(super) const NANOS: f64 = 1e9;

/// Returns the reading of a clock at a tick, in seconds.
#[inline]
pub(super) fn seconds(tick: u64) -> f64 {
    tick as f64 / NANOS
}

/// Returns the first tick that is reported as `when` or later: 0 for a time in the past, the last
/// tick for infinity.
#[inline]
pub(super) fn deadline(when: f64) -> u64 {
    let tick = (when * NANOS).ceil();
    // The product may have been rounded down to a whole number.
    if tick / NANOS < when && tick.is_finite() {
        tick.next_up().ceil() as u64
    } else {
        tick as u64
    }
}

/// Returns the tick of a deadline on a clock that counts in floats, rounded down. The error is
/// below the clock's resolution.
#[inline]
pub(super) fn deadline_of_floats(when: f64) -> u64 {
    (when * NANOS) as u64
}

/// Returns the tick up to which timers are due on a clock that counts in floats, with its
/// resolution in seconds.
#[inline]
pub(super) fn reading_of_floats(now: f64, resolution: f64) -> u64 {
    ((now + resolution) * NANOS) as u64
}
