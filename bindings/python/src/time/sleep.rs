//! `sleep`, on either clock.

use std::time::Duration;

use pyo3::prelude::*;

use super::clock::{Clock, Seconds, ticks};
use super::timer::Timer;
use crate::chan::Signals;

/// Waits for `dt` seconds; not at all if `dt` is 0 or less, and for ever if it is infinite.
///
/// It releases the interpreter's lock. Signals do not shorten it, but their handlers are run, and what
/// they raise ends it. Under `VirtualTime` it waits until the clock has been advanced that far, by
/// another thread.
///
/// Raises `ValueError` if `dt` is NaN.
#[pyfunction]
pub(super) fn sleep(py: Python<'_>, dt: Seconds) -> PyResult<()> {
    let ticks = ticks(dt)?;
    if ticks == 0 {
        py.detach(std::thread::yield_now);
        Ok(())
    } else if Clock::current(py).is_virtual() {
        Timer::wait(py, ticks)
    } else {
        rest(py, ticks)
    }
}

/// Until a time on the monotonic clock, so that signals make it no longer. The kernel ends it when one
/// is delivered.
#[cfg(target_os = "linux")]
fn rest(py: Python<'_>, ticks: u64) -> PyResult<()> {
    use rustix::thread::clock_nanosleep_absolute;
    use rustix::time::ClockId;

    use crate::kernel::{monotonic, timespec};

    let end = monotonic().saturating_add(ticks);
    let mut signals = Signals::new();
    loop {
        // In steps, for what `Signals` tells of signals that do not end a sleep.
        let step = |patience: Duration| end.min(monotonic() + patience.as_nanos() as u64);
        let until = signals.patience().map_or(end, step);
        let over =
            py.detach(|| clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until)).is_ok());
        signals.look(py)?;
        if over && until == end {
            return Ok(());
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn rest(py: Python<'_>, ticks: u64) -> PyResult<()> {
    use std::time::Instant;

    /// Nobody gets impatient with a signal unheard for so long.
    const STEP: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    let whole = Duration::from_nanos(ticks);
    let mut signals = Signals::new();
    loop {
        let left = whole.saturating_sub(begin.elapsed());
        py.detach(|| std::thread::sleep(left.min(STEP)));
        signals.look(py)?;
        if begin.elapsed() >= whole {
            return Ok(());
        }
    }
}
