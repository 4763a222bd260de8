//! The driver: one thread that sleeps exactly until the next deadline, and alarms that go off then.
//!
//! This is what the time API and the futures of this crate stand on, and what the runtime of another
//! language can stand on: it knows nothing of channels, wakers or callbacks. An [`Alarm`] says what it does when it
//! falls due; what may take long is a job, done by a [`Runner`] with no lock held.
//!
//! # Ground rules
//!
//! - Ticks are nanoseconds since the driver's [`origin`](Driver::origin).
//! - The queue is split into shards, each under a lock of its own, and every thread has its shard: arming does not
//!   contend. A handle knows its shard, so any thread may disarm; the locks are held for an operation of the queue
//!   or for a batch of [`Alarm::fire`]s.
//! - [`Alarm::fire`] runs under its shard's lock. So whoever was told by [`disarm`](Driver::disarm) that a timer has
//!   fired knows that its `fire` has completed.
//! - The thread is woken only by a deadline earlier than the one it sleeps for. Disarming never wakes it.
//! - Only the driver's thread and [`now`](Driver::now) read the clock. A [virtual](Driver::virtual_clock) driver has
//!   no thread: [`advance`](Driver::advance) fires, in the order of deadlines, on the thread that calls it.
//! - The thread hears no signals, so the program may block one and wait for it. Threads that a runner starts from it would
//!   inherit that; those of [`Workers`] hear what the thread that armed first did.
//!
//! The thread and the locks do not survive a `fork`: a child must make a driver of its own and leave the
//! parent's alone (`mem::forget` it).
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
pub(crate) use workers::unharmed;
pub use workers::{Jobs, Workers};

/// What a timer does when it falls due.
///
/// The [module](self) has an example.
pub trait Alarm: Send + 'static {
    /// What is left to do once the shard is unlocked: call, wake, drop.
    type Job: Send + 'static;

    /// It fell due at tick `due`; the clock shows `now`.
    ///
    /// Called with its shard locked, so it must not block, panic, or call the driver. Sending without waiting into a
    /// channel is fine. It is dropped under the lock as well, unless it moves what is dear to drop into the job.
    fn fire(&mut self, due: u64, now: u64) -> Fired<Self::Job>;

    /// It was armed, for the first time or after [`Fired::Again`], and this is its handle from now on. The same
    /// rules hold as for [`fire`](Self::fire).
    fn armed(&mut self, handle: Handle) {
        let _ = handle;
    }
}

/// What became of an alarm that fell due.
#[derive(Debug)]
pub enum Fired<J> {
    /// It is done with.
    Done,
    /// It is done with, but for this job.
    Do(J),
    /// It is armed again, for this tick, or for the next one if that lies in the past.
    Again(u64),
}

/// Does what alarms left to be done.
///
/// It runs on the driver's thread, or within [`advance`](Driver::advance) of a virtual driver, with no lock held.
/// While it runs, nothing fires: long jobs belong on threads of their own. It must not panic: nothing would
/// fire any more.
pub trait Runner<J>: Send + 'static {
    /// Does all jobs, and leaves `jobs` empty. Called with none when it asked to be called again.
    fn run(&mut self, jobs: &mut Vec<J>);

    /// Asked after every [`run`](Self::run): whether it wants to be called again after so long, even if nothing
    /// fires until then.
    fn recheck(&mut self) -> Option<Duration> {
        None
    }
}

/// Names an armed alarm of one driver.
///
/// After the alarm has fired, was disarmed, or was armed again by [`Fired::Again`] it is stale and refused for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// A [`TimerKey`] as one number: so a handle is two, and goes from function to function in registers.
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

/// Alarms, and a thread that has them go off. The [module](self) tells its rules and shows it.
///
/// Dropping it ends the thread, after the jobs that are being done; armed alarms are dropped.
#[derive(Debug)]
pub struct Driver<A: Alarm> {
    shared: Arc<Shared<A>>,
}

