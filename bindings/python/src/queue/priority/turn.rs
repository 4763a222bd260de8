//! Turns at a heap: one thread after another, and no turn within a turn.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A lock that is held while Python code compares.
pub(super) struct Turns<T> {
    inner: Mutex<T>,
    /// The thread whose turn it is, 0 if nobody's. Written by the holder of the lock only.
    holder: AtomicUsize,
}

/// A turn; it ends when this is dropped.
pub(super) struct Turn<'a, T> {
    guard: MutexGuard<'a, T>,
    holder: &'a AtomicUsize,
}

impl<T: Send> Turns<T> {
    pub(super) fn new(inner: T) -> Self {
        Turns {
            inner: Mutex::new(inner),
            holder: AtomicUsize::new(0),
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `RuntimeError`, if it is this thread's turn already, for whose end it would wait for ever.
    #[inline]
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<Turn<'_, T>> {
        match self.try_take() {
            Some(turn) => Ok(turn),
            None => self.wait(py),
        }
    }

    #[cold]
    fn wait(&self, py: Python<'_>) -> PyResult<Turn<'_, T>> {
        loop {
            if self.holder.load(Ordering::Relaxed) == this_thread() {
                return Err(PyRuntimeError::new_err(
                    "a comparison of priorities may not use the PriorityQueue it is made for",
                ));
            }
            // The comparison that the other thread is in needs the GIL to come to an end.
            py.detach(|| drop(self.inner.lock()));
            if let Some(turn) = self.try_take() {
                return Ok(turn);
            }
        }
    }

    /// A turn, if it is nobody's.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Turn<'_, T>> {
        let guard = self.inner.try_lock()?;
        self.holder.store(this_thread(), Ordering::Relaxed);
        Some(Turn {
            guard,
            holder: &self.holder,
        })
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // The guard goes after this.
        self.holder.store(0, Ordering::Relaxed);
    }
}

/// A number that no other living thread has; not 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
