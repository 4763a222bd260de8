//! Ractors, and data that several Ractors may read.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// Lets Ractors other than the main one call the extension's methods.
pub(crate) fn declare_safe() {
    // SAFETY: `rb_ext_ractor_safe` sets a flag of the extension that is being loaded.
    unsafe { rb_sys::rb_ext_ractor_safe(true) }
}

/// Data of a Ruby object that is shareable once it is frozen.
///
/// An object that is not frozen belongs to a single Ractor, and only the thread with that Ractor's
/// lock runs. The data of a frozen object is only read.
pub(crate) struct Shareable<T>(UnsafeCell<T>);

// SAFETY: only frozen objects belong to several Ractors, and their data does not change: methods
// check that the object is not frozen before they call `change`. The garbage collector, which
// updates references, stops all Ractors.
unsafe impl<T: Send> Sync for Shareable<T> {}

impl<T> Shareable<T> {
    pub(crate) const fn new(value: T) -> Self {
        Shareable(UnsafeCell::new(value))
    }

    /// Reads the data. `f` must run no Ruby code, and allocate no Ruby object.
    #[inline]
    pub(crate) fn look<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: no `change` runs on another thread (see the type) or on this one: its `f` runs no
        // Ruby code, so it does not call this method.
        f(unsafe { &*self.0.get() })
    }

    /// Changes the data of an object that is not frozen. `f` must run no Ruby code, and allocate no
    /// Ruby object.
    #[inline]
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the object belongs to a single Ractor, whose lock this thread holds until `f`
        // returns. The closures of `look` and `change` run no Ruby code, so they do not call this
        // method.
        f(unsafe { &mut *self.0.get() })
    }
}
