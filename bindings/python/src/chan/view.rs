//! How a timer finds the object of its channel.
//!
//! The object keeps the timer alive, so the timer must not keep the object alive; but `timer.c is timer.c`.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use pyo3::prelude::*;

use super::object::Chan;
use crate::gil::GilCell;

/// The channel's object, as long as there is one.
pub(crate) struct View(GilCell<Option<Address>>);

#[derive(Clone, Copy)]
struct Address(NonNull<pyo3::ffi::PyObject>);

// SAFETY: an address; it is followed with the interpreter's lock only.
unsafe impl Send for Address {}

impl View {
    pub(crate) const fn new() -> Self {
        View(GilCell::new(None))
    }

    /// The object, made by `make` if there is none.
    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> Chan,
    ) -> PyResult<Bound<'py, Chan>> {
        if let Some(Address(object)) = self.0.get(py) {
            // SAFETY: it is a `Chan`, and not freed: its `Drop` calls `forget`, under the interpreter's lock, which has
            // not been given up since its last reference went.
            return Ok(unsafe {
                Bound::from_borrowed_ptr(py, object.as_ptr()).cast_into_unchecked()
            });
        }
        let chan = Bound::new(py, make())?;
        self.0.replace(py, NonNull::new(chan.as_ptr()).map(Address));
        Ok(chan)
    }

    /// The object is going.
    pub(super) fn forget(&self, py: Python<'_>) {
        self.0.replace(py, None);
    }
}
