//! gevent's hub, by `python/punctual/_greenlets.py`, which explains when a thread has one.

use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::ending;

/// The hub of the calling thread.
pub(crate) struct Hub<'py> {
    hub: Bound<'py, PyAny>,
}

/// Returns the hub of this thread, or `None` if the thread has no hub. Without gevent this is one
/// look into a dict.
pub(crate) fn hub(py: Python<'_>) -> PyResult<Option<Hub<'_>>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        PyResult::Ok(modules.cast_into::<PyDict>()?.unbind())
    })?;
    if !modules
        .bind(py)
        .contains(intern!(py, "gevent._hub_local"))?
    {
        return Ok(None);
    }
    let hub = greenlets(py)?.call_method0(intern!(py, "hub"))?;
    Ok((!hub.is_none()).then_some(Hub { hub }))
}

fn greenlets(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "punctual._greenlets"))
}

impl Hub<'_> {
    /// Switches to the hub until the file is readable.
    pub(crate) fn wait_readable(&self, file: RawFd) -> PyResult<()> {
        let py = self.hub.py();
        let wait = greenlets(py)?.getattr(intern!(py, "wait_readable"))?;
        let args = (&self.hub, file).into_pyobject(py)?;
        ending::call(&wait, &args).map(drop)
    }
}
