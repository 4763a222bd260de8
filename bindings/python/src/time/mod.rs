//! `punctual.time`: the names and meanings of pygolang's `golang.time`, which are Go's.
//!
//! - `alarm` is what the driver does when a timer falls due, and the rules for that; `callback` calls functions.
//! - `timer`, `ticker` and `sleep` are what Python sees; `clock` and `virtual_time` are the clocks under them.
//! - `fork` keeps forks apart from the timers' thread.

mod alarm;
mod callback;
mod clock;
mod fork;
mod sleep;
mod ticker;
mod timer;
mod virtual_time;

use pyo3::prelude::*;

pub(crate) use ticker::Ticker;
pub(crate) use timer::Timer;

/// The time, in seconds: since 1970 as `time.time()`, or what the virtual clock in force shows.
///
/// It is for people and for logs: it follows the system's clock when that is set. Timers and `sleep` go
/// by the monotonic clock.
#[pyfunction]
fn now(py: Python<'_>) -> f64 {
    clock::Clock::current(py).now(py)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Timer>()?;
    m.add_class::<Ticker>()?;
    m.add_class::<virtual_time::VirtualTime>()?;
    m.add_function(wrap_pyfunction!(now, m)?)?;
    m.add_function(wrap_pyfunction!(sleep::sleep, m)?)?;
    m.add_function(wrap_pyfunction!(timer::after, m)?)?;
    m.add_function(wrap_pyfunction!(timer::after_func, m)?)?;
    m.add_function(wrap_pyfunction!(ticker::tick, m)?)
}
