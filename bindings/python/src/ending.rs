//! Calls into Python that are safe while the interpreter ends.
//!
//! A call may release the GIL and take it again. A thread that does so while the interpreter ends
//! never gets the GIL back: before 3.14 Python ends such a thread (a daemon thread, or a foreign
//! one) by unwinding its stack, which Rust frames do not survive. So the thread blocks at the first
//! Rust frame until the process exits. PyO3 blocks such a thread where PyO3 itself takes the GIL,
//! but not where Python takes the GIL within a call.
//!
//! Use these functions for calls that block or run a program's code. Other calls do not release the
//! GIL.

#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::c_int;
use std::hint::black_box;

/// Blocks the thread forever when dropped.
struct BlockForever;

impl Drop for BlockForever {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

// PyO3 declares these functions as if they never unwound. Link-time optimisation merges its
// declarations with these and may then drop the guard, so the calls go through opaque pointers.
type Call =
    unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;
type Compare = unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject, c_int) -> c_int;

unsafe extern "C-unwind" {
    fn PyObject_CallObject(
        function: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;

    fn PyObject_RichCompareBool(
        left: *mut ffi::PyObject,
        right: *mut ffi::PyObject,
        how: c_int,
    ) -> c_int;
}

/// Calls `function(*args)`.
#[inline]
pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let guard = BlockForever;
    let call: Call = black_box(PyObject_CallObject);
    // SAFETY: attached; both are borrowed for the call; the result is an owned reference, or null
    // with an error set.
    let result = unsafe { call(function.as_ptr(), args.as_ptr()) };
    std::mem::forget(guard);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}

/// Returns `left < right`.
#[inline]
pub(crate) fn is_less(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<bool> {
    let guard = BlockForever;
    let compare: Compare = black_box(PyObject_RichCompareBool);
    // SAFETY: attached; both are borrowed for the call.
    let answer = unsafe { compare(left.as_ptr(), right.as_ptr(), ffi::Py_LT) };
    std::mem::forget(guard);
    match answer {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(PyErr::fetch(left.py())),
    }
}
