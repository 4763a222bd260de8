//! Python's thread state of a worker, created while no fork can run.
//!
//! A thread that attaches to the interpreter first creates its thread state, under a lock of the
//! interpreter but without the GIL. Before Python 3.12, the child of a fork at that moment waits
//! for this lock forever. So on these versions a worker creates its state in a separate step,
//! guarded by [`NoFork`], before it attaches. The state lasts for one attachment, as usual.

#![allow(
    unsafe_code,
    reason = "PyO3 attaches threads, and leaves their states to Python"
)]

use pyo3::ffi::{self, PyGILState_STATE, PyInterpreterState};
use pyo3::prelude::*;

use super::fork::NoFork;

/// The interpreter whose workers create their states in a separate step; null from Python 3.12 on.
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

    /// Creates this thread's state, unless it has one or needs no separate step. The thread must
    /// not be attached. The thread passes the result to [`Created::end_with_attachment`] when it is
    /// attached.
    pub(super) fn create_state(self) -> Option<Created> {
        // SAFETY: both functions may be called at any time. The interpreter may end after the
        // check; Python's own attachment has the same race.
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

/// A state that this thread has created. Python counts its creation like an attachment, so the
/// state would never end.
pub(super) struct Created(());

impl Created {
    /// Removes the creation from the count, so that the state ends with the current attachment.
    pub(super) fn end_with_attachment(self, _py: Python<'_>) {
        // SAFETY: the thread is attached, so its state counts as attached twice: once from its
        // creation.
        unsafe { ffi::PyGILState_Release(PyGILState_STATE::PyGILState_LOCKED) };
    }
}
