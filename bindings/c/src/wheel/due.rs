//! Pops due timers of a wheel, and finds its next deadline.

use super::{Wheel, WheelTimer, store_result, to_key};
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

/// Removes the first timer that is due at `now`, which means that its deadline is at or before
/// `now`, and writes it to `*expired`; `expired` may be NULL. `now` may stand still or go back
/// between calls. O(1) amortised.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is due (`*expired` is unchanged), or
/// PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_pop_due(
    wheel: Option<&mut Wheel>,
    now: u64,
    expired: Option<&mut MaybeUninit<WheelTimer>>,
) -> Status {
    on(wheel, |wheel| {
        let due = wheel.queue.pop_due(now).map(WheelTimer::from);
        store_result(due, expired, Status::Idle)
    })
}

/// Removes up to `capacity` timers that are due at `now`, and writes them to the array `expired`,
/// in order. If it returns less than `capacity`, no more timers are due. O(1) amortised for each
/// timer.
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
    wheel: Option<&mut Wheel>,
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
            // SAFETY: the array is not NULL and has room for `capacity` timers, and `count` is less
            // than `capacity`.
            unsafe { expired.add(count).write(timer.into()) };
            count += 1;
        }
    });
    count
}

/// Pops like punctual_wheel_pop_due, with bounded work: every popped timer, and every entry that
/// the wheel moves or drops meanwhile, takes 1 from `*budget`. So an event loop can do other work
/// while it pops a million timers that are due at the same tick. O(*budget), except for a rare
/// call that packs the entries of a wheel with little memory in use: O(n).
///
/// Returns PUNCTUAL_OK (a timer was popped and written to `*expired`, if not NULL), PUNCTUAL_IDLE
/// (no timer is due), PUNCTUAL_BUSY (the budget is used up; more timers may be due), or
/// PUNCTUAL_NULL if `wheel` or `budget` is NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_poll(
    wheel: Option<&mut Wheel>,
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

/// Writes the earliest deadline to `*deadline`; `deadline` may be NULL. The call may sort timers,
/// which saves the work in later calls. O(1) amortised.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is armed (`*deadline` is unchanged), or
/// PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_deadline(
    wheel: Option<&mut Wheel>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.next_deadline(), deadline, Status::Idle)
    })
}

/// Writes a lower bound of all deadlines to `*tick`; `tick` may be NULL. After
/// punctual_wheel_pop_due(wheel, now) has returned PUNCTUAL_IDLE, the bound is later than `now`, so
/// a loop that sleeps until the bound and then pops makes progress. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is armed (`*tick` is unchanged), or
/// PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_wakeup(
    wheel: Option<&Wheel>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.next_wakeup(), tick, Status::Idle)
    })
}
