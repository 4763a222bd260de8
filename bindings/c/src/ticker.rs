//! `punctual_ticker`: calls a function periodically.
//!
//! Ground rules
//!
//! - A ticker re-arms its timer after each call of its function, for the next multiple of the
//!   period. So calls never overlap, ticks during a call are skipped, and ticks do not drift.
//! - No thread holds the lock of `state` while it calls the function or drops the timer.

use crate::boundary::guarded;
use crate::callback::{Callback, Function};
use crate::fork::TimerClock;
use crate::time::duration;
use punctual::TickScale;
use punctual::tick;
use punctual::time::{self, Timer};
use std::ffi::c_void;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A ticker that calls a function periodically. Created by punctual_ticker_new.
pub struct Ticker {
    shared: Arc<Shared>,
    clock: TimerClock,
}

struct Shared {
    callback: Callback,
    /// Time between two ticks, greater than zero.
    period: Duration,
    state: Mutex<State>,
}

struct State {
    /// `None` after the ticker was stopped.
    timer: Option<Timer>,
    /// Current deadline of the timer, or its last deadline if it is not armed.
    due: Instant,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_tick(&self) {
        if self.state().timer.is_none() {
            return; // stopped while this call was starting
        }
        self.callback.call();
        let mut state = self.state();
        let now = time::now();
        let next = next_tick(state.due, self.period, now);
        let State { timer, due } = &mut *state;
        if let (Some(timer), Some(next)) = (timer, next) {
            *due = next;
            // Cannot fail: the timer has fired, and no other thread arms it.
            let _ = timer.reset(next.saturating_duration_since(now));
        }
    }

    /// Stops the ticker, and returns true unless it was stopped before. Afterwards no call of the
    /// function starts, except a call on a thread that has passed the check in `on_tick`.
    fn stop(&self) -> bool {
        let disarmed = self.state().timer.take();
        disarmed.is_some() // dropped here, with no lock held
    }
}

/// Returns the first of the instants `due + n * period`, n from 1, that is after `now`, or `None`
/// if it overflows.
fn next_tick(due: Instant, period: Duration, now: Instant) -> Option<Instant> {
    let nanos = |time| TickScale::NANOSECOND.deadline(time);
    let late = now.saturating_duration_since(due);
    match tick::next_tick(0, nanos(period), nanos(late)) {
        u64::MAX => None,
        ahead => due.checked_add(Duration::from_nanos(ahead)),
    }
}

/// Calls `function(argument)` at every period from now, on a thread of the library. On a virtual
/// clock, punctual_virtual_time_advance makes the calls. Calls never overlap: ticks during a call
/// are skipped, and other ticks stay at multiples of the period. The function may stop and free the
/// ticker. It must not throw or longjmp.
///
/// The library takes ownership of `argument`, even if punctual_ticker_new fails. When the ticker is
/// freed and no call of the function is running, a thread calls `destroy(argument)`, if `destroy`
/// is not NULL.
///
/// Returns the ticker. Free it with punctual_ticker_free. Returns NULL if `period_ns` is not
/// positive, if `function` is NULL, if the library's thread cannot be started, or if this process
/// is a fork (punctual_time_is_forked).
///
/// Threads: any.
///
/// # Safety
///
/// Any thread may call `function` and `destroy` with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ticker_new(
    period_ns: i64,
    function: Function,
    argument: *mut c_void,
    destroy: Function,
) -> Option<Box<Ticker>> {
    // SAFETY: the caller of this function guarantees the same.
    let callback = unsafe { Callback::new(function, argument, destroy) }?;
    guarded(None, || {
        let period = duration(period_ns);
        if period.is_zero() {
            return None;
        }
        let clock = TimerClock::here()?;
        let shared = Arc::new(Shared {
            callback,
            period,
            state: Mutex::new(State {
                timer: None,
                due: time::now(),
            }),
        });
        let on_due = shared.clone();
        // Locks the state until the timer is stored in it, because the timer may fire before.
        let mut state = shared.state();
        state.due = state.due.checked_add(period)?;
        state.timer = Some(time::after_func(period, move || on_due.on_tick()));
        drop(state);
        Some(Box::new(Ticker { shared, clock }))
    })
}

/// Stops a ticker permanently. A call that is running, or is about to start on another thread,
/// continues; no later call follows.
///
/// Returns true if this call stopped the ticker, and false if the ticker was stopped before or
/// `ticker` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_stop(ticker: Option<&Ticker>) -> bool {
    guarded(false, || {
        ticker.is_some_and(|ticker| !ticker.clock.is_lost() && ticker.shared.stop())
    })
}

/// Stops a ticker and frees it. A running call of the function continues, and then the argument is
/// destroyed. NULL is allowed.
///
/// Threads: any, including the ticker's function. Do not use the ticker afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_free(ticker: Option<Box<Ticker>>) {
    guarded((), || match ticker {
        Some(lost) if lost.clock.is_lost() => mem::forget(lost),
        Some(ticker) => {
            ticker.shared.stop();
        }
        None => {}
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_ticks_are_skipped_and_the_rest_stay_multiples() {
        let due = Instant::now();
        let ms = Duration::from_millis;
        let next = |late| next_tick(due, ms(10), due + ms(late)).map(|next| next - due);
        assert_eq!(next(0), Some(ms(10)));
        assert_eq!(next(9), Some(ms(10)));
        assert_eq!(next(10), Some(ms(20)));
        assert_eq!(next(35), Some(ms(40)));
        assert_eq!(
            next_tick(due + ms(5), ms(10), due),
            Some(due + ms(15)),
            "a clock behind the deadline"
        );
    }
}
