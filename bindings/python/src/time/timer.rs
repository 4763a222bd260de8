//! `Timer`, `after`, `after_func`.
//!
//! # Ground rules
//!
//! - On the system's clock the driver knows of a timer with a channel only once somebody waits for it, as in Go since
//!   1.23. Until then the timer is a deadline. Whoever uses the channel - receives, sends, selects, closes, asks how
//!   much is in it - has the timer look at the clock first ([`Timer::notice`]); if the deadline has passed the time is
//!   put into the channel, and nobody can tell that it was not there all along.
//! - Who then has to wait joins the channel's queue, then has the driver told ([`Timer::watch`]); and a reset tells the
//!   driver at once if somebody is in that queue. All of that is one step under the interpreter's lock, so nobody waits
//!   for a timer that the driver does not know. Who sends has it told as well, so such a timer's channel is empty.
//! - What the driver was told stays so until the timer fires or is stopped: a select in a loop would else arm and disarm
//!   it in each turn.
//! - On a virtual clock the driver knows all: that clock tells how many are armed, and fires them in order.
//! - The timers' thread touches nothing but the channel. All else happens under the interpreter's lock.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::alarm::{Armed, Ours, PyAlarm};
use super::clock::{self, Clock, Seconds, ticks, wall_before};
use crate::chan::{Chan, Channel, Dtype, Item, PanicError, View};
use crate::gil::GilCell;

/// Fires once, `dt` seconds from now: sends the time into its channel `c`, or calls `f`.
///
/// What is sent is what `now()` gives then, a float of seconds: the time at which the timer fired if
/// somebody waited for it, the time at which it fell due if somebody looks later. `dt` is a number of seconds; if it is 0 or less
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
    standing: GilCell<Standing>,
    view: View,
}

/// What will become of it.
#[derive(Clone, Copy)]
enum Standing {
    /// Nothing: it was stopped, was never armed, or was noticed to have fallen due.
    Off,
    /// It falls due at this tick, or has; nobody waits for it, its channel is empty, and the driver does not know of it.
    /// Arming and stopping it cost two readings of the clock.
    Unwatched(Ours<u64>),
    /// The driver has it, or has had it fire.
    Armed(Armed),
}

enum Action {
    /// One place: the time waits for its receiver.
    Send(Channel<Item>),
    /// `None` when the garbage collector has taken it.
    Call(GilCell<Option<Py<PyAny>>>),
}

impl Timer {
    /// Its channel, unless it calls a function. What is in there is true after [`notice`](Timer::notice).
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
                standing: GilCell::new(Standing::Off),
                view: View::new(),
            },
        )?;
        timer.get().arm(py, dt);
        Ok(timer)
    }

    #[inline]
    fn arm(&self, py: Python<'_>, dt: u64) {
        let deadline = self.clock.tick(py).saturating_add(dt);
        let alarm = match &self.action {
            Action::Call(f) => PyAlarm::Call(f.share(py)),
            Action::Send(channel) => {
                let waited_for = !self.view.is_new(py) && channel.is_waited_for();
                if !waited_for && !self.clock.is_virtual() {
                    let standing = Standing::Unwatched(Ours::new(deadline));
                    self.standing.replace(py, standing);
                    return;
                }
                PyAlarm::send(self)
            }
        };
        self.hand_over(py, deadline, alarm);
    }

    fn hand_over(&self, py: Python<'_>, deadline: u64, alarm: PyAlarm) {
        let armed = Armed::new(self.clock.driver(py).arm(deadline, alarm));
        self.standing.replace(py, Standing::Armed(armed));
    }

    /// Somebody uses its channel: has the time in it, if the timer has fallen due.
    #[inline]
    pub(crate) fn notice(&self, py: Python<'_>) {
        if let Standing::Unwatched(deadline) = self.standing.get(py)
            && let Some(late) = clock::late(py, deadline)
        {
            self.standing.replace(py, Standing::Off);
            self.send(wall_before(late));
        }
    }

    /// Somebody waits in the queue of its channel, or is about to send: has the driver send the time.
    pub(crate) fn watch(&self, py: Python<'_>) {
        if let Standing::Unwatched(deadline) = self.standing.get(py)
            && let Some(deadline) = deadline.get()
        {
            self.hand_over(py, deadline, PyAlarm::send(self));
        }
    }

    /// Waits for so many ticks of the clock in force.
    pub(super) fn wait(py: Python<'_>, dt: u64) -> PyResult<()> {
        let timer = Timer::start(py, dt, None)?;
        Timer::c(&timer)?.get().recv(py).map(drop)
    }

    fn is_armed(&self, py: Python<'_>) -> bool {
        match self.standing.get(py) {
            Standing::Off => false,
            Standing::Unwatched(deadline) => clock::is_to_come(py, deadline),
            Standing::Armed(armed) => {
                let driver = self.clock.driver(py);
                let handle = armed.handle(driver);
                handle.is_some_and(|handle| driver.with(handle, |_| ()).is_some())
            }
        }
    }

    #[inline]
    fn disarm(&self, py: Python<'_>) -> bool {
        match self.standing.replace(py, Standing::Off) {
            Standing::Off => false,
            Standing::Unwatched(deadline) => clock::is_to_come(py, deadline),
            Standing::Armed(armed) => {
                let driver = self.clock.driver(py);
                // The alarm's reference to `f` goes here, with the interpreter's lock and outside the shard's.
                let alarm = armed
                    .handle(driver)
                    .and_then(|handle| driver.disarm(handle));
                alarm.is_some()
            }
        }
    }

    /// Takes out a time that nobody has received.
    #[inline]
    fn clean(&self, py: Python<'_>) {
        if let Action::Send(channel) = &self.action
            && (self.clock.is_virtual() || !self.view.is_new(py))
        {
            drop(channel.drain());
        }
    }

    /// On the timers' thread.
    pub(super) fn expire(&self, now: u64) {
        self.send(self.clock.seconds(now));
    }

    /// Sends a time, unless the last one is still there.
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
        if let Standing::Unwatched(deadline) = self.standing.get(py)
            && clock::is_to_come(py, deadline)
        {
            self.standing.replace(py, Standing::Off);
            return true;
        }
        let disarmed = self.disarm(py);
        self.clean(py);
        disarmed
    }

    /// Arms the timer again, to fire `dt` seconds from now; also from its own function.
    ///
    /// It must have fired or been stopped: else this raises `PanicError` and changes nothing. A time
    /// that nobody has received since it fired is taken out of the channel first. Raises `ValueError`
    /// if `dt` is NaN.
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
        if let (Action::Send(_), Standing::Armed(_)) = (&self.action, *self.standing.get_mut()) {
            Python::attach(|py| self.disarm(py));
        }
    }
}

/// A channel into which the time is sent once, `dt` seconds from now: `Timer(dt).c`.
///
/// If nobody has a reference to the channel, the timer behind it is disarmed. Raises `ValueError` if
/// `dt` is NaN.
#[pyfunction]
pub(super) fn after<'py>(py: Python<'py>, dt: Seconds) -> PyResult<Bound<'py, Chan>> {
    Timer::c(&Timer::start(py, ticks(dt)?, None)?)
}

/// Calls `f` without arguments `dt` seconds from now: `Timer(dt, f)`.
///
/// The call comes even if nobody keeps the timer that is returned. Raises `ValueError` if `dt` is NaN,
/// `TypeError` if `f` cannot be called.
#[pyfunction]
pub(super) fn after_func<'py>(
    py: Python<'py>,
    dt: Seconds,
    f: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, Timer>> {
    Timer::start(py, ticks(dt)?, Some(f))
}
