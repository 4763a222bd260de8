//! Threads that do jobs, as many as are needed for none to wait behind one that blocks.
//!
//! # Ground rules
//!
//! - The driver hands jobs over and never waits for one: [`run`](Runner::run) locks the pool once, and wakes one worker.
//!   A worker wakes the next if more waits, up to the number of cores.
//! - Workers take jobs in the order in which they were handed over. One that finds many takes several at once
//!   ([`pool`] tells how many); should it then be stuck, they are taken from it again.
//! - The pool grows by what it sees, not by a number set beforehand: while jobs wait, the driver looks every
//!   [`STALL`]. If no worker has taken a job since the last look, those there are may all be stuck, and one more is
//!   woken or started. Up to the number of cores it is enough that something still waits. One comes at a time, and
//!   has come when it asks for a job.
//! - A worker without a job for [`PATIENCE`] ends. Idle ones are called last in, first out, so that surplus ones get to that.
//! - What panics ends the call of the function that does the jobs, not the worker, and loses no job but itself.

#[cfg(all(test, loom))]
mod model;
mod pool;
#[cfg(all(test, not(loom)))]
mod tests;

use core::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::Runner;
use super::sync::spawn;
use pool::{Pool, Seat, Wanted};

/// How long no worker takes a job that waits until another one is put to work.
const STALL: Duration = Duration::from_micros(100);
/// How long a worker waits for a job before it ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// When to try again if the system would not start a thread.
const RETRY: Duration = Duration::from_millis(10);

type Work<J> = dyn Fn(&mut Jobs<'_, J>) + Send + Sync;

/// A [`Runner`] that has the jobs done by threads of its own: a job that blocks delays no other.
///
/// The first job starts a worker. While jobs wait and none is taken for 100 µs, one more is woken or started, however
/// many there are; if the system refuses, that is reported once on stderr, and the jobs wait for a worker to get
/// free. A worker ends after 10 s without a job. Handing a job over costs the driver's thread some tens of nanoseconds,
/// and a wake-up if a worker sleeps; taking one, about as much.
///
/// Dropping it drops the jobs that wait: when `drop` has returned, none is begun any more. Those that are being done
/// go on, and nobody waits for them. Then the threads end.
///
/// The threads do not survive a `fork`.
///
/// ```
/// use std::sync::mpsc::channel;
/// use punctual::driver::{Runner, Workers};
///
/// let (sender, receiver) = channel();
/// let mut workers = Workers::new(move |jobs| {
///     for job in jobs {
///         sender.send(job * job).unwrap();
///     }
/// });
/// workers.run(&mut vec![1, 2, 3]); // the driver does this
/// let mut squares: Vec<i32> = receiver.iter().take(3).collect();
/// squares.sort();
/// assert_eq!(squares, [1, 4, 9]);
/// ```
pub struct Workers<J: Send + 'static> {
    pool: Arc<Pool<J>>,
    work: Arc<Work<J>>,
    /// When the pool was last looked at, if something waited then.
    looked: Option<Instant>,
    /// The last thread could not be started.
    refused: bool,
    reported: bool,
    /// How long to wait for a stuck worker, given how many there are.
    stall: fn(usize) -> Duration,
}

/// The jobs that wait, for a worker to take them one by one; `None` when none is left.
///
/// [`Workers`] has an example.
pub struct Jobs<'a, J> {
    pool: &'a Pool<J>,
    seat: &'a Arc<Seat<J>>,
    /// The worker counts as coming until it asks for its first job.
    arrived: bool,
}

impl<'a, J> Jobs<'a, J> {
    fn new(pool: &'a Pool<J>, seat: &'a Arc<Seat<J>>) -> Self {
        Jobs {
            pool,
            seat,
            arrived: false,
        }
    }
}

