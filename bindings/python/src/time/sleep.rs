//! `sleep`, on either clock.

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
    use rustix::time::{ClockId, Timespec, clock_gettime};

    const SECOND: u64 = 1_000_000_000;
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec as u64 + ticks % SECOND;
    let end = Timespec {
        tv_sec: now.tv_sec + (ticks / SECOND + nanoseconds / SECOND) as i64,
        tv_nsec: (nanoseconds % SECOND) as _,
    };
    let mut signals = Signals::new();
    loop {
        // In steps, for what `Signals` tells of signals that do not end a sleep.
        let step = signals.patience().map(|patience| {
            let step =
                clock_gettime(ClockId::Monotonic) + Timespec::try_from(patience).unwrap_or(end);
            step.min(end)
        });
        let until = step.unwrap_or(end);
        let over = py.detach(|| clock_nanosleep_absolute(ClockId::Monotonic, &until).is_ok());
        signals.look(py)?;
        if over && until == end {
            return Ok(());
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn rest(py: Python<'_>, ticks: u64) -> PyResult<()> {
    use std::time::{Duration, Instant};

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
