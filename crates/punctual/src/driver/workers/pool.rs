//! The shared state of the workers: waiting jobs and idle workers.
//!
//! There are two kinds of locks, taken in this order: the pool's, then a worker's hand. No foreign
//! code is called and no thread is woken while one is held.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use super::super::sync::{Condvar, Mutex, MutexGuard, lock, wait};

/// Maximum number of jobs that a worker takes at once, besides the one it does next. It takes at
/// most its share of the waiting jobs, so hands get smaller towards the end of a burst, and workers
/// finish at about the same time (guided self-scheduling, Polychronopoulos and Kuck, 1987).
const HAND: usize = 32;

pub(super) struct Pool<J> {
    state: Mutex<State<J>>,
    cores: usize,
    patience: Duration,
}

struct State<J> {
    queue: VecDeque<J>,
    /// Workers that wait to be called, the most recent on top.
    idle: Vec<Arc<Seat<J>>>,
    /// Workers that may have jobs in hand.
    hands: Vec<Arc<Seat<J>>>,
    /// Number of all workers, including idle and coming ones.
    workers: usize,
    /// Number of workers that were called or started and have not asked for a job yet: they wait
    /// for a processor, or for something that the function needs first, such as an interpreter's
    /// lock.
    coming: usize,
    /// Number of times that workers took from the queue, and that number at the last check.
    taken: u64,
    seen: u64,
    closed: bool,
}

/// A worker's place in the pool.
pub(super) struct Seat<J> {
    hand: Mutex<Hand<J>>,
    /// Used with the lock of the pool's state.
    called: Condvar,
}

struct Hand<J> {
    jobs: VecDeque<J>,
    /// Number of jobs taken from this hand, and that number at the last check.
    taken: u64,
    seen: u64,
    /// Whether the seat is in the pool's list of hands; changed under both locks.
    listed: bool,
}

impl<J> Seat<J> {
    pub(super) fn new() -> Self {
        Seat {
            hand: Mutex::new(Hand {
                jobs: VecDeque::new(),
                taken: 0,
                seen: 0,
                listed: false,
            }),
            called: Condvar::new(),
        }
    }

    /// Takes the next job in hand.
    #[inline]
    pub(super) fn next(&self) -> Option<J> {
        let mut hand = lock(&self.hand);
        let job = hand.jobs.pop_front()?;
        hand.taken += 1;
        Some(job)
    }
}

impl<J> State<J> {
    fn busy(&self) -> usize {
        self.workers - self.idle.len()
    }

    /// Removes the idle worker to call, if there is one and jobs wait.
    fn next_idle(&mut self) -> Option<Arc<Seat<J>>> {
        if self.queue.is_empty() {
            return None;
        }
        let seat = self.idle.pop()?;
        self.coming += 1;
        Some(seat)
    }

    /// Counts a worker that the caller is about to start.
    fn begin_start(&mut self) {
        self.workers += 1;
        self.coming += 1;
    }
}

fn call<J>(seat: Option<Arc<Seat<J>>>) {
    if let Some(seat) = seat {
        seat.called.notify_one();
    }
}

