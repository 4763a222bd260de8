//! Forks: the child has the memory of its parent, but of its threads only the one that forked.
//!
//! `fork` itself calls these hooks, on the thread that forks, which holds the interpreter's lock in Python's
//! `os.fork`. (`os.register_at_fork` comes too early: other hooks of Python run after it, with other threads in
//! between.)
//!
//! - Before: no new `fire` of the timers' thread may touch anything of ours, and those that do are waited for. They
//!   never want the interpreter's lock. Everybody else touches channels with that lock, so nobody does now.
//! - In the child the count of forks goes up. What it marks - the driver, handles of timers, waiting threads - is of
//!   another process then, and is neither used nor dropped.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use crate::chan::forked;

static FORKING: AtomicBool = AtomicBool::new(false);
/// When this process, or its parent, last forked.
static MOMENT: Mutex<Option<Instant>> = Mutex::new(None);
/// How many threads are where no fork may happen.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// In a child: when it was forked. It is not asked for without the interpreter's lock.
pub(super) fn moment() -> Option<Instant> {
    *MOMENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No fork happens while this lives.
pub(super) struct NoFork(());

impl NoFork {
    /// May wait for a fork to be over, so only what the forking thread does not wait for may do so: a `fire`.
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
    // Not in the child, which may have to wait for a processor first.
    *MOMENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

extern "C" fn parent() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn child() {
    forked();
    FORKING.store(false, Ordering::SeqCst);
}

/// Has `fork` call the hooks from now on.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the hooks are functions without state of their own, and this module is never unloaded. In the
        // child there are atomics only, so it may run in the child of a process with many threads.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        assert_eq!(refused, 0, "no memory for the hooks of fork");
    });
}
