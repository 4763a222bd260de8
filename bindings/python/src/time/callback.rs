//! Calls of the timers' functions.
//!
//! On the system's clock, workers run the functions: one worker takes the GIL once and runs the
//! queue; another takes over if a function blocks it (see [`Workers`]). On a virtual clock,
//! `advance` calls them one by one.
//!
//! An exception of a function is reported through `threading.excepthook`, as for a thread that it
//! ends.
//!
//! At the end of the interpreter nothing waits for these threads, as with daemon threads; see
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

/// A worker that waits for the GIL within a function looks blocked, so the delay grows with the
/// number of workers. It grows slowly, because blocking functions come in hundreds. A new worker
/// must get the GIL before the next one starts, so functions that compute limit the growth.
fn stall(workers: usize) -> Duration {
    const USUAL: Duration = Duration::from_micros(100);
    USUAL * (1 << workers.saturating_sub(2).min(3))
}

/// Runs jobs on a virtual clock. Keeps a KeyboardInterrupt for `advance` to raise.
pub(super) struct Inline(pub(super) Interrupt);

impl Runner<Job> for Inline {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        // Already attached: `advance` is a method.
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
    // The thread is not one of `threading`'s.
    let args = (kind, error.value(py), traceback, py.None());
    let args = threading.getattr("ExceptHookArgs")?.call1((args,))?;
    ending::call(
        &threading.getattr("excepthook")?,
        &PyTuple::new(py, [args])?,
    )?;
    Ok(())
}