impl<J> Drop for Jobs<'_, J> {
    fn drop(&mut self) {
        if !self.arrived {
            self.pool.arrive(); // without ever having asked
        }
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Workers that call `work` when jobs wait. It should take jobs until there are none, and do each; others may
    /// be faster, so that there is none. It may run on many threads at once.
    ///
    /// If it panics, the panic hook has reported that, and it is called again for the jobs that are left.
    ///
    /// No thread is started yet. O(1).
    pub fn new(work: impl Fn(&mut Jobs<'_, J>) + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self::of_pool(Pool::new(cores, PATIENCE), work)
    }

    fn of_pool(pool: Pool<J>, work: impl Fn(&mut Jobs<'_, J>) + Send + Sync + 'static) -> Self {
        Workers {
            pool: Arc::new(pool),
            work: Arc::new(work),
            looked: None,
            refused: false,
            reported: false,
            stall: |_| STALL,
        }
    }

    /// The same workers with another idea of being stuck: `stall` tells, for as many as there are, how long none has
    /// to take a job before one more is put to work. Usually that is 100 µs, always.
    ///
    /// If jobs need something that only one of them can have at a time, an interpreter's lock for one, they look stuck
    /// while they wait for it. Let the time grow with the number then, or so will the number.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::driver::Workers;
    ///
    /// let workers: Workers<fn()> = Workers::new(|jobs| jobs.for_each(|job: fn()| job()))
    ///     .with_stall(|workers| Duration::from_micros(100) * workers as u32);
    /// # let _ = workers;
    /// ```
    pub fn with_stall(mut self, stall: fn(workers: usize) -> Duration) -> Self {
        self.stall = stall;
        self
    }

    /// How many threads there are, idle ones and one that starts included. O(1).
    pub fn count(&self) -> usize {
        self.pool.workers()
    }

    /// [`run`](Runner::run) at a time: tests pass their own.
    fn run_at(&mut self, jobs: &mut Vec<J>, now: impl FnOnce() -> Instant) {
        let (waits, start) = self.pool.add(jobs);
        if start {
            self.start();
        }
        if !waits {
            self.looked = None;
            return;
        }
        let now = now();
        match self.looked {
            None => self.looked = Some(now),
            Some(last) if now.saturating_duration_since(last) >= self.interval() => {
                self.looked = Some(now);
                if self.pool.look() == Wanted::Start {
                    self.start();
                }
            }
            Some(_) => {}
        }
    }

    fn interval(&self) -> Duration {
        if self.refused {
            RETRY
        } else {
            (self.stall)(self.count())
        }
    }

    /// The pool counts the worker already.
    fn start(&mut self) {
        let (pool, work) = (self.pool.clone(), self.work.clone());
        match spawn("punctual-worker", move || attend(&pool, &*work)) {
            Ok(()) => self.refused = false,
            Err(error) => {
                self.pool.not_started();
                self.refused = true;
                if !self.reported {
                    self.reported = true;
                    // Nothing can be done if nobody reads it.
                    let _ = writeln!(
                        std::io::stderr(),
                        "punctual: a worker thread for timers' callbacks cannot be started ({error}): \
                         callbacks wait until another one returns"
                    );
                }
            }
        }
    }
}

/// A worker's life.
fn attend<J>(pool: &Pool<J>, work: &Work<J>) {
    let seat = Arc::new(Seat::new());
    loop {
        let mut jobs = Jobs::new(pool, &seat);
        // The jobs that are left are in the pool and in the hand, whole whatever `work` was in the middle of.
        unharmed(|| work(&mut jobs));
        drop(jobs);
        if !pool.wait(&seat) {
            return;
        }
    }
}

/// Does something that may panic. The panic hook has reported it then.
pub(crate) fn unharmed(job: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        // Dropping what it carried may panic as well; then that is left alone.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            core::mem::forget(another);
        }
    }
}

impl<J: Send + 'static> Runner<J> for Workers<J> {
    fn run(&mut self, jobs: &mut Vec<J>) {
        self.run_at(jobs, Instant::now);
    }

    fn recheck(&mut self) -> Option<Duration> {
        let interval = self.interval();
        Some(interval.saturating_sub(self.looked?.elapsed()))
    }
}

impl<J> Iterator for Jobs<'_, J> {
    type Item = J;

    /// Takes the next job. O(1).
    #[inline]
    fn next(&mut self) -> Option<J> {
        if !self.arrived {
            self.arrived = true;
            return self.pool.arrive_and_take(self.seat);
        }
        self.seat.next().or_else(|| self.pool.take(self.seat))
    }
}

impl<J: Send + 'static> Drop for Workers<J> {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl<J: Send + 'static> fmt::Debug for Workers<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl<J> fmt::Debug for Jobs<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
