//! `tokio_util::time::DelayQueue` 0.7.20: a hierarchical wheel (6 levels of 64 slots, 1 ms ticks)
//! of linked lists over a slab, with one tokio `Sleep` that waits for the next slot.
//!
//! The queue rounds deadlines up to its tick: timers never fire early, and are late by less than
//! one tick. Timers of one tick fire in any order. Its keys are plain slab indexes: a stale key
//! affects the timer that has the same record now. The next deadline comes from `peek`, which
//! visits all timers in the first occupied slot.
//!
//! The queue reads the time from tokio's timer driver, so each queue here has its own
//! current-thread runtime with a paused clock. When a new millisecond has begun, `fire` advances
//! this clock within `block_on`, which also runs the driver. This takes some hundreds of
//! nanoseconds and counts as part of `fire`; in a real program, the driver runs instead.

use std::cell::Cell;
use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::contender::Contender;

const MILLISECOND: u64 = 1_000;

thread_local! {
    /// Number of queues that this thread has created.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// Number of the queue whose runtime is the thread's current one.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

pub struct Delayed {
    // Dropped before `runtime`, to which the queue's `Sleep` belongs.
    queue: DelayQueue<u64>,
    runtime: Runtime,
    epoch: Instant,
    /// Time of the runtime's clock, in milliseconds since the epoch.
    shown: u64,
    number: u64,
}

impl Default for Delayed {
    fn default() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O can always be built");
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
}

impl Delayed {
    /// Makes this queue's runtime the current one, which the methods of the queue require. Returns
    /// the instant of the time `at`.
    fn instant(&self, at: u64) -> Instant {
        if CURRENT.get() != self.number {
            enter(&self.runtime, self.number);
        }
        self.epoch + Duration::from_micros(at)
    }
}

#[cold]
fn enter(runtime: &Runtime, number: u64) {
    // The guards of `enter` must be dropped in reverse order, but queues are dropped in any order.
    // So the guards are leaked, and the next queue enters its own runtime.
    mem::forget(runtime.enter());
    CURRENT.set(number);
}

impl Contender for Delayed {
    const NAME: &'static str = "DelayQueue";
    const TICK: u64 = MILLISECOND;
    type Handle = Key;

    fn arm(&mut self, deadline: u64, payload: u64) -> Key {
        let deadline = self.instant(deadline);
        self.queue.insert_at(payload, deadline)
    }

    fn cancel(&mut self, handle: Key) -> bool {
        self.instant(0);
        self.queue.try_remove(&handle).is_some()
    }

    fn rearm(&mut self, handle: &mut Key, deadline: u64) {
        let deadline = self.instant(deadline);
        self.queue.reset_at(handle, deadline);
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        self.instant(0);
        let millisecond = now / MILLISECOND;
        if millisecond > self.shown {
            let step = Duration::from_millis(millisecond - self.shown);
            self.shown = millisecond;
            self.runtime.block_on(advance(step));
        }
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            out(expired.into_inner());
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let at = self.queue.deadline(&self.queue.peek()?);
        Some(at.duration_since(self.epoch).as_micros() as u64)
    }
}
