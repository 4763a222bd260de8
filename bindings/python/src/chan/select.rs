//! `select`: one of several sends and receives.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern};
use smallvec::SmallVec;

use super::PanicError;
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

    /// Pickles as the singleton.
    fn __reduce__(&self) -> &'static str {
        "default"
    }
}

/// A parsed argument of `select`.
enum CaseArg<'py> {
    Recv(Bound<'py, Chan>),
    /// `recv_`, with Go's "comma ok".
    RecvOk(Bound<'py, Chan>),
    Send(Bound<'py, Chan>, Option<Item>),
    Default,
}

/// Performs one of several sends and receives, as soon as one is ready.
///
/// Each case is `c.recv`, `c.recv_`, `(c.send, item)` or `default`. If several cases are ready, one
/// is chosen at random. If none is ready, `default` is chosen; without a `default` the call blocks.
/// Cases on the nil channel are never ready, and a select without cases blocks forever.
///
/// Returns `(index, value)`: the index of the case, and the received value: the item for `recv`,
/// `(item, ok)` for `recv_`, `None` for a send and for `default`.
///
/// Raises `PanicError` for a second `default`, and for a send on a closed channel.
/// Raises `TypeError` if an argument is a method or a tuple but not a case, or if an item does not
/// have the channel's type. Raises `AttributeError` if an argument, or the first element of a pair,
/// is not a method.
#[pyfunction]
#[pyo3(signature = (*cases))]
pub(super) fn select<'py>(cases: &Bound<'py, PyTuple>) -> PyResult<(usize, Py<PyAny>)> {
    let py = cases.py();
    let mut args: SmallVec<[CaseArg<'py>; 4]> = SmallVec::with_capacity(cases.len());
    let mut default = None;
    for (number, case) in cases.iter().enumerate() {
        let case = parse(&case)?;
        if matches!(case, CaseArg::Default) && default.replace(number).is_some() {
            return Err(PanicError::new_err("select: multiple default"));
        }
        args.push(case);
    }

    let mut ready: SmallVec<[Case<'_>; 4]> = SmallVec::with_capacity(args.len());
    for case in &mut args {
        ready.push(match case {
            CaseArg::Recv(chan) | CaseArg::RecvOk(chan) => chan.get().receiving(py),
            CaseArg::Send(chan, item) => chan.get().sending(py, item.take()),
            CaseArg::Default => Case::Never,
        });
    }
    let (number, outcome) = match (block::poll(&mut ready), default) {
        (Some(done), _) => done,
        (None, Some(default)) => return Ok((default, py.None())),
        (None, None) => block::wait(py, &mut ready)?,
    };
    drop(ready);

    let value = match (&args[number], outcome) {
        (CaseArg::Recv(_), Outcome::Received(item)) => item.into_object(py)?,
        (CaseArg::RecvOk(_), Outcome::Received(item)) => {
            (item.into_object(py)?, true).into_py_any(py)?
        }
        (CaseArg::Recv(chan), _) => chan.get().zero(py)?,
        (CaseArg::RecvOk(chan), _) => (chan.get().zero(py)?, false).into_py_any(py)?,
        (CaseArg::Send(..), Outcome::Closed) => return Err(sent_on_closed()),
        (CaseArg::Send(..) | CaseArg::Default, _) => py.None(),
    };
    Ok((number, value))
}

fn parse<'py>(case: &Bound<'py, PyAny>) -> PyResult<CaseArg<'py>> {
    if case.is_instance_of::<Default>() {
        return Ok(CaseArg::Default);
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
        return Ok(CaseArg::Send(chan, Some(item)));
    }
    let (chan, name) = method(case)?;
    if name == "recv" {
        Ok(CaseArg::Recv(chan))
    } else if name == "recv_" {
        Ok(CaseArg::RecvOk(chan))
    } else {
        Err(PyTypeError::new_err(format!(
            "select: a case is c.recv, c.recv_, (c.send, item) or default, not c.{name}"
        )))
    }
}

/// Returns the channel of a bound method, and the method's name.
fn method<'py>(bound: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, Chan>, Bound<'py, PyString>)> {
    let py = bound.py();
    let chan = bound.getattr(intern!(py, "__self__"))?;
    let chan = chan.cast_into::<Chan>().ok();
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
