//! `Timer`, `after`, `after_func`.

use punctual::driver::Handle;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::alarm::{Armed, PyAlarm};
use super::clock::{Clock, ticks};
use crate::chan::{Chan, Channel, Dtype, Item, PanicError, View};
use crate::gil::GilCell;

/// Fires once, `dt` seconds from now: sends the time into its channel `c`, or calls `f`.
///
/// The time is what `now()` gives, a float of seconds. `dt` is a number of seconds; if it is 0 or less
/// the timer fires at once, if it is infinite, never. The clock behind is monotonic: setting the
/// system's time moves no timer.
///
/// With `f` the timer sends nothing, and its `c` is the nil channel. `f` is called without arguments on
/// a thread of its own pool, so a slow one delays no other timer. What it raises goes to
/// `threading.excepthook`, and harms nothing.
///
/// A timer that nobody has a reference to, nor to its channel, is disarmed; one with a function fires.
/// In the child of a fork the parent's timers are disarmed.
///
/// Raises `ValueError` if `dt` is NaN, `TypeError` if `f` cannot be called.
#[pyclass(frozen, name = "Timer", module = "punctual.time")]
pub(crate) struct Timer {
    action: Action,
    clock: Clock,
    armed: GilCell<Option<Armed>>,
    view: View,
}

enum Action {
    /// One place: the time waits for its receiver.
    Send(Channel<Item>),
    /// `None` when the garbage collector has taken it.
    Call(GilCell<Option<Py<PyAny>>>),
}

impl Timer {
    /// Its channel, unless it calls a function.
    pub(crate) fn channel(&self) -> Option<&Channel<Item>> {
        match &self.action {
            Action::Send(channel) => Some(channel),
            Action::Call(_) => None,
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    #[inline]
    fn start<'py>(
        py: Python<'py>,
        dt: f64,
        f: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Timer>> {
        let dt = ticks(dt)?;
        let action = match f {
            None => Action::Send(Channel::new(1)),
            Some(f) if f.is_callable() => Action::Call(GilCell::new(Some(f.clone().unbind()))),
            Some(f) => {
                return Err(PyTypeError::new_err(format!(
                    "Timer: f must be a function without arguments, not {}",
                    f.repr()?
                )));
            }
        };
        let timer = Bound::new(
            py,
            Timer {
                action,
                clock: Clock::current(py),
                armed: GilCell::new(None),
                view: View::new(),
            },
        )?;
        timer.get().arm(py, dt);
        Ok(timer)
    }

    #[inline]
    fn arm(&self, py: Python<'_>, dt: u64) {
        let alarm = match &self.action {
            Action::Send(_) => PyAlarm::send(self),
            Action::Call(f) => PyAlarm::Call(f.share(py)),
        };
        let driver = self.clock.driver(py);
        let handle = driver.arm(driver.now().saturating_add(dt), alarm);
        self.armed.replace(py, Some(Armed::now(handle)));
    }

    /// Waits for `dt` seconds of the clock in force.
    pub(super) fn wait(py: Python<'_>, dt: f64) -> PyResult<()> {
        let timer = Timer::start(py, dt, None)?;
        Timer::c(&timer)?.get().recv(py).map(drop)
    }

    fn handle(&self, py: Python<'_>) -> Option<Handle> {
        self.armed.get(py)?.handle(self.clock.driver(py))
    }

    fn is_armed(&self, py: Python<'_>) -> bool {
        let handle = self.handle(py);
        handle.is_some_and(|handle| self.clock.driver(py).with(handle, |_| ()).is_some())
    }

    #[inline]
    fn disarm(&self, py: Python<'_>) -> bool {
        let Some(armed) = self.armed.replace(py, None) else {
            return false;
        };
        let driver = self.clock.driver(py);
        // The alarm's reference to `f` goes here, with the interpreter's lock and outside the shard's.
        let alarm = armed
            .handle(driver)
            .and_then(|handle| driver.disarm(handle));
        alarm.is_some()
    }

    /// The timers' thread: sends the time, unless the last one is still there.
    pub(super) fn expire(&self, now: u64) {
        if let Action::Send(channel) = &self.action {
            let _ = channel.try_send(Item::Double(self.clock.seconds(now)));
        }
    }
}

#[pymethods]
impl Timer {
    #[new]
    #[pyo3(signature = (dt, f=None))]
    fn new<'py>(
        py: Python<'py>,
        dt: f64,
        f: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Timer>> {
        Timer::start(py, dt, f)
    }

    /// The channel that the time is sent into; of a timer with a function the nil channel, which is
    /// never ready.
    #[getter]
    fn c<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Chan>> {
        let py = slf.py();
        let timer = slf.get();
        match timer.action {
            Action::Send(_) => {
                let make = || Chan::of_timer(slf.clone().unbind());
                timer.view.object(py, make)
            }
            Action::Call(_) => Ok(Chan::nil_of(py, Dtype::Double)?.into_bound(py)),
        }
    }

    /// Disarms the timer, and says whether it was armed.
    ///
    /// Afterwards the channel is empty, even if the timer had fired: there is nothing to drain. A
    /// function that was called already is not waited for.
    fn stop(&self, py: Python<'_>) -> bool {
        let disarmed = self.disarm(py);
        if let Action::Send(channel) = &self.action {
            drop(channel.drain());
        }
        disarmed
    }

    /// Arms the timer again, to fire `dt` seconds from now; also from its own function.
    ///
    /// It must have fired or been stopped: else this raises `PanicError` and changes nothing. A time
    /// that nobody has received since it fired is taken out of the channel first. Raises `ValueError`
    /// if `dt` is NaN.
    fn reset(&self, py: Python<'_>, dt: f64) -> PyResult<()> {
        let dt = ticks(dt)?;
        if self.is_armed(py) {
            return Err(PanicError::new_err(
                "Timer.reset: the timer is armed; must be stopped or expired",
            ));
        }
        if let Action::Send(channel) = &self.action {
            drop(channel.drain());
        }
        self.arm(py, dt);
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> &'static str {
        match (&self.action, self.is_armed(py)) {
            (Action::Send(_), true) => "<Timer: armed>",
            (Action::Send(_), false) => "<Timer: stopped or expired>",
            (Action::Call(_), true) => "<Timer with a function: armed>",
            (Action::Call(_), false) => "<Timer with a function: stopped or expired>",
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.clock.object())?;
        match &self.action {
            Action::Send(_) => Ok(()),
            // The reference that an armed alarm has is not shown: it keeps the function alive until then.
            Action::Call(f) => f.visit(visit),
        }
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Action::Call(f) = &self.action {
            drop(f.replace(py, None));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // One with a function fires without its timer.
        if let Action::Send(_) = self.action {
            Python::attach(|py| self.disarm(py));
        }
    }
}

/// A channel into which the time is sent once, `dt` seconds from now: `Timer(dt).c`.
///
/// If nobody has a reference to the channel, the timer behind it is disarmed. Raises `ValueError` if
/// `dt` is NaN.
#[pyfunction]
pub(super) fn after<'py>(py: Python<'py>, dt: f64) -> PyResult<Bound<'py, Chan>> {
    Timer::c(&Timer::start(py, dt, None)?)
}

/// Calls `f` without arguments `dt` seconds from now: `Timer(dt, f)`.
///
/// The call comes even if nobody keeps the timer that is returned. Raises `ValueError` if `dt` is NaN,
/// `TypeError` if `f` cannot be called.
#[pyfunction]
pub(super) fn after_func<'py>(
    py: Python<'py>,
    dt: f64,
    f: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, Timer>> {
    Timer::start(py, dt, Some(f))
}
