//! `Ticker` and `tick`: periodic timers.

use core::fmt;
use std::boxed::Box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never};

use super::alarm::{Alarm, CurrentHandle, Tick};
use super::timeline::Timeline;
use crate::tick::TickScale;

/// A periodic timer, which sends the deadline of each tick at multiples of a period from its start.
///
/// Its channel has room for one tick. While that tick is not received, later ticks are skipped.
/// However late a tick is received, the next tick again comes at a multiple of the period. Dropping
/// the ticker disarms it.
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{Ticker, VirtualTime, now};
///
/// const SECOND: Duration = Duration::from_secs(1);
/// let time = VirtualTime::new();
/// let _entered = time.enter();
/// let start = now();
/// let ticker = Ticker::new(10 * SECOND)?;
///
/// time.advance(35 * SECOND); // ticks at 10; the ticks at 20 and 30 are skipped
/// assert_eq!(ticker.c().try_recv(), Ok(start + 10 * SECOND));
/// assert!(ticker.c().is_empty());
///
/// time.advance(5 * SECOND);
/// assert_eq!(ticker.c().try_recv(), Ok(start + 40 * SECOND));
/// # Ok::<(), punctual::time::PeriodError>(())
/// ```
#[must_use = "a ticker that is dropped is disarmed"]
pub struct Ticker {
    timeline: Timeline,
    sender: Sender<Instant>,
    receiver: Receiver<Instant>,
    /// The handle of the ticker's alarm, which the alarm stores here at each tick.
    current_handle: Arc<CurrentHandle>,
    /// Held by stops and resets, so that they run one after the other. A tick does not take it.
    control: Mutex<()>,
}

/// The error of creating or resetting a [`Ticker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeriodError {
    /// The period is zero.
    Zero,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeriodError::Zero => "a ticker's period cannot be zero: give at least 1 ns",
        })
    }
}

impl core::error::Error for PeriodError {}

fn ticks(period: Duration) -> Result<u64, PeriodError> {
    match TickScale::NANOSECOND.deadline(period) {
        0 => Err(PeriodError::Zero),
        ticks => Ok(ticks),
    }
}

impl Ticker {
    /// Returns a ticker whose first tick is due one period from now. O(1).
    ///
    /// # Errors
    ///
    /// [`PeriodError::Zero`] if the period is zero.
    ///
    /// # Panics
    ///
    /// If the timer thread does not run yet and cannot be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{PeriodError, Ticker};
    ///
    /// let ticker = Ticker::new(Duration::from_millis(1))?;
    /// let ticks: Vec<_> = ticker.c().iter().take(2).collect();
    /// assert!(ticks[1] > ticks[0]);
    /// assert!(matches!(Ticker::new(Duration::ZERO), Err(PeriodError::Zero)));
    /// # Ok::<(), PeriodError>(())
    /// ```
    pub fn new(period: Duration) -> Result<Ticker, PeriodError> {
        let period = ticks(period)?;
        let (sender, receiver) = bounded(1);
        let ticker = Ticker {
            timeline: Timeline::current(),
            sender,
            receiver,
            current_handle: Arc::default(),
            control: Mutex::new(()),
        };
        ticker.arm(period);
        Ok(ticker)
    }

    /// Returns the ticker's channel. The channel stays connected as long as the ticker lives, even
    /// while the ticker is stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::Ticker;
    /// let ticker = Ticker::new(Duration::from_secs(3600))?;
    /// assert!(ticker.c().is_empty());
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn c(&self) -> &Receiver<Instant> {
        &self.receiver
    }

    /// Stops the ticker; the channel is empty afterwards. [`reset`](Self::reset) starts it again.
    /// O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Ticker, VirtualTime};
    ///
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let ticker = Ticker::new(Duration::from_secs(1))?;
    /// time.advance(Duration::from_secs(1));
    /// ticker.stop();
    /// assert!(ticker.c().is_empty());
    /// assert_eq!(time.pending(), 0);
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn stop(&self) {
        let _turn = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        self.halt();
    }

    /// Sets the period and restarts the ticker now, even if it was stopped. A tick that was not
    /// received is dropped. O(1).
    ///
    /// # Errors
    ///
    /// [`PeriodError::Zero`] if the period is zero; then the ticker is unchanged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Ticker, VirtualTime, now};
    ///
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let ticker = Ticker::new(Duration::from_secs(3600))?;
    /// ticker.reset(Duration::from_secs(1))?;
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(ticker.c().try_recv(), Ok(now()));
    /// # Ok::<(), punctual::time::PeriodError>(())
    /// ```
    pub fn reset(&self, period: Duration) -> Result<(), PeriodError> {
        let period = ticks(period)?;
        let _turn = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        self.halt();
        self.arm(period);
        Ok(())
    }

    fn arm(&self, period: u64) {
        let current_handle = Some(self.current_handle.clone());
        arm(&self.timeline, self.sender.clone(), period, current_handle);
    }

    /// Disarms the ticker and empties the channel.
    fn halt(&self) {
        // If the handle is stale, the alarm has fired meanwhile and has stored a new handle.
        while let Some(handle) = self.current_handle.get() {
            if self.timeline.disarm(handle).is_some() {
                self.current_handle.set(None);
            }
        }
        let _ = self.receiver.try_recv();
    }
}

/// Returns a channel that receives ticks like the channel of a [`Ticker`]. The timer ends at the
/// first tick after the last receiver was dropped. With a period of zero, no tick ever comes. O(1).
///
/// # Panics
///
/// In the same case as [`Ticker::new`].
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{select, tick};
///
/// let heartbeat = tick(Duration::from_millis(1));
/// let mut beats = 0;
/// while beats < 3 {
///     select! {
///         recv(heartbeat) -> _ => beats += 1,
///     }
/// }
/// ```
pub fn tick(period: Duration) -> Receiver<Instant> {
    let Ok(period) = ticks(period) else {
        return never();
    };
    let (sender, receiver) = bounded(1);
    arm(&Timeline::current(), sender, period, None);
    receiver
}

/// Arms an alarm that ticks at every multiple of `period` after the current time.
fn arm(
    timeline: &Timeline,
    sender: Sender<Instant>,
    period: u64,
    current_handle: Option<Arc<CurrentHandle>>,
) {
    let first = timeline.now().saturating_add(period);
    let tick = Tick {
        sender,
        period,
        current_handle,
    };
    timeline.arm(first, Alarm::Tick(Box::new(tick)));
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.halt();
    }
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker")
            .field("ticks", &self.current_handle.get().is_some())
            .finish_non_exhaustive()
    }
}
