//! Forks: the child has its parent's memory, but only the thread that forked.
//!
//! `fork` calls these hooks (of `pthread_atfork`) on the forking thread, which holds the GIL in
//! Python's `os.fork`. Hooks of `os.register_at_fork` would run too early: other Python hooks may
//! run after them, and other threads may run between two hooks.
//!
//! - Before the fork, the `prepare` hook waits for all sections guarded by [`NoFork`], and no new
//!   section can start. Two kinds of threads have such sections: the driver's thread in `fire`, and
//!   threads that create their Python state (see `thread_state`). These sections never need the
//!   GIL. All other threads use channels under the GIL, which the forking thread holds.
//! - In the child, the number of forks increases by one. Values marked with the old number (the
//!   driver, handles of timers, waiting threads) belong to another process, and are neither used
//!   nor dropped.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use crate::chan::{forked, forks};

static FORKING: AtomicBool = AtomicBool::new(false);
/// Time of the last fork by the process that created the newest driver. In its descendants this is
/// the fork that separated them from that process.
static FORKED_AT: Mutex<Option<Instant>> = Mutex::new(None);
/// Number of forks in the history of the process that created the newest driver.
static DRIVER_FORKS: AtomicU32 = AtomicU32::new(0);
/// Number of threads in sections that exclude forks.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// Returns the time of the last fork by the process that created the newest driver. Called only
/// under the GIL.
pub(super) fn forked_at() -> Option<Instant> {
    *FORKED_AT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prevents forks until dropped.
pub(super) struct NoFork(());

impl NoFork {
    /// Blocks while a fork is running. The caller must not hold a lock that the forking thread may
    /// wait for, and must not take the GIL before it drops the guard.
    #[inline]
    pub(super) fn enter() -> Self {
        loop {
            INSIDE.fetch_add(1, Ordering::SeqCst);
            if !FORKING.load(Ordering::SeqCst) {
                return NoFork(());
            }
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            while FORKING.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for NoFork {
    #[inline]
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

extern "C" fn prepare() {
    FORKING.store(true, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
    // In a child that has created no driver, the time of the fork from the driver's process stays.
    if forks() == DRIVER_FORKS.load(Ordering::Relaxed) {
        // Read before the fork, because the child may start late on a busy machine.
        *FORKED_AT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

extern "C" fn parent() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn child() {
    forked();
    FORKING.store(false, Ordering::SeqCst);
}

/// Registers the hooks. Called by each process that creates a driver.
pub(super) fn register_hooks() {
    static ONCE: Once = Once::new();
    DRIVER_FORKS.store(forks(), Ordering::Relaxed);
    ONCE.call_once(|| {
        // SAFETY: the hooks are stateless functions, and this module is never unloaded. The child's
        // hook uses only atomics, so it may run in the child of a multithreaded process.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        assert_eq!(refused, 0, "no memory for the hooks of fork");
    });
}
