//! Counts of timer operations.

use std::time::Duration;

/// Counts since a runtime was created.
///
/// A QUIC connection has one timer, which it postpones with nearly every packet, so `rearms` dominates.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Instant;
/// use punctual_quinn::PunctualRuntime;
/// use quinn::Runtime as _;
///
/// let runtime = PunctualRuntime::new(tokio::runtime::Handle::current());
/// let mut timer = runtime.new_timer(Instant::now());
/// std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
/// let stats = runtime.stats();
/// assert_eq!((stats.arms, stats.fires), (1, 1));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of armings of new timers and of timers that had fired.
    pub arms: u64,
    /// Number of armed timers that were given another deadline.
    pub rearms: u64,
    /// Number of armed timers that were dropped.
    pub disarms: u64,
    /// Number of timers that fired.
    pub fires: u64,
    /// Number of deadlines that shortened the driver's sleep.
    pub hurries: u64,
    /// Number of times the driver checked for due timers.
    pub turns: u64,
    /// Number of checks that found nothing due, because the deadline was postponed or dropped meanwhile.
    pub spurious: u64,
    /// Time spent in the driver, including waking tasks; zero unless the runtime was created by
    /// [`metered`](crate::PunctualRuntime::metered).
    pub driver_time: Duration,
}

impl Stats {
    /// Returns the difference to the earlier counts. O(1).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::time::Instant;
    /// use punctual_quinn::PunctualRuntime;
    /// use quinn::Runtime as _;
    ///
    /// let runtime = PunctualRuntime::new(tokio::runtime::Handle::current());
    /// let _timer = runtime.new_timer(Instant::now());
    /// let before = runtime.stats();
    /// drop(runtime.new_timer(Instant::now()));
    /// assert_eq!(runtime.stats().since(before).arms, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn since(self, earlier: Stats) -> Stats {
        Stats {
            arms: self.arms.saturating_sub(earlier.arms),
            rearms: self.rearms.saturating_sub(earlier.rearms),
            disarms: self.disarms.saturating_sub(earlier.disarms),
            fires: self.fires.saturating_sub(earlier.fires),
            hurries: self.hurries.saturating_sub(earlier.hurries),
            turns: self.turns.saturating_sub(earlier.turns),
            spurious: self.spurious.saturating_sub(earlier.spurious),
            driver_time: self.driver_time.saturating_sub(earlier.driver_time),
        }
    }
}
