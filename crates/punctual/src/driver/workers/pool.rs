//! The state that the workers share: waiting jobs and idle workers.
//!
//! There are two kinds of locks: the pool's, and one for each worker's local queue. A thread that
//! takes both takes the pool's first. While a thread holds a lock, it calls no code of the program
//! and wakes no thread.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use super::super::sync::{Condvar, Mutex, MutexGuard, lock, wait};

/// Maximum number of jobs that a worker takes into its local queue at once, besides the job that it
/// does next. It takes at most its share of the waiting jobs, so the shares get smaller towards the
/// end of a burst, and workers finish at about the same time (guided self-scheduling,
/// Polychronopoulos and Kuck, 1987).
const LOCAL_MAX: usize = 32;

pub(super) struct Pool<J> {
    state: Mutex<State<J>>,
    cores: usize,
    idle_limit: Duration,
}

struct State<J> {
    queue: VecDeque<J>,
    /// Workers that wait for a wake-up. The worker that became idle last is at the end.
    idle: Vec<Arc<Worker<J>>>,
    /// Workers that may have jobs in their local queues.
    with_local_jobs: Vec<Arc<Worker<J>>>,
    /// Number of all workers, including idle and starting workers.
    workers: usize,
    /// Number of workers that were woken or started and have not asked for a job yet. They wait for
    /// a processor, or for a resource that the work function needs first, such as an interpreter's
    /// lock.
    starting: usize,
    /// Number of times that workers took jobs from the queue, and this number at the last check.
    taken: u64,
    taken_at_check: u64,
    closed: bool,
}

/// A worker's local queue, and the condition variable that wakes it.
pub(super) struct Worker<J> {
    local: Mutex<LocalQueue<J>>,
    /// The worker waits on this condition variable with the pool's lock.
    wakeup: Condvar,
}

struct LocalQueue<J> {
    jobs: VecDeque<J>,
    /// Number of jobs taken from this local queue, and this number at the last check.
    taken: u64,
    taken_at_check: u64,
    /// Whether the worker is in `State::with_local_jobs`. Changed only under both locks.
    is_listed: bool,
}

impl<J> Worker<J> {
    pub(super) fn new() -> Self {
        Worker {
            local: Mutex::new(LocalQueue {
                jobs: VecDeque::new(),
                taken: 0,
                taken_at_check: 0,
                is_listed: false,
            }),
            wakeup: Condvar::new(),
        }
    }

    /// Takes the next job of the local queue.
    #[inline]
    pub(super) fn next(&self) -> Option<J> {
        let mut local = lock(&self.local);
        let job = local.jobs.pop_front()?;
        local.taken += 1;
        Some(job)
    }
}

impl<J> State<J> {
    fn busy(&self) -> usize {
        self.workers - self.idle.len()
    }

    /// If jobs wait, removes an idle worker, counts it as starting and returns it. The caller must
    /// wake it.
    fn next_idle(&mut self) -> Option<Arc<Worker<J>>> {
        if self.queue.is_empty() {
            return None;
        }
        let worker = self.idle.pop()?;
        self.starting += 1;
        Some(worker)
    }

    /// Counts a worker that the caller is about to start.
    fn count_new_worker(&mut self) {
        self.workers += 1;
        self.starting += 1;
    }
}

fn wake<J>(worker: Option<Arc<Worker<J>>>) {
    if let Some(worker) = worker {
        worker.wakeup.notify_one();
    }
}