impl<A: Alarm> Driver<A> {
    /// A driver on the system's monotonic clock. Its thread starts when an alarm is first armed. O(cores).
    pub fn new(runner: impl Runner<A::Job>) -> Self {
        Driver {
            shared: Arc::new(Shared::real(Box::new(runner))),
        }
    }

    /// A driver whose clock stands still but for [`advance`](Self::advance). It has no thread. O(1).
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

    /// The tick the clock shows: nanoseconds since [`origin`](Self::origin). O(1).
    #[inline]
    pub fn now(&self) -> u64 {
        self.shared.now()
    }

    /// The instant of tick 0: a day before the driver was made, if the system can tell such an instant, so that those
    /// taken a while ago have ticks as well. A virtual driver's is when it was made, though its clock stands still
    /// since. O(1).
    pub fn origin(&self) -> Instant {
        self.shared.origin()
    }

    /// Whether the clock is moved by hand. O(1).
    pub fn is_virtual(&self) -> bool {
        self.shared.is_virtual()
    }

    /// The tick of `delay` from now, rounded up; `u64::MAX`, which never comes, if it is more than 584 years. O(1).
    #[inline]
    pub fn deadline_after(&self, delay: Duration) -> u64 {
        let delay = TickScale::NANOSECOND.deadline(delay);
        self.now().saturating_add(delay)
    }

    /// Arms an alarm for a tick; `u64::MAX` never comes. A tick in the past is due at once (on a virtual driver, at
    /// the next [`advance`](Self::advance), be it by nothing). O(1).
    ///
    /// # Panics
    ///
    /// If the driver's thread cannot be started, or more than 2^32 - 1 alarms are armed in one shard.
    #[inline(always)] // the alarm goes from registers into the queue
    pub fn arm(&self, deadline: u64, alarm: A) -> Handle {
        self.shared.arm(deadline, alarm)
    }

    /// Disarms an alarm and gives it back. `None` if it has fired, in which case [`Alarm::fire`] has completed, or
    /// was disarmed before. O(1).
    #[inline]
    pub fn disarm(&self, handle: Handle) -> Option<A> {
        self.shared.shard(handle)?.disarm(handle.key())
    }

    /// Arms an armed alarm for another tick, keeping its handle; `false` if the handle is stale. O(1).
    #[inline]
    pub fn rearm(&self, handle: Handle, deadline: u64) -> bool {
        self.shared.rearm(handle, deadline)
    }

    /// Has a look at an armed alarm, or changes it; `None` if the handle is stale. `f` runs under the shard's lock:
    /// it must not block or call the driver. O(1).
    #[inline]
    pub fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut A) -> R) -> Option<R> {
        self.shared.shard(handle)?.with(handle.key(), f)
    }

    /// How many alarms are armed. O(cores).
    pub fn len(&self) -> usize {
        self.shared.shards().iter().map(|shard| shard.len()).sum()
    }

    /// Whether no alarm is armed. O(cores).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The earliest deadline. O(cores).
    pub fn next_deadline(&self) -> Option<u64> {
        let shards = self.shared.shards().iter();
        shards.filter_map(|shard| shard.next_deadline()).min()
    }

    /// Moves a virtual clock, from one deadline to the next: each alarm goes off, and its job is done, at its own
    /// time, before the next one does; alarms that jobs arm meanwhile are among them. O(alarms that fall due).
    ///
    /// Two threads that do this at once do it one after the other.
    ///
    /// # Panics
    ///
    /// If the clock is real, or if a job of this very driver calls it.
    pub fn advance(&self, by: Duration) {
        self.shared.advance(by);
    }
}

#[cfg(all(test, loom))]
impl<A: Alarm> Driver<A> {
    /// A driver with a real clock and one shard, and what its thread does, for a model to run on one of loom's.
    pub(crate) fn modelled(runner: impl Runner<A::Job>) -> (Self, impl FnOnce() + 'static) {
        let shared = Arc::new(Shared::of_shards(Box::new(runner), 1));
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
