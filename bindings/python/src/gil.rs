//! Cells that the interpreter's lock guards.
//!
//! Every build of this module has that lock (abi3 excludes interpreters without one), and whoever shows a
//! `Python<'_>` holds it. No method here runs foreign code while it has a reference to the content, so nobody can
//! come in between.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};

use pyo3::{Py, PyTraverseError, PyVisit, Python};

/// A value that threads may read and replace while they hold the interpreter's lock.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: the content is reached only by methods that take a `Python<'_>` or a `PyVisit`, each of which proves that the
// calling thread holds the interpreter's lock, or by `&mut self`.
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

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
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

/// A value that is worked on in place while the interpreter's lock is held.
///
/// A `Mutex` would pay for an atomic exchange on each side of a few nanoseconds' work. The rule here: nothing in `with`
/// runs Python code, and objects that leave the value are dropped after it. Whoever breaks it does no harm but panics,
/// for the lock is marked while in use.
pub(crate) struct GilLock<T> {
    busy: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `busy` and `value` are reached only in `with` and `visit`, by a thread that holds the interpreter's lock, which
// also orders what one thread wrote before what the next one reads. While a closure runs, `busy` keeps everybody out,
// even if it lets another thread have the lock.
unsafe impl<T: Send> Sync for GilLock<T> {}

impl<T> GilLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        GilLock {
            busy: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Does something with the value. Panics within itself.
    #[inline]
    pub(crate) fn with<R>(&self, _py: Python<'_>, act: impl FnOnce(&mut T) -> R) -> R {
        let _busy = Busy::new(&self.busy).expect("a value is not used from within its own use");
        // SAFETY: the interpreter's lock is held and the value was not in use, so this is the only reference.
        act(unsafe { &mut *self.value.get() })
    }

    /// Shows the value to the garbage collector; `None` while it is in use.
    #[inline]
    pub(crate) fn visit<R>(&self, _visit: PyVisit<'_>, show: impl FnOnce(&T) -> R) -> Option<R> {
        let _busy = Busy::new(&self.busy)?;
        // SAFETY: as in `with`: a `PyVisit` exists only within a traversal, which holds the interpreter's lock.
        Some(show(unsafe { &*self.value.get() }))
    }
}

/// Marks a value as in use for as long as it lives, panics included.
struct Busy<'a>(&'a Cell<bool>);

impl<'a> Busy<'a> {
    #[inline]
    fn new(busy: &'a Cell<bool>) -> Option<Self> {
        (!busy.replace(true)).then_some(Busy(busy))
    }
}

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(false);
    }
}
