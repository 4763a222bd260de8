//! The driver: a thread that sleeps exactly until the next deadline and then fires the due alarms.
//!
//! The time API, the futures and the bindings for other languages use the driver. Its interface has
//! no channels, wakers or callbacks. An [`Alarm`] is a timer's action. Work that may take long
//! becomes a *job*, which a [`Runner`] does with no lock held.
//!
//! # Ground rules
//!
//! - Ticks are nanoseconds since the driver's [`origin`](Driver::origin).
//! - The driver's queue is split into shards, each under its own lock. A thread always arms in the
//!   same shard, so arming threads rarely wait for each other. A handle includes its shard, so any
//!   thread can disarm the alarm. A lock is held for one operation of the queue or for a batch of
//!   [`Alarm::fire`] calls.
//! - [`Alarm::fire`] runs under its shard's lock. So when [`disarm`](Driver::disarm) returns `None`
//!   for an alarm that has fired, its `fire` has completed.
//! - A thread that arms an alarm wakes the driver's thread only if the alarm is due before the tick
//!   until which the driver's thread sleeps. Disarming never wakes it.
//! - After the driver's creation, only the driver's thread, [`now`](Driver::now) and
//!   [`deadline_after`](Driver::deadline_after) read the clock. A [virtual](Driver::virtual_clock)
//!   driver has no thread:
//!   [`advance`](Driver::advance) fires alarms in the order of deadlines on the calling thread.
//! - The thread blocks all signals, so the program can block a signal and wait for it. Threads that
//!   a runner starts inherit that signal mask. The threads of [`Workers`] instead have the mask of
//!   the thread that armed the first alarm.
//!
//! The thread and the locks do not survive a `fork`: a child process must create its own driver and
//! leak the parent's with `mem::forget`.
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//! use punctual::driver::{Alarm, Driver, Fired, Runner};
//!
//! struct Ring(Sender<&'static str>, &'static str);
//!
//! impl Alarm for Ring {
//!     type Job = ();
//!     fn fire(&mut self, _due: u64, _now: u64) -> Fired<()> {
//!         let _ = self.0.send(self.1); // never blocks
//!         Fired::Done
//!     }
//! }
//!
//! struct NoJobs;
//! impl Runner<()> for NoJobs {
//!     fn run(&mut self, _jobs: &mut Vec<()>) {}
//! }
//!
//! let driver = Driver::new(NoJobs);
//! let (sender, receiver) = channel();
//! let late = driver.arm(driver.now() + 3_600_000_000_000, Ring(sender.clone(), "in an hour"));
//! driver.arm(driver.now() + 1_000_000, Ring(sender, "in a millisecond"));
//! assert_eq!(receiver.recv(), Ok("in a millisecond"));
//! assert!(driver.disarm(late).is_some());
//! ```

mod announcement;
mod drive;
#[cfg(all(test, loom))]
mod model;
mod shard;
mod signals;
mod sleeper;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
mod workers;

use std::boxed::Box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::Vec;

use crate::queue::TimerKey;
use crate::tick::TickScale;
use drive::Shared;

pub use announcement::Announcement;
pub(crate) use workers::catch_panics;
pub use workers::{Jobs, Workers};

/// The action of a timer, which the driver performs when the timer is due.
///
/// The [module](self) has an example.
pub trait Alarm: Send + 'static {
    /// Work that is done after the shard is unlocked: calling functions, waking tasks, dropping
    /// values.
    type Job: Send + 'static;

    /// Fires the alarm, which was due at tick `due`. The clock is at `now`.
    ///
    /// The shard is locked during the call, so this must not block, panic, or call the driver. A
    /// non-blocking send to a channel is fine. The alarm is also dropped under the lock, so move
    /// values that are costly to drop into the job.
    fn fire(&mut self, due: u64, now: u64) -> Fired<Self::Job>;

    /// Reports the alarm's handle after it was armed, by [`Driver::arm`] or [`Fired::Again`]. The
    /// same rules hold as for [`fire`](Self::fire).
    fn armed(&mut self, handle: Handle) {
        let _ = handle;
    }
}

