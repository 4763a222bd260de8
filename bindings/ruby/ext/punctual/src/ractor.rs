//! Ractors, and data that several of them may read.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// Lets Ractors other than the main one call the extension's methods.
pub(crate) fn declare_safe() {
    // SAFETY: `rb_ext_ractor_safe` sets a flag of the extension that is being loaded.
    unsafe { rb_sys::rb_ext_ractor_safe(true) }
}

/// Data of a Ruby object that is shareable once it is frozen.
///
/// Until then a single Ractor has the object, and of its threads only the one with the lock runs. A
/// frozen object is only read.
pub(crate) struct Shareable<T>(UnsafeCell<T>);

// SAFETY: several Ractors have frozen objects only, whose data nobody changes: `change` is called
// after a check for that. (The collector, which updates references, stops all Ractors.)
unsafe impl<T: Send> Sync for Shareable<T> {}

impl<T> Shareable<T> {
    pub(crate) const fn new(value: T) -> Self {
        Shareable(UnsafeCell::new(value))
    }

    /// Reads the data. `f` must run no Ruby code, and allocate no Ruby object.
    #[inline]
    pub(crate) fn look<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: no `change` is going on: see the type; and `change` runs no Ruby code that could
        // lead here.
        f(unsafe { &*self.0.get() })
    }

    /// Changes the data of an object that is not frozen. `f` must run no Ruby code, and allocate no
    /// Ruby object.
    #[inline]
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: a single Ractor has the object, this thread has its lock until `f` returns, and
        // neither `look` nor `change` leads here.
        f(unsafe { &mut *self.0.get() })
    }
}
