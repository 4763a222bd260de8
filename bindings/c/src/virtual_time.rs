//! `punctual_virtual_time`: a clock that moves only when the program advances it.

use crate::Status;
use crate::boundary::{guarded, on};
use crate::time::{duration, origin, since_origin};
use punctual::time::{self, Entered};
use std::cell::{Cell, RefCell};
use std::ptr;

/// A clock for tests. It moves only by punctual_virtual_time_advance and
/// punctual_virtual_time_advance_to_next, and timers fire at their own times, in order, without
/// real waiting. The clock is in effect on the threads that have entered it. A timer keeps the
/// clock that was in effect when it was created.
pub struct VirtualTime {
    time: time::VirtualTime,
}

thread_local! {
    /// The clocks that this thread has entered and not left, the latest last. The pointers serve
    /// only to identify the clocks.
    static ENTERED: RefCell<Vec<(*const VirtualTime, Entered)>> = const { RefCell::new(Vec::new()) };
    /// True while this thread advances a virtual clock, which calls callbacks.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread runs a callback of a virtual clock.
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Returns true if a virtual clock is in effect on this thread. While the thread ends, it may have
/// left all virtual clocks.
pub(crate) fn is_in_force() -> bool {
    is_advancing()
        || ENTERED
            .try_with(|entries| !entries.borrow().is_empty())
            .unwrap_or(false)
}

/// Advances a clock. Returns an error in a callback of a virtual clock.
fn advance_clock(
    clock: Option<&VirtualTime>,
    advance: impl FnOnce(&time::VirtualTime) -> Status,
) -> Status {
    let Some(clock) = clock else {
        return Status::Null;
    };
    if ADVANCING.replace(true) {
        return Status::Reentered;
    }
    let status = guarded(Status::Panicked, || advance(&clock.time));
    ADVANCING.set(false);
    status
}

/// Creates a virtual clock that starts at the current time of the real clock. Free it with
/// punctual_virtual_time_free. Returns NULL only after a defect of the library.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_new() -> Option<Box<VirtualTime>> {
    guarded(None, || {
        origin(); // before the clock's start
        Some(Box::new(VirtualTime {
            time: time::VirtualTime::new(),
        }))
    })
}

/// Frees a virtual clock. Threads that have entered the clock use it until they leave it or end,
/// and its timers keep it alive until they are freed. NULL is allowed.
///
/// Threads: any. Do not use the clock afterwards, except to leave it.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_free(clock: Option<Box<VirtualTime>>) {
    guarded((), || drop(clock));
}

/// Puts the clock into effect on the calling thread: for the current time, sleeping and new timers.
/// When the thread leaves the clock, the previous clock is in effect again.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_enter(clock: Option<&VirtualTime>) -> Status {
    on(clock, |clock| {
        let entered = clock.time.enter();
        ENTERED.with_borrow_mut(|entries| entries.push((ptr::from_ref(clock), entered)));
        Status::Ok
    })
}

/// Undoes the calling thread's latest punctual_virtual_time_enter of the clock. The clock may have
/// been freed since.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_STALE if the thread has not entered the clock, or PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_leave(clock: *const VirtualTime) -> Status {
    if clock.is_null() {
        return Status::Null;
    }
    guarded(Status::Panicked, || {
        let left = ENTERED.try_with(|entries| {
            let mut entries = entries.borrow_mut();
            let place = entries.iter().rposition(|&(entered, _)| entered == clock);
            place.map(|place| entries.remove(place))
        });
        // `left` is dropped after the borrow has ended: the last thread that leaves a freed clock
        // drops the clock's timers and destroys their arguments.
        match left {
            Ok(Some(_)) => Status::Ok,
            // A thread that is ending leaves its clocks automatically.
            Ok(None) | Err(_) => Status::Stale,
        }
    })
}

/// Returns whether a virtual clock is in effect on the calling thread. This is so in callbacks of a
/// virtual clock.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_virtual() -> bool {
    is_in_force()
}

/// Returns whether the calling thread runs a callback of a virtual clock. A callback must not wait
/// for its clock, which stands still until the callback returns.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_advancing() -> bool {
    is_advancing()
}

/// Returns the time of a virtual clock in nanoseconds since the origin of punctual_now_ns, or 0 if
/// `clock` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_now_ns(clock: Option<&VirtualTime>) -> i64 {
    guarded(0, || {
        clock.map_or(0, |clock| since_origin(clock.time.now()))
    })
}

/// Advances a virtual clock by `ns` nanoseconds, or by 0 if `ns` is negative. The clock stops at
/// each deadline on the way, and each timer fires at its own time, on the calling thread. Timers
/// that the called functions arm meanwhile also fire, if they are due before the end of the
/// advance.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL, or PUNCTUAL_REENTERED in a callback of a virtual clock.
///
/// Threads: any. Concurrent calls run one after another.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_advance(clock: Option<&VirtualTime>, ns: i64) -> Status {
    advance_clock(clock, |time| {
        time.advance(duration(ns));
        Status::Ok
    })
}

/// Advances a virtual clock to its earliest deadline and fires the timers with that deadline.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is armed, PUNCTUAL_NULL, or PUNCTUAL_REENTERED in
/// a callback of a virtual clock.
///
/// Threads: any. Concurrent calls run one after another.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_advance_to_next(clock: Option<&VirtualTime>) -> Status {
    advance_clock(clock, |time| {
        if time.advance_to_next() {
            Status::Ok
        } else {
            Status::Idle
        }
    })
}

