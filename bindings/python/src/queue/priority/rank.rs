//! Priorities: Python objects. Two plain numbers are compared without calling Python.

use crate::ending;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

/// Every integer between `-EXACT` and `EXACT` is exact as a float.
const EXACT: i64 = 1 << 53;

/// A priority.
pub(super) struct Priority {
    /// Value of `object` if it is a float, or an int from `-EXACT` to `EXACT`. Otherwise NaN: then
    /// Python compares.
    number: f64,
    object: Py<PyAny>,
}

impl Priority {
    /// Creates the priority of an object.
    ///
    /// # Errors
    /// `ValueError` if the object is NaN, which has no place in any order.
    #[inline]
    pub(super) fn new(object: Bound<'_, PyAny>) -> PyResult<Self> {
        let number = if let Ok(float) = object.cast_exact::<PyFloat>() {
            let number = float.value();
            if number.is_nan() {
                return Err(PyValueError::new_err(
                    "a priority cannot be NaN: it has no place in any order",
                ));
            }
            number
        } else if let Ok(int) = object.cast_exact::<PyInt>()
            && let Ok(int) = int.extract::<i64>()
            && (-EXACT..=EXACT).contains(&int)
        {
            int as f64
        } else {
            f64::NAN
        };
        Ok(Priority {
            number,
            object: object.unbind(),
        })
    }

    #[inline]
    pub(super) fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    #[inline]
    pub(super) fn into_object(self) -> Py<PyAny> {
        self.object
    }

    /// Returns `self < other`.
    ///
    /// # Errors
    /// The exception that Python's `<` raises.
    #[inline]
    pub(super) fn is_less(&self, py: Python<'_>, other: &Priority) -> PyResult<bool> {
        if self.number.is_nan() || other.number.is_nan() {
            ending::is_less(self.object.bind(py), other.object.bind(py))
        } else {
            Ok(self.number < other.number)
        }
    }
}
