//! Conversion of a server's errors to Python exceptions.

use std::error::Error;
use std::io;

use punctual_server::config::ConfigError;
use punctual_server::{MoveError, StartError};
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyOverflowError, PyRuntimeError, PyValueError};

// The exception of `punctual_server`, so that code can catch the errors of both servers.
pyo3::import_exception!(punctual_server, CommandError);

/// The error of a call in a fork of the process that started the server.
pub(crate) struct ForkedError {
    /// Process that started the server.
    pub(crate) parent: u32,
}

impl From<ForkedError> for PyErr {
    fn from(error: ForkedError) -> Self {
        let parent = error.parent;
        PyRuntimeError::new_err(format!(
            "this server belongs to process {parent}, and this process is a fork of it: clients here may connect to the \
             server, but only process {parent} can start, stop or query it; create another Server here"
        ))
    }
}

/// Creates, for example, `ValueError: maxclients: argument couldn't be parsed into an integer`.
pub(crate) fn config_error(error: ConfigError) -> PyErr {
    match error {
        ConfigError::Line { line, reason, .. } => {
            let name = line.split_whitespace().next().unwrap_or_default();
            PyValueError::new_err(format!("{name}: {reason}"))
        }
        ConfigError::Open { path, source } => {
            os_error(&source, &format!("can't open {}", path.display()))
        }
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

pub(crate) fn start_error(error: StartError) -> PyErr {
    match error {
        StartError::Config(error) => config_error(error),
        other => {
            let text = other.to_string();
            let mut cause: Option<&(dyn Error + 'static)> = Some(&other);
            while let Some(error) = cause {
                if let Some(error) = error.downcast_ref::<io::Error>() {
                    return os_error(error, &text);
                }
                cause = error.source();
            }
            PyRuntimeError::new_err(text)
        }
    }
}

/// Creates an `OSError` with the system's number, so that Python picks the subclass, such as
/// `PermissionError`.
fn os_error(error: &io::Error, text: &str) -> PyErr {
    match error.raw_os_error() {
        // Python's message begins with the number.
        Some(errno) => {
            let text = text.replace(&format!(" (os error {errno})"), "");
            PyOSError::new_err((errno, text))
        }
        None => PyOSError::new_err(text.to_owned()),
    }
}

pub(crate) fn move_error(error: MoveError) -> PyErr {
    match error {
        MoveError::Real => PyRuntimeError::new_err(
            "the clock of this server is real and cannot be advanced: create it with clock=\"virtual\"",
        ),
        MoveError::Backwards => PyValueError::new_err("the clock cannot go back"),
        MoveError::OutOfRange => {
            PyOverflowError::new_err("the time exceeds the range of the clock")
        }
        MoveError::InHandler => in_command(),
        MoveError::Stopped => not_running(),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

pub(crate) fn not_running() -> PyErr {
    PyRuntimeError::new_err(
        "the server is not running: use it in a `with` statement, or start() it",
    )
}

pub(crate) fn in_command() -> PyErr {
    PyRuntimeError::new_err(
        "the server waits for this function, which runs a command: call the server by the function's first argument",
    )
}
