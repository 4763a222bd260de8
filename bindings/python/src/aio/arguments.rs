//! What `call_later(delay, callback, *args, context=None)` and `call_at` were called with.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

pub(super) struct Arguments<'a, 'py> {
    /// `(time, callback, *args)`.
    positional: Cow<'a, Bound<'py, PyTuple>>,
    /// The context that was given.
    pub(super) context: Option<Bound<'py, PyAny>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// Takes them as they come nearly always, without keywords; `function` and `time` name what errors speak of.
    #[inline]
    pub(super) fn new(
        function: &str,
        time: &str,
        positional: &'a Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        if keywords.is_none() && positional.len() >= 2 {
            return Ok(Arguments {
                positional: Cow::Borrowed(positional),
                context: None,
            });
        }
        Self::with_keywords(function, time, positional, keywords)
    }

    #[cold]
    fn with_keywords(
        function: &str,
        time: &str,
        positional: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let mut context = None;
        let mut given = positional.iter().map(Some).collect::<Vec<_>>();
        let count = given.len();
        given.resize(count.max(2), None);
        for (name, value) in keywords.into_iter().flatten() {
            let name = name.extract::<String>()?;
            let place = match name.as_str() {
                "context" => {
                    context = Some(value).filter(|context| !context.is_none());
                    continue;
                }
                "callback" => &mut given[1],
                name if name == time => &mut given[0],
                _ => {
                    return Err(PyTypeError::new_err(format!(
                        "{function}() got an unexpected keyword argument '{name}'"
                    )));
                }
            };
            if place.replace(value).is_some() {
                return Err(PyTypeError::new_err(format!(
                    "{function}() got multiple values for argument '{name}'"
                )));
            }
        }
        let missing = |name: &str| {
            PyTypeError::new_err(format!(
                "{function}() missing a required argument: '{name}'"
            ))
        };
        for (place, name) in [time, "callback"].into_iter().enumerate() {
            if given[place].is_none() {
                return Err(missing(name));
            }
        }
        let py = positional.py();
        Ok(Arguments {
            positional: Cow::Owned(PyTuple::new(py, given)?),
            context,
        })
    }

    /// The delay, or the time to be called at.
    #[inline]
    pub(super) fn time(&self) -> PyResult<Bound<'py, PyAny>> {
        self.positional.get_item(0)
    }

    #[inline]
    pub(super) fn callback(&self) -> PyResult<Bound<'py, PyAny>> {
        self.positional.get_item(1)
    }

    /// The arguments of the callback, if there are any.
    #[inline]
    pub(super) fn rest(&self) -> Option<Bound<'py, PyTuple>> {
        let count = self.positional.len();
        (count > 2).then(|| self.positional.get_slice(2, count))
    }

    /// All of them, with another time.
    pub(super) fn at(&self, when: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let mut arguments = self.positional.iter().collect::<Vec<_>>();
        arguments[0] = when;
        PyTuple::new(self.positional.py(), arguments)
    }
}