impl<J> Pool<J> {
    pub(super) fn new(cores: usize, patience: Duration) -> Self {
        Pool {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                idle: Vec::new(),
                hands: Vec::new(),
                workers: 0,
                coming: 0,
                taken: 0,
                seen: 0,
                closed: false,
            }),
            cores,
            patience,
        }
    }

    pub(super) fn workers(&self) -> usize {
        lock(&self.state).workers
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn idle(&self) -> usize {
        lock(&self.state).idle.len()
    }

    /// Adds jobs and calls a worker. Returns whether jobs wait, and whether the caller must start
    /// the first worker, which the pool already counts.
    pub(super) fn add(&self, jobs: &mut Vec<J>) -> (bool, bool) {
        let mut state = lock(&self.state);
        let waited = !state.queue.is_empty() || !state.hands.is_empty();
        state.queue.extend(jobs.drain(..));
        if !waited {
            state.seen = state.taken;
        }
        let idle = if state.coming == 0 || state.busy() < self.cores {
            state.next_idle()
        } else {
            None
        };
        let waiting = !state.queue.is_empty();
        let start = waiting && state.workers == 0;
        if start {
            state.begin_start();
        }
        let waiting = waiting || !state.hands.is_empty();
        drop(state);
        call(idle);
        (waiting, start)
    }

    /// Checks the workers' progress; called periodically while jobs wait. Takes back the jobs that
    /// stuck workers have in hand, and adds a worker if none has taken a job since the last check
    /// or fewer work than there are cores. It adds none before the last added worker has come,
    /// which may take a while on a busy machine. Returns whether the caller must start a thread for
    /// the added worker, which the pool already counts.
    pub(super) fn look(&self) -> bool {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut progress = state.taken != state.seen;
        state.seen = state.taken;
        let queue = &mut state.queue;
        state.hands.retain(|seat| {
            let mut hand = lock(&seat.hand);
            if hand.taken != hand.seen && !hand.jobs.is_empty() {
                hand.seen = hand.taken;
                progress = true;
                return true;
            }
            // The worker is stuck, or its hand is empty. These jobs have waited longest.
            while let Some(job) = hand.jobs.pop_back() {
                queue.push_front(job);
            }
            hand.listed = false;
            false
        });
        if state.coming > 0 || (progress && state.busy() >= self.cores) {
            return false;
        }
        let idle = state.next_idle();
        let start = idle.is_none() && !state.queue.is_empty();
        if start {
            state.begin_start();
        }
        drop(guard);
        call(idle);
        start
    }

    /// Uncounts the worker that could not be started.
    pub(super) fn not_started(&self) {
        let mut state = lock(&self.state);
        state.workers -= 1;
        state.coming -= 1;
    }

    /// Marks a worker as come, after it was started or its [`wait`](Self::wait) ended.
    pub(super) fn arrive(&self) {
        lock(&self.state).coming -= 1;
    }

    /// Combines [`arrive`](Self::arrive) and [`take`](Self::take), so that no check sees the worker
    /// come and its job wait.
    pub(super) fn arrive_and_take(&self, seat: &Arc<Seat<J>>) -> Option<J> {
        let mut state = lock(&self.state);
        state.coming -= 1;
        let in_hand = seat.next();
        match in_hand {
            Some(job) => Some(job),
            None => self.take_locked(seat, state),
        }
    }

    /// Takes the job that has waited longest, and fills the empty hand with more if many wait.
    pub(super) fn take(&self, seat: &Arc<Seat<J>>) -> Option<J> {
        self.take_locked(seat, lock(&self.state))
    }

    fn take_locked(&self, seat: &Arc<Seat<J>>, mut guard: MutexGuard<'_, State<J>>) -> Option<J> {
        let state = &mut *guard;
        let first = state.queue.pop_front()?;
        state.taken += 1;
        let share = (state.queue.len() / (2 * self.cores)).min(HAND);
        if share > 0 {
            let mut hand = lock(&seat.hand);
            hand.jobs.extend(state.queue.drain(..share));
            hand.seen = hand.taken;
            if !hand.listed {
                hand.listed = true;
                state.hands.push(seat.clone());
            }
        }
        let idle = if state.busy() < self.cores {
            state.next_idle()
        } else {
            None
        };
        drop(guard);
        call(idle);
        Some(first)
    }

    /// Waits until there may be a job; the worker then counts as coming. Returns false if the
    /// worker must end; it is no longer counted.
    pub(super) fn wait(&self, seat: &Arc<Seat<J>>) -> bool {
        let mut state = lock(&self.state);
        let mut called = false;
        loop {
            if !state.closed && (!state.queue.is_empty() || !lock(&seat.hand).jobs.is_empty()) {
                state.coming += usize::from(!called);
                return true;
            }
            // The worker was called but found no job.
            state.coming -= usize::from(called);
            called = false;
            if state.closed {
                state.workers -= 1;
                return false;
            }
            state.idle.push(seat.clone());
            loop {
                let timed_out;
                (state, timed_out) = wait(&seat.called, state, self.patience);
                let Some(place) = state.idle.iter().rposition(|idle| Arc::ptr_eq(idle, seat))
                else {
                    called = true;
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

    /// Drops the waiting jobs, and ends all workers after their current jobs.
    pub(super) fn close(&self) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        state.closed = true;
        let mut waiting = core::mem::take(&mut state.queue);
        for seat in state.hands.drain(..) {
            waiting.append(&mut lock(&seat.hand).jobs);
        }
        let idle = core::mem::take(&mut state.idle);
        state.coming += idle.len();
        drop(guard);
        idle.into_iter().for_each(|seat| call(Some(seat)));
        // Dropping a job may run any code, so it happens without the lock.
        drop(waiting);
    }
}
