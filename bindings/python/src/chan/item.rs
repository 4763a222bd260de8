//! Items of channels: Python objects, or plain values, which the thread of the timer driver can
//! send without the GIL.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyType};
use pyo3::{IntoPyObjectExt, intern};

/// An item in a channel.
#[derive(Debug)]
pub(crate) enum Item {
    Object(Py<PyAny>),
    Double(f64),
    Int(i32),
    Bool(bool),
    Nothing,
}

impl Item {
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Item::Object(object) => Ok(object),
            Item::Double(value) => value.into_py_any(py),
            Item::Int(value) => value.into_py_any(py),
            Item::Bool(value) => value.into_py_any(py),
            Item::Nothing => Ok(py.None()),
        }
    }
}

/// The type of a channel's items, with pygolang's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Object,
    Double,
    Int,
    Bool,
    StructZ,
}

impl Dtype {
    pub(crate) const ALL: [Dtype; 5] = [
        Dtype::Object,
        Dtype::Double,
        Dtype::Int,
        Dtype::Bool,
        Dtype::StructZ,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Dtype::Object => "object",
            Dtype::Double => "C.double",
            Dtype::Int => "C.int",
            Dtype::Bool => "C.bool",
            Dtype::StructZ => "C.structZ",
        }
    }

    /// Parses a type: a name, the class `object` or `float`, or an object whose `dtype` is a name.
    pub(crate) fn of(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = spec.py();
        if spec.is(py.get_type::<PyAny>()) {
            return Ok(Dtype::Object);
        }
        if spec.is(py.get_type::<PyFloat>()) {
            return Ok(Dtype::Double);
        }
        let named = |name: &Bound<'_, PyAny>| {
            let name = name.extract::<String>().ok()?;
            Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
        };
        let found = named(spec).or_else(|| {
            let name = spec.getattr(intern!(py, "dtype")).ok()?;
            named(&name)
        });
        match found {
            Some(dtype) => Ok(dtype),
            None => Err(PyTypeError::new_err(format!(
                "pychan: invalid dtype: {}",
                spec.repr()?
            ))),
        }
    }

    /// Converts `object` to an item. Raises `TypeError` for another type and `OverflowError` for an
    /// int outside of the type's range.
    #[inline]
    pub(crate) fn item(self, object: &Bound<'_, PyAny>) -> PyResult<Item> {
        match self {
            Dtype::Object => Ok(Item::Object(object.clone().unbind())),
            Dtype::Double if !object.is_instance_of::<PyBool>() => object
                .extract()
                .map(Item::Double)
                .map_err(|error| mismatch("float", object, error)),
            Dtype::Int
                if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() =>
            {
                object.extract().map(Item::Int)
            }
            // An integral float such as 4.0 counts as an int.
            Dtype::Int if object.is_instance_of::<PyFloat>() => {
                let value: f64 = object.extract()?;
                if f64::from(value as i32) == value {
                    Ok(Item::Int(value as i32))
                } else {
                    Err(expected("int", object))
                }
            }
            Dtype::Bool if object.is_instance_of::<PyBool>() => object.extract().map(Item::Bool),
            Dtype::StructZ if object.is_none() => Ok(Item::Nothing),
            Dtype::Double => Err(expected("float", object)),
            Dtype::Int => Err(expected("int", object)),
            Dtype::Bool => Err(expected("bool", object)),
            Dtype::StructZ => Err(expected("None", object)),
        }
    }

    /// Returns the item that a receive from a closed channel yields. `None` stands for Python's
    /// None.
    pub(crate) fn zero(self) -> Option<Item> {
        match self {
            Dtype::Object => None,
            Dtype::Double => Some(Item::Double(0.0)),
            Dtype::Int => Some(Item::Int(0)),
            Dtype::Bool => Some(Item::Bool(false)),
            Dtype::StructZ => Some(Item::Nothing),
        }
    }
}

fn expected(what: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let name = |kind: Bound<'_, PyType>| kind.name().map(|name| name.to_string());
    let found = name(object.get_type()).unwrap_or_default();
    PyTypeError::new_err(format!("type mismatch: expect {what}, got {found}"))
}

/// Replaces a `TypeError` of a conversion with the text of [`expected`]. Any other exception comes
/// from the object itself (from its `__float__`) and is returned unchanged.
fn mismatch(what: &str, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(object.py()) {
        expected(what, object)
    } else {
        error
    }
}
