//! `sleep`, on either clock, in a thread or in a greenlet.

use std::time::Duration;

use pyo3::prelude::*;

use super::clock::{Clock, Seconds, ticks};
use super::timer::Timer;
use crate::chan::Signals;
use crate::greenlet;

/// Blocks for `dt` seconds. Returns at once if `dt` is 0 or less, and never if `dt` is infinite.
///
/// Releases the GIL. In a thread that runs gevent's hub, the other greenlets run meanwhile. A
/// signal does not shorten the sleep, but its handler runs, and an exception of the handler ends
/// the sleep. Under `VirtualTime`, `sleep` blocks until another thread has advanced the clock by
/// `dt`.
///
/// Raises `ValueError` if `dt` is NaN.
#[pyfunction]
pub(super) fn sleep(py: Python<'_>, dt: Seconds) -> PyResult<()> {
    let ticks = ticks(dt)?;
    if ticks == 0 {
        py.detach(std::thread::yield_now);
        Ok(())
    } else if Clock::current(py).is_virtual() || greenlet::hub(py)?.is_some() {
        Timer::wait(py, ticks)
    } else {
        sleep_ticks(py, ticks)
    }
}

/// Sleeps until a time on the monotonic clock, so that interruptions by signals do not extend the
/// sleep.
#[cfg(target_os = "linux")]
fn sleep_ticks(py: Python<'_>, ticks: u64) -> PyResult<()> {
    use rustix::thread::clock_nanosleep_absolute;
    use rustix::time::ClockId;

    use crate::kernel::{monotonic, timespec};

    let end = monotonic().saturating_add(ticks);
    let mut signals = Signals::new();
    loop {
        // The sleep has steps, because some signals do not interrupt it; see `Signals`.
        let step = |patience: Duration| end.min(monotonic() + patience.as_nanos() as u64);
        let until = signals.poll_interval().map_or(end, step);
        let over =
            py.detach(|| clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until)).is_ok());
        signals.check(py)?;
        if over && until == end {
            return Ok(());
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn sleep_ticks(py: Python<'_>, ticks: u64) -> PyResult<()> {
    use std::time::Instant;

    /// Longest delay of a signal's handler.
    const STEP: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    let whole = Duration::from_nanos(ticks);
    let mut signals = Signals::new();
    loop {
        let left = whole.saturating_sub(begin.elapsed());
        py.detach(|| std::thread::sleep(left.min(STEP)));
        signals.check(py)?;
        if begin.elapsed() >= whole {
            return Ok(());
        }
    }
}
