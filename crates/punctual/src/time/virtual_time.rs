//! `VirtualTime`: a clock that tests move by hand, under the whole of the time API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::timeline::{self, Entry, Simulation};

/// A clock that stands still until it is advanced, and then fires what is due, in order, before `advance` returns.
///
/// A thread [enters](Self::enter) it, and everything of this module that is made there from then on keeps to it: clones
/// are the same clock, for other threads. What was made before, or on other threads, keeps to the clock it was made on.
///
/// At first it shows the time at which it was made.
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
///         sender.send((now() - start).as_secs()).unwrap(); // each sees its own time
///     })
///     .detach();
/// }
/// time.advance(Duration::from_secs(60));
/// assert_eq!(log.try_iter().collect::<Vec<_>>(), [10, 20, 30]);
/// ```
///
/// # Callbacks
///
/// They run on the thread that advances, one after the other: each at the time it was due at, and before anything that
/// is due later fires. What they arm fires within the same `advance`, if it is due then. So tests are repeatable; and a
/// callback that waits for anything else that this clock does would wait for ever. [`sleep`](super::sleep) and `advance`
/// say so by a panic, which is reported as any panic of a callback.
///
/// # Threads
///
/// A test that lets threads sleep or wait for timers should know that they have begun to, before it advances:
/// [`wait_for_pending`](Self::wait_for_pending). When a timer has fired, who waits for it is woken, but `advance` does not
/// wait for what that thread does next.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    pub(crate) simulation: Arc<Simulation>,
}

/// A thread's stay on a virtual clock, which ends when this is dropped. Stays may be nested; the last one begun of those
/// that last is in force.
///
/// [`VirtualTime::enter`] has an example.
#[derive(Debug)]
#[must_use = "the thread leaves the virtual clock when this is dropped"]
pub struct Entered {
    _entry: Entry,
}

impl VirtualTime {
    /// A clock that shows the time that it is now, and stands. O(1).
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

    /// Has this thread keep to this clock, until what it returns is dropped. O(1).
    ///
    /// ```
    /// use punctual::time::{VirtualTime, now};
    ///
    /// let time = VirtualTime::new();
    /// {
    ///     let _entered = time.enter();
    ///     assert_eq!(now(), time.now());
    /// }
    /// assert!(now() > time.now()); // the real one
    /// ```
    pub fn enter(&self) -> Entered {
        Entered {
            _entry: self.simulation.enter(),
        }
    }

    /// What the clock shows. O(1).
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

    /// Moves the clock by `by`, from one deadline to the next: what is due then fires, equal ones in the order of
    /// arming, and callbacks run here. Two threads that advance at once do so one after the other. O(what fires).
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

    /// Moves the clock to the next deadline, and fires what is due then. `false` if nothing is armed that ever comes;
    /// then the clock stays where it is. O(what fires).
    ///
    /// # Panics
    ///
    /// As [`advance`](Self::advance).
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

    /// How many timers are armed and threads sleep on this clock. O(1).
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

    /// Waits, in real time, until at least `count` timers are armed or threads sleep on this clock. A test advances when
    /// the threads it has started are where it wants them.
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
    ///     time.advance(Duration::from_secs(60)); // both go on
    /// });
    /// ```
    pub fn wait_for_pending(&self, count: usize) {
        self.simulation.wait_for_pending(count);
    }
}
