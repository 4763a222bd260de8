//! What the timers did, in numbers.

use std::time::Duration;

/// Counts since a runtime was made.
///
/// A QUIC connection has one timer, which it puts off with nearly every packet: `rearms` dwarfs
/// the rest.
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
    /// Timers armed: new ones, and ones that had fired.
    pub arms: u64,
    /// Armed timers given another deadline.
    pub rearms: u64,
    /// Armed timers dropped.
    pub disarms: u64,
    /// Timers that fell due.
    pub fires: u64,
    /// Deadlines before the one that the driver slept for, so that it had to sleep less.
    pub hurries: u64,
    /// Times the driver looked for due timers.
    pub turns: u64,
    /// Turns in vain: the deadline that the driver slept for was put off or dropped meanwhile.
    pub spurious: u64,
    /// Time spent in the driver, waking tasks included; zero unless the runtime was made by
    /// [`metered`](crate::PunctualRuntime::metered).
    pub driver_time: Duration,
}

impl Stats {
    /// What came after `earlier` was read. O(1).
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
