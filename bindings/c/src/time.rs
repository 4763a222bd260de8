//! Time and timers: `punctual_now_ns`, `punctual_sleep_ns`, `punctual_after_func`.

use crate::Status;
use crate::boundary::guarded;
use crate::callback::{Callback, Function};
use crate::fork::TimerClock;
use crate::virtual_time;
use punctual::time;
use std::ffi::c_void;
use std::mem;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A timer that calls a function once, at its deadline. Created by punctual_after_func.
pub struct Timer {
    timer: time::Timer,
    clock: TimerClock,
}

/// Returns the origin of all times, which is before the first clock reading.
pub(crate) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Converts an instant to nanoseconds since the origin.
pub(crate) fn since_origin(instant: Instant) -> i64 {
    let since = instant.saturating_duration_since(origin());
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Converts nanoseconds to a duration. A negative number becomes zero.
#[inline]
pub(crate) fn duration(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0).unsigned_abs())
}

/// Returns the time in nanoseconds since an origin, which is early in the life of the process. The
/// clock is the monotonic clock, or the virtual clock that the calling thread has entered
/// (punctual_virtual_time_enter).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now_ns() -> i64 {
    guarded(0, || {
        origin(); // before the reading, so that the result is not negative
        since_origin(time::now())
    })
}

/// Sleeps for at least `ns` nanoseconds. Returns at once if `ns` is not positive. On a virtual
/// clock, it blocks until another thread has advanced the clock by `ns`.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_REENTERED in a callback of a virtual clock, where it would wait
/// for its own thread.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_sleep_ns(ns: i64) -> Status {
    if ns > 0 && virtual_time::is_advancing() {
        return Status::Reentered;
    }
    guarded(Status::Panicked, || {
        time::sleep(duration(ns));
        Status::Ok
    })
}

/// Arms a timer that calls `function(argument)` after `delay_ns` nanoseconds, never earlier. A
/// thread of the library makes the call, so that a slow function delays no other timer. On a
/// virtual clock, punctual_virtual_time_advance makes the call. The function may reset, stop and
/// free the timer. It must not throw or longjmp.
///
/// The library takes ownership of `argument`, even if punctual_after_func fails. When the timer is
/// freed and no call of the function is running or pending, a thread calls `destroy(argument)`, if
/// `destroy` is not NULL.
///
/// Returns the timer. Free it with punctual_timer_free or punctual_timer_detach. Returns NULL if
/// `function` is NULL, if the library's thread cannot be started, or if this process is a fork
/// (punctual_time_is_forked).
///
/// Threads: any.
///
/// # Safety
///
/// Any thread may call `function` and `destroy` with `argument`. If the timer is reset before the
/// function has returned, two calls may overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_after_func(
    delay_ns: i64,
    function: Function,
    argument: *mut c_void,
    destroy: Function,
) -> Option<Box<Timer>> {
    // SAFETY: the caller of this function guarantees the same.
    let callback = unsafe { Callback::new(function, argument, destroy) }?;
    guarded(None, || {
        let clock = TimerClock::here()?;
        let timer = time::after_func(duration(delay_ns), move || callback.call());
        Some(Box::new(Timer { timer, clock }))
    })
}

/// Stops a timer. Afterwards the timer is not armed and can be reset.
///
/// Returns true if this call disarmed the timer: the function will not be called. Returns false if
/// the timer was not armed, or if `timer` is NULL. If the timer has fired, its function has
/// returned, is running, or will be called soon.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_stop(timer: Option<&Timer>) -> bool {
    guarded(false, || {
        timer.is_some_and(|timer| !timer.clock.is_lost() && timer.timer.stop())
    })
}

/// Arms a timer again that has fired or was stopped, to fire after `delay_ns` nanoseconds. The
/// timer's own function may call this.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL, PUNCTUAL_FORKED, or PUNCTUAL_ARMED if the timer is armed. An
/// armed timer is not changed; stop it first.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_reset(timer: Option<&Timer>, delay_ns: i64) -> Status {
    let Some(timer) = timer else {
        return Status::Null;
    };
    if timer.clock.is_lost() {
        return Status::Forked;
    }
    guarded(Status::Panicked, || {
        match timer.timer.reset(duration(delay_ns)) {
            Ok(()) => Status::Ok,
            Err(_) => Status::Armed,
        }
    })
}

/// Disarms a timer and frees it. A running call of the function continues, and then the argument is
/// destroyed. NULL is allowed.
///
/// Threads: any, including the timer's function. Do not use the timer afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_free(timer: Option<Box<Timer>>) {
    guarded((), || match timer {
        Some(lost) if lost.clock.is_lost() => mem::forget(lost),
        timer => drop(timer),
    });
}

/// Frees a timer but leaves it armed: it fires, and then the argument is destroyed. NULL is
/// allowed.
///
/// Threads: any, including the timer's function. Do not use the timer afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_detach(timer: Option<Box<Timer>>) {
    guarded((), || match timer {
        Some(lost) if lost.clock.is_lost() => mem::forget(lost),
        Some(timer) => timer.timer.detach(),
        None => {}
    });
}
