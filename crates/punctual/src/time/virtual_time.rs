//! `VirtualTime`: a clock that tests advance, for the time API and the futures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::timeline::{self, Entry, Simulation};

/// A clock that moves only when a test advances it. [`advance`](Self::advance) fires all due timers
/// in order before it returns.
///
/// After a thread [enters](Self::enter) the clock, all timers and sleeps of this module that the
/// thread creates use it. Timers that were created before, or on other threads, keep the clock on
/// which they were created. Clones of a `VirtualTime` are the same clock, for use on other threads.
///
/// The clock starts at the time of its creation.
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{VirtualTime, after_func, now};
///
/// let time = VirtualTime::new();
/// let _entered = time.enter();
///
/// let start = now();
/// let (sender, log) = crossbeam_channel::unbounded();
/// for seconds in [30, 10, 20] {
///     let sender = sender.clone();
///     after_func(Duration::from_secs(seconds), move || {
///         sender.send((now() - start).as_secs()).unwrap(); // each callback sees its own deadline
///     })
///     .detach();
/// }
/// time.advance(Duration::from_secs(60));
/// assert_eq!(log.try_iter().collect::<Vec<_>>(), [10, 20, 30]);
/// ```
///
/// # Callbacks
///
/// Callbacks run on the advancing thread, one after the other, each at its own deadline, and before
/// any later timer fires. A timer that a callback arms fires within the same `advance` if it is due
/// by the end of the `advance`. So tests are repeatable.
///
/// A callback that waits for another timer of this clock would deadlock. [`sleep`](super::sleep)
/// and `advance` panic in a callback instead; the panic hook reports the panic.
///
/// # Threads
///
/// A test whose threads sleep or wait for timers should call
/// [`wait_for_pending`](Self::wait_for_pending) before it advances the clock, so that the threads
/// have started to wait. When a timer fires, its waiting thread is woken, but `advance` does not
/// wait until that thread has run.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    pub(crate) simulation: Arc<Simulation>,
}

/// A guard for a thread's use of a virtual clock. The thread leaves the clock when the guard is
/// dropped. Guards may be nested: the clock of the latest live guard is in force.
///
/// See the example of [`VirtualTime::enter`].
#[derive(Debug)]
#[must_use = "the thread leaves the virtual clock when this is dropped"]
pub struct Entered {
    _entry: Entry,
}

impl VirtualTime {
    /// Returns a clock that starts at the current time. O(1).
    ///
    /// ```
    /// let time = punctual::time::VirtualTime::new();
    /// assert!(time.now() <= std::time::Instant::now());
    /// ```
    #[allow(clippy::new_without_default)] // it reads the clock
    pub fn new() -> VirtualTime {
        VirtualTime {
            simulation: Simulation::new(),
        }
    }

    /// Makes this thread use this clock until the returned guard is dropped. O(1).
    ///
    /// ```
    /// use punctual::time::{VirtualTime, now};
    ///
    /// let time = VirtualTime::new();
    /// {
    ///     let _entered = time.enter();
    ///     assert_eq!(now(), time.now());
    /// }
    /// assert!(now() > time.now()); // the real clock
    /// ```
    pub fn enter(&self) -> Entered {
        Entered {
            _entry: self.simulation.enter(),
        }
    }

    /// Returns the clock's time. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::VirtualTime;
    /// let time = VirtualTime::new();
    /// let before = time.now();
    /// time.advance(Duration::from_nanos(1));
    /// assert_eq!(time.now() - before, Duration::from_nanos(1));
    /// ```
    pub fn now(&self) -> Instant {
        timeline::instant(self.simulation.now())
    }

    /// Advances the clock by `by`, and stops at each deadline on the way. O(timers that fire).
    ///
    /// Due timers fire in the order of their deadlines, and timers with equal deadlines in the
    /// order of arming. Callbacks run on this thread. Concurrent calls run one after the other.
    ///
    /// # Panics
    ///
    /// In a callback of a virtual clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Timer, VirtualTime};
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let timer = Timer::new(Duration::from_secs(2));
    /// time.advance(Duration::from_secs(1));
    /// assert!(timer.is_armed());
    /// time.advance(Duration::from_secs(1));
    /// assert!(!timer.is_armed());
    /// ```
    pub fn advance(&self, by: Duration) {
        self.simulation.advance(by);
    }

    /// Advances the clock to the next deadline and fires its timers. Returns false, without
    /// advancing, if no timer has a deadline that the clock can reach. O(timers that fire).
    ///
    /// # Panics
    ///
    /// In the same case as [`advance`](Self::advance).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Timer, VirtualTime, now};
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let (start, timer) = (now(), Timer::new(Duration::from_secs(2)));
    /// assert!(time.advance_to_next());
    /// assert_eq!(timer.c().try_recv(), Ok(start + Duration::from_secs(2)));
    /// assert!(!time.advance_to_next());
    /// ```
    pub fn advance_to_next(&self) -> bool {
        self.simulation.advance_to_next(|| false)
    }

    /// Returns the number of armed timers and sleeping threads on this clock. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Timer, VirtualTime};
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let timer = Timer::new(Duration::from_secs(1));
    /// assert_eq!(time.pending(), 1);
    /// timer.stop();
    /// assert_eq!(time.pending(), 0);
    /// ```
    pub fn pending(&self) -> usize {
        self.simulation.pending()
    }

    /// Blocks, in real time, until the number of armed timers and sleeping threads on this clock is
    /// at least `count`. A test calls this before `advance`, so that its threads have started to
    /// wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{VirtualTime, sleep};
    ///
    /// let time = VirtualTime::new();
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| {
    ///             let _entered = time.enter();
    ///             sleep(Duration::from_secs(60));
    ///         });
    ///     }
    ///     time.wait_for_pending(2);
    ///     time.advance(Duration::from_secs(60)); // both threads continue
    /// });
    /// ```
    pub fn wait_for_pending(&self, count: usize) {
        self.simulation.wait_for_pending(count);
    }
}
