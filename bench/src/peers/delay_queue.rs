//! `tokio_util::time::DelayQueue` 0.7.20: a hierarchical wheel (6 levels of 64 slots, 1 ms ticks) of
//! linked lists over a slab, with one tokio `Sleep` that waits for the next slot.
//!
//! It rounds deadlines up to its tick and never fires early; late by less than one tick. Deadlines
//! more than 2.2 years ahead panic. Timers of one tick fire in any order. Its keys are bare slab
//! indexes: a stale key affects the timer that has that record now.
//!
//! It reads the time from tokio's timer driver, so each queue here has a current-thread runtime with
//! a paused clock. `fire` advances that clock when a new millisecond has begun (before that, no timer
//! can be due) by `tokio::time::advance` within `block_on`, which also runs the driver, because the
//! wheel only uses the driver's time. That costs some hundreds of nanoseconds and counts as part of
//! `fire`: a real program pays for the driver's turn instead. Arming or cancelling the earliest timer
//! moves the `Sleep`, which takes the driver's lock: users pay for that too.
//!
//! The next deadline comes from `peek`, which walks the first occupied slot, however full.

use std::cell::Cell;
use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::contender::Contender;

/// Length of a tick, in microseconds.
const MILLISECOND: u64 = 1_000;

thread_local! {
    /// Number of queues that this thread has created.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// Number of the queue whose runtime is the thread's current one.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The queue, its runtime and the time of its clock.
pub struct Delayed {
    // Dropped before the runtime that its `Sleep` belongs to.
    queue: DelayQueue<u64>,
    runtime: Runtime,
    epoch: Instant,
    /// Time of the runtime's clock, in milliseconds since the epoch.
    shown: u64,
    number: u64,
}

impl Delayed {
    /// Makes this queue's runtime the current one, which calls of the queue require.
    #[inline]
    fn enter(&self) {
        if CURRENT.get() != self.number {
            enter(&self.runtime, self.number);
        }
    }

    #[inline]
    fn instant(&self, at: u64) -> Instant {
        self.epoch + Duration::from_micros(at)
    }
}

#[cold]
fn enter(runtime: &Runtime, number: u64) {
    // Guards must be dropped in reverse order, which queues dropped in any order cannot guarantee, so they
    // are leaked. The next queue enters on top.
    mem::forget(runtime.enter());
    CURRENT.set(number);
}

impl Contender for Delayed {
    const NAME: &'static str = "DelayQueue";
    const TICK: u64 = MILLISECOND;
    type Handle = Key;

    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing that could be missing");
        let number = MADE.get() + 1;
        MADE.set(number);
        enter(&runtime, number);
        Delayed {
            queue: DelayQueue::new(),
            epoch: Instant::now(),
            runtime,
            shown: 0,
            number,
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Key {
        self.enter();
        let deadline = self.instant(deadline);
        self.queue.insert_at(payload, deadline)
    }

    #[inline]
    fn cancel(&mut self, handle: Key) -> bool {
        self.enter();
        self.queue.try_remove(&handle).is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Key, deadline: u64) {
        self.enter();
        let deadline = self.instant(deadline);
        self.queue.reset_at(handle, deadline);
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        self.enter();
        let millisecond = now / MILLISECOND;
        if millisecond > self.shown {
            let step = Duration::from_millis(millisecond - self.shown);
            self.shown = millisecond;
            self.runtime.block_on(advance(step));
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut fired = 0;
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            out(expired.into_inner());
            fired += 1;
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        let at = self.queue.deadline(&self.queue.peek()?);
        Some(at.duration_since(self.epoch).as_micros() as u64)
    }
}
