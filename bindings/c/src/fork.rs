//! Forks: the child has the memory of its parent, but of its threads only the one that forked.
//!
//! So nothing there fires the parent's timers, and a lock that some other thread held at that moment is held for ever.
//! Timers on the real clock are refused in a child, and the parent's are left alone: nothing here waits for a lock that
//! nobody gives back. Timers on a virtual clock need no thread, and go on.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::virtual_time;

/// This process is the child of a fork, made after the first timer on the real clock.
static FORKED: AtomicBool = AtomicBool::new(false);

/// On which clock a timer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Real,
    Virtual,
}

impl Home {
    /// Of a timer that is to be made on this thread; `None` if it cannot be.
    pub(crate) fn here() -> Option<Home> {
        if virtual_time::is_in_force() {
            return Some(Home::Virtual);
        }
        watch();
        (!is_forked()).then_some(Home::Real)
    }

    /// Whether its timers belong to the parent of this process: they must not be touched.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        self == Home::Real && is_forked()
    }
}

#[inline]
fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Has `fork` tell us from now on.
#[cfg(unix)]
fn watch() {
    extern "C" fn child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the hook stores to an atomic, which may be done in the child of a process with many threads; the
        // system forgets it when the library is unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(child)) };
        assert_eq!(refused, 0, "no memory for the hook of fork");
    });
}

#[cfg(not(unix))]
fn watch() {}

/// Whether this process is the child of a fork whose parent has had timers on the real clock. It has none, and cannot make
/// any: punctual_after_func and punctual_ticker_new answer NULL, the parent's timers are not armed and freeing them does
/// nothing. Virtual clocks, sleeping and the wheels work as ever.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_time_is_forked() -> bool {
    is_forked()
}