/// Returns the number of armed timers and sleeping threads of a virtual clock, or 0 if `clock` is
/// NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_pending(clock: Option<&VirtualTime>) -> usize {
    guarded(0, || clock.map_or(0, |clock| clock.time.pending()))
}

/// Blocks until a virtual clock has at least `count` armed timers and sleeping threads. Call it
/// before an advance, to wait until another thread sleeps.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_wait_for_pending(
    clock: Option<&VirtualTime>,
    count: usize,
) -> Status {
    on(clock, |clock| {
        clock.time.wait_for_pending(count);
        Status::Ok
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticker::{punctual_ticker_free, punctual_ticker_new};
    use crate::time::{
        Timer, punctual_after_func, punctual_sleep_ns, punctual_timer_detach, punctual_timer_free,
        punctual_timer_reset, punctual_timer_stop,
    };
    use std::ffi::c_void;
    use std::ptr::NonNull;

    const SECOND: i64 = 1_000_000_000;

    /// Data that callbacks record. They get its address as their argument, as in C.
    #[derive(Default)]
    struct Seen {
        calls: Cell<u32>,
        destroyed: Cell<u32>,
        timer: Cell<Option<NonNull<Timer>>>,
    }

    impl Seen {
        fn argument(&self) -> *mut c_void {
            ptr::from_ref(self).cast_mut().cast()
        }
    }

    fn seen<'a>(argument: *mut c_void) -> &'a Seen {
        // SAFETY: the tests pass the address of a `Seen` that outlives its timers.
        unsafe { &*argument.cast::<Seen>() }
    }

    unsafe extern "C-unwind" fn call(argument: *mut c_void) {
        let seen = seen(argument);
        seen.calls.set(seen.calls.get() + 1);
    }

    unsafe extern "C-unwind" fn destroy(argument: *mut c_void) {
        let seen = seen(argument);
        seen.destroyed.set(seen.destroyed.get() + 1);
    }

    unsafe extern "C-unwind" fn free_timer(argument: *mut c_void) {
        // SAFETY: the argument is the address of a `Seen`.
        unsafe { call(argument) };
        let seen = seen(argument);
        // SAFETY: the test leaked the box, so this is its only owner.
        let timer = seen
            .timer
            .take()
            .map(|timer| unsafe { Box::from_raw(timer.as_ptr()) });
        punctual_timer_free(timer);
        assert_eq!(
            seen.destroyed.get(),
            0,
            "the running function still uses the argument"
        );
    }

    unsafe extern "C-unwind" fn wait_for_itself(argument: *mut c_void) {
        // SAFETY: the argument is the address of a `Seen`.
        unsafe { call(argument) };
        assert!(punctual_time_is_virtual());
        assert_eq!(punctual_sleep_ns(1), Status::Reentered);
    }

    #[test]
    fn callbacks_run_and_their_arguments_are_destroyed_once() {
        let clock = punctual_virtual_time_new();
        let clock = clock.as_deref();
        let [once, stopped, detached, freed, ticks] = [(); 5].map(|()| Seen::default());
        assert_eq!(punctual_virtual_time_enter(clock), Status::Ok);
        let arm = |seen: &Seen, function| {
            // SAFETY: `seen` outlives the timers, and only this thread uses it.
            unsafe { punctual_after_func(SECOND, Some(function), seen.argument(), Some(destroy)) }
        };
        let once_timer = arm(&once, wait_for_itself);
        let stopped_timer = arm(&stopped, call);
        punctual_timer_detach(arm(&detached, call));
        freed
            .timer
            .set(arm(&freed, free_timer).map(|timer| NonNull::from(Box::leak(timer))));
        // SAFETY: as for timers.
        let ticker =
            unsafe { punctual_ticker_new(SECOND / 3, Some(call), ticks.argument(), Some(destroy)) };
        assert!(punctual_timer_stop(stopped_timer.as_deref()));
        assert_eq!(
            punctual_timer_reset(once_timer.as_deref(), SECOND),
            Status::Armed
        );

        assert_eq!(punctual_virtual_time_advance(clock, SECOND), Status::Ok);
        let calls = [&once, &stopped, &detached, &freed, &ticks].map(|seen| seen.calls.get());
        assert_eq!(calls, [1, 0, 1, 1, 3]);
        let destroyed =
            [&once, &stopped, &detached, &freed, &ticks].map(|seen| seen.destroyed.get());
        assert_eq!(destroyed, [0, 0, 1, 1, 0]);

        punctual_timer_free(once_timer);
        punctual_timer_free(stopped_timer);
        punctual_ticker_free(ticker);
        assert_eq!(punctual_virtual_time_pending(clock), 0);
        let destroyed =
            [&once, &stopped, &detached, &freed, &ticks].map(|seen| seen.destroyed.get());
        assert_eq!(destroyed, [1; 5]);
        let address = clock.map_or(ptr::null(), ptr::from_ref);
        assert_eq!(punctual_virtual_time_leave(address), Status::Ok);
        assert_eq!(punctual_virtual_time_leave(address), Status::Stale);
    }
}
