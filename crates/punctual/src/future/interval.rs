//! [`Interval`]: ready again and again.

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

/// Ticks once a period, for the first time a period from now. O(1).
///
/// # Errors
///
/// [`PeriodError::Zero`].
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

/// Ticks once a period, for the first time at `start`, which may be now. O(1).
///
/// # Errors
///
/// [`PeriodError::Zero`].
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

/// The ticks of [`interval`] and [`interval_at`]: a stream of the instants they were due at. It does not end.
///
/// The n-th tick is due at the first one plus n periods, so it never drifts. Whoever comes late gets one tick, the
/// last that was due; those before it are skipped, and the next comes when it is due. [`MissedTickBehavior`] has other
/// ways.
#[derive(Debug)]
#[must_use = "an interval does nothing unless its ticks are awaited"]
pub struct Interval {
    /// Until the next tick.
    sleep: Sleep,
    /// In ticks of the driver; not 0.
    period: u64,
    missed: MissedTickBehavior,
}

/// What becomes of the ticks of an [`Interval`] that nobody has awaited in time.
///
/// With a period of 10 ms, if the first tick is awaited in time and the next not before 35 ms:
///
/// | | the instants of the ticks | awaited at, if that takes no time |
/// |---|---|---|
/// | [`Skip`](Self::Skip) | 10, 30, 40, 50 | 10, 35, 40, 50 |
/// | [`Burst`](Self::Burst) | 10, 20, 30, 40, 50 | 10, 35, 35, 40, 50 |
/// | [`Delay`](Self::Delay) | 10, 20, 45, 55 | 10, 35, 45, 55 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// They are skipped but for the last one: at most one tick a period, always on the beat.
    #[default]
    Skip,
    /// They come one right after the other until they are made up for: as many ticks as periods, whatever happens.
    Burst,
    /// The next comes a period after the late one was received: never two in less than a period. It drifts.
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

    /// Waits for the next tick: the instant it was due at. O(1).
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
    /// let late = ticks.tick().await; // one for all that were missed
    /// assert!(late >= first + 2 * period);
    /// assert_eq!((late - first).as_nanos() % period.as_nanos(), 0); // on the beat
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// # }).unwrap();
    /// ```
    pub fn tick(&mut self) -> Tick<'_> {
        Tick(self)
    }

    /// What [`tick`](Self::tick) waits with. O(1).
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
        self.sleep.put(base.saturating_add(self.period));
        Poll::Ready(timeline::instant(due))
    }

    /// What becomes of ticks that are missed: they are skipped, unless it was
    /// [set](Self::set_missed_tick_behavior) otherwise. O(1).
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

    /// Says what shall become of ticks that are missed. O(1).
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

    /// The time between two ticks. O(1).
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

    /// When the next tick is due. O(1).
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

    /// Starts anew: the next tick is due a period from now. O(1).
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

    /// Starts anew: the next tick is due `delay` from now, at once if that is zero, and those after it a period apart.
    /// O(1).
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

    /// Starts anew: the next tick is due at an instant, and those after it a period apart. O(1).
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

/// Never terminated.
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
