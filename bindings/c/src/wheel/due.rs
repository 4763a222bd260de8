//! Due timers, and the next deadline.

use super::{TimerWheel, WheelTimer, store_result, to_key};
use crate::Status;
use crate::boundary::{guarded, on};
use punctual::{Expired, Polled};
use std::ffi::c_void;
use std::mem::MaybeUninit;

impl From<Expired<*mut c_void>> for WheelTimer {
    #[inline]
    fn from(expired: Expired<*mut c_void>) -> Self {
        WheelTimer {
            key: to_key(expired.key),
            deadline: expired.deadline,
            value: expired.value,
        }
    }
}

/// Removes the first timer that is due at `now`, with a deadline at or before it. `now` may stand
/// still or go back. `*expired` receives the timer; `expired` may be NULL. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (`*expired` is unchanged),
/// PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_pop_due(
    wheel: Option<&mut TimerWheel>,
    now: u64,
    expired: Option<&mut MaybeUninit<WheelTimer>>,
) -> Status {
    on(wheel, |wheel| {
        let due = wheel.queue.pop_due(now).map(WheelTimer::from);
        store_result(due, expired, Status::Idle)
    })
}

/// Moves up to `capacity` timers that are due at `now`, in order, into the array `expired`. Fewer
/// than `capacity` means that no more are due. O(1) amortised for each.
///
/// Returns the number of timers; 0 if `wheel` or `expired` is NULL.
///
/// Threads: one at a time.
///
/// # Safety
///
/// `expired` is NULL or has room for `capacity` timers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_wheel_pop_due_many(
    wheel: Option<&mut TimerWheel>,
    now: u64,
    expired: *mut WheelTimer,
    capacity: usize,
) -> usize {
    let Some(wheel) = wheel else {
        return 0;
    };
    let mut count = 0;
    guarded((), || {
        while count < capacity && !expired.is_null() {
            let Some(timer) = wheel.queue.pop_due(now) else {
                return;
            };
            // SAFETY: the array is not NULL, has room for `capacity` timers, and `count` is less.
            unsafe { expired.add(count).write(timer.into()) };
            count += 1;
        }
    });
    count
}

/// Same as punctual_wheel_pop_due with bounded work: every timer popped, and every entry that the
/// wheel moves or drops meanwhile, takes 1 from `*budget`. So a loop can interleave other work with
/// a million timers due at one tick. O(*budget).
///
/// Returns PUNCTUAL_OK (a timer: `*expired`, if not NULL), PUNCTUAL_IDLE (nothing is due),
/// PUNCTUAL_BUSY (the budget is exhausted; more may be due), or PUNCTUAL_NULL if `wheel` or
/// `budget` is NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_poll(
    wheel: Option<&mut TimerWheel>,
    now: u64,
    budget: Option<&mut usize>,
    expired: Option<&mut MaybeUninit<WheelTimer>>,
) -> Status {
    on(wheel.zip(budget), |(wheel, budget)| {
        match wheel.queue.poll_due(now, budget) {
            Polled::Due(due) => store_result(Some(due.into()), expired, Status::Idle),
            Polled::Busy => Status::Busy,
            Polled::Idle => Status::Idle,
        }
    })
}

/// `*deadline` receives the earliest deadline; `deadline` may be NULL. The call may sort timers,
/// which only moves later work forward. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (`*deadline` is unchanged),
/// PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_deadline(
    wheel: Option<&mut TimerWheel>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.next_deadline(), deadline, Status::Idle)
    })
}

/// `*tick` receives a lower bound of all deadlines; `tick` may be NULL. After
/// punctual_wheel_pop_due(wheel, now) has returned PUNCTUAL_IDLE the bound lies after `now`, so a
/// loop that sleeps until then and pops makes progress. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (`*tick` is unchanged),
/// PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_wakeup(
    wheel: Option<&TimerWheel>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.next_wakeup(), tick, Status::Idle)
    })
}
