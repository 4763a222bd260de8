//! Keys of timers and entries, which are `int`s in Python.

use std::convert::Infallible;

use punctual::TimerKey;
use pyo3::exceptions::{PyKeyError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// A key that the caller passed. Any int is accepted; an int that is no key counts as a stale key.
pub(crate) struct Key(Option<TimerKey>);

impl Key {
    /// Returns the timer key, or `None` if no queue produces such a key.
    #[inline]
    pub(crate) fn timer(&self) -> Option<TimerKey> {
        self.0
    }

    /// Converts the operand of `in`, which may be any object. Returns `None` for an object that is
    /// not an int.
    #[inline]
    pub(crate) fn sought(object: &Bound<'_, PyAny>) -> Option<TimerKey> {
        object.extract::<Key>().ok()?.timer()
    }
}

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<i64>() {
            Ok(bits) => Ok(Key(Some(TimerKey::from_bits(bits.cast_unsigned())))),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(Key(None)),
            Err(error) => Err(error),
        }
    }
}

/// Converts a key to a number.
#[inline]
pub(crate) fn bits(key: TimerKey) -> i64 {
    key.to_bits().cast_signed()
}

/// Converts a key to a Python int. The int is signed, because Python converts signed numbers in
/// half the time.
#[inline]
pub(crate) fn given(py: Python<'_>, key: TimerKey) -> Bound<'_, PyInt> {
    let Ok(int) = bits(key).into_pyobject(py);
    int
}

/// The caller's default for a stale key, if any.
pub(crate) struct Fallback(pub(crate) Option<Py<PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Fallback {
    type Error = Infallible;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Fallback(Some(object.to_owned().unbind())))
    }
}

impl Fallback {
    /// Returns the found value or the default.
    ///
    /// # Errors
    /// `KeyError` if there is neither a value nor a default.
    #[inline]
    pub(crate) fn or(
        self,
        found: Option<Py<PyAny>>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        found.or(self.0).ok_or_else(|| stale(key))
    }
}

/// Creates a `KeyError` for a key whose timer fired, whose entry was popped, or which was removed.
#[cold]
pub(crate) fn stale(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}
