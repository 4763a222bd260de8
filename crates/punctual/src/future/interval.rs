//! [`Interval`]: a periodic stream of ticks.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::time::Instant;

use futures_core::{FusedStream, Stream};

use super::sleep::Sleep;
use crate::tick::{TickScale, last_tick};
use crate::time::PeriodError;
use crate::time::timeline::{self, Timeline};

/// Returns an interval that ticks once per period. The first tick is due one period from now. O(1).
///
/// # Errors
///
/// [`PeriodError::Zero`] if the period is zero.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::interval;
///
/// # smol::block_on(async {
/// let start = Instant::now();
/// let mut ticks = interval(Duration::from_millis(2))?;
/// ticks.tick().await;
/// ticks.tick().await;
/// assert!(start.elapsed() >= Duration::from_millis(4));
/// # Ok::<(), punctual::time::PeriodError>(())
/// # }).unwrap();
/// ```
pub fn interval(period: Duration) -> Result<Interval, PeriodError> {
    let timeline = Timeline::current();
    let first = timeline.deadline_after(period);
    Interval::new(Sleep::new(timeline, first), period)
}

/// Returns an interval that ticks once per period. The first tick is due at `start`, which may be
/// now. O(1).
///
/// # Errors
///
/// [`PeriodError::Zero`] if the period is zero.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::interval_at;
///
/// # smol::block_on(async {
/// let start = Instant::now();
/// let mut ticks = interval_at(start, Duration::from_secs(60))?;
/// assert_eq!(ticks.tick().await, start);
/// # Ok::<(), punctual::time::PeriodError>(())
/// # }).unwrap();
/// ```
pub fn interval_at(start: Instant, period: Duration) -> Result<Interval, PeriodError> {
    let first = Sleep::new(Timeline::current(), timeline::tick(start));
    Interval::new(first, period)
}

/// The stream of [`interval`] and [`interval_at`], which yields the deadlines of its ticks and
/// never ends.
///
/// The deadlines are multiples of the period after the first tick, so the interval never drifts. A
/// late task receives one tick, the last that was due. Earlier missed ticks are skipped, and the
/// next tick comes at its deadline. [`MissedTickBehavior`] has alternatives.
#[derive(Debug)]
#[must_use = "an interval does nothing unless its ticks are awaited"]
pub struct Interval {
    /// The sleep until the next tick.
    sleep: Sleep,
    /// Period in ticks of the driver, at least 1.
    period: u64,
    missed: MissedTickBehavior,
}

/// The behavior of an [`Interval`] for ticks that were not awaited in time.
///
/// With a period of 10 ms, if the first tick is awaited in time and the second tick at 35 ms:
///
/// | | the instants of the ticks | received at |
/// |---|---|---|
/// | [`Skip`](Self::Skip) | 10, 30, 40, 50 | 10, 35, 40, 50 |
/// | [`Burst`](Self::Burst) | 10, 20, 30, 40, 50 | 10, 35, 35, 40, 50 |
/// | [`Delay`](Self::Delay) | 10, 20, 45, 55 | 10, 35, 45, 55 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// Skips the missed ticks, except the last: at most one tick per period, always at a multiple
    /// of the period.
    #[default]
    Skip,
    /// Delivers the missed ticks without a delay between them: as many ticks as periods.
    Burst,
    /// Delivers the next tick one period after the late tick was received: never two ticks in less
    /// than a period. The interval drifts.
    Delay,
}

impl Interval {
    fn new(sleep: Sleep, period: Duration) -> Result<Self, PeriodError> {
        if period.is_zero() {
            return Err(PeriodError::Zero);
        }
        let period = TickScale::NANOSECOND.deadline(period);
        Ok(Interval {
            sleep,
            period,
            missed: MissedTickBehavior::default(),
        })
    }

