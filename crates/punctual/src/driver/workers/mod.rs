//! Worker threads, as many as needed so that no job waits for a job that blocks.
//!
//! # Ground rules
//!
//! - The driver hands jobs to the pool and never waits for a job: [`run`](Runner::run) locks the
//!   pool once and wakes one worker. A worker wakes the next worker if more jobs wait, up to the
//!   number of cores.
//! - Workers take jobs in order. A worker that finds many jobs takes several at once, into its
//!   *local queue* ([`pool`] defines how many). If the worker gets stuck, the pool takes these jobs
//!   back.
//! - The pool has no maximum size. While jobs wait, the driver checks the workers every [`STALL`].
//!   If no worker has taken a job since the last check, all workers may be stuck, and the check
//!   wakes or starts one more. With fewer busy workers than cores, it does so for any waiting job.
//!   It adds only one worker at a time: a worker that was woken or started counts as *starting*
//!   until it asks for a job.
//! - A worker without a job for [`IDLE_LIMIT`] ends. Idle workers are woken last in, first out, so
//!   that surplus workers end.
//! - A panic ends the call of the work function, not the worker, and no other job is lost.

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
use pool::{Pool, Worker};

/// Time after which a worker is added, if jobs wait and no worker takes a job.
const STALL: Duration = Duration::from_micros(100);
/// Time that a worker waits for a job before it ends.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// Time until the next attempt after the system refused to start a thread.
const RETRY: Duration = Duration::from_millis(10);

type Work<J> = dyn Fn(&mut Jobs<'_, J>) + Send + Sync;

/// A [`Runner`] with its own threads: a job that blocks delays no other job.
///
/// The first job starts a worker. Whenever jobs wait and no worker takes one for 100 µs, one more
/// worker is woken or started, without a limit. If the system refuses to start a thread, a message
/// on stderr reports that once, and the jobs wait for a free worker. A worker ends after 10 s
/// without a job. To hand over a job costs the driver's thread some tens of nanoseconds, plus a
/// wake-up if a worker sleeps. To take a job costs a worker about as much.
///
/// Dropping the workers drops the waiting jobs: no job starts after `drop` has returned. `drop`
/// does not wait for running jobs; the threads end after them.
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
    /// Time of the last check, or `None` if no jobs waited at the last call.
    last_check: Option<Instant>,
    /// Whether the system refused to start the last thread.
    refused: bool,
    reported: bool,
    /// Returns the time after which workers count as stuck, given the number of workers.
    stall: fn(usize) -> Duration,
}

/// An iterator over the waiting jobs, from which a worker takes one job at a time. It ends when no
/// job waits.
///
/// See the example of [`Workers`].
pub struct Jobs<'a, J> {
    pool: &'a Pool<J>,
    worker: &'a Arc<Worker<J>>,
    /// False until the worker asks for its first job; until then it counts as starting.
    has_started: bool,
}

impl<'a, J> Jobs<'a, J> {
    fn new(pool: &'a Pool<J>, worker: &'a Arc<Worker<J>>) -> Self {
        Jobs {
            pool,
            worker,
            has_started: false,
        }
    }
}

impl<J> Drop for Jobs<'_, J> {
    fn drop(&mut self) {
        if !self.has_started {
            self.pool.mark_started(); // the function never asked for a job
        }
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Returns workers that call `work` when jobs wait. O(1); starts no thread yet.
    ///
    /// `work` should take and do jobs until the iterator ends. It may find no job, because other
    /// workers were faster. It may run on many threads at once. If it panics, the panic hook
    /// reports that, and the worker calls it again for the remaining jobs.
    pub fn new(work: impl Fn(&mut Jobs<'_, J>) + Send + Sync + 'static) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self::of_pool(Pool::new(cores, IDLE_LIMIT), work)
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

    /// Sets the time after which workers count as stuck. `stall` returns that time for a number of
    /// workers; the default is 100 µs for any number.
    ///
    /// If jobs contend for a resource that only one job can have at a time, such as an
    /// interpreter's lock, workers look stuck while they wait. Then let the time grow with
    /// the number of workers, or the pool grows without need.
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

    /// Returns the number of workers, including idle workers and a worker that is starting. O(1).
    pub fn count(&self) -> usize {
        self.pool.workers()
    }

    /// Hands over jobs like [`run`](Runner::run), with a clock that tests can replace.
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
                if self.pool.check_progress() {
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
                         callbacks wait until a running callback returns"
                    );
                }
            }
        }
    }
}

/// The body of a worker's thread.
fn worker_loop<J>(pool: &Pool<J>, work: &Work<J>) {
    let worker = Arc::new(Worker::new());
    loop {
        let mut jobs = Jobs::new(pool, &worker);
        // If `work` panics, the remaining jobs are intact, in the pool and in the local queue.
        catch_panics(|| work(&mut jobs));
        drop(jobs);
        if !pool.wait(&worker) {
            return;
        }
    }
}

/// Runs a job that may panic, and catches the panic. The panic hook reports it.
pub(crate) fn catch_panics(job: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        // Dropping the payload may panic too. The second payload is leaked, because its drop may
        // also panic.
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
        if !self.has_started {
            self.has_started = true;
            return self.pool.mark_started_and_take(self.worker);
        }
        self.worker.next().or_else(|| self.pool.take(self.worker))
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
