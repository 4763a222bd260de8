//! Own commands: functions of Python that the server calls.
//!
//! Ground rules: an event loop leaves each command in the queue of a [`CommandRequests`] and waits
//! (`punctual_server::Requests`). One thread of Python (`python/punctual_embedded/commands.py`)
//! takes it, calls the function, and replies. So the server's threads never run Python, and no
//! frame of Rust is below a function, which may end by an exception or with its thread. The thread
//! releases the GIL while it waits for the next command, and while the loop runs a command for it.

use std::sync::Arc;

use parking_lot::Mutex;
use punctual_server::{CallError, Parameter, Request, Requests, Value};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::call::{reply, words};
use crate::errors::CommandError;

/// Maximum depth of a reply: the depth that clients in the process can decode.
const DEPTH_MAX: usize = 128;

/// The parameters of a function: required ones, optional ones, and the name of the rest.
pub(crate) type Parameters = (Vec<String>, Vec<String>, Option<String>);

pub(crate) fn parameters((required, optional, rest): Parameters) -> Vec<Parameter> {
    let required = required.into_iter().map(Parameter::Required);
    let optional = optional.into_iter().map(Parameter::Optional);
    let rest = rest.into_iter().map(Parameter::Rest);
    required.chain(optional).chain(rest).collect()
}

/// The queue of own commands, for the thread that runs them.
#[pyclass(frozen, module = "punctual_embedded._punctual_embedded")]
pub(crate) struct CommandRequests {
    pub(crate) requests: Requests,
    /// The request that has no reply yet.
    current: Mutex<Option<Arc<Request>>>,
}

#[pymethods]
impl CommandRequests {
    #[new]
    fn new() -> Self {
        Self {
            requests: Requests::default(),
            current: Mutex::default(),
        }
    }

    /// Waits for the next command. Returns its number, its arguments and the handle for its
    /// function, or `None` if the queue is closed.
    fn next<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(usize, Bound<'py, PyTuple>, Invocation)>> {
        let Some(request) = py.detach(|| self.requests.next()) else {
            return Ok(None);
        };
        let request = Arc::new(request);
        *self.current.lock() = Some(Arc::clone(&request));
        let args = request.args()[1..].iter().map(|arg| PyBytes::new(py, arg));
        let args = PyTuple::new(py, args.collect::<Vec<_>>())?;
        Ok(Some((request.command(), args, Invocation { request })))
    }

    /// Replies a value. Raises an exception, and does not reply, if no reply has its type.
    fn reply(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = reply_value(value, 0)?;
        self.end(value);
        Ok(())
    }

    /// Replies an error.
    fn fail(&self, text: &str) {
        self.end(Request::error(text));
    }

    /// Closes the queue.
    fn close(&self) {
        self.requests.close();
    }
}

impl CommandRequests {
    fn end(&self, value: Value) {
        if let Some(request) = self.current.lock().take() {
            request.reply(value);
        }
    }
}

/// A running own command: the first argument of its function.
#[pyclass(frozen, module = "punctual_embedded")]
pub(crate) struct Invocation {
    request: Arc<Request>,
}

#[pymethods]
impl Invocation {
    /// Run a command of the server as part of this one, and return its reply.
    ///
    /// The command runs with the permissions of the client. A command that would wait replies that
    /// it found nothing.
    ///
    /// Raises:
    ///     CommandError: The server has replied with an error.
    ///     RuntimeError: The own command has ended.
    #[pyo3(signature = (*args))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args: Vec<_> = args.iter().collect();
        let words = words(&args)?;
        if words.is_empty() {
            return reply(py, Err(CallError::Empty));
        }
        let value = py.detach(|| self.request.call(&words));
        let value = value.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        reply(py, Ok(value))
    }

    /// Return the time at which the command runs, by the server's clock, in Unix seconds.
    fn now(&self) -> f64 {
        crate::server::unix_seconds(self.request.now())
    }
}

/// Returns the reply for what a function has returned.
fn reply_value(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth == DEPTH_MAX {
        let text = format!("a reply must not be nested more than {DEPTH_MAX} levels deep");
        return Err(PyValueError::new_err(text));
    }
    let all = |items: &Bound<'_, PyAny>| {
        let items = items.try_iter()?;
        items
            .map(|item| reply_value(&item?, depth + 1))
            .collect::<PyResult<Vec<_>>>()
    };
    Ok(if value.is_none() {
        Value::Null
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Value::bulk(bytes.as_bytes())
    } else if let Ok(text) = value.cast::<PyString>() {
        Value::bulk(text.to_cow()?.as_bytes())
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Value::Boolean(flag.is_true())
    } else if value.is_instance_of::<PyInt>() {
        match value.extract() {
            Ok(number) => Value::Int(number),
            Err(_) => Value::BigNumber(value.str()?.to_cow()?.as_bytes().to_vec()),
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Value::Double(number.value())
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        Value::Array(all(value)?)
    } else if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
        Value::Set(all(value)?)
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let pairs = dict.iter().map(|(key, value)| {
            Ok((
                reply_value(&key, depth + 1)?,
                reply_value(&value, depth + 1)?,
            ))
        });
        Value::Map(pairs.collect::<PyResult<_>>()?)
    } else if value.is_instance_of::<CommandError>() {
        Request::error(&value.str()?.to_cow()?)
    } else if let Ok(bytes) = value.cast::<PyByteArray>() {
        Value::Bulk(bytes.to_vec())
    } else {
        let name = value.get_type().name()?;
        let text = format!(
            "a reply must be bytes, str, int, float, bool, None, or a list, set or dict of these, not {name}"
        );
        return Err(PyTypeError::new_err(text));
    })
}
