//! `punctual_wheel`: the wheel that keeps its timers, for values of the size of a pointer.

use crate::Status;
use crate::boundary::guarded;
use punctual::{DeadlineQueue, Polled, TimerKey, Wheel};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A timer of a wheel, for as long as it is armed. Once it has fired or was removed its key is refused
/// for good, even when another timer has taken its place. PUNCTUAL_NO_KEY is no timer's.
/// PUNCTUAL_KEY_INDEX makes a small number of it.
pub type Key = u64;

/// The key of no timer.
pub const NO_KEY: u64 = 0;

/// A hierarchical timing wheel: timers are armed, cancelled and re-armed in O(1) and popped in exact
/// order, equal deadlines in the order in which they were armed. A deadline is a number of ticks of any
/// length, over all of uint64_t; the wheel reads no clock.
///
/// A timer takes 40 bytes. An empty wheel takes three quarters of a kilobyte; memory is given back when timers
/// go.
pub struct TimerWheel {
    queue: Wheel<*mut c_void>,
}

/// A timer of a punctual_wheel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WheelTimer {
    /// Its key; of a timer that was popped, the one it had.
    pub key: Key,
    /// The tick it is due at, or was: it may lie well before the tick it was popped at.
    pub deadline: u64,
    /// The value it was armed with.
    pub value: *mut c_void,
}

/// The first record's first handle is 0, which C wants for "none".
#[inline]
fn to_key(key: TimerKey) -> Key {
    key.to_bits() + 1
}

/// Of `NO_KEY`: a handle with an index that no record has.
#[inline]
fn from_key(key: Key) -> TimerKey {
    TimerKey::from_bits(key.wrapping_sub(1))
}

impl TimerWheel {
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<WheelTimer> {
        let expired = self.queue.pop_due(now)?;
        Some(WheelTimer {
            key: to_key(expired.key),
            deadline: expired.deadline,
            value: expired.value,
        })
    }
}

/// Writes what there is where the caller wants it, if anywhere.
#[inline]
fn tell<T>(found: Option<T>, out: Option<&mut MaybeUninit<T>>, otherwise: Status) -> Status {
    let Some(found) = found else {
        return otherwise;
    };
    if let Some(out) = out {
        out.write(found);
    }
    Status::Ok
}

/// A new empty wheel; give it back with punctual_wheel_free. Never NULL. O(1).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_new() -> Option<Box<TimerWheel>> {
    Some(Box::new(TimerWheel {
        queue: Wheel::new(),
    }))
}

/// Frees a wheel and forgets its timers. What their values point to is the caller's: pop or list them
/// before. NULL is allowed. O(memory).
///
/// Threads: one at a time, and nobody uses the wheel afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_free(wheel: Option<Box<TimerWheel>>) {
    guarded((), || drop(wheel));
}

/// Arms a timer that falls due at `deadline` and carries `value`, which may be anything, NULL too. O(1).
///
/// Returns its key; PUNCTUAL_NO_KEY if `wheel` is NULL or would hold more than 2^32 - 1 timers.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_insert(
    wheel: Option<&mut TimerWheel>,
    deadline: u64,
    value: *mut c_void,
) -> Key {
    let Some(wheel) = wheel else {
        return NO_KEY;
    };
    guarded(NO_KEY, || to_key(wheel.queue.insert(deadline, value)))
}

/// Cancels a timer. `*value` becomes its value; `value` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*value` stays), PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_remove(
    wheel: Option<&mut TimerWheel>,
    key: Key,
    value: Option<&mut MaybeUninit<*mut c_void>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        tell(wheel.queue.remove(from_key(key)), value, Status::Stale)
    })
}

/// Arms a timer anew, earlier or later; its key stays good. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE, PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_reset(
    wheel: Option<&mut TimerWheel>,
    key: Key,
    deadline: u64,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        if wheel.queue.reset(from_key(key), deadline) {
            Status::Ok
        } else {
            Status::Stale
        }
    })
}

/// `*value` becomes the value of a timer; `value` may be NULL, to ask only whether it is armed. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*value` stays), PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_get(
    wheel: Option<&TimerWheel>,
    key: Key,
    value: Option<&mut MaybeUninit<*mut c_void>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        tell(
            wheel.queue.get(from_key(key)).copied(),
            value,
            Status::Stale,
        )
    })
}

/// Gives a timer another value. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE, PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_set(
    wheel: Option<&mut TimerWheel>,
    key: Key,
    value: *mut c_void,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        match wheel.queue.get_mut(from_key(key)) {
            Some(place) => {
                *place = value;
                Status::Ok
            }
            None => Status::Stale,
        }
    })
}

/// Where a timer's value is, to be read or changed in place until the next call that changes the wheel; NULL
/// if the key is stale or `wheel` is NULL. O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_at(
    wheel: Option<&mut TimerWheel>,
    key: Key,
) -> Option<&mut *mut c_void> {
    let wheel = wheel?;
    guarded(None, || wheel.queue.get_mut(from_key(key)))
}

