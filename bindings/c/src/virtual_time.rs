//! `punctual_virtual_time`: a clock that stands still until it is advanced.

use crate::Status;
use crate::boundary::guarded;
use crate::time::{duration, origin, since_origin};
use punctual::time::{Entered, VirtualTime};
use std::cell::{Cell, RefCell};
use std::ptr;

/// A clock for tests: it stands still until punctual_virtual_time_advance moves it, and what falls due
/// meanwhile goes off at its own time, in order. Nothing sleeps. It is in force for the threads that have
/// entered it; a timer belongs to the clock that was in force when it was made.
pub struct VirtualClock {
    time: VirtualTime,
}

thread_local! {
    /// The clocks that this thread has entered and not left, the latest last. The addresses only tell them
    /// apart.
    static ENTERED: RefCell<Vec<(*const VirtualClock, Entered)>> = const { RefCell::new(Vec::new()) };
    /// This thread is inside of `punctual_virtual_time_advance`, which calls callbacks.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a callback of a virtual clock is running on this thread.
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Whether this thread keeps to a virtual clock. While a thread ends it may have left them all already.
pub(crate) fn is_in_force() -> bool {
    is_advancing()
        || ENTERED
            .try_with(|entries| !entries.borrow().is_empty())
            .unwrap_or(false)
}

/// Moves a clock, unless a callback of one asks for it.
fn advancing(clock: Option<&VirtualClock>, advance: impl FnOnce(&VirtualTime) -> Status) -> Status {
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

/// A new virtual clock, which shows the time that the real one shows now; give it back with
/// punctual_virtual_time_free. NULL if it cannot be made, which is a defect.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_new() -> Option<Box<VirtualClock>> {
    guarded(None, || {
        origin(); // no later than the clock
        Some(Box::new(VirtualClock {
            time: VirtualTime::new(),
        }))
    })
}

/// Frees a virtual clock. Threads that have entered it keep to it until they leave, or end; it is gone when
/// they and the timers on it are. NULL is allowed.
///
/// Threads: any; nobody uses it afterwards, but to leave it.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_free(clock: Option<Box<VirtualClock>>) {
    guarded((), || drop(clock));
}

/// From now on this thread keeps to the virtual clock: what it asks for, sleeps and arms is told and done by
/// that. What it entered before is in force again when it leaves this one.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_enter(clock: Option<&VirtualClock>) -> Status {
    let Some(clock) = clock else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        let entered = clock.time.enter();
        ENTERED.with_borrow_mut(|entries| entries.push((ptr::from_ref(clock), entered)));
        Status::Ok
    })
}

/// Ends what this thread's latest punctual_virtual_time_enter of the clock began. `clock` may have been freed
/// since.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_STALE if the thread has not entered it, PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_leave(clock: *const VirtualClock) -> Status {
    if clock.is_null() {
        return Status::Null;
    }
    guarded(Status::Panicked, || {
        let left = ENTERED.try_with(|entries| {
            let mut entries = entries.borrow_mut();
            let place = entries.iter().rposition(|&(entered, _)| entered == clock);
            place.map(|place| entries.remove(place))
        });
        // Dropped here, outside of the borrow: the last to leave drops the clock's timers and destroys their
        // arguments.
        match left {
            Ok(Some(_)) => Status::Ok,
            // A thread that ends leaves its clocks by itself.
            Ok(None) | Err(_) => Status::Stale,
        }
    })
}

/// Whether the calling thread keeps to a virtual clock, as it does in a callback of one.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_virtual() -> bool {
    is_in_force()
}

/// Whether the calling thread runs a callback of a virtual clock: it must not wait for that clock, which stands until the
/// callback has returned.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_advancing() -> bool {
    is_advancing()
}

/// The time a virtual clock shows, as punctual_now_ns tells it; 0 if `clock` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_now_ns(clock: Option<&VirtualClock>) -> i64 {
    guarded(0, || {
        clock.map_or(0, |clock| since_origin(clock.time.now()))
    })
}

