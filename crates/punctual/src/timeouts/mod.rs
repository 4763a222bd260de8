//! [`Timeouts`]: a queue of [`Instant`]s for protocols that do their own I/O.
//!
//! A protocol that reads no clock and no socket (a *sans-I/O* protocol, as most implementations of
//! QUIC are) tells its caller when to call again, and gets the current time with each call.
//! `Timeouts` has the methods that such a protocol needs, with instants instead of ticks.
//!
//! The timers are in a [`Wheel`]. Two things differ from a wheel with an [`Epoch`](crate::Epoch):
//!
//! - A tick is a power of two nanoseconds, so a conversion to ticks is a subtraction and a shift
//!   instead of a division.
//! - The earliest instant is always known: each method that changes the earliest timer looks for
//!   its successor at once. So [`next_time`](Timeouts::next_time) takes `&self` and only returns a
//!   field. If nothing is due, [`take_next`](Timeouts::take_next) only compares two instants and
//!   frees a piece of unused memory, if there is any.

#[cfg(test)]
mod tests;

use crate::{TimerKey, Wheel};
use core::iter::FusedIterator;
use std::time::{Duration, Instant};

/// The tick of the earliest timer of an empty queue. No timer has this tick.
const NEVER: u64 = u64::MAX;

/// Maximum exponent of the granularity: 2^40 ns are 18 minutes.
const COARSEST: u32 = 40;

/// Nanoseconds from `start` to the last instant, 146 years later. It is a multiple of every
/// granularity, so that rounding does not move it.
const LAST: u64 = 1 << 62;

/// Whole seconds in `LAST`.
const LAST_SECOND: u64 = LAST / 1_000_000_000;

/// A queue of values that become due at an [`Instant`]. It reads no clock: the caller passes the
/// time.
///
/// [`insert`](Self::insert), [`remove`](Self::remove) and [`reset`](Self::reset) take O(1), and
/// O(1) amortised if they change the earliest timer. No call divides.
///
/// Instants are rounded up to a multiple of the *granularity* after `start`, so no value is taken
/// early. Values are taken in the order of their rounded instants, and values with the same rounded
/// instant in the order in which they were inserted or reset. The queue takes 48 bytes more than a
/// [`Wheel`].
///
/// ```
/// use punctual::Timeouts;
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
/// let ms = |ms| start + Duration::from_millis(ms);
/// let idle = timeouts.insert(ms(30_000), "idle");
/// timeouts.insert(ms(200), "loss");
///
/// let next = timeouts.next_time().unwrap(); // sleep until then
/// assert!(next >= ms(200) && next < ms(201));
/// assert_eq!(timeouts.take_next(ms(199)), None);
/// assert_eq!(timeouts.take_next(next), Some("loss"));
/// assert_eq!(timeouts.remove(idle), Some("idle"));
/// assert_eq!(timeouts.next_time(), None);
/// ```
#[derive(Debug)]
pub struct Timeouts<T> {
    wheel: Wheel<T>,
    start: Instant,
    /// A tick is `1 << shift` nanoseconds.
    shift: u32,
    /// Tick of the earliest timer, or [`NEVER`].
    next_tick: u64,
    /// Instant of `next_tick`.
    next: Option<Instant>,
}

impl<T> Timeouts<T> {
    /// Returns an empty queue. Allocates nothing. O(1).
    ///
    /// The granularity is rounded down to a power of two nanoseconds, at least 1 ns and at most
    /// 2^40 ns (18 minutes): a granularity of 1 ms becomes 524,288 ns. `start` should be the
    /// program's first reading of the clock: an earlier instant counts as `start`, and an instant
    /// more than 146 years later counts as 146 years later.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let timeouts: Timeouts<u32> = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// assert!(timeouts.is_empty());
    /// ```
    pub const fn new(start: Instant, granularity: Duration) -> Self {
        let nanos = granularity.as_nanos();
        let shift = if nanos == 0 { 0 } else { nanos.ilog2() };
        Timeouts {
            wheel: Wheel::new(),
            start,
            shift: if shift < COARSEST { shift } else { COARSEST },
            next_tick: NEVER,
            next: None,
        }
    }

    /// Returns the granularity: a power of two nanoseconds. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let timeouts: Timeouts<u32> = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// assert_eq!(timeouts.granularity(), Duration::from_nanos(1 << 19));
    /// ```
    pub const fn granularity(&self) -> Duration {
        Duration::from_nanos(1 << self.shift)
    }

