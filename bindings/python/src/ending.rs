//! Calls into Python that the interpreter may end in.
//!
//! A call may give the interpreter's lock up and take it again. A thread that does so while the interpreter ends never
//! gets it: before 3.14 Python ends such a thread (a daemon one, or none of Python's) by unwinding its stack, which
//! frames of Rust do not survive. So it is held up at the first of them, for the moment that the process still lives.
//! PyO3 does the same where it takes the lock itself, but not where Python does so within a call.
//!
//! What is called here is what waits or runs a program's code. The rest takes no lock, or so briefly that it is over
//! before another thread can ask for it.

#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::c_int;

/// Holds the thread up for good when it is dropped.
struct HoldUp;

impl Drop for HoldUp {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

unsafe extern "C-unwind" {
    // PyO3 declares them as if they never unwound.
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

/// `function(*args)`.
#[inline]
pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let hold_up = HoldUp;
    // SAFETY: attached; both are borrowed for the call; the result is a reference of ours, or null with an error set.
    let result = unsafe { PyObject_CallObject(function.as_ptr(), args.as_ptr()) };
    std::mem::forget(hold_up);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}

/// `left < right`.
#[inline]
pub(crate) fn is_less(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<bool> {
    let hold_up = HoldUp;
    // SAFETY: attached; both are borrowed for the call.
    let answer = unsafe { PyObject_RichCompareBool(left.as_ptr(), right.as_ptr(), ffi::Py_LT) };
    std::mem::forget(hold_up);
    match answer {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(PyErr::fetch(left.py())),
    }
}
