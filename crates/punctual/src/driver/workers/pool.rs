//! What workers share: the jobs that wait, and who is idle.
//!
//! Two kinds of locks, taken in this order: the pool's, then a worker's hand. Nobody calls foreign code or wakes a
//! thread while holding one.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use super::super::sync::{Condvar, Mutex, MutexGuard, lock, wait};

/// How many jobs a worker takes at once, beside the one it does next. It never takes more than its share of what
/// waits, so hands get smaller towards the end of a storm, and workers are done at about the same time (guided
/// self-scheduling, Polychronopoulos and Kuck, 1987).
const HAND: usize = 32;

pub(super) struct Pool<J> {
    state: Mutex<State<J>>,
    cores: usize,
    patience: Duration,
}

struct State<J> {
    queue: VecDeque<J>,
    /// Workers that wait to be called, the last to come on top.
    idle: Vec<Arc<Seat<J>>>,
    /// Workers that may have jobs in hand.
    hands: Vec<Arc<Seat<J>>>,
    /// All workers, with those that are idle and those that are coming.
    workers: usize,
    /// Those that were called or started and have not come for a job yet: they wait for a processor, or for
    /// something that the function wants first, such as an interpreter's lock.
    coming: usize,
    /// How often workers have taken from the queue, and that number at the last look.
    taken: u64,
    seen: u64,
    closed: bool,
}

/// A worker's place in the pool.
pub(super) struct Seat<J> {
    hand: Mutex<Hand<J>>,
    /// Belongs to the lock of the pool's state.
    called: Condvar,
}

struct Hand<J> {
    jobs: VecDeque<J>,
    /// How many jobs were done from this hand, and that number at the last look.
    taken: u64,
    seen: u64,
    /// It is in the pool's list of hands; changed under both locks.
    listed: bool,
}

/// What a look at the pool has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    /// One more thread, which is counted already.
    Start,
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

    /// The next job in hand.
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

    /// The idle worker to call, if there is one and something waits.
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

    /// Hands jobs over and calls a worker. Tells whether something waits now, and whether a first worker must be
    /// started; that one is counted already.
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
        let waits = !state.queue.is_empty();
        let start = waits && state.workers == 0;
        if start {
            state.begin_start();
        }
        let waits = waits || !state.hands.is_empty();
        drop(state);
        call(idle);
        (waits, start)
    }

    /// To be called at times while something waits: takes back what stuck workers have in hand, and puts one more to
    /// work if none has taken a job since the last look, or if there are fewer at work than cores; but not before
    /// the last one has come, which may take a while on a busy machine.
    pub(super) fn look(&self) -> Wanted {
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
            // Stuck, or empty. They waited longest.
            while let Some(job) = hand.jobs.pop_back() {
                queue.push_front(job);
            }
            hand.listed = false;
            false
        });
        if state.coming > 0 || (progress && state.busy() >= self.cores) {
            return Wanted::Nothing;
        }
        let idle = state.next_idle();
        let start = idle.is_none() && !state.queue.is_empty();
        if start {
            state.begin_start();
        }
        drop(guard);
        call(idle);
        if start {
            Wanted::Start
        } else {
            Wanted::Nothing
        }
    }

    /// The worker that was counted could not be started.
    pub(super) fn not_started(&self) {
        let mut state = lock(&self.state);
        state.workers -= 1;
        state.coming -= 1;
    }

    /// A worker that was started, or whose [`wait`](Self::wait) is over, has come for a job.
    pub(super) fn arrive(&self) {
        lock(&self.state).coming -= 1;
    }

    /// [`arrive`](Self::arrive) and take a job at once: nobody sees the worker come and its job wait.
    pub(super) fn arrive_and_take(&self, seat: &Arc<Seat<J>>) -> Option<J> {
        let mut state = lock(&self.state);
        state.coming -= 1;
        let in_hand = seat.next();
        match in_hand {
            Some(job) => Some(job),
            None => self.take_locked(seat, state),
        }
    }

    /// Takes the job that has waited longest, and perhaps more into the hand, which is empty.
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

    /// Waits until there may be a job; the worker counts as coming then. `false` if it is to end, and is no longer
    /// counted.
    pub(super) fn wait(&self, seat: &Arc<Seat<J>>) -> bool {
        let mut state = lock(&self.state);
        let mut called = false;
        loop {
            if !state.closed && (!state.queue.is_empty() || !lock(&seat.hand).jobs.is_empty()) {
                state.coming += usize::from(!called);
                return true;
            }
            // For nothing, if it was called.
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

    /// Drops the jobs that wait, and has all workers end when they are done with what they do.
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
        // What a job owns may do anything when it is dropped: not under the lock.
        drop(waiting);
    }
}
