//! `python -m punctual_server serve`.

use std::ffi::OsString;

use punctual_server::program::Host;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Runs the server program with the command line `args`, until SHUTDOWN, SIGTERM or SIGINT.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, args: Vec<OsString>) -> PyResult<()> {
    py.detach(|| punctual_server::program::serve(args, Host::default()))
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
