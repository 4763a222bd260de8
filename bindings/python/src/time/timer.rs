//! `Timer`, `after` and `after_func`: send the time into a channel, or call a function, once.
//!
//! # Ground rules
//!
//! - On the system's clock, a timer with a channel is a mere deadline until a thread waits for it,
//!   as in Go since 1.23. Every use of the channel (receive, send, select, close, length) first
//!   compares the deadline with the clock ([`Timer::send_if_due`]). If the deadline has passed,
//!   this use sends the time into the channel, as if the driver had sent it.
//! - A thread that must wait joins the channel's queue, then arms the timer in the driver
//!   ([`Timer::arm_in_driver`]). A reset arms it at once if the queue has a receiver. Joining and
//!   arming are one step under the GIL, so no thread waits for a timer that is not armed. A thread
//!   that sends into the channel arms the timer as well, so the channel of an unarmed timer is
//!   empty.
//! - The alarm stays armed until the timer fires or is stopped: otherwise a select in a loop would
//!   arm and disarm it in each iteration.
//! - On a virtual clock every timer is armed in the driver at once: the driver counts the timers
//!   and fires them in order.
//! - The driver's thread uses only the channel. Everything else happens under the GIL.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::alarm::{Armed, ProcessLocal, PyAlarm};
use super::clock::{self, Clock, Seconds, ticks, wall_before};
use crate::chan::{Chan, Channel, Dtype, Item, PanicError, View};
use crate::gil::{GilCell, ensure_collected};

/// Fires once, `dt` seconds from now: sends the time into its channel `c`, or calls `f`.
///
/// The time is a float of seconds, as `now()` returns: the time at which the timer fired if a
/// thread had waited for it, otherwise the time of the deadline. `dt` is a number of seconds. If
/// `dt` is 0 or less, the timer fires at once; if `dt` is infinite, the timer never fires. The
/// clock is monotonic: setting the system's time does not affect timers.
///
/// With `f` the timer sends nothing, and its `c` is the nil channel. `f` is called without
/// arguments on a thread of a pool, so a slow function delays no other timer. Its exceptions go to
/// `threading.excepthook`.
///
/// A timer with a channel is disarmed when nothing references it or its channel. A timer with a
/// function fires even if nothing references it. In the child of a fork, the parent's timers are
/// disarmed.
///
/// Raises `ValueError` if `dt` is NaN, `TypeError` if `f` is not callable.
// The garbage collector does not visit an object with recycled memory, which is right for a timer
// that references no object.
#[pyclass(frozen, name = "Timer", module = "punctual.time", freelist = 8)]
pub(crate) struct Timer {
    action: Action,
    clock: Clock,
    state: GilCell<State>,
    view: View,
}

/// The state of a timer.
#[derive(Clone, Copy)]
enum State {
    /// Not armed: stopped, never armed, or due with its time already sent.
    Off,
    /// Due at this tick, which may have passed. No thread waits, the channel is empty, and the
    /// timer is not armed in the driver. Arming and stopping such a timer takes two readings of the
    /// clock.
    Deadline(ProcessLocal<u64>),
    /// Armed in the driver, which may have fired it.
    Armed(Armed),
}

enum Action {
    /// A channel of capacity 1 into which the timer sends the time.
    Send(Channel<Item>),
    /// A function to call. `None` after the garbage collector has cleared the timer.
    Call(GilCell<Option<Py<PyAny>>>),
}