    /// Adds a value that is due at `time`, and returns its key. O(1).
    ///
    /// # Panics
    ///
    /// If the queue would hold more than 2^32 - 2 values.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
    /// let key = timeouts.insert(start + Duration::from_secs(1), "loss");
    /// assert_eq!(timeouts.get(key), Some(&"loss"));
    /// ```
    #[inline]
    pub fn insert(&mut self, time: Instant, value: T) -> TimerKey {
        let tick = self.tick_of(time);
        let key = self.wheel.insert(tick, value);
        if tick < self.next_tick {
            self.set_next(tick);
        }
        key
    }

    /// Removes a value before it is due. Returns `None` if the key is stale. O(1), or O(1)
    /// amortised for the earliest value.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
    /// let key = timeouts.insert(start + Duration::from_secs(1), "loss");
    /// assert_eq!(timeouts.remove(key), Some("loss"));
    /// assert_eq!(timeouts.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        let tick = self.wheel.deadline(key)?;
        let value = self.wheel.remove(key);
        if tick == self.next_tick {
            self.find_next();
        }
        value
    }

    /// Changes the instant of a value to an earlier or a later one. Returns false if the key is
    /// stale. O(1), or O(1) amortised for the earliest value.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
    /// let second = |n| start + Duration::from_secs(n);
    /// let idle = timeouts.insert(second(30), "idle");
    /// assert!(timeouts.reset(idle, second(35))); // a packet came
    /// assert_eq!(timeouts.take_next(second(34)), None);
    /// assert_eq!(timeouts.take_next(second(36)), Some("idle"));
    /// ```
    #[inline]
    pub fn reset(&mut self, key: TimerKey, time: Instant) -> bool {
        let Some(before) = self.wheel.deadline(key) else {
            return false;
        };
        let tick = self.tick_of(time);
        self.wheel.reset(key, tick);
        if tick < self.next_tick {
            self.set_next(tick);
        } else if before == self.next_tick {
            self.find_next();
        }
        true
    }

    /// Returns a value, or `None` if the key is stale. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let mut timeouts = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// let key = timeouts.insert(Instant::now(), "loss");
    /// assert_eq!(timeouts.get(key), Some(&"loss"));
    /// ```
    #[inline]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.wheel.get(key)
    }

    /// Returns a value for modification, or `None` if the key is stale. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let mut timeouts = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// let key = timeouts.insert(Instant::now(), 1);
    /// *timeouts.get_mut(key).unwrap() += 1;
    /// assert_eq!(timeouts.remove(key), Some(2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.wheel.get_mut(key)
    }

    /// Returns the instant at which a value is due, rounded up to the granularity, or `None` if the
    /// key is stale. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_nanos(1));
    /// let key = timeouts.insert(start + Duration::from_nanos(5), "loss");
    /// assert_eq!(timeouts.time(key), Some(start + Duration::from_nanos(5)));
    /// ```
    #[inline]
    pub fn time(&self, key: TimerKey) -> Option<Instant> {
        self.instant(self.wheel.deadline(key)?)
    }

    /// Returns the earliest instant, rounded up to the granularity, or `None` if the queue is
    /// empty. O(1): returns a field.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_nanos(1));
    /// let time = start + Duration::from_secs(1);
    /// timeouts.insert(time, "loss");
    /// assert_eq!(timeouts.next_time(), Some(time));
    /// ```
    #[inline]
    pub const fn next_time(&self) -> Option<Instant> {
        self.next
    }

    /// Removes and returns the first value that is due at `now`, or returns `None` if no value is
    /// due. O(1) amortised.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
    /// let second = |n| start + Duration::from_secs(n);
    /// timeouts.insert(second(2), "probe");
    /// assert_eq!(timeouts.take_next(second(1)), None);
    /// assert_eq!(timeouts.take_next(second(3)), Some("probe"));
    /// ```
    #[inline]
    pub fn take_next(&mut self, now: Instant) -> Option<T> {
        if !self.is_due(now) {
            self.free_memory();
            return None;
        }
        let expired = self.wheel.pop_due(self.reading_of(now));
        self.find_next();
        expired.map(|expired| expired.value)
    }

    /// Returns an iterator that removes the values due at `now`, one with each step, in order. O(1)
    /// amortised per value.
    ///
    /// A value that is not taken when the iterator is dropped stays due.
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let mut timeouts = Timeouts::new(start, Duration::from_millis(1));
    /// let second = |n| start + Duration::from_secs(n);
    /// for n in [3, 1, 2, 9] {
    ///     timeouts.insert(second(n), n);
    /// }
    /// assert_eq!(timeouts.take_until(second(5)).next(), Some(1));
    /// assert_eq!(timeouts.take_until(second(5)).collect::<Vec<_>>(), [2, 3]);
    /// assert_eq!(timeouts.len(), 1);
    /// ```
    #[inline]
    pub fn take_until(&mut self, now: Instant) -> TakeUntil<'_, T> {
        let now = self.is_due(now).then(|| self.reading_of(now));
        if now.is_none() {
            self.free_memory();
        }
        TakeUntil {
            timeouts: self,
            now,
        }
    }

    /// Returns the number of values. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let mut timeouts = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// timeouts.insert(Instant::now(), "loss");
    /// assert_eq!(timeouts.len(), 1);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns true if the queue has no values. O(1).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let timeouts: Timeouts<u32> = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// assert!(timeouts.is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Removes all values; all keys become stale. O(n).
    ///
    /// ```
    /// use punctual::Timeouts;
    /// use std::time::{Duration, Instant};
    /// let mut timeouts = Timeouts::new(Instant::now(), Duration::from_millis(1));
    /// let key = timeouts.insert(Instant::now(), "loss");
    /// timeouts.clear();
    /// assert_eq!((timeouts.get(key), timeouts.next_time()), (None, None));
    /// ```
    pub fn clear(&mut self) {
        self.wheel.clear();
        self.set_next(NEVER);
    }

    /// Returns nanoseconds since the start: at least 0, and at most `LAST`.
    #[inline]
    fn nanos_of(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        if since.as_secs() >= LAST_SECOND {
            return LAST;
        }
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }

    /// Returns the tick at which a value is due at `time`: rounded up.
    #[inline]
    fn tick_of(&self, time: Instant) -> u64 {
        (self.nanos_of(time) + ((1 << self.shift) - 1)) >> self.shift
    }

    /// Returns the tick of a clock reading: rounded down.
    #[inline]
    fn reading_of(&self, now: Instant) -> u64 {
        self.nanos_of(now) >> self.shift
    }

    /// Returns the instant at which `tick` begins.
    #[inline]
    fn instant(&self, tick: u64) -> Option<Instant> {
        self.start
            .checked_add(Duration::from_nanos(tick << self.shift))
    }

    /// Returns whether a value is due. The earliest instant is the first of its tick, so this
    /// comparison gives the same result as a comparison of ticks.
    #[inline]
    fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Notes that the earliest value is due at `tick`.
    #[inline]
    fn set_next(&mut self, tick: u64) {
        self.next_tick = tick;
        self.next = if tick == NEVER {
            None
        } else {
            self.instant(tick)
        };
    }

    /// Finds the earliest value, after the value that was the earliest was removed or changed.
    #[inline]
    fn find_next(&mut self) {
        let tick = self.wheel.next_deadline().unwrap_or(NEVER);
        if tick != self.next_tick {
            self.set_next(tick);
        }
    }

    /// Frees a piece of the memory of removed values, as a wheel does when nothing is due.
    #[inline]
    fn free_memory(&mut self) {
        self.wheel.free_piece_if_any();
    }
}

/// Removes the values that are due at an instant, in order. Returned by [`Timeouts::take_until`].
#[derive(Debug)]
#[must_use = "values are removed when the iterator is advanced"]
pub struct TakeUntil<'a, T> {
    timeouts: &'a mut Timeouts<T>,
    /// The clock in ticks, or `None` if nothing is due.
    now: Option<u64>,
}

impl<T> Iterator for TakeUntil<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let expired = self.timeouts.wheel.pop_due(self.now?);
        expired.map(|expired| expired.value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.timeouts.len()))
    }
}

impl<T> FusedIterator for TakeUntil<'_, T> {}

impl<T> Drop for TakeUntil<'_, T> {
    /// Finds the earliest of the values that are left, once for all values that were taken.
    #[inline]
    fn drop(&mut self) {
        if self.now.is_some() {
            self.timeouts.find_next();
        }
    }
}
