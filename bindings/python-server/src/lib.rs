//! `punctual_server._punctual_server`: the native module of the package `punctual_server`. The
//! stubs (`python/punctual_server/_punctual_server.pyi`) have the types.

#![forbid(unsafe_code)]

mod call;
mod commands;
mod errors;
mod log;
mod program;
mod server;

use pyo3::prelude::*;

/// The native part of the package `punctual_server`, whose modules document and export its names.
#[pymodule]
mod _punctual_server {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        punctual_python_interpreter::claim(m.py(), "punctual_server")?;
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::server::register(m)?;
        // No module imports `*` from this private module, and the stubs would have to repeat the
        // list.
        m.delattr("__all__")
    }
}
