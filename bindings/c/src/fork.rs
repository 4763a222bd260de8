//! Forks: the child has its parent's memory, but only the thread that forked.
//!
//! So no thread there fires the parent's timers, and a lock that another thread held during the
//! fork stays locked forever. A child refuses timers on the real clock and leaves the parent's
//! untouched, so it never waits for such a lock. Timers on a virtual clock need no thread and keep
//! working.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::virtual_time;

/// True in a child that was forked after the first timer on the real clock.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerClock {
    Real,
    Virtual,
}

impl TimerClock {
    /// Returns the clock for a new timer on this thread, or `None` if none is available.
    pub(crate) fn here() -> Option<TimerClock> {
        if virtual_time::is_in_force() {
            return Some(TimerClock::Virtual);
        }
        register_hook();
        (!is_forked()).then_some(TimerClock::Real)
    }

    /// Returns true if the timers belong to the parent process and must not be touched.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        self == TimerClock::Real && is_forked()
    }
}

#[inline]
fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Registers the hook of `fork`.
#[cfg(unix)]
fn register_hook() {
    extern "C" fn child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the hook stores to an atomic, which is allowed in the child of a multithreaded
        // process; the system removes it when the library is unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(child)) };
        assert_eq!(refused, 0, "no memory for the hook of fork");
    });
}

#[cfg(not(unix))]
fn register_hook() {}

/// Returns whether this process is the child of a fork whose parent had timers on the real clock.
/// Such a process cannot use the real clock: punctual_after_func and punctual_ticker_new return
/// NULL, the parent's timers are not armed, and freeing them does nothing. Virtual clocks, sleeping
/// and the wheels still work.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_forked() -> bool {
    is_forked()
}
