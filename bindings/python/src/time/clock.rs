//! The clock of a timer: the system's, or the virtual clock in effect.

use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::alarm::{ProcessLocal, TimeDriver};
use super::virtual_time::VirtualTime;
use super::{callback, fork};
use crate::chan::forks;
use crate::gil::GilCell;
use crate::kernel::{coarse, monotonic};

/// The clock of a timer, fixed when the timer is created.
pub(super) struct Clock(Option<Py<VirtualTime>>);

impl Clock {
    #[inline]
    pub(super) fn current(py: Python<'_>) -> Self {
        Clock(VirtualTime::current(py))
    }

    #[inline]
    pub(super) fn is_virtual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the virtual clock, for the garbage collector.
    pub(super) fn object(&self) -> &Option<Py<VirtualTime>> {
        &self.0
    }

    #[inline]
    pub(super) fn driver(&self, py: Python<'_>) -> &TimeDriver {
        match &self.0 {
            None => system(py).driver,
            Some(clock) => clock.get().driver(),
        }
    }

    /// Returns the current tick of the driver, for deadlines.
    #[inline]
    pub(super) fn tick(&self, py: Python<'_>) -> u64 {
        match &self.0 {
            None => system(py).now(),
            Some(clock) => clock.get().driver().now(),
        }
    }

    #[inline]
    pub(super) fn now(&self, py: Python<'_>) -> f64 {
        match &self.0 {
            None => wall(),
            Some(_) => self.seconds(self.driver(py).now()),
        }
    }

    /// Returns the time to send at a tick of the driver: the virtual clock's reading at this tick,
    /// or the system's current time in seconds since 1970. Needs no GIL.
    #[inline]
    pub(super) fn seconds(&self, tick: u64) -> f64 {
        match &self.0 {
            None => wall(),
            Some(clock) => clock.get().seconds(tick),
        }
    }
}

/// The driver of the system's clock in one process.
#[derive(Clone, Copy)]
struct System {
    driver: &'static TimeDriver,
    /// Number of forks in the history of the driver's process.
    forks: u32,
    /// Reading of the kernel's clock at tick 0, or a little earlier.
    origin: u64,
}

/// Returns the driver of the system's clock, created on first use in each process. A child process
/// does not use its parent's driver: the threads of that driver do not exist in the child.
#[inline]
fn system(py: Python<'_>) -> System {
    static SYSTEM: GilCell<Option<System>> = GilCell::new(None);

    #[cold]
    fn make(py: Python<'_>) -> System {
        fork::register_hooks();
        let driver = Box::leak(Box::new(TimeDriver::new(callback::workers(py))));
        let system = System {
            driver,
            forks: forks(),
            origin: origin(driver),
        };
        if let Some(parent) = SYSTEM.replace(py, Some(system))
            && let Some(forked) = fork::forked_at()
        {
            let since = forked.saturating_duration_since(parent.driver.origin());
            PARENT.replace(py, Some((parent, since.as_nanos() as u64)));
        }
        system
    }

    match SYSTEM.get(py) {
        Some(system) if system.forks == forks() => system,
        _ => make(py),
    }
}

/// The parent process's driver and the tick of the fork. This process uses that driver only to
/// convert times.
static PARENT: GilCell<Option<(System, u64)>> = GilCell::new(None);

impl System {
    /// Returns true if a deadline is more than a second away by the coarse clock, whose readings
    /// may be some milliseconds old. Always false on systems other than Linux.
    #[inline]
    fn is_far(self, deadline: u64) -> bool {
        const FAR: u64 = 1_000_000_000;
        let about_now = coarse().wrapping_sub(self.origin);
        cfg!(target_os = "linux") && deadline.saturating_sub(about_now) > FAR
    }

    /// Returns the driver's tick, or a tick up to a few nanoseconds later. A later tick only delays
    /// a new timer.
    #[inline]
    fn now(self) -> u64 {
        if cfg!(target_os = "linux") {
            monotonic().wrapping_sub(self.origin)
        } else {
            self.driver.now()
        }
    }
}

/// Returns the reading of the kernel's clock at the driver's tick 0. Reads both clocks several
/// times and uses the fastest pair of readings: the thread may be preempted between two readings.
fn origin(driver: &TimeDriver) -> u64 {
    let reading = || {
        let (before, tick) = (monotonic(), driver.now());
        (monotonic().wrapping_sub(before), before.wrapping_sub(tick))
    };
    (0..8)
        .map(|_| reading())
        .min()
        .map_or(0, |(_, origin)| origin)
}

/// Returns the number of ticks since a deadline of the system's driver, or `None` before it. A
/// deadline of the parent process counts only if it had passed before the fork.
#[inline]
pub(super) fn late(py: Python<'_>, deadline: ProcessLocal<u64>) -> Option<u64> {
    #[cold]
    fn of_parent(py: Python<'_>, deadline: ProcessLocal<u64>) -> Option<u64> {
        let (parent, fork) = PARENT.get(py)?;
        let deadline = deadline.of(parent.forks)?;
        (deadline <= fork).then(|| parent.driver.now() - deadline)
    }

    let system = system(py);
    match deadline.get() {
        Some(deadline) if system.is_far(deadline) => None,
        Some(deadline) => system.now().checked_sub(deadline),
        None => of_parent(py, deadline),
    }
}

/// Returns true if a deadline of this process lies in the future of the system's clock.
#[inline]
pub(super) fn is_future(py: Python<'_>, deadline: ProcessLocal<u64>) -> bool {
    let system = system(py);
    let to_come = |deadline| system.is_far(deadline) || system.now() < deadline;
    deadline.get().is_some_and(to_come)
}

/// Returns seconds since 1970, as `time.time()` does.
#[inline]
pub(super) fn wall() -> f64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// Returns the reading of the system's clock `late` nanoseconds ago, in seconds since 1970, rounded
/// up.
pub(super) fn wall_before(late: u64) -> f64 {
    let then = SystemTime::now() - Duration::from_nanos(late);
    match then.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64().next_up(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// A number of seconds as an argument.
pub(super) struct Seconds(pub(super) f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Extracting an `f64` from an int would create a float first.
        if let Ok(whole) = object.cast_exact::<PyInt>()
            && let Ok(whole) = whole.extract::<i64>()
        {
            return Ok(Seconds(whole as f64));
        }
        object.extract().map(Seconds)
    }
}

/// Converts `dt` seconds to ticks: the nearest nanosecond, 0 for `dt <= 0`, otherwise at least 1.
#[inline]
pub(super) fn ticks(Seconds(dt): Seconds) -> PyResult<u64> {
    if dt.is_nan() {
        return Err(PyValueError::new_err("dt must not be NaN"));
    }
    // Saturates at `u64::MAX`, which is never reached.
    let ticks = (dt * 1e9 + 0.5) as u64;
    Ok(if ticks == 0 && dt > 0.0 { 1 } else { ticks })
}

/// Converts `dt` seconds to a duration, with the rounding of [`ticks`].
pub(super) fn duration(dt: Seconds) -> PyResult<Duration> {
    ticks(dt).map(Duration::from_nanos)
}
