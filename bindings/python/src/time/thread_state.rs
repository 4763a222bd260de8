//! Python's state of a worker's thread, created where no fork can meet it.
//!
//! A thread that attaches to the interpreter creates its state first, under a lock of the
//! interpreter but without the GIL. Before Python 3.12, the child of a fork at that moment waits
//! for this lock forever. So there the state is created ahead, while forks wait. It lasts for one
//! attachment, as it would otherwise.

#![allow(
    unsafe_code,
    reason = "PyO3 attaches threads, and leaves their states to Python"
)]

use pyo3::ffi::{self, PyGILState_STATE, PyInterpreterState};
use pyo3::prelude::*;

use super::fork::NoFork;

/// The interpreter whose threads need their states ahead; null if they do not.
#[derive(Clone, Copy)]
pub(super) struct Owner(*mut PyInterpreterState);

// SAFETY: a plain address, given back to Python only.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    pub(super) fn current(py: Python<'_>) -> Self {
        if py.version_info() >= (3, 12) {
            return Owner(std::ptr::null_mut());
        }
        // SAFETY: a `Python<'_>` proves that this thread holds the GIL of an interpreter.
        Owner(unsafe { ffi::PyInterpreterState_Get() })
    }

    /// Creates this thread's state, unless it has one or needs none. The thread must not be
    /// attached. Returns what the thread must drop while it is attached, so that the state ends
    /// with the attachment.
    pub(super) fn create_state(self) -> Option<Created> {
        // SAFETY: these may be called at any time. As in an attachment, a check that the
        // interpreter lives is the best there is.
        let skip = self.0.is_null()
            || unsafe {
                ffi::Py_IsInitialized() == 0 || !ffi::PyGILState_GetThisThreadState().is_null()
            };
        if skip {
            return None;
        }
        let _guard = NoFork::enter();
        // SAFETY: the interpreter lives, and the thread has no state. Needs no GIL.
        let state = unsafe { ffi::PyThreadState_New(self.0) };
        (!state.is_null()).then_some(Created(()))
    }
}

/// A state that this thread has created. It counts as attached once, beside the attachment itself.
pub(super) struct Created(());

impl Created {
    /// Has the state end with the attachment.
    pub(super) fn end_with_attachment(self, _py: Python<'_>) {
        // SAFETY: the thread is attached, so its state counts as attached twice: once from its
        // creation.
        unsafe { ffi::PyGILState_Release(PyGILState_STATE::PyGILState_LOCKED) };
    }
}
