//! `TimerHandle`: the result of `call_later`. It passes for `asyncio.TimerHandle`: `isinstance`
//! accepts it, and `repr` and comparisons call asyncio's own functions, which use its attributes.

use super::asyncio::Asyncio;
use super::base::LoopTimers;
use super::timers::Timers;
use crate::ending;
use crate::gil::GilLock;
use punctual::TimerKey;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::gc::PyVisit;
use pyo3::types::{PyFloat, PyTuple};
use pyo3::{PyTraverseError, intern, prelude::*};

/// A callback that a loop calls at a time of its clock.
///
/// `loop.call_later` and `loop.call_at` return it. Use `asyncio.TimerHandle` in annotations and
/// `isinstance`.
#[pyclass(frozen, weakref, module = "punctual.aio")]
pub(crate) struct TimerHandle {
    timers: Py<LoopTimers>,
    when: f64,
    body: GilLock<Body>,
}

/// The mutable part of a handle. Programs may have millions of handles, so flags are encoded in the
/// fields, and [`Rare`] has the state that few handles need.
struct Body {
    /// Key in the wheel; `UNARMED` unless the handle is armed.
    key: TimerKey,
    context: Option<Py<PyAny>>,
    /// None after cancellation.
    callback: Option<Py<PyAny>>,
    /// None for a callback without arguments.
    args: Option<Py<PyTuple>>,
    rare: Option<Box<Rare>>,
}

/// A key that no timer has: its index is 2^32 - 1, and a queue never holds so many timers.
const UNARMED: TimerKey = TimerKey::from_bits(u64::MAX);

/// State that few handles have.
#[derive(Default)]
struct Rare {
    /// The time of the call as the caller passed it, unless it was a plain float.
    when: Option<Py<PyAny>>,
    /// In debug mode, the stack of the call that armed the handle.
    stack: Option<Py<PyAny>>,
    /// True after cancellation in debug mode. It is set while the handle still has its callback, so
    /// that `repr` shows the callback and the cancellation.
    cancelled: bool,
    repr: Option<Py<PyAny>>,
}

impl Body {
    #[inline]
    fn is_cancelled(&self) -> bool {
        self.callback.is_none() || self.rare.as_ref().is_some_and(|rare| rare.cancelled)
    }
}

/// Clones the reference, if there is one.
#[inline]
fn share<T>(py: Python<'_>, object: &Option<Py<T>>) -> Option<Py<T>> {
    object.as_ref().map(|object| object.clone_ref(py))
}

impl TimerHandle {
    #[inline]
    pub(super) fn new(
        timers: Py<LoopTimers>,
        when: f64,
        context: Py<PyAny>,
        callback: Py<PyAny>,
        args: Option<Py<PyTuple>>,
    ) -> Self {
        TimerHandle {
            timers,
            when,
            body: GilLock::new(Body {
                key: UNARMED,
                context: Some(context),
                callback: Some(callback),
                args,
                rare: None,
            }),
        }
    }

    /// Stores rare state. The handle must not be visible to Python yet.
    #[cold]
    pub(super) fn annotate(
        &self,
        py: Python<'_>,
        when: Option<Py<PyAny>>,
        stack: Option<Py<PyAny>>,
    ) {
        self.body.with(py, |body| {
            body.rare = Some(Box::new(Rare {
                when,
                stack,
                ..Rare::default()
            }));
        });
    }

    /// Records that the wheel holds the handle.
    #[inline]
    pub(super) fn armed(&self, py: Python<'_>, key: TimerKey) {
        self.body.with(py, |body| body.key = key);
    }

    /// Records that the handle has left the wheel: it is due, or the loop was closed.
    #[inline]
    pub(super) fn disarmed(&self, py: Python<'_>) {
        self.body.with(py, |body| body.key = UNARMED);
    }

    /// Returns true if the handle is armed in this wheel.
    pub(super) fn is_armed_in(&self, wheel: &Bound<'_, Timers>) -> bool {
        self.timers.get().timers.is(wheel) && self._scheduled(wheel.py())
    }

    /// Returns `(context, callback, *args)`, or `None` after cancellation.
    #[inline]
    fn call<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (context, callback, args) = self.body.with(py, |body| {
            (
                share(py, &body.context),
                share(py, &body.callback),
                share(py, &body.args),
            )
        });
        let (Some(context), Some(callback)) = (context, callback) else {
            return Ok(None);
        };
        let Some(args) = args else {
            return PyTuple::new(py, [context, callback]).map(Some);
        };
        let mut first = [Some(context), Some(callback)];
        let args = args.bind(py);
        let call = (0..args.len() + 2).map(|place| match first.get_mut(place) {
            Some(first) => first
                .take()
                .expect("each place is visited once")
                .into_bound(py),
            None => args
                .get_item(place - 2)
                .expect("the range ends with the arguments"),
        });
        PyTuple::new(py, call).map(Some)
    }

    /// Marks the handle as cancelled and stores its `repr`, which still describes the callback. For
    /// debug mode.
    #[cold]
    fn keep_repr(&self, handle: &Bound<'_, Self>) -> PyResult<()> {
        let py = handle.py();
        self.body.with(py, |body| {
            body.rare.get_or_insert_default().cancelled = true;
        });
        let repr = Self::__repr__(handle)?.unbind();
        self.body.with(py, |body| {
            body.rare.get_or_insert_default().repr = Some(repr);
        });
        Ok(())
    }

    #[inline]
    fn rare(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Rare) -> &Option<Py<PyAny>>,
    ) -> Option<Py<PyAny>> {
        self.body
            .with(py, |body| share(py, look(body.rare.as_deref()?)))
    }
}

