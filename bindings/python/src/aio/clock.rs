//! Loop times and ticks: a loop tells time in seconds as floats, its wheel in nanoseconds.
//!
//! The system's clock is read in nanoseconds and shown as the float next to it, as `time.monotonic()` does. A deadline
//! is the first nanosecond that is shown as it or later: so a timer fires as soon as the clock that its program reads
//! has reached it, and never before.
//!
//! A clock that a program puts in (`time` of a subclass) counts in floats only. It gets the tolerance that asyncio gives
//! to every clock, its resolution: what was computed to be now by another path, and differs in the last bits, is now.

pub(super) const NANOS: f64 = 1e9;

/// What a clock shows at a tick.
#[inline]
pub(super) fn seconds(tick: u64) -> f64 {
    tick as f64 / NANOS
}

/// The first tick that is shown as `when` or later. What is due at once becomes tick 0, what never comes the last tick.
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

/// The tick for a deadline on a clock that counts in floats: rounded down, which is within its resolution.
#[inline]
pub(super) fn deadline_of_floats(when: f64) -> u64 {
    (when * NANOS) as u64
}

/// The tick up to which timers are due on a clock that counts in floats, with its resolution in seconds.
#[inline]
pub(super) fn reading_of_floats(now: f64, resolution: f64) -> u64 {
    ((now + resolution) * NANOS) as u64
}
