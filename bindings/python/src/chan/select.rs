//! `select`: one of several sends and receives.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern};
use smallvec::SmallVec;

use super::block::{self, Case};
use super::item::Item;
use super::object::{Chan, sent_on_closed};
use super::waiter::Outcome;

/// Marks the default case of a `select`.
#[pyclass(frozen, name = "default", module = "punctual")]
pub(super) struct Default;

#[pymethods]
impl Default {
    fn __repr__(&self) -> &'static str {
        "default"
    }

    /// There is one.
    fn __reduce__(&self) -> &'static str {
        "default"
    }
}

/// A case as it was given.
enum Given<'py> {
    Recv(Bound<'py, Chan>),
    /// With "comma ok".
    RecvOk(Bound<'py, Chan>),
    Send(Bound<'py, Chan>, Option<Item>),
    Default,
}

/// Does one of several sends and receives, as soon as one can be done.
///
/// Each case is `c.recv`, `c.recv_`, `(c.send, item)` or `default`. Of the cases that are ready one is
/// chosen at random. If none is, `default` is chosen, or without a `default` select waits. Cases on the
/// nil channel are never ready, and a select without cases waits for ever.
///
/// Returns `(index, value)`: the index of the case, and what was received: the item for `recv`, `(item,
/// ok)` for `recv_`, `None` for a send and for `default`.
///
/// Raises `PanicError` if the case is a send on a closed channel, `TypeError` for what is not a case or
/// an item not of the channel's type, `ValueError` for a second `default`.
#[pyfunction]
#[pyo3(signature = (*cases))]
pub(super) fn select<'py>(cases: &Bound<'py, PyTuple>) -> PyResult<(usize, Py<PyAny>)> {
    let py = cases.py();
    let mut given: SmallVec<[Given<'py>; 4]> = SmallVec::with_capacity(cases.len());
    let mut default = None;
    for (number, case) in cases.iter().enumerate() {
        let case = read(&case)?;
        if matches!(case, Given::Default) && default.replace(number).is_some() {
            return Err(PyValueError::new_err("select: more than one default"));
        }
        given.push(case);
    }

    let mut ready: SmallVec<[Case<'_>; 4]> = SmallVec::with_capacity(given.len());
    for case in &mut given {
        ready.push(match case {
            Given::Recv(chan) | Given::RecvOk(chan) => chan.get().receiving(py),
            Given::Send(chan, item) => chan.get().sending(py, item.take()),
            Given::Default => Case::Never,
        });
    }
    let (number, outcome) = match (block::poll(&mut ready), default) {
        (Some(done), _) => done,
        (None, Some(default)) => return Ok((default, py.None())),
        (None, None) => block::wait(py, &mut ready)?,
    };
    drop(ready);

    let value = match (&given[number], outcome) {
        (Given::Recv(_), Outcome::Received(item)) => item.into_object(py)?,
        (Given::RecvOk(_), Outcome::Received(item)) => {
            (item.into_object(py)?, true).into_py_any(py)?
        }
        (Given::Recv(chan), _) => chan.get().zero(py)?,
        (Given::RecvOk(chan), _) => (chan.get().zero(py)?, false).into_py_any(py)?,
        (Given::Send(..), Outcome::Closed) => return Err(sent_on_closed()),
        (Given::Send(..) | Given::Default, _) => py.None(),
    };
    Ok((number, value))
}

fn read<'py>(case: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
    if case.is_instance_of::<Default>() {
        return Ok(Given::Default);
    }
    if let Ok(pair) = case.cast_exact::<PyTuple>() {
        if pair.len() != 2 {
            return Err(PyTypeError::new_err(format!(
                "select: a send is (c.send, item), not a tuple of {}",
                pair.len()
            )));
        }
        let (chan, name) = method(&pair.get_item(0)?)?;
        if name != "send" {
            return Err(PyTypeError::new_err(format!(
                "select: a send is (c.send, item), not (c.{name}, item)"
            )));
        }
        let item = chan.get().dtype().item(&pair.get_item(1)?)?;
        return Ok(Given::Send(chan, Some(item)));
    }
    let (chan, name) = method(case)?;
    if name == "recv" {
        Ok(Given::Recv(chan))
    } else if name == "recv_" {
        Ok(Given::RecvOk(chan))
    } else {
        Err(PyTypeError::new_err(format!(
            "select: a case is c.recv, c.recv_, (c.send, item) or default, not c.{name}"
        )))
    }
}

/// The channel of a bound method, and the method's name.
fn method<'py>(bound: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, Chan>, Bound<'py, PyString>)> {
    let py = bound.py();
    let chan = bound.getattr(intern!(py, "__self__")).ok();
    let chan = chan.and_then(|chan| chan.cast_into::<Chan>().ok());
    let name = bound.getattr(intern!(py, "__name__")).ok();
    let name = name.and_then(|name| name.cast_into::<PyString>().ok());
    match (chan, name) {
        (Some(chan), Some(name)) => Ok((chan, name)),
        _ => Err(PyTypeError::new_err(format!(
            "select: a case is c.recv, c.recv_, (c.send, item) or default, not {}",
            bound.repr()?
        ))),
    }
}
