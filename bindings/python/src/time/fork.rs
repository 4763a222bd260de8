//! Forks: the child has its parent's memory, but only the thread that forked.
//!
//! `fork` calls these hooks on the forking thread, which holds the GIL in Python's `os.fork`.
//! (`os.register_at_fork` is too early: other Python hooks run after it, and other threads between
//! them.)
//!
//! - Before the fork, no new `fire` of the driver's thread may start, and running ones are awaited.
//!   They never need the GIL. So it is with threads that create their state (see `thread_state`).
//!   All other threads use channels under the GIL, so none does now.
//! - In the child the fork count increases. Values marked with the old count (the driver, handles
//!   of timers, waiting threads) belong to another process, and are neither used nor dropped.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use crate::chan::forked;

static FORKING: AtomicBool = AtomicBool::new(false);
/// Time of the last fork of this process or its parent.
static FORKED_AT: Mutex<Option<Instant>> = Mutex::new(None);
/// Number of threads in sections that exclude forks.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// Returns the time at which this child was forked. Called only under the GIL.
pub(super) fn forked_at() -> Option<Instant> {
    *FORKED_AT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prevents forks until dropped.
pub(super) struct NoFork(());

impl NoFork {
    /// Blocks until a running fork has finished. The forking thread must not wait for the caller
    /// otherwise: the caller is a `fire`, or a worker that holds nothing. Neither may take the GIL
    /// before it drops this.
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
    // Taken here, because the child may first wait for a processor.
    *FORKED_AT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

extern "C" fn parent() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn child() {
    forked();
    FORKING.store(false, Ordering::SeqCst);
}

/// Registers the hooks.
pub(super) fn register_hooks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the hooks are stateless functions, and this module is never unloaded. The child's
        // hook uses only atomics, so it may run in the child of a multithreaded process.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        assert_eq!(refused, 0, "no memory for the hooks of fork");
    });
}
