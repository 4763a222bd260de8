//! Objects of asyncio and contextvars, imported once.

use crate::ending;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};

pub(super) struct Asyncio {
    /// `contextvars.copy_context`: the stable ABI has no function for it.
    copy_context: Py<PyAny>,
    /// `contextvars.Context`, and its method `run` as a function of a context.
    context: Py<PyType>,
    run: Py<PyAny>,
    /// `asyncio.TimerHandle`; our handles pass for instances of it.
    pub(super) timer_handle: Py<PyType>,
    /// `punctual.aio._handles.report`, which reports a callback's exception to the loop.
    pub(super) report: Py<PyAny>,
    /// `sys._getframe` and `asyncio.format_helpers.extract_stack`.
    getframe: Py<PyAny>,
    extract_stack: Py<PyAny>,
}

impl Asyncio {
    pub(super) fn get(py: Python<'_>) -> PyResult<&Self> {
        static ASYNCIO: PyOnceLock<Asyncio> = PyOnceLock::new();
        ASYNCIO.get_or_try_init(py, || {
            let contextvars = py.import("contextvars")?;
            let context = contextvars.getattr("Context")?;
            let timer_handle = py.import("asyncio")?.getattr("TimerHandle")?;
            Ok(Asyncio {
                copy_context: contextvars.getattr("copy_context")?.unbind(),
                run: context.getattr("run")?.unbind(),
                context: context.cast_into::<PyType>()?.unbind(),
                timer_handle: timer_handle.cast_into::<PyType>()?.unbind(),
                report: py
                    .import("punctual.aio._handles")?
                    .getattr("report")?
                    .unbind(),
                getframe: py.import("sys")?.getattr("_getframe")?.unbind(),
                extract_stack: py
                    .import("asyncio.format_helpers")?
                    .getattr("extract_stack")?
                    .unbind(),
            })
        })
    }

    /// Returns the context for a callback without one: a copy of the current context.
    #[inline]
    pub(super) fn current_context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy_context.bind(py).call0()
    }

    /// Calls `context.run(callback, *args)`; `call` is the tuple of all three.
    #[inline]
    pub(super) fn run<'py>(&self, call: &Bound<'py, PyTuple>) -> PyResult<()> {
        let py = call.py();
        let context = call.get_item(0)?;
        if context.get_type().is(self.context.bind(py)) {
            ending::call(self.run.bind(py), call)?;
        } else {
            // Not a `Context`: asyncio accepts any object with a `run` method.
            ending::call(&context.getattr("run")?, &call.get_slice(1, call.len()))?;
        }
        Ok(())
    }

    /// Returns the stack of the calling Python code, for debug mode.
    pub(super) fn stack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let frame = self.getframe.bind(py).call1((0,))?;
        ending::call(self.extract_stack.bind(py), &PyTuple::new(py, [frame])?)
    }

    /// Returns a function of `asyncio.TimerHandle` by its name. The function uses only attributes,
    /// so it also accepts our handles.
    pub(super) fn function<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.timer_handle.bind(py).getattr(name)
    }
}
