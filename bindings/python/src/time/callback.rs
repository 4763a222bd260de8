//! Calling the functions of timers.
//!
//! On the system's clock workers do it: one takes the interpreter's lock once and calls what waits; one that is stuck
//! in a function is passed over (see [`Workers`]). On a virtual clock `advance` calls them itself, one by one.
//!
//! What a function raises is reported as for a thread that ends by it, through `threading.excepthook`.
//!
//! At the interpreter's end nothing is waited for, as with daemon threads. A thread that wants the lock then never
//! gets it: before 3.14 Python ends such a thread by unwinding its stack, which no frame of Rust may be in the way
//! of, so it is held up at the first one, for the moment that the process still lives. PyO3 does the same where it
//! takes the lock; here it is done for the calls during which Python itself gives it up and takes it.

#![allow(unsafe_code)]

use std::time::Duration;

use punctual::driver::{Jobs, Runner, Workers};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTraceback, PyType};

use super::alarm::Job;
use super::virtual_time::Interrupt;

/// For the system's clock.
pub(super) fn workers() -> Workers<Job> {
    Workers::new(|jobs: &mut Jobs<'_, Job>| {
        let attached = Python::try_attach(|py| {
            for function in &mut *jobs {
                if let Err(error) = call(py, &function) {
                    report(py, error);
                }
                drop(function);
            }
        });
        if attached.is_none() {
            // The interpreter has gone: nothing is called, and objects are nobody's any more.
            jobs.for_each(std::mem::forget);
        }
    })
    .with_stall(stall)
}

/// A worker that waits for the interpreter's lock in the middle of a function looks stuck. Python hands the lock on every
/// 5 ms, so beyond some eight workers only what takes longer counts.
fn stall(workers: usize) -> Duration {
    const USUAL: Duration = Duration::from_micros(100);
    USUAL * (1 << workers.saturating_sub(2).min(8))
}

/// For a virtual clock. A KeyboardInterrupt is kept for `advance` to raise.
pub(super) struct Inline(pub(super) Interrupt);

impl Runner<Job> for Inline {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        // Attached already: `advance` is a method.
        Python::attach(|py| {
            for function in jobs.drain(..) {
                let Err(error) = call(py, &function) else {
                    continue;
                };
                if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                    self.0.raise(error);
                } else {
                    report(py, error);
                }
            }
        });
    }
}

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
    /// PyO3 declares it as if it never unwound.
    fn PyObject_CallObject(
        function: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

fn call(py: Python<'_>, function: &Py<PyAny>) -> PyResult<()> {
    let hold_up = HoldUp;
    // SAFETY: attached; a null tuple means no arguments; the result is a reference of ours, or null with an error set.
    let result = unsafe { PyObject_CallObject(function.as_ptr(), std::ptr::null_mut()) };
    std::mem::forget(hold_up);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }.map(drop)
}

#[cold]
fn report(py: Python<'_>, error: PyErr) {
    if let Err(failed) = hand_to_excepthook(py, &error) {
        error.write_unraisable(py, None);
        failed.write_unraisable(py, None);
    }
}

fn hand_to_excepthook(py: Python<'_>, error: &PyErr) -> PyResult<()> {
    let threading = py.import("threading")?;
    let kind: Bound<'_, PyType> = error.get_type(py);
    let traceback: Option<Bound<'_, PyTraceback>> = error.traceback(py);
    // The thread is none of `threading`'s.
    let args = (kind, error.value(py), traceback, py.None());
    let args = threading.getattr("ExceptHookArgs")?.call1((args,))?;
    threading.getattr("excepthook")?.call1((args,))?;
    Ok(())
}
