//! Limits a native module to one interpreter per process: statics hold the module's types and
//! objects of other modules. A second interpreter would use objects of the first interpreter and
//! destroy them at its end.
//!
//! `PyO3` makes the same check only in `ModuleDef::make_module`, which a Python `import` does not
//! call.

#![allow(unsafe_code, reason = "PyO3 has no safe form of these functions")]

use pyo3::exceptions::PyImportError;
use pyo3::ffi::{PyInterpreterState_Get, PyInterpreterState_GetID};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// Claims the module for the current interpreter. The error's message has the name `package`.
///
/// # Errors
///
/// `ImportError` if another interpreter has claimed it.
pub fn claim(_py: Python<'_>, package: &str) -> PyResult<()> {
    static OWNER: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: a `Python<'_>` proves that this thread holds the GIL of an interpreter. The
    // interpreter lives as long as this thread holds its GIL.
    let current = unsafe { PyInterpreterState_GetID(PyInterpreterState_Get()) };
    match OWNER.compare_exchange(-1, current, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(owner) if owner == current => Ok(()),
        Err(_) => Err(PyImportError::new_err(format!(
            "{package} cannot be imported in a subinterpreter: another interpreter of this process has imported it"
        ))),
    }
}
