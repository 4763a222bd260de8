//! Cells guarded by the GIL, and objects that the garbage collector visits.
//!
//! Every build of this module has a GIL (abi3 excludes interpreters without one), and a
//! `Python<'_>` proves that the thread holds it. No method here runs foreign code while it has a
//! reference to the content.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};

use pyo3::{Bound, Py, PyTraverseError, PyVisit, Python, ffi};

/// Lets the garbage collector visit a new object, whose memory may be recycled (`freelist`): Python
/// registers an object with the collector only when it allocates memory.
#[inline]
pub(crate) fn ensure_collected<T>(object: &Bound<'_, T>) {
    let object = object.as_ptr();
    // SAFETY: the object's class has a `__traverse__`, so its memory has a header of the collector.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object) == 0 {
            ffi::PyObject_GC_Track(object.cast());
        }
    }
}

/// A value that threads may read and replace under the GIL.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: the content is reachable only through methods that take a `Python<'_>` or a `PyVisit`,
// each of which proves that the thread holds the GIL, or through `&mut self`.
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

    /// Replaces the value and returns the old one, which the caller may drop.
    #[inline]
    pub(crate) fn replace(&self, _py: Python<'_>, value: T) -> T {
        // SAFETY: see the impl of `Sync`; moving runs no other code.
        unsafe { std::mem::replace(&mut *self.0.get(), value) }
    }
}

impl<T> GilCell<Option<Py<T>>> {
    /// Clones the reference to the object.
    #[inline]
    pub(crate) fn share(&self, py: Python<'_>) -> Option<Py<T>> {
        // SAFETY: see the impl of `Sync`; cloning a reference runs no other code.
        unsafe { &*self.0.get() }
            .as_ref()
            .map(|object| object.clone_ref(py))
    }

    /// Visits the object for the garbage collector.
    pub(crate) fn visit(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: a `PyVisit` exists only within a traversal, which holds the GIL; visiting changes
        // only counters of the collector.
        visit.call(unsafe { &*self.0.get() })
    }
}

/// A value that is changed in place under the GIL.
///
/// Its uses take a few nanoseconds, and a `Mutex` would add two atomic exchanges to each. Closures
/// passed to `with` must not run Python code: objects that a closure takes out of the value are
/// dropped after `with` has returned. A use within a use panics, because the lock is marked while
/// in use.
pub(crate) struct GilLock<T> {
    busy: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: only `with` and `visit` access `busy` and `value`, on a thread that holds the GIL, which
// also orders one thread's writes before the next thread's reads. While a closure runs, `busy`
// excludes all others, even if the closure releases the GIL.
unsafe impl<T: Send> Sync for GilLock<T> {}

impl<T> GilLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        GilLock {
            busy: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `act` on the value. Panics if called from within `act`.
    #[inline]
    pub(crate) fn with<R>(&self, _py: Python<'_>, act: impl FnOnce(&mut T) -> R) -> R {
        let _busy = Busy::new(&self.busy).expect("no reentrant use");
        // SAFETY: the GIL is held and the value was not in use, so this is the only reference.
        act(unsafe { &mut *self.value.get() })
    }

    /// Visits the value for the garbage collector. Returns `None` while it is in use.
    #[inline]
    pub(crate) fn visit<R>(&self, _visit: PyVisit<'_>, show: impl FnOnce(&T) -> R) -> Option<R> {
        let _busy = Busy::new(&self.busy)?;
        // SAFETY: as in `with`: a `PyVisit` exists only within a traversal, which holds the GIL.
        Some(show(unsafe { &*self.value.get() }))
    }
}

/// Marks a value as in use until dropped, even by a panic.
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
