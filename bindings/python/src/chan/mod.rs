//! Channels after Go's and pygolang's: `chan`, `select`, `default`, `nilchan`.
//!
//! - `channel` is a channel's state and `waiter` a waiting operation; both are independent of
//!   Python.
//! - `item` is the type of a channel's items.
//! - `block` blocks without the GIL, and handles signals meanwhile.
//! - `object` and `select` are the Python API; `view` links a timer to its channel's object.

mod block;
mod channel;
mod item;
mod object;
mod select;
mod view;
mod waiter;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pub(crate) use block::Signals;
pub(crate) use channel::Channel;
pub(crate) use item::{Dtype, Item};
pub(crate) use object::Chan;
pub(crate) use view::View;
pub(crate) use waiter::{forked, forks};

pyo3::create_exception!(
    punctual,
    PanicError,
    PyRuntimeError,
    "Raised where Go would panic: a send on a closed channel, a second close; a reset of an armed timer; a ticker without a period; `punctual.golang.panic`."
);

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<Chan>()?;
    m.add_function(wrap_pyfunction!(select::select, m)?)?;
    m.add_function(wrap_pyfunction!(object::_waiting, m)?)?;
    m.add("default", Py::new(py, select::Default)?)?;
    m.add("nilchan", Chan::nil_of(py, Dtype::Object)?)?;
    m.add("PanicError", py.get_type::<PanicError>())
}
