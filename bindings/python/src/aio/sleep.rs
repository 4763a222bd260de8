//! `Sleep`: replaces the `select` method of a loop's selector. asyncio itself finds no timers in
//! its heap, so it would wait only for events; `Sleep` also waits for the next deadline.
//!
//! A long sleep has two parts. The first part is a `select`, whose timeout is precise only to a
//! millisecond, and which the kernel may extend by a thousandth; so it ends a little before the
//! deadline. The second part is a nap (see `nap`), which ends on time.

use super::base::LoopTimers;
use super::clock;
use super::nap::nap;
use super::timers::Timers;
use crate::ending;
use crate::kernel::monotonic;
use pyo3::types::{PyFloat, PyList, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, gc::PyVisit, intern, prelude::*};
use std::os::fd::RawFd;
use std::time::Duration;

/// The longest wait that asyncio requests from a selector: 24 hours, in nanoseconds.
const LONGEST: u64 = 24 * 3600 * 1_000_000_000;

/// Longest sleep, in nanoseconds, that consists of a nap alone. A longer sleep costs one more
/// system call.
const NAP: u64 = 4_000_000;

const MILLISECOND: u64 = 1_000_000;

/// The selector's `select`, which also wakes for timers.
#[pyclass(frozen, module = "punctual.aio")]
pub(crate) struct Sleep {
    /// Weak reference to the loop, which owns the selector, which owns this object.
    timers: Py<PyWeakrefReference>,
    wheel: Py<Timers>,
    /// The selector's original method.
    select: Py<PyAny>,
    /// The descriptor of an epoll selector, on which a nap can wait. `None` for other selectors.
    fd: Option<RawFd>,
}

impl Sleep {
    fn select<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        self.select_for(&PyFloat::new(py, seconds))
    }

    /// Naps for `time` and returns the pending events. Most iterations of a busy loop find no
    /// event, and the system call finds that out faster than `select`, which is written in Python.
    fn select_after<'py>(&self, py: Python<'py>, time: Duration) -> PyResult<Bound<'py, PyAny>> {
        match self.fd {
            Some(fd) if !nap(py, fd, time)? => Ok(PyList::empty(py).into_any()),
            _ => self.select(py, 0.0),
        }
    }

    /// Returns the pending events without a sleep.
    fn select_now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.select_after(py, Duration::ZERO)
    }

    /// Calls the selector's own `select(timeout)`, which releases the GIL.
    fn select_for<'py>(&self, timeout: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = timeout.py();
        ending::call(self.select.bind(py), &PyTuple::new(py, [timeout])?)
    }

    /// Waits for events until `deadline`.
    fn until<'py>(&self, py: Python<'py>, deadline: u64) -> PyResult<Bound<'py, PyAny>> {
        let Some(left) = deadline.checked_sub(monotonic()).filter(|left| *left > 0) else {
            return self.select_now(py);
        };
        if self.fd.is_none() {
            return self.select(py, clock::seconds(left));
        }
        if left > NAP {
            let milliseconds = (left - left / 512 - MILLISECOND) / MILLISECOND;
            // Python rounds the timeout up to whole milliseconds. Subtracting half a millisecond
            // keeps a rounding error of the float from adding one.
            let events = self.select(py, (milliseconds as f64 - 0.5) / 1e3)?;
            if events.is_truthy()? {
                return Ok(events);
            }
        }
        let left = deadline.saturating_sub(monotonic());
        self.select_after(py, Duration::from_nanos(left))
    }

    /// Returns the pending events of a loop with a virtual clock. If no event is pending, moves the
    /// clock to `deadline` at once, unless a call of `run_in_executor` is running: then it waits
    /// for an event.
    fn jump<'py>(
        &self,
        timers: &Bound<'py, LoopTimers>,
        deadline: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = timers.py();
        if deadline <= self.wheel.get().now(py) {
            return self.select_now(py);
        }
        if timers
            .call_method0(intern!(py, "_is_waiting"))?
            .is_truthy()?
        {
            // A call of `run_in_executor` runs in real time, and its end is an event.
            return self.select_for(py.None().bind(py));
        }
        let events = self.select_now(py)?;
        if !events.is_truthy()? {
            self.wheel.get().set_virtual(py, deadline);
        }
        Ok(events)
    }
}

#[pymethods]
impl Sleep {
    #[new]
    fn new(timers: &Bound<'_, LoopTimers>, select: Py<PyAny>, fd: Option<RawFd>) -> PyResult<Self> {
        Ok(Sleep {
            timers: PyWeakrefReference::new(timers)?.unbind(),
            wheel: timers.get().timers.clone_ref(timers.py()),
            select,
            fd,
        })
    }

    #[pyo3(signature = (timeout=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = timeout.as_ref().map(|asked| asked.extract()).transpose()?;
        let timeout = timeout.unwrap_or_else(|| py.None().into_bound(py));
        if asked.is_some_and(|seconds: f64| seconds <= 0.0) {
            return self.select_now(py);
        }
        let Some(next) = self.wheel.get().next_deadline(py) else {
            return self.select_for(&timeout);
        };
        let Some(timers) = self.timers.bind(py).upgrade() else {
            return self.select_for(&timeout);
        };
        let timers = timers.cast_into::<LoopTimers>()?;
        let replaced = timers.get().attributes.overrides(&timers)?;
        if replaced.time() {
            let now = timers.call_method0(intern!(py, "time"))?.extract::<f64>()?;
            let left = (clock::seconds(next) - now).clamp(0.0, clock::seconds(LONGEST));
            return self.select(py, asked.map_or(left, |asked| asked.min(left)));
        }
        if self.wheel.get().is_virtual(py) {
            return self.jump(&timers, next);
        }
        let longest = asked.map_or(LONGEST, |asked| clock::deadline(asked).min(LONGEST));
        self.until(py, next.min(monotonic().saturating_add(longest)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.timers)?;
        visit.call(&self.wheel)?;
        visit.call(&self.select)
    }
}
