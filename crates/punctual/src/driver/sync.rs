//! The locks, condition variables and atomics of the driver: `std`'s, or loom's when the loom
//! models are checked (`--cfg loom`).
//!
//! Apart from tests, the other files of the driver use no lock and no atomic of `std`. The only
//! exception is the counter of thread numbers in `shard`, which a model need not check.

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

/// Locks a mutex, ignoring poison. The driver itself does not panic while it holds a lock. If an
/// alarm panics, against its contract, the queue is still consistent, because no operation of the
/// queue is in progress.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex if no other thread has it locked. Ignores poison.
#[inline]
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a notification or for `timeout`. May wake spuriously. Returns whether the wait timed
/// out. Under loom, time does not pass: a lost wake-up is a deadlock, which loom reports.
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

/// Starts a detached thread with the signal mask of the program's threads.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(all(test, loom))]
    use loom::thread::Builder;
    #[cfg(not(all(test, loom)))]
    use std::thread::Builder;
    let mask = signals::program_mask();
    let thread = Builder::new().name(name.into()).spawn(move || {
        if let Some(mask) = mask {
            mask.apply();
        }
        body();
    });
    thread.map(drop)
}
