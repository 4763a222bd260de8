//! Calling the functions of timers.
//!
//! On the system's clock workers do it: one takes the interpreter's lock once and calls what waits; one that is stuck
//! in a function is passed over (see [`Workers`]). On a virtual clock `advance` calls them itself, one by one.
//!
//! What a function raises is reported as for a thread that ends by it, through `threading.excepthook`.
//!
//! At the interpreter's end nothing is waited for, as with daemon threads; see [`ending`].

use std::time::Duration;

use punctual::driver::{Jobs, Runner, Workers};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyTraceback, PyTuple, PyType};

use super::alarm::Job;
use super::virtual_time::Interrupt;
use crate::ending;

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

/// A worker that waits for the interpreter's lock in the middle of a function looks stuck, so more of them need more
/// time. But not much more, for functions that do block come in hundreds; and a worker that is started must have got that
/// lock before the next one is, so that functions that compute hold up the growth themselves.
fn stall(workers: usize) -> Duration {
    const USUAL: Duration = Duration::from_micros(100);
    USUAL * (1 << workers.saturating_sub(2).min(3))
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

fn call(py: Python<'_>, function: &Py<PyAny>) -> PyResult<()> {
    ending::call(function.bind(py), &PyTuple::empty(py)).map(drop)
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
    ending::call(
        &threading.getattr("excepthook")?,
        &PyTuple::new(py, [args])?,
    )?;
    Ok(())
}