impl<J> Pool<J> {
    pub(super) fn new(cores: usize, idle_limit: Duration) -> Self {
        Pool {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                idle: Vec::new(),
                with_local_jobs: Vec::new(),
                workers: 0,
                starting: 0,
                taken: 0,
                taken_at_check: 0,
                closed: false,
            }),
            cores,
            idle_limit,
        }
    }

    pub(super) fn workers(&self) -> usize {
        lock(&self.state).workers
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn idle(&self) -> usize {
        lock(&self.state).idle.len()
    }

    /// Adds jobs and wakes a worker. Returns whether jobs wait, and whether the caller must start
    /// the first worker, which the pool counts already.
    pub(super) fn add(&self, jobs: &mut Vec<J>) -> (bool, bool) {
        let mut state = lock(&self.state);
        let waited = !state.queue.is_empty() || !state.with_local_jobs.is_empty();
        state.queue.extend(jobs.drain(..));
        if !waited {
            state.taken_at_check = state.taken;
        }
        let idle = if state.starting == 0 || state.busy() < self.cores {
            state.next_idle()
        } else {
            None
        };
        let waiting = !state.queue.is_empty();
        let start = waiting && state.workers == 0;
        if start {
            state.count_new_worker();
        }
        let waiting = waiting || !state.with_local_jobs.is_empty();
        drop(state);
        wake(idle);
        (waiting, start)
    }

    /// Checks the workers' progress. The driver calls this periodically while jobs wait.
    ///
    /// Takes back the jobs in the local queues of stuck workers. Adds a worker if no worker has
    /// taken a job since the last check, or if fewer workers than cores are busy, but not while a
    /// worker is still starting. Returns whether the caller must start a thread for the added
    /// worker, which the pool counts already.
    pub(super) fn check_progress(&self) -> bool {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut progress = state.taken != state.taken_at_check;
        state.taken_at_check = state.taken;
        let queue = &mut state.queue;
        state.with_local_jobs.retain(|worker| {
            let mut local = lock(&worker.local);
            if local.taken != local.taken_at_check && !local.jobs.is_empty() {
                local.taken_at_check = local.taken;
                progress = true;
                return true;
            }
            // The worker is stuck, or its local queue is empty. Its jobs go to the front of the
            // pool's queue, because they have waited longest.
            while let Some(job) = local.jobs.pop_back() {
                queue.push_front(job);
            }
            local.is_listed = false;
            false
        });
        if state.starting > 0 || (progress && state.busy() >= self.cores) {
            return false;
        }
        let idle = state.next_idle();
        let start = idle.is_none() && !state.queue.is_empty();
        if start {
            state.count_new_worker();
        }
        drop(guard);
        wake(idle);
        start
    }

    /// Stops counting a worker whose thread could not be started.
    pub(super) fn not_started(&self) {
        let mut state = lock(&self.state);
        state.workers -= 1;
        state.starting -= 1;
    }

    /// Stops counting the calling worker as starting.
    pub(super) fn mark_started(&self) {
        lock(&self.state).starting -= 1;
    }

    /// Combines [`mark_started`](Self::mark_started) and [`take`](Self::take) under one lock. So no
    /// check finds the worker started while its first job still waits.
    pub(super) fn mark_started_and_take(&self, worker: &Arc<Worker<J>>) -> Option<J> {
        let mut state = lock(&self.state);
        state.starting -= 1;
        let local_job = worker.next();
        match local_job {
            Some(job) => Some(job),
            None => self.take_locked(worker, state),
        }
    }

    /// Takes the job that has waited longest, and moves more jobs to the worker's empty local queue
    /// if many jobs wait.
    pub(super) fn take(&self, worker: &Arc<Worker<J>>) -> Option<J> {
        self.take_locked(worker, lock(&self.state))
    }

    fn take_locked(
        &self,
        worker: &Arc<Worker<J>>,
        mut guard: MutexGuard<'_, State<J>>,
    ) -> Option<J> {
        let state = &mut *guard;
        let first = state.queue.pop_front()?;
        state.taken += 1;
        let share = (state.queue.len() / (2 * self.cores)).min(LOCAL_MAX);
        if share > 0 {
            let mut local = lock(&worker.local);
            local.jobs.extend(state.queue.drain(..share));
            local.taken_at_check = local.taken;
            if !local.is_listed {
                local.is_listed = true;
                state.with_local_jobs.push(worker.clone());
            }
        }
        let idle = if state.busy() < self.cores {
            state.next_idle()
        } else {
            None
        };
        drop(guard);
        wake(idle);
        Some(first)
    }

    /// Waits until there may be a job, and returns true; the worker then counts as starting.
    /// Returns false if the worker must end; the pool then no longer counts it.
    pub(super) fn wait(&self, worker: &Arc<Worker<J>>) -> bool {
        let mut state = lock(&self.state);
        let mut was_woken = false;
        loop {
            if !state.closed && (!state.queue.is_empty() || !lock(&worker.local).jobs.is_empty()) {
                state.starting += usize::from(!was_woken);
                return true;
            }
            // The worker was woken but found no job.
            state.starting -= usize::from(was_woken);
            was_woken = false;
            if state.closed {
                state.workers -= 1;
                return false;
            }
            state.idle.push(worker.clone());
            loop {
                let timed_out;
                (state, timed_out) = wait(&worker.wakeup, state, self.idle_limit);
                let Some(place) = state
                    .idle
                    .iter()
                    .rposition(|idle| Arc::ptr_eq(idle, worker))
                else {
                    was_woken = true;
                    break;
                };
                if timed_out {
                    state.idle.remove(place);
                    if state.queue.is_empty() {
                        state.workers -= 1;
                        return false;
                    }
                    break;
                }
            }
        }
    }

    /// Drops the waiting jobs, and ends all workers after their running jobs.
    pub(super) fn close(&self) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.closed = true;
        let mut waiting = core::mem::take(&mut state.queue);
        for worker in state.with_local_jobs.drain(..) {
            waiting.append(&mut lock(&worker.local).jobs);
        }
        let idle = core::mem::take(&mut state.idle);
        state.starting += idle.len();
        drop(guard);
        idle.into_iter().for_each(|worker| wake(Some(worker)));
        // Dropping a job may run any code, so no lock is held.
        drop(waiting);
    }
}
