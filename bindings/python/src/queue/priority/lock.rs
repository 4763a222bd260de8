//! A lock that is held during Python comparisons, and that detects a second lock by its own thread.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A lock that is held while Python code compares.
pub(super) struct ComparisonLock<T> {
    inner: Mutex<T>,
    /// The thread that holds the lock, or 0. Written only under the lock.
    holder: AtomicUsize,
}

/// Releases the lock when dropped.
pub(super) struct Guard<'a, T> {
    guard: MutexGuard<'a, T>,
    holder: &'a AtomicUsize,
}

impl<T: Send> ComparisonLock<T> {
    pub(super) fn new(inner: T) -> Self {
        ComparisonLock {
            inner: Mutex::new(inner),
            holder: AtomicUsize::new(0),
        }
    }

    /// Blocks until the lock is free.
    ///
    /// # Errors
    /// `RuntimeError` if this thread already holds the lock: it would wait forever.
    #[inline]
    pub(super) fn lock(&self, py: Python<'_>) -> PyResult<Guard<'_, T>> {
        match self.try_lock() {
            Some(guard) => Ok(guard),
            None => self.wait(py),
        }
    }

    #[cold]
    fn wait(&self, py: Python<'_>) -> PyResult<Guard<'_, T>> {
        loop {
            if self.holder.load(Ordering::Relaxed) == this_thread() {
                return Err(PyRuntimeError::new_err(
                    "a comparison of priorities must not use its own PriorityQueue",
                ));
            }
            // The other thread's comparison needs the GIL to finish.
            py.detach(|| drop(self.inner.lock()));
            if let Some(guard) = self.try_lock() {
                return Ok(guard);
            }
        }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let guard = self.inner.try_lock()?;
        self.holder.store(this_thread(), Ordering::Relaxed);
        Some(Guard {
            guard,
            holder: &self.holder,
        })
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // `guard` is dropped after this statement, so `holder` is written under the lock.
        self.holder.store(0, Ordering::Relaxed);
    }
}

/// Returns a nonzero number that no other living thread has.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
