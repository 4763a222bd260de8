//! Conversion between times and ticks. All rounding happens in this module.
//!
//! A deadline is rounded up to a tick, and a clock reading is rounded down. When the reading in
//! ticks reaches the deadline in ticks, the deadline has passed. So rounding never makes a timer
//! fire early, and delays it by less than one tick.
//!
//! To arm a timer `delay` from now, add the delay to the exact time and round the sum up, as in
//! `scale.deadline(clock.now() + delay)`. Adding ticks to a reading that was already rounded down
//! would lose up to a tick.

use core::num::NonZeroU64;
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

/// The length of a tick.
///
/// ```
/// use core::time::Duration;
/// use punctual::TickScale;
///
/// let ms = TickScale::MILLISECOND;
/// assert_eq!(ms.deadline(Duration::from_micros(1_500)), 2);
/// assert_eq!(ms.reading(Duration::from_micros(1_500)), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TickScale {
    nanos: NonZeroU64,
}

/// Returns the last of the ticks `due`, `due + period`, `due + 2 * period` and so on that is not
/// after `now`. Returns `due` if `due` itself is after `now`. O(1).
///
/// A late ticker fires at this tick instead of all the ticks that it missed. With a period of 0,
/// `due` is the only tick.
///
/// ```
/// use punctual::tick::last_tick;
/// assert_eq!(last_tick(100, 10, 109), 100);
/// assert_eq!(last_tick(100, 10, 135), 130);
/// assert_eq!(last_tick(100, 10, 7), 100); // the clock stepped back
/// ```
#[inline]
pub const fn last_tick(due: u64, period: u64, now: u64) -> u64 {
    match now.saturating_sub(due).checked_rem(period) {
        // Never before `due`.
        Some(over) if now > due => now - over,
        _ => due,
    }
}

/// Returns the next deadline of a ticker that was due at `due` and fired at `now`. O(1).
///
/// The next deadline is a multiple of the period after `due`, so that the ticker never drifts. It
/// is after `now`, so that missed ticks are skipped. Returns `u64::MAX`, which the driver never
/// fires, if the next deadline is too far away or the period is 0.
///
/// ```
/// use punctual::tick::next_tick;
/// assert_eq!(next_tick(100, 10, 100), 110);
/// assert_eq!(next_tick(100, 10, 135), 140);
/// assert_eq!(next_tick(100, u64::MAX, 135), u64::MAX);
/// ```
#[inline]
pub const fn next_tick(due: u64, period: u64, now: u64) -> u64 {
    match period {
        0 => u64::MAX,
        _ => last_tick(due, period, now).saturating_add(period),
    }
}

/// The error of creating a [`TickScale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TickError {
    /// The length is zero.
    Zero,
    /// The length is more than 2^64 - 1 ns (584 years).
    TooLong,
}

impl core::fmt::Display for TickError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            TickError::Zero => "a tick cannot have zero length: give at least 1 ns",
            TickError::TooLong => "a tick cannot be longer than 584 years (2^64 - 1 ns)",
        })
    }
}

impl core::error::Error for TickError {}

impl TickScale {
    /// One tick is a nanosecond: deadlines reach 584 years.
    pub const NANOSECOND: TickScale = TickScale {
        nanos: NonZeroU64::MIN,
    };
    /// One tick is a microsecond.
    pub const MICROSECOND: TickScale = TickScale::of_nanos(1_000);
    /// One tick is a millisecond.
    pub const MILLISECOND: TickScale = TickScale::of_nanos(1_000_000);
    /// One tick is a second.
    pub const SECOND: TickScale = TickScale::of_nanos(1_000_000_000);

    const fn of_nanos(nanos: u64) -> TickScale {
        match NonZeroU64::new(nanos) {
            Some(nanos) => TickScale { nanos },
            None => TickScale::NANOSECOND,
        }
    }

    /// Returns a scale with ticks of this length. O(1).
    ///
    /// # Errors
    ///
    /// [`TickError::Zero`] if the length is zero, and [`TickError::TooLong`] if the length is more
    /// than 2^64 - 1 ns.
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::{TickError, TickScale};
    ///
    /// let jiffies = TickScale::new(Duration::from_millis(4))?;
    /// assert_eq!(jiffies.deadline(Duration::from_millis(9)), 3);
    /// assert_eq!(TickScale::new(Duration::ZERO), Err(TickError::Zero));
    /// # Ok::<(), TickError>(())
    /// ```
    pub const fn new(length: Duration) -> Result<TickScale, TickError> {
        let nanos = length.as_nanos();
        if nanos > u64::MAX as u128 {
            return Err(TickError::TooLong);
        }
        match NonZeroU64::new(nanos as u64) {
            Some(nanos) => Ok(TickScale { nanos }),
            None => Err(TickError::Zero),
        }
    }

    /// Returns the length of a tick. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// assert_eq!(punctual::TickScale::SECOND.length(), Duration::from_secs(1));
    /// ```
    pub const fn length(self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }

    /// Returns the tick of a deadline at `time` since tick 0, rounded up, and at most the last
    /// tick. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::TickScale;
    /// assert_eq!(TickScale::SECOND.deadline(Duration::from_nanos(1)), 1);
    /// assert_eq!(TickScale::NANOSECOND.deadline(Duration::MAX), u64::MAX);
    /// ```
    pub const fn deadline(self, time: Duration) -> u64 {
        saturate(time.as_nanos().div_ceil(self.nanos.get() as u128))
    }

