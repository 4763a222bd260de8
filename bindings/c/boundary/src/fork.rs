//! Detects that the process is a fork. A child process has its parent's memory, but only the thread
//! that forked, so it must not wait for the parent's threads or for a lock.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that called [`watch`] first and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Makes [`generation`] count the forks after this call. Registers a function that `fork` calls in
/// the child.
///
/// # Panics
/// The system has no memory for the hook.
#[cfg(unix)]
pub fn watch() {
    extern "C" fn child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the hook changes an atomic, which is allowed in the child of a multithreaded
        // process. The system removes the hook when the library is unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(child)) };
        assert_eq!(refused, 0, "no memory for the hook of fork");
    });
}

/// Does nothing: the system has no `fork`.
#[cfg(not(unix))]
pub fn watch() {}

/// Returns the number of forks since the first call of [`watch`]: 0 in the process of that call, 1
/// in its children.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
