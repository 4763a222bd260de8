//! Which timers are due, and when the next one is.

use super::{TimerWheel, WheelTimer, tell, to_key};
use crate::Status;
use crate::boundary::guarded;
use punctual::{DeadlineQueue, Expired, Polled};
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

/// Takes out the first timer that is due at `now`, which is one with a deadline at or before it. `now` may
/// stand still or step back. `*expired` becomes the timer; `expired` may be NULL. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (then `*expired` stays), PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_pop_due(
    wheel: Option<&mut TimerWheel>,
    now: u64,
    expired: Option<&mut MaybeUninit<WheelTimer>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        let due = wheel.queue.pop_due(now).map(WheelTimer::from);
        tell(due, expired, Status::Idle)
    })
}

/// Takes out up to `capacity` timers that are due at `now`, in order, into the array `expired`: one call
/// for many. Fewer than `capacity` means that no more are due. O(1) amortised for each.
///
/// Returns how many; 0 if `wheel` or `expired` is NULL.
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

/// punctual_wheel_pop_due with bounded work: every timer popped takes 1 from `*budget`, and so does every entry
/// that the wheel moves or drops meanwhile. A million timers due in one tick are popped over as many
/// calls as the caller has other things to do in between. O(*budget).
///
/// Returns PUNCTUAL_OK (a timer: `*expired`, if not NULL), PUNCTUAL_IDLE (nothing is due),
/// PUNCTUAL_BUSY (the budget is used up; there may be more), or PUNCTUAL_NULL if `wheel` or `budget` is.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_poll(
    wheel: Option<&mut TimerWheel>,
    now: u64,
    budget: Option<&mut usize>,
    expired: Option<&mut MaybeUninit<WheelTimer>>,
) -> Status {
    let (Some(wheel), Some(budget)) = (wheel, budget) else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        match wheel.queue.poll_due(now, budget) {
            Polled::Due(due) => tell(Some(due.into()), expired, Status::Idle),
            Polled::Busy => Status::Busy,
            Polled::Idle => Status::Idle,
        }
    })
}

/// `*deadline` becomes the earliest deadline; it may be NULL. It may put timers in order, which is work
/// done early, not work added. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (then `*deadline` stays), PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_deadline(
    wheel: Option<&mut TimerWheel>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        tell(wheel.queue.next_deadline(), deadline, Status::Idle)
    })
}

/// `*tick` becomes a lower bound of all deadlines; it may be NULL. After punctual_wheel_pop_due(wheel, now) has
/// answered PUNCTUAL_IDLE it lies after `now`, so a loop that sleeps until then and pops makes progress. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (then `*tick` stays), PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_next_wakeup(
    wheel: Option<&TimerWheel>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        tell(wheel.queue.next_wakeup(), tick, Status::Idle)
    })
}
