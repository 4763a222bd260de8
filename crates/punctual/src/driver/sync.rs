//! The primitives under the driver: std's, or loom's when its models are checked (`--cfg loom`).
//!
//! Nothing else in the driver may name a lock, an atomic or a thread of `std`.

#[cfg(all(test, loom))]
pub(super) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread::{Thread, current},
};
#[cfg(not(all(test, loom)))]
pub(super) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread::{Thread, current},
};

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

/// Locks. Nothing of the driver's panics while it holds a lock; should an alarm do so against its contract, the
/// queue is still whole, for it was not in the middle of an operation.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until unparked or `timeout` is over, or for no reason. Under loom time does not pass: a lost wake-up
/// is a deadlock, which loom finds.
pub(super) fn park(timeout: Duration) {
    #[cfg(all(test, loom))]
    {
        let _ = timeout;
        loom::thread::park();
    }
    #[cfg(not(all(test, loom)))]
    std::thread::park_timeout(timeout);
}

/// Starts a thread that nobody waits for.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(all(test, loom))]
    use loom::thread::Builder;
    #[cfg(not(all(test, loom)))]
    use std::thread::Builder;
    Builder::new().name(name.into()).spawn(body).map(drop)
}