/// The result of [`Alarm::fire`].
#[derive(Debug)]
pub enum Fired<J> {
    /// The alarm is finished.
    Done,
    /// The alarm is finished, and this job remains to be done.
    Do(J),
    /// The alarm is armed again, for this tick, or for the next tick if this tick has passed.
    Again(u64),
}

/// Runs the jobs of fired alarms.
///
/// A runner runs on the driver's thread, or within [`advance`](Driver::advance) of a virtual
/// driver, with no lock of a shard held. No alarm fires while it runs, so long jobs belong on other
/// threads. It must not panic, because the driver's thread would end.
pub trait Runner<J>: Send + 'static {
    /// Runs all jobs and leaves `jobs` empty. `jobs` may be empty if [`recheck`](Self::recheck)
    /// requested the call.
    fn run(&mut self, jobs: &mut Vec<J>);

    /// Returns the time after which [`run`](Self::run) must be called again even if nothing fires.
    /// Called after every `run`.
    fn recheck(&mut self) -> Option<Duration> {
        None
    }
}

/// A handle to an armed alarm of one driver.
///
/// A handle becomes stale when the alarm fires, is disarmed, or is armed again by [`Fired::Again`].
/// A stale handle is never valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The bits of a [`TimerKey`], as a number, so that a handle is passed in registers.
    key: u64,
    shard: u32,
}

impl Handle {
    #[inline]
    fn new(key: TimerKey, shard: u32) -> Self {
        Handle {
            key: key.to_bits(),
            shard,
        }
    }

    #[inline]
    fn key(self) -> TimerKey {
        TimerKey::from_bits(self.key)
    }
}

/// Alarms and the thread that fires them. The [module](self) documents the rules and has an
/// example.
///
/// Dropping a driver waits until the runner has done the current jobs, ends the thread, and drops
/// the armed alarms. A drop on the driver's own thread, in a job, does not wait.
#[derive(Debug)]
pub struct Driver<A: Alarm> {
    shared: Arc<Shared<A>>,
}

impl<A: Alarm> Driver<A> {
    /// Returns a driver on the system's monotonic clock. Its thread starts when an alarm is first
    /// armed. O(cores).
    pub fn new(runner: impl Runner<A::Job>) -> Self {
        Driver {
            shared: Arc::new(Shared::real(Box::new(runner))),
        }
    }

    /// Returns a driver whose clock moves only by [`advance`](Self::advance). It has no thread.
    /// O(1).
    ///
    /// ```
    /// # use punctual::driver::{Alarm, Driver, Fired, Runner};
    /// # use std::time::Duration;
    /// struct Print(u32);
    /// impl Alarm for Print {
    ///     type Job = u32;
    ///     fn fire(&mut self, _due: u64, _now: u64) -> Fired<u32> {
    ///         Fired::Do(self.0)
    ///     }
    /// }
    ///
    /// struct Printer;
    /// impl Runner<u32> for Printer {
    ///     fn run(&mut self, jobs: &mut Vec<u32>) {
    ///         jobs.drain(..).for_each(|job| println!("{job}"));
    ///     }
    /// }
    ///
    /// let driver = Driver::virtual_clock(Printer);
    /// driver.arm(2_000_000_000, Print(2));
    /// driver.arm(1_000_000_000, Print(1));
    /// driver.advance(Duration::from_secs(3)); // prints 1, then 2
    /// assert_eq!((driver.len(), driver.now()), (0, 3_000_000_000));
    /// ```
    pub fn virtual_clock(runner: impl Runner<A::Job>) -> Self {
        Driver {
            shared: Arc::new(Shared::simulated(Box::new(runner))),
        }
    }

    /// Returns the clock's tick: nanoseconds since [`origin`](Self::origin). O(1).
    #[inline]
    pub fn now(&self) -> u64 {
        self.shared.now()
    }

