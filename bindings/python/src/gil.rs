//! Cells that the interpreter's lock guards.
//!
//! Every build of this module has that lock (abi3 excludes interpreters without one), and whoever shows a
//! `Python<'_>` holds it. No method here runs foreign code while it has a reference to the content, so nobody can
//! come in between.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

use pyo3::{Py, PyTraverseError, PyVisit, Python};

/// A value that threads may read and replace while they hold the interpreter's lock.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: the content is reached only by methods that take a `Python<'_>` or a `PyVisit`, each of which proves that the
// calling thread holds the interpreter's lock.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        GilCell(UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn get(&self, _py: Python<'_>) -> T
    where
        T: Copy,
    {
        // SAFETY: see the impl of `Sync`; copying runs no other code.
        unsafe { *self.0.get() }
    }

    /// Puts `value` in and hands out what was there, to be dropped where that is allowed.
    #[inline]
    pub(crate) fn replace(&self, _py: Python<'_>, value: T) -> T {
        // SAFETY: see the impl of `Sync`; moving runs no other code.
        unsafe { std::mem::replace(&mut *self.0.get(), value) }
    }
}

impl<T> GilCell<Option<Py<T>>> {
    /// Another reference to the object.
    #[inline]
    pub(crate) fn share(&self, py: Python<'_>) -> Option<Py<T>> {
        // SAFETY: see the impl of `Sync`; counting a reference runs no other code.
        unsafe { &*self.0.get() }
            .as_ref()
            .map(|object| object.clone_ref(py))
    }

    /// Shows the object to the garbage collector.
    pub(crate) fn visit(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: a `PyVisit` exists only within a traversal, which holds the interpreter's lock; visiting changes
        // counters of the collector only.
        visit.call(unsafe { &*self.0.get() })
    }
}
