//! `TimerHandle`: what `call_later` returns. It passes for asyncio's: `isinstance` says so, and attributes, `repr` and
//! comparison are asyncio's own functions at work on it.

use super::asyncio::Asyncio;
use super::base::LoopTimers;
use super::timers::Timers;
use crate::gil::GilLock;
use punctual::TimerKey;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::gc::PyVisit;
use pyo3::types::{PyFloat, PyTuple};
use pyo3::{PyTraverseError, intern, prelude::*};

/// A callback that a loop calls at a time of its clock.
///
/// `loop.call_later` and `loop.call_at` return it; `asyncio.TimerHandle` is what to annotate and to test for.
#[pyclass(frozen, weakref, module = "punctual.aio")]
pub(crate) struct TimerHandle {
    timers: Py<LoopTimers>,
    when: f64,
    body: GilLock<Body>,
}

struct Body {
    /// Its place in the wheel while it is armed.
    key: Option<TimerKey>,
    cancelled: bool,
    call: Call,
    rare: Option<Box<Rare>>,
}

/// A callback, its arguments and its context, as one object: it is made once and called as it is.
enum Call {
    /// `(context, callback, *args)`.
    Whole(Py<PyTuple>),
    /// Cancelled; the context can still be asked for.
    Context(Py<PyAny>),
    /// The garbage collector took it.
    Nothing,
}

impl Call {
    /// Leaves the context only; what was there goes to the caller, to be dropped outside the cell.
    #[inline]
    fn strip(&mut self, py: Python<'_>) -> Self {
        let Call::Whole(call) = self else {
            return Call::Nothing;
        };
        let context = match call.bind_borrowed(py).get_item(0) {
            Ok(context) => Call::Context(context.unbind()),
            Err(_) => Call::Nothing,
        };
        std::mem::replace(self, context)
    }
}

/// What few handles have.
#[derive(Default)]
struct Rare {
    /// The time as it was given, unless that was a plain float.
    when: Option<Py<PyAny>>,
    /// In debug mode: where it was made.
    stack: Option<Py<PyAny>>,
    /// In debug mode: what it was before it was cancelled.
    repr: Option<Py<PyAny>>,
}

impl TimerHandle {
    #[inline]
    pub(super) fn new(timers: Py<LoopTimers>, when: f64, call: Py<PyTuple>) -> Self {
        TimerHandle {
            timers,
            when,
            body: GilLock::new(Body {
                key: None,
                cancelled: false,
                call: Call::Whole(call),
                rare: None,
            }),
        }
    }

    /// Keeps what only few handles have. Called before anybody has seen the handle.
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
                repr: None,
            }));
        });
    }

    /// It is in the wheel from now on.
    #[inline]
    pub(super) fn armed(&self, py: Python<'_>, key: TimerKey) {
        self.body.with(py, |body| body.key = Some(key));
    }

    /// It has left the wheel: it is due, or the loop was closed.
    #[inline]
    pub(super) fn disarmed(&self, py: Python<'_>) {
        self.body.with(py, |body| body.key = None);
    }

    /// Its place in the wheel of `timers`, while it is there.
    pub(super) fn key_in(&self, py: Python<'_>, wheel: &Bound<'_, Timers>) -> Option<TimerKey> {
        if !self.timers.get().timers.is(wheel) {
            return None;
        }
        self.body.with(py, |body| body.key)
    }

    fn call(&self, py: Python<'_>) -> Option<Py<PyTuple>> {
        self.body.with(py, |body| match &body.call {
            Call::Whole(call) => Some(call.clone_ref(py)),
            Call::Context(_) | Call::Nothing => None,
        })
    }

    fn rare<T>(&self, py: Python<'_>, look: impl FnOnce(&Rare) -> Option<&Py<T>>) -> Option<Py<T>> {
        self.body.with(py, |body| {
            let rare = body.rare.as_deref()?;
            look(rare).map(|found| found.clone_ref(py))
        })
    }
}

#[pymethods]
impl TimerHandle {
    /// Disarms it: the callback will not be called, and the loop forgets the handle at once. O(1).
    ///
    /// Does nothing to a handle that was called or cancelled.
    fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        if this.cancelled(py) {
            return Ok(());
        }
        let timers = this.timers.bind(py);
        let attributes = &timers.get().attributes;
        if attributes.replaced(timers)?.cancelled() {
            timers.call_method1(intern!(py, "_timer_handle_cancelled"), (slf,))?;
        }
        let key = this.body.with(py, |body| {
            body.cancelled = true;
            body.key.take()
        });
        if let Some(key) = key {
            drop(timers.get().timers.get().remove(py, key));
        }
        if attributes.is_debug() {
            let repr = Self::__repr__(slf)?.unbind();
            this.body.with(py, |body| {
                body.rare.get_or_insert_default().repr = Some(repr)
            });
        }
        drop(this.body.with(py, |body| body.call.strip(py)));
        Ok(())
    }

    /// Whether it was cancelled. O(1).
    fn cancelled(&self, py: Python<'_>) -> bool {
        self.body.with(py, |body| body.cancelled)
    }

    /// When the callback is to be called, in seconds of the loop's clock (`loop.time()`). O(1).
    fn when(&self, py: Python<'_>) -> Py<PyAny> {
        self.rare(py, |rare| rare.when.as_ref())
            .unwrap_or_else(|| PyFloat::new(py, self.when).into_any().unbind())
    }

    /// The `contextvars.Context` that the callback is called in. O(1).
    fn get_context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.body.with(py, |body| match &body.call {
            Call::Whole(call) => call.bind_borrowed(py).get_item(0).ok().map(Bound::unbind),
            Call::Context(context) => Some(context.clone_ref(py)),
            Call::Nothing => None,
        })
    }

    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(call) = slf.get().call(py) else {
            return Ok(());
        };
        let asyncio = Asyncio::get(py)?;
        let Err(error) = asyncio.run(call.bind(py)) else {
            return Ok(());
        };
        if error.is_instance_of::<PySystemExit>(py)
            || error.is_instance_of::<PyKeyboardInterrupt>(py)
        {
            return Err(error);
        }
        asyncio.report.bind(py).call1((slf, error))?;
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
        self.body.with(py, |body| body.key.is_some())
    }

    #[getter]
    fn _callback<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.call(py)
            .map(|call| call.bind(py).get_item(1))
            .transpose()
    }

    #[getter]
    fn _args<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTuple>> {
        let call = self.call(py)?.into_bound(py);
        Some(call.get_slice(2, call.len()))
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
        self.rare(py, |rare| rare.stack.as_ref())
    }

    #[getter]
    fn _repr(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.rare(py, |rare| rare.repr.as_ref())
    }

    /// So that it is an instance of asyncio's class, which is of another layout.
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
                match &body.call {
                    Call::Whole(call) => visit.call(call)?,
                    Call::Context(context) => visit.call(context)?,
                    Call::Nothing => {}
                }
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
        let gone = self.body.with(py, |body| {
            (
                std::mem::replace(&mut body.call, Call::Nothing),
                body.rare.take(),
            )
        });
        drop(gone);
    }
}