impl Timer {
    /// Returns the channel, unless the timer calls a function. Its content is up to date after
    /// [`send_if_due`](Timer::send_if_due).
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
        dt: u64,
        f: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Timer>> {
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
                state: GilCell::new(State::Off),
                view: View::new(),
            },
        )?;
        if f.is_some() || timer.get().clock.is_virtual() {
            ensure_collected(&timer);
        }
        timer.get().arm(py, dt);
        Ok(timer)
    }

    #[inline]
    fn arm(&self, py: Python<'_>, dt: u64) {
        let deadline = self.clock.tick(py).saturating_add(dt);
        let alarm = match &self.action {
            Action::Call(f) => PyAlarm::Call(f.share(py)),
            Action::Send(channel) => {
                let awaited = !self.view.is_new(py) && channel.has_receiver();
                if !awaited && !self.clock.is_virtual() {
                    let state = State::Deadline(ProcessLocal::new(deadline));
                    self.state.replace(py, state);
                    return;
                }
                PyAlarm::send(self)
            }
        };
        self.set_alarm(py, deadline, alarm);
    }

    fn set_alarm(&self, py: Python<'_>, deadline: u64, alarm: PyAlarm) {
        let armed = Armed::new(self.clock.driver(py).arm(deadline, alarm));
        self.state.replace(py, State::Armed(armed));
    }

    /// Sends the time if the timer is due. Called before any use of the channel.
    #[inline]
    pub(crate) fn send_if_due(&self, py: Python<'_>) {
        if let State::Deadline(deadline) = self.state.get(py)
            && let Some(late) = clock::late(py, deadline)
        {
            self.state.replace(py, State::Off);
            self.send(wall_before(late));
        }
    }

    /// Arms a timer in the state `Deadline` in the driver. Called when a thread has joined the
    /// channel's queue or is about to send.
    pub(crate) fn arm_in_driver(&self, py: Python<'_>) {
        if let State::Deadline(deadline) = self.state.get(py)
            && let Some(deadline) = deadline.get()
        {
            self.set_alarm(py, deadline, PyAlarm::send(self));
        }
    }

    /// Blocks for `dt` ticks of the clock in effect.
    pub(super) fn wait(py: Python<'_>, dt: u64) -> PyResult<()> {
        let timer = Timer::start(py, dt, None)?;
        Timer::c(&timer)?.get().recv(py).map(drop)
    }

    fn is_armed(&self, py: Python<'_>) -> bool {
        match self.state.get(py) {
            State::Off => false,
            State::Deadline(deadline) => clock::is_future(py, deadline),
            State::Armed(armed) => {
                let driver = self.clock.driver(py);
                let handle = armed.handle(driver);
                handle.is_some_and(|handle| driver.with(handle, |_| ()).is_some())
            }
        }
    }

    #[inline]
    fn disarm(&self, py: Python<'_>) -> bool {
        match self.state.replace(py, State::Off) {
            State::Off => false,
            State::Deadline(deadline) => clock::is_future(py, deadline),
            State::Armed(armed) => {
                let driver = self.clock.driver(py);
                // Drops the alarm's reference to `f` here, with the GIL and outside the shard's
                // lock.
                let alarm = armed
                    .handle(driver)
                    .and_then(|handle| driver.disarm(handle));
                alarm.is_some()
            }
        }
    }

    /// Empties the channel: removes a sent time that no thread has received.
    #[inline]
    fn clean(&self, py: Python<'_>) {
        if let Action::Send(channel) = &self.action
            && (self.clock.is_virtual() || !self.view.is_new(py))
        {
            drop(channel.drain());
        }
    }

    /// Sends the time of tick `now`. Runs within `fire`: see the ground rules of `alarm`.
    pub(super) fn expire(&self, now: u64) {
        self.send(self.clock.seconds(now));
    }

    /// Sends a time unless the channel is full.
    fn send(&self, time: f64) {
        if let Action::Send(channel) = &self.action {
            let _ = channel.try_send(Item::Double(time));
        }
    }
}

#[pymethods]
impl Timer {
    #[new]
    #[pyo3(signature = (dt, f=None))]
    fn new<'py>(
        py: Python<'py>,
        dt: Seconds,
        f: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Timer>> {
        Timer::start(py, ticks(dt)?, f)
    }

    /// The channel that receives the time; for a timer with a function, the nil channel, which is
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

    /// Disarms the timer. Returns whether it was armed.
    ///
    /// Afterwards the channel is empty, even if the timer had fired, so there is nothing to drain.
    /// Does not wait for a function that is already running.
    fn stop(&self, py: Python<'_>) -> bool {
        if let State::Deadline(deadline) = self.state.get(py)
            && clock::is_future(py, deadline)
        {
            self.state.replace(py, State::Off);
            return true;
        }
        let disarmed = self.disarm(py);
        self.clean(py);
        disarmed
    }

    /// Arms the timer again, to fire `dt` seconds from now. Its own function may call this.
    ///
    /// The timer must have fired or been stopped: otherwise raises `PanicError` and changes
    /// nothing. Removes an unreceived time from the channel first. Raises `ValueError` if `dt` is
    /// NaN.
    fn reset(&self, py: Python<'_>, dt: Seconds) -> PyResult<()> {
        let dt = ticks(dt)?;
        if self.is_armed(py) {
            return Err(PanicError::new_err(
                "Timer.reset: the timer is armed; must be stopped or expired",
            ));
        }
        self.clean(py);
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
            // The reference of the armed alarm is not visited, so the function of an armed timer
            // stays alive.
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
        // A timer with a function fires even after it is dropped.
        if let (Action::Send(_), State::Armed(_)) = (&self.action, *self.state.get_mut()) {
            Python::attach(|py| self.disarm(py));
        }
    }
}

/// Returns a channel that receives the time once, `dt` seconds from now: `Timer(dt).c`.
///
/// The timer is disarmed when nothing references the channel. Raises `ValueError` if `dt` is NaN.
#[pyfunction]
pub(super) fn after<'py>(py: Python<'py>, dt: Seconds) -> PyResult<Bound<'py, Chan>> {
    Timer::c(&Timer::start(py, ticks(dt)?, None)?)
}

/// Calls `f` without arguments `dt` seconds from now: `Timer(dt, f)`.
///
/// The call happens even if the returned timer is dropped. Raises `ValueError` if `dt` is NaN,
/// `TypeError` if `f` is not callable.
#[pyfunction]
pub(super) fn after_func<'py>(
    py: Python<'py>,
    dt: Seconds,
    f: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, Timer>> {
    Timer::start(py, ticks(dt)?, Some(f))
}
