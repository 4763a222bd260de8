//! Keys: what a queue gave for a timer or an entry, an `int` to Python.

use std::convert::Infallible;

use punctual::TimerKey;
use pyo3::exceptions::{PyKeyError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// A key as it came. Any int is taken, since a wrong one is only stale.
pub(crate) struct Key(Option<TimerKey>);

impl Key {
    /// What it stands for; `None` if no queue gives such keys.
    #[inline]
    pub(crate) fn timer(&self) -> Option<TimerKey> {
        self.0
    }

    /// What `in` looks for: anything may be asked for, only keys are found.
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

/// A key as a number.
#[inline]
pub(crate) fn bits(key: TimerKey) -> i64 {
    key.to_bits().cast_signed()
}

/// A key for Python: signed, because Python makes and reads such numbers in half the time.
#[inline]
pub(crate) fn given(py: Python<'_>, key: TimerKey) -> Bound<'_, PyInt> {
    let Ok(int) = bits(key).into_pyobject(py);
    int
}

/// The default that a caller gives against a stale key, or none.
pub(crate) struct Fallback(pub(crate) Option<Py<PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Fallback {
    type Error = Infallible;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Fallback(Some(object.to_owned().unbind())))
    }
}

impl Fallback {
    /// What is found, or the default.
    ///
    /// # Errors
    /// `KeyError`, if there is neither.
    #[inline]
    pub(crate) fn or(
        self,
        found: Option<Py<PyAny>>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        found.or(self.0).ok_or_else(|| stale(key))
    }
}

/// `KeyError`: the timer fired, the entry was popped, or either was removed.
#[cold]
pub(crate) fn stale(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}
