//! Operations on all timers of a wheel, and its memory.

use super::{Wheel, WheelTimer, to_key};
use crate::Status;
use crate::boundary::{guarded, on};

/// Returns the number of armed timers, or 0 if `wheel` is NULL. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_len(wheel: Option<&Wheel>) -> usize {
    wheel.map_or(0, |wheel| wheel.queue.len())
}

/// Copies up to `capacity` armed timers to the array `timers`, in no particular order. Copies all
/// timers if `capacity` is at least punctual_wheel_len(wheel). O(n).
///
/// Returns the number of copied timers; 0 if `wheel` or `timers` is NULL.
///
/// Threads: readers may overlap.
///
/// # Safety
///
/// `timers` is NULL or has room for `capacity` timers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_wheel_list(
    wheel: Option<&Wheel>,
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
            // SAFETY: the array is not NULL and has room for `capacity` timers, and `count` is less
            // than `capacity`.
            unsafe { timers.add(count).write(timer) };
            count += 1;
        }
    });
    count
}

/// Cancels all timers. Their keys become stale. O(n).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_clear(wheel: Option<&mut Wheel>) -> Status {
    on(wheel, |wheel| {
        wheel.queue.clear();
        Status::Ok
    })
}

/// Frees memory that armed timers do not need, except gaps between their records and room for about
/// a thousand timers. A large wheel that has become empty does this by itself. O(n).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_shrink(wheel: Option<&mut Wheel>) -> Status {
    on(wheel, |wheel| {
        wheel.queue.shrink_to_fit();
        Status::Ok
    })
}

/// Returns the size of the wheel and its timers in bytes, or 0 if `wheel` is NULL. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_wheel_memory(wheel: Option<&Wheel>) -> usize {
    guarded(0, || wheel.map_or(0, |wheel| wheel.queue.memory()))
}
