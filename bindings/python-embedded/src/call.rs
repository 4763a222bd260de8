//! Commands in the process, without a socket: `Client`, and the conversion of replies.
//!
//! Ground rules: a call releases the GIL while the server runs the command, because the command may
//! wait. The arguments stay alive meanwhile: the caller holds them.

use std::borrow::Cow;
use std::time::Duration;

use parking_lot::Mutex;
use punctual_server::{CallError, Value};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};

use crate::errors::CommandError;

/// A client in the process of its server; `Server.client` connects it.
///
/// It has all permissions, and a session of its own. A call releases the GIL. Replies have the
/// types of RESP3: `bytes`, `int`, `float`, `bool`, `None`, `list`, `set` and `dict`. Several
/// threads may use the same client; their calls run one after the other.
#[pyclass(frozen, name = "Client", module = "punctual_embedded")]
pub(crate) struct NativeClient {
    client: Mutex<punctual_server::Client>,
    /// The process in which the client was connected.
    pid: u32,
}

/// Lets a signal whose Python handler raises an exception, such as Ctrl-C, end a wait in the main
/// thread. The call then raises this exception.
pub(crate) fn interruptible(mut client: punctual_server::Client) -> punctual_server::Client {
    client.set_interrupt(|| {
        Python::attach(|py| {
            py.check_signals()
                .map_err(|error| error.restore(py))
                .is_err()
        })
    });
    client
}

impl NativeClient {
    pub(crate) fn new(client: punctual_server::Client) -> Self {
        Self {
            client: Mutex::new(client),
            pid: std::process::id(),
        }
    }

    fn check_process(&self) -> PyResult<()> {
        match self.pid == std::process::id() {
            true => Ok(()),
            false => Err(crate::errors::ForkedError { parent: self.pid }.into()),
        }
    }
}

#[pymethods]
impl NativeClient {
    /// Run a command, and return its reply.
    ///
    /// Blocks while a blocking command, such as BLPOP, waits.
    ///
    /// Raises:
    ///     CommandError: The server has replied with an error.
    ///     RuntimeError: The server has stopped, or has closed the client.
    ///     ValueError: The command needs a connection over a socket, such as MONITOR.
    #[pyo3(signature = (*args))]
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process()?;
        let args: Vec<_> = args.iter().collect();
        let words = words(&args)?;
        let value = py.detach(|| self.client.lock().call(&words));
        reply(py, value)
    }

    /// Run several commands at once, and return their replies.
    ///
    /// An error is in the list, as a `CommandError` that is not raised.
    fn pipeline<'py>(
        &self,
        py: Python<'py>,
        commands: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.check_process()?;
        let commands = commands.iter();
        let commands: Vec<Vec<_>> = commands
            .map(|command| command.try_iter()?.collect())
            .collect::<PyResult<_>>()?;
        let all: Vec<_> = commands
            .iter()
            .map(|command| words(command))
            .collect::<PyResult<_>>()?;
        let values = py.detach(|| self.client.lock().pipeline(&all));
        let values = values.map_err(|error| interrupted(py, error))?;
        let values: Vec<_> = values
            .into_iter()
            .map(|value| object(py, value))
            .collect::<PyResult<_>>()?;
        PyList::new(py, values)
    }

    /// Return the next message of a subscription, or `None` after `timeout` seconds without one.
    #[pyo3(signature = (timeout=None))]
    fn message<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.check_process()?;
        let wait = timeout.map(Duration::try_from_secs_f64).transpose();
        let wait = wait.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let message = py.detach(|| self.client.lock().message(wait));
        let message = message.map_err(|error| interrupted(py, error))?;
        message.map(|value| object(py, value)).transpose()
    }
}

/// Returns the bytes of a command's arguments.
pub(crate) fn words<'a>(args: &'a [Bound<'_, PyAny>]) -> PyResult<Vec<Cow<'a, [u8]>>> {
    args.iter()
        .map(|arg| {
            if let Ok(bytes) = arg.cast::<PyBytes>() {
                Ok(Cow::Borrowed(bytes.as_bytes()))
            } else if let Ok(text) = arg.cast::<PyString>() {
                Ok(match text.to_cow()? {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                })
            } else if arg.is_exact_instance_of::<PyInt>() || arg.is_exact_instance_of::<PyFloat>() {
                Ok(Cow::Owned(arg.repr()?.to_cow()?.into_owned().into_bytes()))
            } else if let Ok(bytes) = arg.extract::<Vec<u8>>() {
                Ok(Cow::Owned(bytes))
            } else {
                let name = arg.get_type().name()?;
                let text = format!("an argument must be bytes, str, int or float, not {name}");
                Err(PyTypeError::new_err(text))
            }
        })
        .collect()
}

/// Returns the Python object of a call's reply; an error reply becomes a raised [`CommandError`].
pub(crate) fn reply(py: Python<'_>, value: Result<Value, CallError>) -> PyResult<Bound<'_, PyAny>> {
    match value.map_err(|error| interrupted(py, error))? {
        Value::Error(text) | Value::BulkError(text) => Err(command_error(&text)),
        value => object(py, value),
    }
}

/// Returns the Python object of a value. An error within a reply becomes an exception object.
fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            PyBytes::new(py, &text).into_any()
        }
        Value::Error(text) | Value::BulkError(text) => command_error(&text)
            .into_value(py)
            .into_bound(py)
            .into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Double(value) => PyFloat::new(py, value).into_any(),
        Value::Boolean(value) => PyBool::new(py, value).to_owned().into_any(),
        Value::BigNumber(digits) => {
            let text = String::from_utf8_lossy(&digits);
            py.get_type::<PyInt>().call1((&*text,))?
        }
        Value::Array(items) | Value::Push(items) => list(py, items)?.into_any(),
        Value::Set(items) => {
            let items = list(py, items)?;
            // A set with members that Python cannot hash becomes a list.
            match PySet::new(py, &items) {
                Ok(set) => set.into_any(),
                Err(_) => items.into_any(),
            }
        }
        Value::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                dict.set_item(object(py, key)?, object(py, value)?)?;
            }
            dict.into_any()
        }
        Value::Attribute { value, .. } => object(py, *value)?,
        _ => py.None().into_bound(py),
    })
}

fn list(py: Python<'_>, items: Vec<Value>) -> PyResult<Bound<'_, PyList>> {
    let items = items.into_iter().map(|item| object(py, item));
    PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)
}

fn command_error(text: &[u8]) -> PyErr {
    CommandError::new_err(String::from_utf8_lossy(text).into_owned())
}

/// Returns the exception of a signal's handler, if the call was interrupted by it.
fn interrupted(py: Python<'_>, error: CallError) -> PyErr {
    match error {
        CallError::Interrupted => PyErr::take(py).unwrap_or_else(|| call_error(error)),
        error => call_error(error),
    }
}

pub(crate) fn call_error(error: CallError) -> PyErr {
    match error {
        CallError::Stopped => crate::errors::not_running(),
        CallError::InHandler => crate::errors::in_command(),
        CallError::Empty | CallError::Unsupported(_) => PyValueError::new_err(error.to_string()),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}