#[pymethods]
impl TimerHandle {
    /// Cancels the callback; the loop releases the handle at once. O(1).
    ///
    /// Does nothing if the handle was cancelled before.
    fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        if this.cancelled(py) {
            return Ok(());
        }
        let timers = this.timers.bind(py);
        let attributes = &timers.get().attributes;
        if attributes.overrides(timers)?.cancelled() {
            timers.call_method1(intern!(py, "_timer_handle_cancelled"), (slf,))?;
        }
        if attributes.is_debug() {
            this.keep_repr(slf)?;
        }
        let (key, call) = this.body.with(py, |body| {
            let call = (body.callback.take(), body.args.take());
            (std::mem::replace(&mut body.key, UNARMED), call)
        });
        if key != UNARMED {
            drop(timers.get().timers.get().remove(py, key));
        }
        drop(call);
        Ok(())
    }

    /// Returns whether the handle was cancelled. O(1).
    fn cancelled(&self, py: Python<'_>) -> bool {
        self.body.with(py, |body| body.is_cancelled())
    }

    /// Returns the time of the call, in seconds of the loop's clock (`loop.time()`). O(1).
    fn when(&self, py: Python<'_>) -> Py<PyAny> {
        self.rare(py, |rare| &rare.when)
            .unwrap_or_else(|| PyFloat::new(py, self.when).into_any().unbind())
    }

    /// Returns the `contextvars.Context` in which the callback runs. O(1).
    fn get_context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.body.with(py, |body| share(py, &body.context))
    }

    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(call) = slf.get().call(py)? else {
            return Ok(());
        };
        let asyncio = Asyncio::get(py)?;
        let Err(error) = asyncio.run(&call) else {
            return Ok(());
        };
        if error.is_instance_of::<PySystemExit>(py)
            || error.is_instance_of::<PyKeyboardInterrupt>(py)
        {
            return Err(error);
        }
        ending::call(asyncio.report.bind(py), &(slf, error).into_pyobject(py)?)?;
        Ok(())
    }

    #[getter]
    fn _when(&self, py: Python<'_>) -> Py<PyAny> {
        self.when(py)
    }

    #[getter]
    fn _cancelled(&self, py: Python<'_>) -> bool {
        self.cancelled(py)
    }

    #[getter]
    fn _scheduled(&self, py: Python<'_>) -> bool {
        self.body.with(py, |body| body.key != UNARMED)
    }

    #[getter]
    fn _callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.body.with(py, |body| share(py, &body.callback))
    }

    #[getter]
    fn _args<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTuple>> {
        let (has_callback, args) = self
            .body
            .with(py, |body| (body.callback.is_some(), share(py, &body.args)));
        has_callback.then(|| args.map_or_else(|| PyTuple::empty(py), |args| args.into_bound(py)))
    }

    #[getter]
    fn _context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.get_context(py)
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> &Bound<'py, LoopTimers> {
        self.timers.bind(py)
    }

    #[getter]
    fn _source_traceback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.rare(py, |rare| &rare.stack)
    }

    #[getter]
    fn _repr(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.rare(py, |rare| &rare.repr)
    }

    /// Makes `isinstance` accept the handle as an `asyncio.TimerHandle`. Inheriting from that class
    /// is impossible: its memory layout differs.
    #[getter]
    fn __class__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Asyncio::get(py)?.timer_handle.bind(py).as_any().clone())
    }

    fn _repr_info<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Asyncio::get(py)?
            .function(py, intern!(py, "_repr_info"))?
            .call1((slf,))
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Asyncio::get(py)?
            .function(py, intern!(py, "__repr__"))?
            .call1((slf,))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.when(py).bind(py).hash()
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        how: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let name = match how {
            CompareOp::Lt => intern!(py, "__lt__"),
            CompareOp::Le => intern!(py, "__le__"),
            CompareOp::Eq | CompareOp::Ne => intern!(py, "__eq__"),
            CompareOp::Gt => intern!(py, "__gt__"),
            CompareOp::Ge => intern!(py, "__ge__"),
        };
        let answer = Asyncio::get(py)?.function(py, name)?.call1((slf, other))?;
        if matches!(how, CompareOp::Ne) && !answer.is(py.NotImplemented()) {
            return Ok((!answer.is_truthy()?)
                .into_pyobject(py)?
                .to_owned()
                .into_any());
        }
        Ok(answer)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.timers)?;
        self.body
            .visit(visit, |body| {
                visit.call(&body.context)?;
                visit.call(&body.callback)?;
                visit.call(&body.args)?;
                let Some(rare) = &body.rare else {
                    return Ok(());
                };
                visit.call(&rare.when)?;
                visit.call(&rare.stack)?;
                visit.call(&rare.repr)
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.body.with(py, |body| {
            let call = (body.context.take(), body.callback.take(), body.args.take());
            (call, body.rare.take())
        }));
    }
}
