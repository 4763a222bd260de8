//! `punctual_ticker`: a function called at every period.
//!
//! Ground rules
//!
//! - A ticker is a timer that is armed again after each call, for the next multiple of its period. So calls never overlap,
//!   what comes while one is going on is skipped, and nothing drifts.
//! - It is shared and taken apart as in [`time`](crate::time): `state` is never locked while foreign code runs.

use crate::boundary::guarded;
use crate::callback::{Callback, Function};
use crate::fork::Home;
use crate::time::duration;
use punctual::TickScale;
use punctual::tick;
use punctual::time::{self, Timer};
use std::ffi::c_void;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A function that is called at every period: what punctual_ticker_new gives.
pub struct FuncTicker {
    shared: Arc<Shared>,
    home: Home,
}

struct Shared {
    callback: Callback,
    /// More than none.
    period: Duration,
    state: Mutex<State>,
}

struct State {
    /// Until the ticker is stopped.
    timer: Option<Timer>,
    /// When the timer falls due, or fell.
    due: Instant,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fall_due(&self) {
        if self.state().timer.is_none() {
            return; // stopped, when the call was under way already
        }
        self.callback.call();
        let mut state = self.state();
        let now = time::now();
        let next = next_tick(state.due, self.period, now);
        let State { timer, due } = &mut *state;
        if let (Some(timer), Some(next)) = (timer, next) {
            *due = next;
            // Nobody else arms it.
            let _ = timer.reset(next.saturating_duration_since(now));
        }
    }

    /// But for one that has passed its look at the timer, no call begins from now on.
    fn stop(&self) -> bool {
        let disarmed = self.state().timer.take();
        disarmed.is_some() // dropped here, with no lock held
    }
}

/// The first moment after `now` that is so many periods after `due`; `None` if it never comes.
fn next_tick(due: Instant, period: Duration, now: Instant) -> Option<Instant> {
    let nanos = |time| TickScale::NANOSECOND.deadline(time);
    let late = now.saturating_duration_since(due);
    match tick::next_tick(0, nanos(period), nanos(late)) {
        u64::MAX => None,
        ahead => due.checked_add(Duration::from_nanos(ahead)),
    }
}

/// Calls `function(argument)` at every period from now, on a thread of the library. Calls never overlap: what
/// comes while one is going on is skipped, not made up for, and the ticks stay at multiples of the period. (On
/// a virtual clock: within punctual_virtual_time_advance.) The function may stop and free the ticker. It must
/// not throw or jump out.
///
/// `argument` is the library's from now on, whatever is returned: `destroy`, if not NULL, is called with it, by
/// any thread, when the ticker was freed and no call is going on.
///
/// Returns the ticker, to be given back with punctual_ticker_free. NULL if `period_ns` is not positive,
/// `function` is NULL, the library's thread cannot be started, or this process is a fork (punctual_time_is_forked).
///
/// Threads: any.
///
/// # Safety
///
/// `function` and `destroy` can be called by any thread with `argument`.
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
        let home = Home::here()?;
        let shared = Arc::new(Shared {
            callback,
            period,
            state: Mutex::new(State {
                timer: None,
                due: time::now(),
            }),
        });
        let falls_due = shared.clone();
        // Locked: it may fall due before it is told which timer it is.
        let mut state = shared.state();
        state.due = state.due.checked_add(period)?;
        state.timer = Some(time::after_func(period, move || falls_due.fall_due()));
        drop(state);
        Some(Box::new(FuncTicker { shared, home }))
    })
}

/// Stops a ticker for good. A call that has begun, or is just beginning on another thread, goes on; no other comes.
///
/// Returns true if this stopped it, false if it was stopped before or `ticker` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_stop(ticker: Option<&FuncTicker>) -> bool {
    guarded(false, || {
        ticker.is_some_and(|ticker| !ticker.home.is_lost() && ticker.shared.stop())
    })
}

/// Stops a ticker and frees it. A call that has begun goes on, and the argument is destroyed after it. NULL is
/// allowed.
///
/// Threads: any, the function included; nobody uses the ticker afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ticker_free(ticker: Option<Box<FuncTicker>>) {
    guarded((), || match ticker {
        Some(lost) if lost.home.is_lost() => mem::forget(lost),
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
    fn ticks_that_are_over_are_skipped_and_the_rest_stay_multiples() {
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
