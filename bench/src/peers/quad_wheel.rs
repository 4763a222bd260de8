//! The crate `hierarchical_hash_wheel_timer` 1.4: four wheels of 256 slots and an overflow list.
//!
//! This is its cancellable wheel, with its default hasher (FxHash). Each timer is an `Rc` in a hash table;
//! the slots hold `Weak`s. Cancelling only removes the timer from the table: the `Weak`, and with it the
//! allocation, stays until the clock reaches its slot, so the memory of cancelled timers is unbounded
//! while time stands still. Ticks are milliseconds. It takes delays instead of deadlines and refuses a
//! delay of zero, so timers that are already due wait in a list of the adapter.
//!
//! The deadline is rounded up, so it never fires early; late by less than one tick. A call of `tick`
//! advances by one millisecond and allocates when a timer fires; `can_skip` skips empty wheels. Timers of
//! one tick fire in any order. It has no next deadline, only the number of ticks that may be skipped.
//! Identifiers are never reused, so stale handles are refused.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::TimerError;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};

use crate::contender::Contender;

/// Length of a tick, in microseconds.
const MILLISECOND: u64 = 1_000;

/// A timer as the wheel's entry.
#[derive(Debug)]
struct Timer {
    number: u64,
    payload: u64,
}

impl CancellableTimerEntry for Timer {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.number
    }
}

/// The timer's number, and its payload for re-arming.
#[derive(Clone, Copy)]
pub struct Handle {
    number: u64,
    payload: u64,
}

/// The wheel and its time.
pub struct QuadWheel {
    wheel: QuadWheelWithOverflow<Timer>,
    /// Time of the wheel, in milliseconds.
    time: u64,
    armed: u64,
    /// Timers that were already due when they were armed.
    due: Vec<Rc<Timer>>,
}

impl QuadWheel {
    #[inline]
    fn file(&mut self, timer: Timer, deadline: u64) {
        let delay = deadline.div_ceil(MILLISECOND).saturating_sub(self.time);
        let delay = Duration::from_millis(delay);
        if let Err(TimerError::Expired(timer)) =
            self.wheel.insert_ref_with_delay(Rc::new(timer), delay)
        {
            self.due.push(timer);
        }
    }
}

impl Contender for QuadWheel {
    const NAME: &'static str = "hash wheel timer";
    const TICK: u64 = MILLISECOND;
    const EXACT_NEXT: bool = false;
    const REFUSES_STALE: bool = true;
    // Its memory of cancelled timers would fill a small machine.
    const MAX_TIMERS: usize = 1_000_000;
    type Handle = Handle;

    fn new() -> Self {
        QuadWheel {
            wheel: QuadWheelWithOverflow::new(),
            time: 0,
            armed: 0,
            due: Vec::new(),
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Handle {
        let number = self.armed;
        self.armed += 1;
        self.file(Timer { number, payload }, deadline);
        Handle { number, payload }
    }

    #[inline]
    fn cancel(&mut self, handle: Handle) -> bool {
        if self.wheel.cancel(&handle.number).is_ok() {
            return true;
        }
        let due = self.due.iter().position(|t| t.number == handle.number);
        due.map(|at| self.due.swap_remove(at)).is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Handle, deadline: u64) {
        if self.cancel(*handle) {
            *handle = self.arm(deadline, handle.payload);
        }
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = self.due.len();
        for timer in self.due.drain(..) {
            out(timer.payload);
        }
        let end = now / MILLISECOND;
        while self.time < end {
            let left = end - self.time;
            let skip = match self.wheel.can_skip() {
                Skip::None => 0,
                Skip::Millis(most) => left.min(u64::from(most)),
                Skip::Empty => left.min(u64::from(u32::MAX)),
            };
            if skip > 0 {
                self.wheel.skip(skip as u32);
                self.time += skip;
                continue;
            }
            self.time += 1;
            for timer in self.wheel.tick() {
                out(timer.payload);
                fired += 1;
            }
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.time * MILLISECOND);
        }
        let ahead = match self.wheel.can_skip() {
            Skip::None => 1,
            Skip::Millis(most) => u64::from(most) + 1,
            Skip::Empty => return None,
        };
        Some((self.time + ahead) * MILLISECOND)
    }
}
