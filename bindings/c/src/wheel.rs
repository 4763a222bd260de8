//! `punctual_wheel`: the wheel that stores its timers, with values of the size of a pointer.
//!
//! This file has the type and the operations on one timer. [`due`] pops due timers, and [`whole`]
//! has the operations on all timers.

pub mod due;
#[cfg(test)]
mod tests;
pub mod whole;

use crate::Status;
use crate::boundary::{guarded, on};
use punctual::TimerKey;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Identifies an armed timer of one wheel. When the timer has fired or was removed, its key becomes
/// stale and stays stale, even after another timer reuses its record. Pass a key only to its own
/// wheel: another wheel may have a timer with the same key. PUNCTUAL_NO_KEY identifies no timer.
/// PUNCTUAL_KEY_INDEX converts a key to a small number.
pub type Key = u64;

/// A key that no timer has.
pub const NO_KEY: u64 = 0;

/// A hierarchical timing wheel. Timers are armed, cancelled and re-armed in O(1). They are popped
/// in the exact order of their deadlines, and timers with equal deadlines in the order in which
/// they were armed. A deadline is a number of ticks of any length, from 0 to UINT64_MAX. The wheel
/// reads no clock.
///
/// A timer takes 44 bytes. A new wheel takes about 750 bytes. The wheel reuses the memory of
/// removed timers, and frees it after the last timer was removed.
pub struct Wheel {
    queue: punctual::Wheel<*mut c_void>,
}

/// A timer of a punctual_wheel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WheelTimer {
    /// Key of the timer; for a popped timer, its former key.
    pub key: Key,
    /// Deadline of the timer. It may be well before the tick at which the timer was popped.
    pub deadline: u64,
    /// Value with which the timer was armed, or to which it was set later.
    pub value: *mut c_void,
}

/// Converts a handle to a key: adds 1, because the first handle's bits are 0, and 0 is `NO_KEY`.
#[inline]
fn to_key(key: TimerKey) -> Key {
    key.to_bits() + 1
}

/// Converts a key to a handle. `NO_KEY` becomes a handle with an index that no record has.
#[inline]
fn from_key(key: Key) -> TimerKey {
    TimerKey::from_bits(key.wrapping_sub(1))
}

/// If `found` has a result, writes it to `out`, if not null, and returns `Ok`. Returns `otherwise`
/// if `found` is `None`.
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

/// Creates an empty wheel. Free it with punctual_wheel_free. Never returns NULL. O(1).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_new() -> Option<Box<Wheel>> {
    Some(Box::new(Wheel {
        queue: punctual::Wheel::new(),
    }))
}

/// Frees a wheel and its timers. The caller still owns the objects that the values point to; to
/// free them, pop or list the timers before. NULL is allowed. O(n) for n bytes of the wheel.
///
/// Threads: one at a time. Do not use the wheel afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_free(wheel: Option<Box<Wheel>>) {
    guarded((), || drop(wheel));
}

/// Arms a timer with a deadline and a value. Any value is allowed, including NULL. O(1).
///
/// Returns the key of the timer. Returns PUNCTUAL_NO_KEY if `wheel` is NULL, or if it would hold
/// more than 2^32 - 2 timers.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_insert(
    wheel: Option<&mut Wheel>,
    deadline: u64,
    value: *mut c_void,
) -> Key {
    let Some(wheel) = wheel else {
        return NO_KEY;
    };
    guarded(NO_KEY, || to_key(wheel.queue.insert(deadline, value)))
}

/// Cancels a timer and writes its value to `*value`; `value` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE (`*value` is unchanged), or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_remove(
    wheel: Option<&mut Wheel>,
    key: Key,
    value: Option<&mut MaybeUninit<*mut c_void>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.remove(from_key(key)), value, Status::Stale)
    })
}

/// Re-arms a timer to an earlier or later deadline. Its key stays valid. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_reset(
    wheel: Option<&mut Wheel>,
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

/// Writes the value of a timer to `*value`. `value` may be NULL, to check only whether the timer is
/// armed. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE (`*value` is unchanged), or PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_get(
    wheel: Option<&Wheel>,
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

/// Sets the value of a timer. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_set(
    wheel: Option<&mut Wheel>,
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

/// Returns a pointer to a timer's value, to read and change it until the next call that changes the
/// wheel. Returns NULL if the key is stale or `wheel` is NULL. O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_at(
    wheel: Option<&mut Wheel>,
    key: Key,
) -> Option<&mut *mut c_void> {
    let wheel = wheel?;
    guarded(None, || wheel.queue.get_mut(from_key(key)))
}

/// Writes the deadline of a timer to `*deadline`; `deadline` may be NULL. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE (`*deadline` is unchanged), or PUNCTUAL_NULL.
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_deadline(
    wheel: Option<&Wheel>,
    key: Key,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    on(wheel, |wheel| {
        store_result(wheel.queue.deadline(from_key(key)), deadline, Status::Stale)
    })
}
