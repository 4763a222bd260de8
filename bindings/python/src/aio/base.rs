//! `LoopTimers`: a base class of our event loop. It precedes asyncio's loop in the order of the
//! base classes, so its methods arm the timers.

use super::asyncio::Asyncio;
use super::attributes::{self, Attributes};
use super::clock;
use super::handle::TimerHandle;
use super::timers::{END, Timers};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyTuple};
use pyo3::{PyTraverseError, gc::PyVisit, intern, prelude::*};

/// `call_later` and `call_at` on a timing wheel: the native base of `punctual.aio.EventLoop`.
#[pyclass(subclass, frozen, module = "punctual.aio")]
pub(crate) struct LoopTimers {
    pub(super) timers: Py<Timers>,
    pub(super) attributes: Attributes,
}

/// A call to make: `context.run(callback, *args)`.
struct Call<'a, 'py> {
    callback: &'a Bound<'py, PyAny>,
    args: &'a Bound<'py, PyTuple>,
    /// `None` for a copy of the current context.
    context: Option<Bound<'py, PyAny>>,
}

impl LoopTimers {
    /// Returns the reading of the loop's clock, as the tick up to which timers are due.
    #[inline]
    pub(super) fn reading(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let (py, this) = (slf.py(), slf.get());
        if !this.attributes.overrides(slf)?.time() {
            return Ok(this.timers.get().now(py));
        }
        let now: f64 = slf.call_method0(intern!(py, "time"))?.extract()?;
        let resolution: f64 = slf.getattr(intern!(py, "_clock_resolution"))?.extract()?;
        Ok(clock::reading_of_floats(now, resolution))
    }

    /// Arms a handle for `when`. `given` is the object that the caller passed as the time, unless
    /// it was a plain float.
    #[inline]
    fn arm<'py>(
        slf: &Bound<'py, Self>,
        when: f64,
        given: Option<Py<PyAny>>,
        call: Call<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if this.attributes.is_closed() {
            return Err(PyRuntimeError::new_err("Event loop is closed"));
        }
        if when.is_nan() {
            return Err(PyValueError::new_err(
                "the deadline of a timer must not be NaN",
            ));
        }
        let is_debug = this.attributes.is_debug();
        if is_debug {
            slf.call_method0(intern!(py, "_check_thread"))?;
            slf.call_method1(
                intern!(py, "_check_callback"),
                (call.callback, intern!(py, "call_at")),
            )?;
        }
        let asyncio = Asyncio::get(py)?;
        let context = match call.context {
            Some(context) => context,
            None => asyncio.current_context(py)?,
        };
        let deadline = if this.attributes.overrides(slf)?.time() {
            clock::deadline_of_floats(when)
        } else {
            clock::deadline(when)
        };
        let handle = TimerHandle::new(
            slf.clone().unbind(),
            when,
            context.unbind(),
            call.callback.clone().unbind(),
            (!call.args.is_empty()).then(|| call.args.clone().unbind()),
        );
        let handle = Bound::new(py, handle)?;
        if is_debug || given.is_some() {
            let stack = is_debug.then(|| asyncio.stack(py)).transpose()?;
            handle.get().annotate(py, given, stack.map(Bound::unbind));
        }
        let key = this
            .timers
            .get()
            .insert(py, deadline, handle.clone().unbind());
        handle.get().armed(py, key);
        Ok(handle.into_any())
    }
}

/// Returns a delay that is a float or an int as a float, and `None` for other types. A `Decimal`,
/// for example, converts to a float, but Python cannot add it to one.
#[inline]
fn plain_seconds(delay: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if let Ok(delay) = delay.cast_exact::<PyFloat>() {
        return Ok(Some(delay.value()));
    }
    if delay.is_instance_of::<PyInt>() {
        return delay.extract().map(Some);
    }
    Ok(None)
}