    /// Waits for the next tick and returns its deadline. O(1).
    ///
    /// Dropping the future loses no tick.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::{interval, sleep};
    ///
    /// # smol::block_on(async {
    /// let period = Duration::from_millis(2);
    /// let mut ticks = interval(period)?;
    /// let first = ticks.tick().await;
    /// sleep(3 * period).await;
    /// let late = ticks.tick().await; // one tick for all missed ticks
    /// assert!(late >= first + 2 * period);
    /// assert_eq!((late - first).as_nanos() % period.as_nanos(), 0); // at a multiple of the period
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// # }).unwrap();
    /// ```
    pub fn tick(&mut self) -> Tick<'_> {
        Tick(self)
    }

    /// Polls for the next tick, like [`tick`](Self::tick). O(1).
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use punctual::future::interval;
    ///
    /// let mut ticks = interval(Duration::from_secs(60))?;
    /// assert!(ticks.poll_tick(&mut Context::from_waker(Waker::noop())).is_pending());
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.sleep.poll_elapsed(cx));
        let mut due = self.sleep.tick();
        let mut base = due;
        match self.missed {
            MissedTickBehavior::Skip => {
                due = last_tick(due, self.period, self.sleep.timeline().now());
                base = due;
            }
            MissedTickBehavior::Burst => {}
            MissedTickBehavior::Delay => base = base.max(self.sleep.timeline().now()),
        }
        self.sleep.set_deadline(base.saturating_add(self.period));
        Poll::Ready(timeline::instant(due))
    }

    /// Returns the behavior for missed ticks: [`Skip`](MissedTickBehavior::Skip), unless it was
    /// [set](Self::set_missed_tick_behavior). O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::{MissedTickBehavior, interval};
    /// let ticks = interval(Duration::from_secs(60))?;
    /// assert_eq!(ticks.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets the behavior for missed ticks. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::{MissedTickBehavior, interval};
    /// use punctual::time::{VirtualTime, now};
    ///
    /// const SECOND: Duration = Duration::from_secs(1);
    /// let time = VirtualTime::new();
    /// let seconds = time.block_on(async {
    ///     let start = now();
    ///     let mut ticks = interval(SECOND).unwrap();
    ///     ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ///     punctual::future::sleep(3 * SECOND).await;
    ///     let mut seconds = Vec::new();
    ///     for _ in 0..4 {
    ///         ticks.tick().await;
    ///         seconds.push((now() - start).as_secs());
    ///     }
    ///     seconds
    /// });
    /// assert_eq!(seconds, [3, 3, 3, 4]);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// Returns the period. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// let ticks = punctual::future::interval(Duration::from_secs(60))?;
    /// assert_eq!(ticks.period(), Duration::from_secs(60));
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn period(&self) -> Duration {
        TickScale::NANOSECOND.time(self.period)
    }

    /// Returns the deadline of the next tick. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let start = Instant::now();
    /// let ticks = punctual::future::interval_at(start, Duration::from_secs(60))?;
    /// assert_eq!(ticks.deadline(), start);
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Restarts the interval: the next tick is due one period from now. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut ticks = punctual::future::interval_at(Instant::now(), Duration::from_secs(60))?;
    /// ticks.reset();
    /// assert!(ticks.deadline() >= Instant::now() + Duration::from_secs(59));
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period());
    }

    /// Restarts the interval: the next tick is due `delay` from now, and later ticks follow one
    /// period apart. With a delay of zero, the next tick is due at once. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut ticks = punctual::future::interval(Duration::from_secs(60))?;
    /// ticks.reset_after(Duration::ZERO);
    /// assert!(ticks.deadline() <= Instant::now());
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        self.sleep.reset_after(delay);
    }

    /// Restarts the interval: the next tick is due at an instant, and later ticks follow one period
    /// apart. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut ticks = punctual::future::interval(Duration::from_secs(60))?;
    /// let midnight = Instant::now() + Duration::from_secs(5_400);
    /// ticks.reset_at(midnight);
    /// assert_eq!(ticks.deadline(), midnight);
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn reset_at(&mut self, instant: Instant) {
        self.sleep.reset(instant);
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// The stream is never terminated.
impl FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        false
    }
}

/// The future of [`Interval::tick`].
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Tick<'a>(&'a mut Interval);

impl Future for Tick<'_> {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.get_mut().0.poll_tick(cx)
    }
}
