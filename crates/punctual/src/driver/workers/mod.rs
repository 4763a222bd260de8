//! Worker threads: as many as needed so that no job waits behind one that blocks.
//!
//! # Ground rules
//!
//! - The driver passes jobs on and never waits for one: [`run`](Runner::run) locks the pool once
//!   and wakes one worker. A worker wakes the next if more jobs wait, up to the number of cores.
//! - Workers take jobs in order. A worker that finds many jobs takes several at once, into its
//!   *hand* ([`pool`] defines how many). If the worker gets stuck, they are taken back.
//! - The pool grows by observation, not by a fixed number: while jobs wait, the driver checks every
//!   [`STALL`]. If no worker has taken a job since the last check, all of them may be stuck, and
//!   one more is woken or started. Up to the number of cores, a waiting job is reason enough. Only
//!   one worker is added at a time; it counts as *coming* until it asks for a job.
//! - A worker without a job for [`PATIENCE`] ends. Idle workers are called last in, first out, so
//!   that surplus ones end.
//! - A panic ends the call of the work function, not the worker, and loses no other job.

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
use pool::{Pool, Seat};

/// Time without a job being taken, while jobs wait, after which a worker is added.
const STALL: Duration = Duration::from_micros(100);
/// Time that a worker waits for a job before it ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time until the next attempt after the system refused to start a thread.
const RETRY: Duration = Duration::from_millis(10);

type Work<J> = dyn Fn(&mut Jobs<'_, J>) + Send + Sync;

/// A [`Runner`] with its own threads: a job that blocks delays no other.
///
/// The first job starts a worker. While jobs wait and none is taken for 100 µs, one more worker is
/// woken or started, without a limit. If the system refuses to start a thread, that is reported
/// once on stderr, and the jobs wait for a free worker. A worker ends after 10 s without a job.
/// Passing a job on costs the driver's thread some tens of nanoseconds, plus a wake-up if a worker
/// sleeps; taking one costs about as much.
///
/// Dropping it drops the waiting jobs: none starts after `drop` has returned. Running jobs go on,
/// and `drop` does not wait for them; then the threads end.
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
/// workers.run(&mut vec![1, 2, 3]); // usually called by the driver
/// let mut squares: Vec<i32> = receiver.iter().take(3).collect();
/// squares.sort();
/// assert_eq!(squares, [1, 4, 9]);
/// ```
pub struct Workers<J: Send + 'static> {
    pool: Arc<Pool<J>>,
    work: Arc<Work<J>>,
    /// The time of the last check, if jobs waited then.
    last_check: Option<Instant>,
    /// Whether the last thread could not be started.
    refused: bool,
    reported: bool,
    /// Time after which workers count as stuck, given their number.
    stall: fn(usize) -> Duration,
}

/// The waiting jobs, which a worker takes one by one; `None` when none is left.
///
/// See the example of [`Workers`].
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
            self.pool.arrive(); // the function never asked for a job
        }
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Returns workers that call `work` when jobs wait. O(1); starts no thread yet.
    ///
    /// `work` should take jobs until there are none, and do each. It may find none, because other
    /// workers were faster. It may run on many threads at once. If it panics, the panic hook
    /// reports that, and it is called again for the remaining jobs.
    pub fn new(work: impl Fn(&mut Jobs<'_, J>) + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self::of_pool(Pool::new(cores, PATIENCE), work)
    }

    fn of_pool(pool: Pool<J>, work: impl Fn(&mut Jobs<'_, J>) + Send + Sync + 'static) -> Self {
        Workers {
            pool: Arc::new(pool),
            work: Arc::new(work),
            last_check: None,
            refused: false,
            reported: false,
            stall: |_| STALL,
        }
    }

    /// Sets the time after which workers count as stuck. `stall` returns it for the current number
    /// of workers; the default is 100 µs for any number.
    ///
    /// If jobs contend for something that only one of them can have at a time, such as an
    /// interpreter's lock, they look stuck while they wait for it. Let the time grow with the
    /// number then, or the number of workers will grow.
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

    /// Returns the number of threads, including idle ones and one that is starting. O(1).
    pub fn count(&self) -> usize {
        self.pool.workers()
    }

    /// Does what [`run`](Runner::run) does, with a clock that tests can replace.
    fn run_at(&mut self, jobs: &mut Vec<J>, now: impl FnOnce() -> Instant) {
        let (waiting, start) = self.pool.add(jobs);
        if start {
            self.start();
        }
        if !waiting {
            self.last_check = None;
            return;
        }
        let now = now();
        match self.last_check {
            None => self.last_check = Some(now),
            Some(last) if now.saturating_duration_since(last) >= self.interval() => {
                self.last_check = Some(now);
                if self.pool.look() {
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

    /// Starts a worker, which the pool already counts.
    fn start(&mut self) {
        let (pool, work) = (self.pool.clone(), self.work.clone());
        match spawn("punctual-worker", move || worker_loop(&pool, &*work)) {
            Ok(()) => self.refused = false,
            Err(error) => {
                self.pool.not_started();
                self.refused = true;
                if !self.reported {
                    self.reported = true;
                    // A failed write to stderr cannot be reported.
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

/// The body of a worker's thread.
fn worker_loop<J>(pool: &Pool<J>, work: &Work<J>) {
    let seat = Arc::new(Seat::new());
    loop {
        let mut jobs = Jobs::new(pool, &seat);
        // If `work` panics, the remaining jobs are intact, in the pool and in the hand.
        catch_panics(|| work(&mut jobs));
        drop(jobs);
        if !pool.wait(&seat) {
            return;
        }
    }
}

/// Runs a job that may panic. The panic hook reports the panic.
pub(crate) fn catch_panics(job: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        // Dropping the payload may panic as well; that payload is leaked.
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
        Some(interval.saturating_sub(self.last_check?.elapsed()))
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