    /// Returns the instant of tick 0.
    ///
    /// The origin is a day before the driver was created, if the system supports that, so that
    /// recent instants in the past have ticks. The origin of a virtual driver is the instant of
    /// creation. O(1).
    pub fn origin(&self) -> Instant {
        self.shared.origin()
    }

    /// Returns true if the clock is virtual. O(1).
    pub fn is_virtual(&self) -> bool {
        self.shared.is_virtual()
    }

    /// Returns the tick that is `delay` from now, rounded up. O(1).
    ///
    /// Returns `u64::MAX`, which is never due, if that tick is more than 584 years after the
    /// origin.
    #[inline]
    pub fn deadline_after(&self, delay: Duration) -> u64 {
        let delay = TickScale::NANOSECOND.deadline(delay);
        self.now().saturating_add(delay)
    }

    /// Arms an alarm and returns its handle. `u64::MAX` is never due. O(1).
    ///
    /// A tick in the past is due at once. On a virtual driver it is due at the next
    /// [`advance`](Self::advance), even by zero.
    ///
    /// # Panics
    ///
    /// If the driver's thread cannot be started, or if a shard would hold more than 2^32 - 2
    /// alarms.
    #[inline(always)] // keeps the alarm in registers
    pub fn arm(&self, deadline: u64, alarm: A) -> Handle {
        self.shared.arm(deadline, alarm)
    }

    /// Disarms an alarm and returns it, or `None` if the handle is stale. O(1).
    ///
    /// If the alarm has fired, its [`Alarm::fire`] has completed when this returns.
    #[inline]
    pub fn disarm(&self, handle: Handle) -> Option<A> {
        self.shared.shard(handle)?.disarm(handle.key())
    }

    /// Re-arms an alarm for another tick, keeping its handle. Returns false if the handle is stale.
    /// O(1).
    #[inline]
    pub fn rearm(&self, handle: Handle, deadline: u64) -> bool {
        self.shared.rearm(handle, deadline)
    }

    /// Calls `f` with an armed alarm and returns the result, or `None` if the handle is stale.
    /// O(1).
    ///
    /// `f` runs under the shard's lock: it must not block or call the driver.
    #[inline]
    pub fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut A) -> R) -> Option<R> {
        self.shared.shard(handle)?.with(handle.key(), f)
    }

    /// Returns the number of armed alarms. O(cores).
    pub fn len(&self) -> usize {
        self.shared.shards().iter().map(|shard| shard.len()).sum()
    }

    /// Returns true if no alarm is armed. O(cores).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the earliest deadline, or `None` if no alarm is armed. O(cores) amortised.
    pub fn next_deadline(&self) -> Option<u64> {
        let shards = self.shared.shards().iter();
        shards.filter_map(|shard| shard.next_deadline()).min()
    }

    /// Advances a virtual clock from one deadline to the next. O(alarms that fall due).
    ///
    /// Each alarm fires at its own time, and its job completes before the next alarm fires. Alarms
    /// that jobs arm meanwhile also fire, if they are due before the end of the advance. Concurrent
    /// calls run one after the other.
    ///
    /// # Panics
    ///
    /// If the clock is real, or if a job of this driver calls `advance`.
    pub fn advance(&self, by: Duration) {
        self.shared.advance(by);
    }
}

#[cfg(all(test, loom))]
impl<A: Alarm> Driver<A> {
    /// Returns a driver with a real clock and one shard for a loom model, and the function that the
    /// model runs as the driver's thread.
    pub(crate) fn modelled(runner: impl Runner<A::Job>) -> (Self, impl FnOnce() + 'static) {
        let shared = Arc::new(Shared::with_shards(Box::new(runner), 1));
        let driver = Driver {
            shared: shared.clone(),
        };
        (driver, move || shared.drive())
    }
}

impl<A: Alarm> Drop for Driver<A> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