    /// Returns the tick of a clock reading at `time` since tick 0, rounded down, and at most the
    /// last tick. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::TickScale;
    /// assert_eq!(TickScale::SECOND.reading(Duration::from_millis(1_999)), 1);
    /// ```
    pub const fn reading(self, time: Duration) -> u64 {
        saturate(time.as_nanos() / self.nanos.get() as u128)
    }

    /// Returns the exact time from tick 0 to `tick`, or the longest `Duration` if that is exceeded.
    /// O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::TickScale;
    /// assert_eq!(TickScale::MILLISECOND.time(1_500), Duration::from_millis(1_500));
    /// ```
    pub const fn time(self, tick: u64) -> Duration {
        let nanos = tick as u128 * self.nanos.get() as u128;
        let seconds = nanos / 1_000_000_000;
        if seconds > u64::MAX as u128 {
            return Duration::MAX;
        }
        Duration::new(seconds as u64, (nanos % 1_000_000_000) as u32)
    }
}

const fn saturate(ticks: u128) -> u64 {
    if ticks > u64::MAX as u128 {
        u64::MAX
    } else {
        ticks as u64
    }
}

/// A conversion between [`Instant`]s and ticks: a tick length, and the instant of tick 0.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::{Epoch, TickScale};
///
/// let start = Instant::now();
/// let epoch = Epoch::new(start, TickScale::MILLISECOND);
/// assert_eq!(epoch.deadline(start + Duration::from_micros(2_001)), 3);
/// assert_eq!(epoch.reading(start + Duration::from_micros(2_999)), 2);
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    start: Instant,
    scale: TickScale,
}

#[cfg(feature = "std")]
impl Epoch {
    /// Returns an epoch whose tick 0 is at `start`. O(1).
    ///
    /// ```
    /// use std::time::Instant;
    /// use punctual::{Epoch, TickScale};
    /// let start = Instant::now();
    /// assert_eq!(Epoch::new(start, TickScale::SECOND).reading(start), 0);
    /// ```
    pub const fn new(start: Instant, scale: TickScale) -> Epoch {
        Epoch { start, scale }
    }

    /// Returns the tick of a deadline at `instant`, rounded up; 0 before the epoch. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use punctual::{Epoch, TickScale};
    /// let start = Instant::now();
    /// let epoch = Epoch::new(start, TickScale::SECOND);
    /// assert_eq!(epoch.deadline(start + Duration::from_nanos(1)), 1);
    /// ```
    pub fn deadline(&self, instant: Instant) -> u64 {
        self.scale
            .deadline(instant.saturating_duration_since(self.start))
    }

    /// Returns the tick of a clock reading at `instant`, rounded down; 0 before the epoch. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use punctual::{Epoch, TickScale};
    /// let start = Instant::now();
    /// let epoch = Epoch::new(start, TickScale::SECOND);
    /// assert_eq!(epoch.reading(start + Duration::from_millis(1_999)), 1);
    /// ```
    pub fn reading(&self, instant: Instant) -> u64 {
        self.scale
            .reading(instant.saturating_duration_since(self.start))
    }

    /// Returns the instant of a tick, or `None` if `Instant` cannot represent it. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use punctual::{Epoch, TickScale};
    /// let start = Instant::now();
    /// let epoch = Epoch::new(start, TickScale::SECOND);
    /// assert_eq!(epoch.instant(2), Some(start + Duration::from_secs(2)));
    /// assert_eq!(epoch.instant(u64::MAX), None);
    /// ```
    pub fn instant(&self, tick: u64) -> Option<Instant> {
        self.start.checked_add(self.scale.time(tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_reading_reaches_a_deadline_only_after_its_time(
            length in 1..=u64::MAX, due in any::<u64>(), now in any::<u64>(),
        ) {
            let scale = TickScale::new(Duration::from_nanos(length)).unwrap();
            let (due, now) = (Duration::from_nanos(due), Duration::from_nanos(now));
            if scale.reading(now) >= scale.deadline(due) {
                prop_assert!(now >= due);
            }
            // The reading reaches the deadline at most one tick late.
            if now >= due.saturating_add(scale.length()) {
                prop_assert!(scale.reading(now) >= scale.deadline(due));
            }
        }

        #[test]
        fn a_whole_number_of_ticks_is_not_rounded(
            length in 1..=u64::MAX, tick in any::<u64>(), shift in 0..64,
        ) {
            let tick = tick >> shift;
            prop_assume!(u128::from(length) * u128::from(tick) < Duration::MAX.as_nanos());
            let scale = TickScale::new(Duration::from_nanos(length)).unwrap();
            let time = scale.time(tick);
            prop_assert_eq!(scale.deadline(time), tick);
            prop_assert_eq!(scale.reading(time), tick);
        }
    }

    #[test]
    fn long_times_saturate() {
        let longest = TickScale::new(Duration::from_nanos(u64::MAX)).unwrap();
        assert_eq!(longest.time(u64::MAX), Duration::MAX);
        assert_eq!(TickScale::new(Duration::MAX), Err(TickError::TooLong));
        assert_eq!(TickScale::NANOSECOND.reading(Duration::MAX), u64::MAX);
    }
}
