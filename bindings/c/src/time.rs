//! Time and timers: `punctual_now_ns`, `punctual_sleep_ns`, `punctual_after_func`.

use crate::Status;
use crate::boundary::guarded;
use crate::callback::{Callback, Function};
use crate::fork::Home;
use crate::virtual_time;
use punctual::time::{self, Timer};
use std::ffi::c_void;
use std::mem;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A function that is called once, when its time has come: what punctual_after_func gives.
pub struct FuncTimer {
    timer: Timer,
    home: Home,
}

/// What times are told from: a moment before anything was asked for.
pub(crate) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// In nanoseconds.
pub(crate) fn since_origin(instant: Instant) -> i64 {
    let since = instant.saturating_duration_since(origin());
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Less than nothing is nothing.
#[inline]
pub(crate) fn duration(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0).unsigned_abs())
}

/// The time, in nanoseconds since some moment early in the life of the process: of the monotonic clock, or of
/// the virtual one that the calling thread has entered (punctual_virtual_time_enter).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now_ns() -> i64 {
    guarded(0, || {
        origin(); // no later than the answer
        since_origin(time::now())
    })
}

/// Sleeps for so many nanoseconds, never less; not at all if `ns` is not positive. On a virtual clock it waits
/// until another thread has advanced that.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_REENTERED in a callback of a virtual clock, which would wait for itself.
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

/// Arms a timer that calls `function(argument)` in `delay_ns` nanoseconds, never earlier, on a thread of the
/// library, so that a function that takes long delays no other timer. (On a virtual clock: within
/// punctual_virtual_time_advance.) The function may use the timer: reset it, stop it, free it. It must not
/// throw or jump out.
///
/// `argument` is the library's from now on, whatever is returned: `destroy`, if not NULL, is called with it, by
/// any thread, when the timer is freed and no call is going on or to come.
///
/// Returns the timer, to be given back with punctual_timer_free or punctual_timer_detach. NULL if `function`
/// is NULL, the library's thread cannot be started, or this process is a fork (punctual_time_is_forked).
///
/// Threads: any.
///
/// # Safety
///
/// `function` and `destroy` can be called by any thread with `argument`. If the timer is reset before the
/// function has returned, two calls may overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_after_func(
    delay_ns: i64,
    function: Function,
    argument: *mut c_void,
    destroy: Function,
) -> Option<Box<FuncTimer>> {
    // SAFETY: the caller promises the same here.
    let callback = unsafe { Callback::new(function, argument, destroy) }?;
    guarded(None, || {
        let home = Home::here()?;
        let timer = time::after_func(duration(delay_ns), move || callback.call());
        Some(Box::new(FuncTimer { timer, home }))
    })
}

/// Stops a timer. Afterwards it is not armed and can be reset.
///
/// Returns true if this disarmed it: the function will not be called. False if it was not armed: the function
/// was called, is just being called, or will be in a moment. False if `timer` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_stop(timer: Option<&FuncTimer>) -> bool {
    guarded(false, || {
        timer.is_some_and(|timer| !timer.home.is_lost() && timer.timer.stop())
    })
}

/// Arms a timer again that has fired or was stopped; its own function may do that.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL, PUNCTUAL_FORKED, or PUNCTUAL_ARMED if it is armed: then it stays as it is. Stop it
/// first.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_reset(timer: Option<&FuncTimer>, delay_ns: i64) -> Status {
    let Some(timer) = timer else {
        return Status::Null;
    };
    if timer.home.is_lost() {
        return Status::Forked;
    }
    guarded(Status::Panicked, || {
        match timer.timer.reset(duration(delay_ns)) {
            Ok(()) => Status::Ok,
            Err(_) => Status::Armed,
        }
    })
}

/// Disarms a timer and frees it. A call that has begun goes on, and the argument is destroyed after it. NULL is
/// allowed.
///
/// Threads: any, the function included; nobody uses the timer afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_free(timer: Option<Box<FuncTimer>>) {
    guarded((), || match timer {
        Some(lost) if lost.home.is_lost() => mem::forget(lost),
        timer => drop(timer),
    });
}

/// Frees a timer but leaves it armed: it will call, and then destroy the argument. NULL is allowed.
///
/// Threads: any, the function included; nobody uses the timer afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timer_detach(timer: Option<Box<FuncTimer>>) {
    guarded((), || match timer {
        Some(lost) if lost.home.is_lost() => mem::forget(lost),
        Some(timer) => timer.timer.detach(),
        None => {}
    });
}
