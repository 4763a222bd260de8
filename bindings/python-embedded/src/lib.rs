//! `_punctual_embedded`: the native module of the package `punctual_embedded`. The stubs
//! (`python/punctual_embedded/_punctual_embedded.pyi`) have the types.

#![forbid(unsafe_code)]

mod call;
mod commands;
mod errors;
mod log;
mod server;

use pyo3::prelude::*;

/// The native part of the package `punctual_embedded`, whose modules document and export its names.
#[pymodule]
mod _punctual_embedded {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        punctual_python_interpreter::claim(m.py(), "punctual_embedded")?;
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::server::register(m)?;
        // PyO3 adds the list `__all__`, which the stubs would have to repeat. No module imports `*`
        // from this private module.
        m.delattr("__all__")
    }
}
