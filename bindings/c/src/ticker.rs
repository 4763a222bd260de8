//! `punctual_ticker`: a function called periodically.
//!
//! Ground rules
//!
//! - A ticker re-arms its timer after each call, for the next multiple of the period. So calls
//!   never overlap, ticks during a call are skipped, and ticks do not drift.
//! - State is shared and dropped as in [`time`](crate::time): `state` is never locked while foreign
//!   code runs.

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

/// A function that is called periodically: the result of punctual_ticker_new.
pub struct FuncTicker {
    shared: Arc<Shared>,
    clock: TimerClock,
}

struct Shared {
    callback: Callback,
    /// Greater than zero.
    period: Duration,
    state: Mutex<State>,
}

struct State {
    /// `None` once the ticker is stopped.
    timer: Option<Timer>,
    /// Present or last deadline of the timer.
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
            // No other thread arms it.
            let _ = timer.reset(next.saturating_duration_since(now));
        }
    }

    /// Stops the ticker. After this, no call starts, except one that has already passed its check
    /// of the timer.
    fn stop(&self) -> bool {
        let disarmed = self.state().timer.take();
        disarmed.is_some() // dropped here, with no lock held
    }
}

/// Returns the first multiple of `period` from `due` that lies after `now`; `None` if it overflows.
fn next_tick(due: Instant, period: Duration, now: Instant) -> Option<Instant> {
    let nanos = |time| TickScale::NANOSECOND.deadline(time);
    let late = now.saturating_duration_since(due);
    match tick::next_tick(0, nanos(period), nanos(late)) {
        u64::MAX => None,
        ahead => due.checked_add(Duration::from_nanos(ahead)),
    }
}

/// Calls `function(argument)` at every period from now, on a thread of the library. Calls never
/// overlap: ticks during a call are skipped, and ticks stay at multiples of the period. (On a
/// virtual clock the calls happen within punctual_virtual_time_advance.) The function may stop and
/// free the ticker. It must not throw or longjmp.
///
/// The library takes ownership of `argument`, even if the call fails: when the ticker was freed and
/// no call is running, any thread calls `destroy`, if not NULL, with it.
///
/// Returns the ticker; free it with punctual_ticker_free. Returns NULL if `period_ns` is not
/// positive, `function` is NULL, the library's thread cannot be started, or this process is a fork
/// (punctual_time_is_forked).
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
) -> Option<Box<FuncTicker>> {
    // SAFETY: the caller promises the same here.
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
        let falls_due = shared.clone();
        // Locked, because the timer may fire before it is stored.
        let mut state = shared.state();
        state.due = state.due.checked_add(period)?;
        state.timer = Some(time::after_func(period, move || falls_due.on_tick()));
        drop(state);
        Some(Box::new(FuncTicker { shared, clock }))
    })
}

/// Stops a ticker permanently. A call that has started, or is starting on another thread,
/// continues; no other follows.
///
/// Returns true if this call stopped it, false if it was stopped before or `ticker` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_stop(ticker: Option<&FuncTicker>) -> bool {
    guarded(false, || {
        ticker.is_some_and(|ticker| !ticker.clock.is_lost() && ticker.shared.stop())
    })
}

/// Stops a ticker and frees it. A running call continues, and the argument is destroyed after it.
/// NULL is allowed.
///
/// Threads: any, including the function; no use afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_free(ticker: Option<Box<FuncTicker>>) {
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