#[pymethods]
impl LoopTimers {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Ok(LoopTimers {
            timers: Py::new(py, Timers::new())?,
            attributes: Attributes::default(),
        })
    }

    /// Returns the time of the loop's clock in seconds: `time.monotonic()`, or the virtual clock's.
    fn time(&self, py: Python<'_>) -> f64 {
        clock::seconds(self.timers.get().now(py))
    }

    /// Calls `callback(*args)` in `delay` seconds; returns a handle that can be cancelled. O(1).
    ///
    /// The call is never early. Callbacks with equal times run in the order in which they were
    /// armed.
    ///
    /// Raises `RuntimeError` if the loop is closed, `TypeError` if the delay is None, `ValueError`
    /// if it is NaN.
    #[pyo3(signature = (delay, callback, *args, context=None))]
    fn call_later<'py>(
        slf: &Bound<'py, Self>,
        delay: &Bound<'py, PyAny>,
        callback: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let call = Call {
            callback,
            args,
            context,
        };
        if !this.attributes.overrides(slf)?.call_later()
            && let Some(delay) = plain_seconds(delay)?
        {
            let when = clock::seconds(this.timers.get().now(py)) + delay;
            return Self::arm(slf, when, None, call);
        }
        if delay.is_none() {
            return Err(PyTypeError::new_err("delay must not be None"));
        }
        let when = slf.call_method0(intern!(py, "time"))?.add(delay)?;
        let positional = [&when, callback].into_iter().cloned().chain(args.iter());
        let positional = PyTuple::new(py, positional.collect::<Vec<_>>())?;
        let keywords = PyDict::new(py);
        if let Some(context) = call.context {
            keywords.set_item(intern!(py, "context"), context)?;
        }
        slf.call_method(intern!(py, "call_at"), positional, Some(&keywords))
    }

    /// Calls `callback(*args)` at `when`, a time of `loop.time()`; returns a handle that can be
    /// cancelled. O(1).
    ///
    /// The call is never early. Callbacks with equal times run in the order in which they were
    /// armed.
    ///
    /// Raises `RuntimeError` if the loop is closed, `TypeError` if the time is None, `ValueError`
    /// if it is NaN.
    #[pyo3(signature = (when, callback, *args, context=None))]
    fn call_at<'py>(
        slf: &Bound<'py, Self>,
        when: &Bound<'py, PyAny>,
        callback: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if when.is_none() {
            return Err(PyTypeError::new_err("when cannot be None"));
        }
        let given = (!when.is_exact_instance_of::<PyFloat>()).then(|| when.clone().unbind());
        let call = Call {
            callback,
            args,
            context,
        };
        Self::arm(slf, when.extract()?, given, call)
    }

    /// Does nothing: asyncio counts cancelled handles in its heap, but the wheel removes them at
    /// once.
    fn _timer_handle_cancelled(&self, _handle: &Bound<'_, PyAny>) {}

    /// Moves due handles to `_ready` in the order of their deadlines, at most
    /// [`BATCH`](super::timers::BATCH) of them.
    fn _move_due(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, timers) = (slf.py(), slf.get().timers.get());
        let Some(wakeup) = timers.next_wakeup(py) else {
            timers.release_memory(py);
            return Ok(());
        };
        let now = Self::reading(slf)?;
        if wakeup > now {
            return Ok(());
        }
        let due = timers.take_due(py, now);
        if !due.is_empty() {
            slf.getattr(intern!(py, "_ready"))?
                .call_method1(intern!(py, "extend"), (PyList::new(py, due)?,))?;
        }
        Ok(())
    }

    /// Puts the loop on a virtual clock at `now` seconds, or moves that clock forward to `now`.
    ///
    /// Raises `OverflowError` if the time exceeds the range of the clock.
    fn _set_clock(&self, py: Python<'_>, now: f64) -> PyResult<()> {
        let tick = clock::deadline(now);
        if tick >= END {
            return Err(PyOverflowError::new_err(
                "the time exceeds the range of the clock",
            ));
        }
        self.timers.get().set_virtual(py, tick);
        Ok(())
    }

    fn __setattr__<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        attributes::assign(slf, name, value)
    }

    fn __delattr__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<()> {
        attributes::delete(slf, name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.timers)
    }
}
