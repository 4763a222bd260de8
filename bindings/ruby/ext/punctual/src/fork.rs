//! Forks. A child has the memory of its parent, and of its threads only the one that forked.

#![allow(unsafe_code, reason = "a hook of the system")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many forks led from the first process to this one: it differs between parent and
/// child.
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
