//! How a timer finds the object of its channel.
//!
//! The object keeps the timer alive, so the timer must not keep the object alive; but `timer.c is timer.c`.

#![allow(unsafe_code)]

use pyo3::prelude::*;

use super::object::Chan;
use crate::gil::GilCell;

/// The channel's object, as long as there is one.
pub(crate) struct View(GilCell<Address>);

/// Of the object; or one of the two below.
#[derive(Clone, Copy, PartialEq)]
struct Address(*mut pyo3::ffi::PyObject);

/// There has not been an object yet.
const NEVER: Address = Address(std::ptr::null_mut());
/// There is none any more.
const GONE: Address = Address(std::ptr::dangling_mut());

// SAFETY: an address; it is followed with the interpreter's lock only.
unsafe impl Send for Address {}

impl View {
    pub(crate) const fn new() -> Self {
        View(GilCell::new(NEVER))
    }

    /// Whether anybody has ever seen the channel.
    #[inline]
    pub(crate) fn is_new(&self, py: Python<'_>) -> bool {
        self.0.get(py) == NEVER
    }

    /// The object, made by `make` if there is none.
    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> Chan,
    ) -> PyResult<Bound<'py, Chan>> {
        let address = self.0.get(py);
        if address != NEVER && address != GONE {
            // SAFETY: it is a `Chan`, and not freed: its `Drop` calls `forget`, under the interpreter's lock, which has
            // not been given up since its last reference went.
            return Ok(unsafe { Bound::from_borrowed_ptr(py, address.0).cast_into_unchecked() });
        }
        let chan = Bound::new(py, make())?;
        self.0.replace(py, Address(chan.as_ptr()));
        Ok(chan)
    }

    /// The object is going.
    pub(super) fn forget(&self, py: Python<'_>) {
        self.0.replace(py, GONE);
    }
}
