//! Counts forks. A child process has its parent's memory, but only the thread that forked.

#![allow(unsafe_code, reason = "a hook of `fork`")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of forks between the process that called this function first and this
/// process. After that call, the numbers of a parent and its child differ.
#[inline]
pub(crate) fn count() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the hook changes one atomic, which is allowed in a child of a process with
        // threads. Ruby never unloads an extension.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(child)) };
        assert_eq!(refused, 0, "no memory for the hook of fork");
    });
    FORKS.load(Ordering::Relaxed)
}
