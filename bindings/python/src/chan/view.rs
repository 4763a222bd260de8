//! The link from a timer to the Python object of its channel, `timer.c`.
//!
//! The object keeps the timer alive, so the timer must not keep the object alive. Nevertheless
//! `timer.c is timer.c` must hold, so the timer has a weak reference.

#![allow(unsafe_code)]

use pyo3::prelude::*;

use super::object::Chan;
use crate::gil::GilCell;

/// Weak reference to the channel's object.
pub(crate) struct View(GilCell<Address>);

/// Address of the object, or one of the constants [`NEVER`] and [`GONE`].
#[derive(Clone, Copy, PartialEq)]
struct Address(*mut pyo3::ffi::PyObject);

/// No object has been created yet.
const NEVER: Address = Address(std::ptr::null_mut());
/// The object has been freed.
const GONE: Address = Address(std::ptr::dangling_mut());

// SAFETY: a plain address; it is dereferenced only under the GIL.
unsafe impl Send for Address {}

impl View {
    pub(crate) const fn new() -> Self {
        View(GilCell::new(NEVER))
    }

    /// Returns true if the channel has never had an object.
    #[inline]
    pub(crate) fn is_new(&self, py: Python<'_>) -> bool {
        self.0.get(py) == NEVER
    }

    /// Returns the object. Creates it with `make` if it does not exist.
    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> Chan,
    ) -> PyResult<Bound<'py, Chan>> {
        let address = self.0.get(py);
        if address != NEVER && address != GONE {
            // SAFETY: the object is a `Chan` and not freed: its `Drop` calls `forget` under the
            // GIL, which has been held since its last reference was dropped.
            return Ok(unsafe { Bound::from_borrowed_ptr(py, address.0).cast_into_unchecked() });
        }
        let chan = Bound::new(py, make())?;
        self.0.replace(py, Address(chan.as_ptr()));
        Ok(chan)
    }

    /// Records that the object is being freed. Only the `Drop` of `Chan` calls this.
    pub(super) fn forget(&self) {
        // SAFETY: Python frees an object on a thread with the GIL, and so does `Bound::new` if it
        // fails.
        let py = unsafe { Python::assume_attached() };
        self.0.replace(py, GONE);
    }
}
