//! Calls of the timers' functions.
//!
//! On the system's clock, workers call the functions: one worker takes the GIL once and calls the
//! functions in the queue; another worker takes over if a function blocks (see [`Workers`]). On a
//! virtual clock, `advance` calls the functions one by one.
//!
//! An exception of a function is reported through `threading.excepthook`, like an exception that
//! ends a thread.
//!
//! The interpreter does not wait for the workers when it ends, as with daemon threads; see
//! [`ending`].

use std::time::Duration;

use punctual::driver::{Jobs, Runner, Workers};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyTraceback, PyTuple, PyType};

use super::alarm::Job;
use super::thread_state::Owner;
use super::virtual_time::Interrupt;
use crate::ending;

/// Creates the workers for the system's clock.
pub(super) fn workers(py: Python<'_>) -> Workers<Job> {
    let owner = Owner::current(py);
    Workers::new(move |jobs: &mut Jobs<'_, Job>| {
        let created = owner.create_state();
        let attached = Python::try_attach(|py| {
            if let Some(created) = created {
                created.end_with_attachment(py);
            }
            for function in &mut *jobs {
                if let Err(error) = call(py, &function) {
                    report(py, error);
                }
                drop(function);
            }
        });
        if attached.is_none() {
            // The interpreter has ended: call nothing, and leak the objects.
            jobs.for_each(std::mem::forget);
        }
    })
    .with_stall(stall)
}

/// Returns the time after which the functions' current worker counts as blocked, so that another
/// worker starts. A worker that waits for the GIL within a function looks blocked as well, so the
/// time grows with the number of workers. The growth has a limit, because a program may arm
/// hundreds of functions that block.
fn stall(workers: usize) -> Duration {
    const USUAL: Duration = Duration::from_micros(100);
    USUAL * (1 << workers.saturating_sub(2).min(3))
}

/// Runs jobs on a virtual clock. Keeps a KeyboardInterrupt for `advance` to raise.
pub(super) struct Inline(pub(super) Interrupt);

impl Runner<Job> for Inline {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        // This thread is already attached: `advance` is a method that Python calls.
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
    // The last argument is the `Thread`: None, because `threading` did not start this thread.
    let args = (kind, error.value(py), traceback, py.None());
    let args = threading.getattr("ExceptHookArgs")?.call1((args,))?;
    ending::call(
        &threading.getattr("excepthook")?,
        &PyTuple::new(py, [args])?,
    )?;
    Ok(())
}