/// `*deadline` becomes the tick a timer is due at; `deadline` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*deadline` stays), PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_deadline(
    wheel: Option<&TimerWheel>,
    key: Key,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        tell(wheel.queue.deadline(from_key(key)), deadline, Status::Stale)
    })
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
        tell(wheel.pop_due(now), expired, Status::Idle)
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
            let Some(timer) = wheel.pop_due(now) else {
                return;
            };
            // SAFETY: the array is not NULL, has room for `capacity` timers, and `count` is less.
            unsafe { expired.add(count).write(timer) };
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
            Polled::Due(due) => {
                let timer = WheelTimer {
                    key: to_key(due.key),
                    deadline: due.deadline,
                    value: due.value,
                };
                tell(Some(timer), expired, Status::Idle)
            }
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

/// How many timers are armed; 0 if `wheel` is NULL. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_len(wheel: Option<&TimerWheel>) -> usize {
    wheel.map_or(0, |wheel| wheel.queue.len())
}

/// Copies armed timers, in no particular order, to the array `timers`: all of them if `capacity` is at
/// least punctual_wheel_len(wheel). O(n).
///
/// Returns how many were copied; 0 if `wheel` or `timers` is NULL.
///
/// Threads: readers may overlap.
///
/// # Safety
///
/// `timers` is NULL or has room for `capacity` timers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_wheel_list(
    wheel: Option<&TimerWheel>,
    timers: *mut WheelTimer,
    capacity: usize,
) -> usize {
    let (Some(wheel), false) = (wheel, timers.is_null()) else {
        return 0;
    };
    let mut count = 0;
    guarded((), || {
        for (key, deadline, &value) in wheel.queue.iter().take(capacity) {
            let timer = WheelTimer {
                key: to_key(key),
                deadline,
                value,
            };
            // SAFETY: the array is not NULL, has room for `capacity` timers, and `count` is less.
            unsafe { timers.add(count).write(timer) };
            count += 1;
        }
    });
    count
}

/// Cancels all timers; their keys are stale from now on. O(n).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_clear(wheel: Option<&mut TimerWheel>) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        wheel.queue.clear();
        Status::Ok
    })
}

/// Gives back what memory can be given back without touching armed timers. The wheel does this by itself
/// when it empties after being large. O(n).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_shrink(wheel: Option<&mut TimerWheel>) -> Status {
    let Some(wheel) = wheel else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        wheel.queue.shrink_to_fit();
        Status::Ok
    })
}

/// Bytes that the wheel and its timers take; 0 if `wheel` is NULL. O(1), or nearly so.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_memory(wheel: Option<&TimerWheel>) -> usize {
    guarded(0, || wheel.map_or(0, |wheel| wheel.queue.memory()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn value(number: usize) -> *mut c_void {
        ptr::without_provenance_mut(number)
    }

    #[test]
    fn the_first_key_is_not_that_of_no_timer() {
        assert_eq!(to_key(TimerKey::new(0, 0)), 1);
        assert_eq!(from_key(to_key(TimerKey::new(5, 7))), TimerKey::new(5, 7));
        let mut wheel = punctual_wheel_new();
        let wheel = wheel.as_deref_mut();
        assert_eq!(
            punctual_wheel_remove(wheel, NO_KEY, None),
            Status::Stale,
            "an index that no record has"
        );
    }

    #[test]
    fn arrays_are_written_up_to_their_capacity_and_no_further() {
        let mut wheel = punctual_wheel_new();
        let mut wheel = wheel.as_deref_mut();
        for number in 0..5 {
            punctual_wheel_insert(wheel.as_deref_mut(), 10 * number as u64, value(number));
        }
        let untouched = WheelTimer {
            key: 99,
            deadline: 99,
            value: value(99),
        };
        let mut timers = [untouched; 4];
        // SAFETY: the array has room for more than three timers.
        let listed = unsafe { punctual_wheel_list(wheel.as_deref(), timers.as_mut_ptr(), 3) };
        assert_eq!((listed, timers[3]), (3, untouched));
        // SAFETY: as above.
        let popped = unsafe {
            punctual_wheel_pop_due_many(wheel.as_deref_mut(), 100, timers.as_mut_ptr(), 3)
        };
        assert_eq!((popped, timers[3]), (3, untouched));
        assert_eq!(timers.map(|timer| timer.deadline), [0, 10, 20, 99]);
        // SAFETY: as above.
        let popped = unsafe {
            punctual_wheel_pop_due_many(wheel.as_deref_mut(), 100, timers.as_mut_ptr(), 4)
        };
        assert_eq!(popped, 2);
        assert_eq!(timers[1].value, value(4));
        assert_eq!(punctual_wheel_len(wheel.as_deref()), 0);
    }

    #[test]
    fn null_is_answered() {
        let mut timer = MaybeUninit::uninit();
        assert_eq!(punctual_wheel_insert(None, 1, ptr::null_mut()), NO_KEY);
        assert_eq!(
            punctual_wheel_pop_due(None, 1, Some(&mut timer)),
            Status::Null
        );
        let mut wheel = punctual_wheel_new();
        punctual_wheel_insert(wheel.as_deref_mut(), 1, ptr::null_mut());
        // SAFETY: no array at all.
        let popped =
            unsafe { punctual_wheel_pop_due_many(wheel.as_deref_mut(), 1, ptr::null_mut(), 8) };
        assert_eq!((popped, punctual_wheel_len(wheel.as_deref())), (0, 1));
        assert_eq!(
            punctual_wheel_poll(wheel.as_deref_mut(), 1, None, None),
            Status::Null
        );
        punctual_wheel_free(wheel);
        punctual_wheel_free(None);
    }
}
