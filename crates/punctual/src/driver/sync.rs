//! The primitives under the driver: std's, or loom's when its models are checked (`--cfg loom`).
//!
//! Nothing else in the driver may name a lock or an atomic of `std`.

#[cfg(all(test, loom))]
pub(super) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};

use std::io;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use super::signals;

/// Locks. Nothing of the driver's panics while it holds a lock; should an alarm do so against its contract, the
/// queue is still whole, for it was not in the middle of an operation.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks, unless that would mean to wait.
#[inline]
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits until notified or `timeout` is over, or for no reason; tells whether it was the timeout. Under loom time does
/// not pass: a lost wake-up is a deadlock, which loom finds.
pub(super) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = condvar
        .wait_timeout(guard, timeout)
        .unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}

/// Starts a thread that nobody waits for. It hears the signals that the program's threads hear.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(all(test, loom))]
    use loom::thread::Builder;
    #[cfg(not(all(test, loom)))]
    use std::thread::Builder;
    let heard = signals::of_the_program();
    let thread = Builder::new().name(name.into()).spawn(move || {
        if let Some(heard) = heard {
            heard.hear();
        }
        body();
    });
    thread.map(drop)
}
