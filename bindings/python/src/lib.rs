//! `punctual._punctual`: one flat native module. The package's Python modules export each name, and
//! the stubs (`python/punctual/_punctual.pyi`) have the types.

#![deny(unsafe_code)]

mod aio;
mod chan;
mod ending;
mod gil;
mod greenlet;
mod kernel;
mod queue;
mod time;

use pyo3::prelude::*;

/// The native part of the package `punctual`, whose modules document and export its names.
#[pymodule]
mod _punctual {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        punctual_python_interpreter::claim(m.py(), "punctual")?;
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::queue::register(m)?;
        crate::chan::register(m)?;
        crate::time::register(m)?;
        crate::aio::register(m)?;
        // PyO3 adds the list `__all__`, which the stubs would have to repeat. No module imports `*`
        // from this private module.
        m.delattr("__all__")
    }
}
