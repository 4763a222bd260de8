//! Clocks, which provide `now` for a queue.
//!
//! No queue reads a clock. A program reads one once per turn of its loop, and its tests run the same
//! code with a [`Virtual`] clock, which they move.

use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;
#[cfg(target_has_atomic = "64")]
use {
    alloc::sync::Arc,
    core::sync::atomic::{AtomicU64, Ordering},
};

use crate::tick::TickScale;

/// A source of time, measured from the clock's origin.
///
/// ```
/// use core::time::Duration;
/// use punctual::{Clock, DeadlineQueue, TickScale, Virtual, Wheel};
///
/// fn arm(clock: &impl Clock, wheel: &mut Wheel<&str>, delay: Duration) {
///     wheel.insert(TickScale::MILLISECOND.deadline(clock.now() + delay), "tea");
/// }
///
/// let clock = Virtual::new();
/// let mut wheel = Wheel::new();
/// arm(&clock, &mut wheel, Duration::from_secs(180));
/// clock.advance(Duration::from_secs(180));
/// assert!(wheel.pop_due(clock.tick(TickScale::MILLISECOND)).is_some());
/// ```
pub trait Clock {
    /// Returns the time since the clock's origin. It should not go backwards, but queues tolerate it.
    ///
    /// ```
    /// use punctual::{Clock, Virtual};
    /// assert!(Virtual::new().now().is_zero());
    /// ```
    fn now(&self) -> Duration;

    /// Returns the clock's tick: `now`, rounded down. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::{Clock, TickScale, Virtual};
    /// let clock = Virtual::new();
    /// clock.set(Duration::from_millis(1_999));
    /// assert_eq!(clock.tick(TickScale::SECOND), 1);
    /// ```
    fn tick(&self, scale: TickScale) -> u64 {
        scale.reading(self.now())
    }
}

/// The system's monotonic clock, starting when it is created.
///
/// ```
/// use punctual::{Clock, Monotonic};
/// let clock = Monotonic::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    origin: Instant,
}

#[cfg(feature = "std")]
impl Monotonic {
    /// Returns a clock that starts at zero now. Copies show the same time. O(1).
    ///
    /// ```
    /// let clock = punctual::Monotonic::new();
    /// ```
    pub fn new() -> Self {
        Monotonic {
            origin: Instant::now(),
        }
    }

    /// Returns the instant of the clock's origin. O(1).
    ///
    /// ```
    /// use std::time::Instant;
    /// assert!(punctual::Monotonic::new().origin() <= Instant::now());
    /// ```
    pub fn origin(&self) -> Instant {
        self.origin
    }
}

#[cfg(feature = "std")]
impl Default for Monotonic {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "std")]
impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves only by calls. Clones are the same clock, and can be moved and read from any
/// thread. It reaches 584 years.
///
/// ```
/// use core::time::Duration;
/// use punctual::{Clock, Virtual};
///
/// let clock = Virtual::new();
/// let same = clock.clone();
/// clock.advance(Duration::from_secs(30 * 24 * 3600));
/// assert_eq!(same.now(), Duration::from_secs(30 * 24 * 3600));
/// ```
#[cfg(target_has_atomic = "64")]
#[derive(Clone, Debug, Default)]
pub struct Virtual {
    nanos: Arc<AtomicU64>,
}

#[cfg(target_has_atomic = "64")]
impl Virtual {
    /// Returns a clock at zero. O(1).
    ///
    /// ```
    /// use punctual::{Clock, Virtual};
    /// assert!(Virtual::new().now().is_zero());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock, at most to its end, and returns the new time. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::Virtual;
    /// let clock = Virtual::new();
    /// assert_eq!(clock.advance(Duration::from_secs(1)), Duration::from_secs(1));
    /// ```
    pub fn advance(&self, by: Duration) -> Duration {
        let by = nanos(by);
        let moved = |now: u64| Some(now.saturating_add(by));
        let before = self
            .nanos
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        let before = before.unwrap_or_else(|unmoved| unmoved);
        Duration::from_nanos(before.saturating_add(by))
    }

    /// Sets the clock, forwards or backwards. O(1).
    ///
    /// ```
    /// use core::time::Duration;
    /// use punctual::{Clock, Virtual};
    /// let clock = Virtual::new();
    /// clock.set(Duration::from_secs(5));
    /// clock.set(Duration::from_secs(2)); // queues tolerate a clock that steps back
    /// assert_eq!(clock.now(), Duration::from_secs(2));
    /// ```
    pub fn set(&self, time: Duration) {
        self.nanos.store(nanos(time), Ordering::Release);
    }
}

#[cfg(target_has_atomic = "64")]
impl Clock for Virtual {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Acquire))
    }
}

#[cfg(target_has_atomic = "64")]
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
