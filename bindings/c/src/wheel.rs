//! `punctual_wheel`: the wheel that owns its timers, with values of the size of a pointer.
//!
//! This file has the type and operations on one timer; [`due`] pops due timers, and [`whole`] has
//! operations on all timers.

pub mod due;
#[cfg(test)]
mod tests;
pub mod whole;

use crate::Status;
use crate::boundary::{guarded, on};
use punctual::{TimerKey, Wheel};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Identifies an armed timer of one wheel. Once the timer has fired or was removed, its key is
/// refused forever, even after another timer reuses its record. Pass it only to its own wheel:
/// another wheel may have a timer with the same key. PUNCTUAL_NO_KEY identifies no timer.
/// PUNCTUAL_KEY_INDEX converts a key to a small number.
pub type Key = u64;

/// A key that no timer has.
pub const NO_KEY: u64 = 0;

/// A hierarchical timing wheel: timers are armed, cancelled and re-armed in O(1) and popped in the
/// exact order of deadlines, equal ones in the order in which they were armed. A deadline is a
/// number of ticks of any length, over all of uint64_t; the wheel reads no clock.
///
/// A timer takes 40 bytes. An empty wheel takes about 750 bytes; the memory of removed timers is
/// released.
pub struct TimerWheel {
    queue: Wheel<*mut c_void>,
}

/// A timer of a punctual_wheel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WheelTimer {
    /// Key of the timer; for a popped timer, its former key.
    pub key: Key,
    /// Deadline, which may lie well before the tick at which the timer was popped.
    pub deadline: u64,
    /// Value that the timer was armed with.
    pub value: *mut c_void,
}

/// Converts a handle. The first record's first handle is 0, which C uses for "none".
#[inline]
fn to_key(key: TimerKey) -> Key {
    key.to_bits() + 1
}

/// Converts a key. `NO_KEY` becomes a handle with an index that no record has.
#[inline]
fn from_key(key: Key) -> TimerKey {
    TimerKey::from_bits(key.wrapping_sub(1))
}

/// Stores the result for the caller if there is one and `out` is not null; returns `otherwise` if
/// there is none.
#[inline]
pub(crate) fn store_result<T>(
    found: Option<T>,
    out: Option<&mut MaybeUninit<T>>,
    otherwise: Status,
) -> Status {
    let Some(found) = found else {
        return otherwise;
    };
    if let Some(out) = out {
        out.write(found);
    }
    Status::Ok
}

/// Creates an empty wheel; free it with punctual_wheel_free. Never returns NULL. O(1).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_new() -> Option<Box<TimerWheel>> {
    Some(Box::new(TimerWheel {
        queue: Wheel::new(),
    }))
}

/// Frees a wheel and its timers. The caller still owns the objects that the values point to: pop or
/// list the timers before. NULL is allowed. O(memory).
///
/// Threads: one at a time, and no use afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_free(wheel: Option<Box<TimerWheel>>) {
    guarded((), || drop(wheel));
}

/// Arms a timer with a deadline and a value, which may be anything, including NULL. O(1).
///
/// Returns its key; PUNCTUAL_NO_KEY if `wheel` is NULL or would hold more than 2^32 - 2 timers.
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

/// Cancels a timer. `*value` receives its value; `value` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (`*value` is unchanged), PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_remove(
    wheel: Option<&mut TimerWheel>,
    key: Key,
    value: Option<&mut MaybeUninit<*mut c_void>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.remove(from_key(key)), value, Status::Stale)
    })
}

/// Re-arms a timer, earlier or later; its key stays valid. O(1).
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
    on(wheel, |wheel| {
        if wheel.queue.reset(from_key(key), deadline) {
            Status::Ok
        } else {
            Status::Stale
        }
    })
}

/// `*value` receives the value of a timer; `value` may be NULL, to check only whether the timer is
/// armed. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (`*value` is unchanged), PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_get(
    wheel: Option<&TimerWheel>,
    key: Key,
    value: Option<&mut MaybeUninit<*mut c_void>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(
            wheel.queue.get(from_key(key)).copied(),
            value,
            Status::Stale,
        )
    })
}

/// Changes the value of a timer. O(1).
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
    on(wheel, |wheel| match wheel.queue.get_mut(from_key(key)) {
        Some(place) => {
            *place = value;
            Status::Ok
        }
        None => Status::Stale,
    })
}

/// Returns a pointer to a timer's value, for reading and changing until the next call that changes
/// the wheel; NULL if the key is stale or `wheel` is NULL. O(1).
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

/// `*deadline` receives the deadline of a timer; `deadline` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE (`*deadline` is unchanged), PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_deadline(
    wheel: Option<&TimerWheel>,
    key: Key,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.deadline(from_key(key)), deadline, Status::Stale)
    })
}
