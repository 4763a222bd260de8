//! `Ticker` and `tick`: send the time into a channel at regular intervals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::tick::next_tick;
use pyo3::prelude::*;

use super::alarm::{Armed, PyAlarm};
use super::clock::{Clock, Seconds, ticks};
use crate::chan::{Chan, Channel, Dtype, Item, PanicError, View};

/// Sends the time into its channel `c` every `dt` seconds until it is stopped.
///
/// If the receiver is slow, ticks are skipped: the channel holds at most one tick. Ticks do not
/// drift: each tick is due at a multiple of `dt` after the start. A ticker stops when nothing
/// references it or its channel; in the child of a fork, the parent's tickers are stopped.
///
/// Raises `PanicError` if `dt` is 0 or less, `ValueError` if it is NaN.
#[pyclass(frozen, name = "Ticker", module = "punctual.time")]
pub(crate) struct Ticker {
    channel: Channel<Item>,
    period: u64,
    clock: Clock,
    /// Handle of the armed alarm. The driver writes it at each tick, under the lock of its shard.
    /// `None` after `stop`.
    armed: Mutex<Option<Armed>>,
    view: View,
}

impl Ticker {
    pub(crate) fn channel(&self) -> &Channel<Item> {
        &self.channel
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    fn lock(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(py: Python<'_>, period: u64) -> PyResult<Bound<'_, Ticker>> {
        let ticker = Bound::new(
            py,
            Ticker {
                channel: Channel::new(1),
                period,
                clock: Clock::current(py),
                armed: Mutex::new(None),
                view: View::new(),
            },
        )?;
        let driver = ticker.get().clock.driver(py);
        driver.arm(
            driver.now().saturating_add(period),
            PyAlarm::tick(ticker.get()),
        );
        Ok(ticker)
    }

    /// Sends the time unless the channel is full. Returns the next deadline. Runs within `fire`:
    /// see the ground rules of `alarm`.
    pub(super) fn tick(&self, due: u64, now: u64) -> u64 {
        let _ = self.channel.try_send(Item::Double(self.clock.seconds(now)));
        next_tick(due, self.period, now)
    }

    pub(super) fn armed(&self, armed: Armed) {
        *self.lock() = Some(armed);
    }

    fn disarm(&self, py: Python<'_>) {
        let driver = self.clock.driver(py);
        loop {
            // The lock is released before the call of the driver, because the driver calls `armed`
            // under its own lock.
            let armed = *self.lock();
            let Some(handle) = armed.and_then(|armed| armed.handle(driver)) else {
                return;
            };
            if driver.disarm(handle).is_some() {
                *self.lock() = None;
                return;
            }
            // The ticker has ticked meanwhile and has a new handle, or was already stopped.
            if *self.lock() == armed {
                return;
            }
        }
    }
}

#[pymethods]
impl Ticker {
    #[new]
    fn new(py: Python<'_>, dt: Seconds) -> PyResult<Bound<'_, Ticker>> {
        match ticks(dt)? {
            0 => Err(PanicError::new_err("ticker: dt <= 0")),
            period => Ticker::start(py, period),
        }
    }

    /// The channel that receives the times.
    #[getter]
    fn c<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Chan>> {
        let make = || Chan::of_ticker(slf.clone().unbind());
        slf.get().view.object(slf.py(), make)
    }

    /// Stops the ticker and empties the channel. Does nothing if it is already stopped.
    fn stop(&self, py: Python<'_>) {
        self.disarm(py);
        drop(self.channel.drain());
    }

    fn __repr__(&self) -> String {
        let state = if self.lock().is_some() {
            ""
        } else {
            ", stopped"
        };
        format!("<Ticker: every {} s{state}>", self.period as f64 / 1e9)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        Python::attach(|py| self.disarm(py));
    }
}

/// Returns a channel that receives the time every `dt` seconds: `Ticker(dt).c`.
///
/// The ticker stops only when the channel is no longer referenced. If `dt` is 0 or less, returns
/// the nil channel, which never receives. Raises `ValueError` if `dt` is NaN.
#[pyfunction]
pub(super) fn tick(py: Python<'_>, dt: Seconds) -> PyResult<Bound<'_, Chan>> {
    match ticks(dt)? {
        0 => Ok(Chan::nil_of(py, Dtype::Double)?.into_bound(py)),
        period => Ticker::c(&Ticker::start(py, period)?),
    }
}
