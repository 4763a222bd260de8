//! `VirtualTime`: a manually advanced clock for all of `punctual.time`.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::alarm::TimeDriver;
use super::callback::Inline;
use super::clock::{Seconds, duration};
use crate::gil::GilCell;

/// A clock that moves only when advanced; for tests, which jump instead of sleeping.
///
/// As a context manager it replaces the system's clock for all of `punctual.time` in all threads:
/// for `now`, for `sleep`, and for timers created within the `with` block, which keep this clock
/// afterwards. `start` is the initial reading in seconds.
///
/// >>> from punctual.time import Timer, VirtualTime
/// >>> with VirtualTime() as clock:
/// ...     timer = Timer(3600)
/// ...     clock.advance(3600)
/// ...     timer.c.recv()
/// 3600.0
///
/// Raises `ValueError` if `start` is not finite.
#[pyclass(frozen, name = "VirtualTime", module = "punctual.time")]
pub(crate) struct VirtualTime {
    driver: TimeDriver,
    start: f64,
    interrupt: Interrupt,
    /// True while a thread is in `advance`.
    advancing: GilCell<bool>,
}

/// The clocks whose `with` blocks are open; the last one is in effect.
static STACK: GilCell<Vec<Py<VirtualTime>>> = GilCell::new(Vec::new());
/// The last clock of the stack.
static CURRENT: GilCell<Option<Py<VirtualTime>>> = GilCell::new(None);

/// A KeyboardInterrupt raised by a function that the clock called.
#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<Mutex<Option<PyErr>>>);

impl Interrupt {
    pub(super) fn raise(&self, error: PyErr) {
        let before = self.swap(Some(error));
        drop(before);
    }

    fn take(&self) -> Option<PyErr> {
        self.swap(None)
    }

    fn swap(&self, error: Option<PyErr>) -> Option<PyErr> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, error)
    }
}

impl VirtualTime {
    /// Returns the clock in effect; `None` for the system's.
    #[inline]
    pub(super) fn current(py: Python<'_>) -> Option<Py<VirtualTime>> {
        CURRENT.share(py)
    }

    pub(super) fn driver(&self) -> &TimeDriver {
        &self.driver
    }

    /// Returns the reading at a tick.
    pub(super) fn seconds(&self, tick: u64) -> f64 {
        self.start + tick as f64 / 1e9
    }

    /// Changes the stack and puts its last clock into effect.
    fn change(py: Python<'_>, change: impl FnOnce(&mut Vec<Py<VirtualTime>>)) {
        let mut stack = STACK.replace(py, Vec::new());
        change(&mut stack);
        let top = stack.last().map(|clock| clock.clone_ref(py));
        STACK.replace(py, stack);
        drop(CURRENT.replace(py, top));
    }
}

#[pymethods]
impl VirtualTime {
    #[new]
    #[pyo3(signature = (start=0.0))]
    fn new(start: f64) -> PyResult<Self> {
        if !start.is_finite() {
            return Err(PyValueError::new_err(
                "start must be a finite number of seconds",
            ));
        }
        let interrupt = Interrupt::default();
        Ok(VirtualTime {
            driver: TimeDriver::virtual_clock(Inline(interrupt.clone())),
            start,
            interrupt,
            advancing: GilCell::new(false),
        })
    }

    /// Puts the clock into effect.
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        let clock = slf.clone().unbind();
        VirtualTime::change(slf.py(), |stack| stack.push(clock));
        slf
    }

    /// Restores the previous clock. Timers armed on this clock stay, and fire when it is advanced.
    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        let gone = Cell::new(None);
        VirtualTime::change(slf.py(), |stack| {
            // This clock is not always the last: another thread may have pushed a clock.
            if let Some(place) = stack.iter().rposition(|clock| clock.is(slf)) {
                gone.set(Some(stack.remove(place)));
            }
        });
    }

    /// Advances the clock by `seconds`, from deadline to deadline: each timer fires at its own
    /// time, in order. The function of a timer runs in this thread before the next timer fires.
    /// Timers that a function arms fire as well if they fall due.
    ///
    /// Exceptions of a function go to `threading.excepthook`, except KeyboardInterrupt, which is
    /// raised at the end.
    ///
    /// Raises `ValueError` for a negative number or NaN, and `RuntimeError` if the clock is already
    /// being advanced, by a function that it called or by another thread.
    fn advance(&self, py: Python<'_>, seconds: Seconds) -> PyResult<()> {
        if seconds.0 < 0.0 {
            return Err(PyValueError::new_err("the clock cannot go back"));
        }
        let by = duration(seconds)?;
        if self.advancing.replace(py, true) {
            return Err(PyRuntimeError::new_err(
                "this clock is already being advanced, by a function that it called or by another thread",
            ));
        }
        self.driver.advance(by);
        self.advancing.replace(py, false);
        match self.interrupt.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the reading in seconds.
    fn now(&self) -> f64 {
        self.seconds(self.driver.now())
    }

    /// Next deadline in seconds; None if no armed timer will ever fire.
    #[getter]
    fn next_deadline(&self) -> Option<f64> {
        let next = self.driver.next_deadline().filter(|&next| next != u64::MAX);
        next.map(|next| self.seconds(next))
    }

    /// Number of armed timers; a thread in `sleep` has one.
    #[getter]
    fn armed(&self) -> usize {
        self.driver.len()
    }

    fn __repr__(&self) -> String {
        format!("<VirtualTime: {} s, {} armed>", self.now(), self.armed())
    }
}
