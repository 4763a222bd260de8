//! One interpreter per process: types, and what was asked of other modules, are in statics. An interpreter more would
//! have objects of the first, and take them down with it.
//!
//! `PyO3` looks only when a module is made directly, which Python does not do.

#![allow(unsafe_code, reason = "there is no safe form")]

use pyo3::exceptions::PyImportError;
use pyo3::ffi::{PyInterpreterState_Get, PyInterpreterState_GetID};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// Refuses every interpreter but the first that asks.
pub(crate) fn claim(_py: Python<'_>) -> PyResult<()> {
    static OWNER: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: a `Python<'_>` proves that this thread holds the lock of an interpreter, which lives as long.
    let current = unsafe { PyInterpreterState_GetID(PyInterpreterState_Get()) };
    match OWNER.compare_exchange(-1, current, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(owner) if owner == current => Ok(()),
        Err(_) => Err(PyImportError::new_err(
            "punctual cannot be imported in a subinterpreter: another interpreter of this process has it",
        )),
    }
}
