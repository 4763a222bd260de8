//! `punctual.time`: timers with the names and semantics of pygolang's `golang.time`, which follow
//! Go's package time.
//!
//! - `alarm` has the alarms that the driver fires, and their rules; `callback` calls functions.
//! - `timer`, `ticker` and `sleep` are the Python API; `clock` and `virtual_time` are its clocks.
//! - `fork` synchronizes forks of the process with the driver's thread; `thread_state` prevents
//!   forks while a worker attaches to the interpreter.

mod alarm;
mod callback;
mod clock;
mod fork;
mod sleep;
mod thread_state;
mod ticker;
mod timer;
mod virtual_time;

use pyo3::prelude::*;

pub(crate) use ticker::Ticker;
pub(crate) use timer::Timer;

/// Returns the time in seconds: since 1970 as `time.time()` does, or the reading of the virtual
/// clock in effect.
///
/// Use it for display and logs: the time jumps when the system's clock is set. Timers and `sleep`
/// use the monotonic clock.
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
