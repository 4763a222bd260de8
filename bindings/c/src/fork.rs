//! Detects that the process is a fork. A child process has its parent's memory, but only the thread
//! that forked.
//!
//! In the child, no thread fires the parent's timers, and a lock that another thread held during
//! the fork stays locked forever. So in a child, the library refuses new timers on the real clock
//! and does not touch the parent's timers. It never waits for such a lock. Timers on a virtual
//! clock need no thread and work in the child.

use punctual_c_boundary::fork;

use crate::virtual_time;

/// The kind of clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerClock {
    Real,
    Virtual,
}

impl TimerClock {
    /// Returns the kind of clock for a new timer on this thread, or `None` if this process cannot
    /// have timers on the real clock.
    pub(crate) fn here() -> Option<TimerClock> {
        if virtual_time::is_in_force() {
            return Some(TimerClock::Virtual);
        }
        fork::watch();
        (!is_forked()).then_some(TimerClock::Real)
    }

    /// Returns true if timers of this kind belong to the parent process and must not be touched.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        self == TimerClock::Real && is_forked()
    }
}

/// Returns true in a child process that was forked after the first timer on the real clock was
/// created.
#[inline]
fn is_forked() -> bool {
    fork::generation() != 0
}

/// Returns whether this process was forked from a process that had created timers on the real
/// clock. Such a process cannot have timers on the real clock: punctual_after_func and
/// punctual_ticker_new return NULL, the parent's timers are not armed, and freeing them does
/// nothing. Virtual clocks, sleeping and the wheels work.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_forked() -> bool {
    is_forked()
}
