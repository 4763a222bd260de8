//! `punctual_wheel`: the wheel that keeps its timers, for values of the size of a pointer.
//!
//! Here is what it is, and what is done with one timer; [`due`] takes out those that are due, [`whole`] is about all of
//! them.

pub mod due;
#[cfg(test)]
mod tests;
pub mod whole;

use crate::Status;
use crate::boundary::guarded;
use punctual::{DeadlineQueue, TimerKey, Wheel};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A timer of a wheel, for as long as it is armed. Once it has fired or was removed its key is refused
/// for good, even when another timer has taken its place. Give it to its own wheel only: others may have a timer by the
/// same key. PUNCTUAL_NO_KEY is no timer's. PUNCTUAL_KEY_INDEX makes a small number of it.
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