/// Moves a virtual clock forward by `ns` nanoseconds, 0 if that is negative. It goes from one deadline to the
/// next: each timer fires at its own time, on the calling thread, and what its function arms is among them.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL, or PUNCTUAL_REENTERED if a callback of a virtual clock asks for it.
///
/// Threads: any; if two do it at once, one does it after the other.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_advance(clock: Option<&VirtualClock>, ns: i64) -> Status {
    advancing(clock, |time| {
        time.advance(duration(ns));
        Status::Ok
    })
}

/// Moves a virtual clock forward to the earliest deadline on it, and fires what is due then.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if nothing is armed, PUNCTUAL_NULL, or PUNCTUAL_REENTERED if a callback
/// of a virtual clock asks for it.
///
/// Threads: any; if two do it at once, one does it after the other.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_advance_to_next(clock: Option<&VirtualClock>) -> Status {
    advancing(clock, |time| {
        if time.advance_to_next() {
            Status::Ok
        } else {
            Status::Idle
        }
    })
}

/// How many timers and sleepers wait for a virtual clock; 0 if `clock` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_pending(clock: Option<&VirtualClock>) -> usize {
    guarded(0, || clock.map_or(0, |clock| clock.time.pending()))
}

/// Waits until at least `count` timers and sleepers wait for a virtual clock: before advancing it, until
/// another thread has gone to sleep.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_virtual_time_wait_for_pending(
    clock: Option<&VirtualClock>,
    count: usize,
) -> Status {
    let Some(clock) = clock else {
        return Status::Null;
    };
    guarded(Status::Panicked, || {
        clock.time.wait_for_pending(count);
        Status::Ok
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticker::{punctual_ticker_free, punctual_ticker_new};
    use crate::time::{
        FuncTimer, punctual_after_func, punctual_sleep_ns, punctual_timer_detach,
        punctual_timer_free, punctual_timer_reset, punctual_timer_stop,
    };
    use std::ffi::c_void;
    use std::ptr::NonNull;

    const SECOND: i64 = 1_000_000_000;

    /// What callbacks have seen, shared with them as C does: by address.
    #[derive(Default)]
    struct Seen {
        calls: Cell<u32>,
        destroyed: Cell<u32>,
        timer: Cell<Option<NonNull<FuncTimer>>>,
    }

    impl Seen {
        fn argument(&self) -> *mut c_void {
            ptr::from_ref(self).cast_mut().cast()
        }
    }

    fn seen<'a>(argument: *mut c_void) -> &'a Seen {
        // SAFETY: the tests pass the address of one that outlives its timers.
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
        // SAFETY: as the function asks.
        unsafe { call(argument) };
        let seen = seen(argument);
        // SAFETY: the test gave it up.
        let timer = seen
            .timer
            .take()
            .map(|timer| unsafe { Box::from_raw(timer.as_ptr()) });
        punctual_timer_free(timer);
        assert_eq!(
            seen.destroyed.get(),
            0,
            "not while its function uses the argument"
        );
    }

    unsafe extern "C-unwind" fn wait_for_itself(argument: *mut c_void) {
        // SAFETY: as the function asks.
        unsafe { call(argument) };
        assert!(punctual_time_is_virtual());
        assert_eq!(punctual_sleep_ns(1), Status::Reentered);
    }

    #[test]
    fn callbacks_are_called_and_their_arguments_destroyed_once() {
        let clock = punctual_virtual_time_new();
        let clock = clock.as_deref();
        let [once, stopped, detached, freed, ticks] = [(); 5].map(|()| Seen::default());
        assert_eq!(punctual_virtual_time_enter(clock), Status::Ok);
        let arm = |seen: &Seen, function| {
            // SAFETY: what was seen outlives the timers, and this thread does all.
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
