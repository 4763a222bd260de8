//! Which clock a timer goes by: the system's, or the virtual one that is in force.

use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::alarm::{Ours, TimeDriver};
use super::virtual_time::VirtualTime;
use super::{callback, fork};
use crate::chan::forks;
use crate::gil::GilCell;

/// The clock of a timer; it stays the one under which the timer was made.
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

    /// The virtual clock, for the garbage collector.
    pub(super) fn object(&self) -> &Option<Py<VirtualTime>> {
        &self.0
    }

    #[inline]
    pub(super) fn driver(&self, py: Python<'_>) -> &TimeDriver {
        match &self.0 {
            None => system_driver(py),
            Some(clock) => clock.get().driver(),
        }
    }

    #[inline]
    pub(super) fn now(&self, py: Python<'_>) -> f64 {
        match &self.0 {
            None => wall(),
            Some(_) => self.seconds(self.driver(py).now()),
        }
    }

    /// Seconds since 1970, or since the virtual clock's start: what this clock shows at a tick of its driver. Without
    /// the interpreter's lock.
    #[inline]
    pub(super) fn seconds(&self, tick: u64) -> f64 {
        match &self.0 {
            None => wall(),
            Some(clock) => clock.get().seconds(tick),
        }
    }
}

/// The driver on the system's clock, made when it is first wanted, in each process anew. That of a parent process is
/// left alone: its threads do not exist here.
#[inline]
fn system_driver(py: Python<'_>) -> &'static TimeDriver {
    static DRIVER: GilCell<Option<(u32, &'static TimeDriver)>> = GilCell::new(None);

    #[cold]
    fn make(py: Python<'_>) -> &'static TimeDriver {
        fork::watch();
        let driver = Box::leak(Box::new(TimeDriver::new(callback::workers())));
        if let Some((forks, driver)) = DRIVER.replace(py, Some((forks(), driver)))
            && let Some(forked) = fork::moment()
        {
            let until = forked.saturating_duration_since(driver.origin()).as_nanos() as u64;
            PARENT.replace(
                py,
                Some(Parent {
                    forks,
                    driver,
                    until,
                }),
            );
        }
        driver
    }

    match DRIVER.get(py) {
        Some((made, driver)) if made == forks() => driver,
        _ => make(py),
    }
}

/// The driver of the process that this one was forked from. It only tells the time here.
#[derive(Clone, Copy)]
struct Parent {
    /// The forks that process had been through.
    forks: u32,
    driver: &'static TimeDriver,
    /// The tick of the fork.
    until: u64,
}

static PARENT: GilCell<Option<Parent>> = GilCell::new(None);

/// For how many ticks of the system's driver a deadline has passed; `None` if it has not. A parent's has passed if it had at
/// the fork, and is of no meaning if it had not.
#[inline]
pub(super) fn late(py: Python<'_>, deadline: Ours<u64>) -> Option<u64> {
    #[cold]
    fn of_parent(py: Python<'_>, deadline: Ours<u64>) -> Option<u64> {
        let parent = PARENT.get(py)?;
        let deadline = deadline.of(parent.forks)?;
        (deadline <= parent.until).then(|| parent.driver.now() - deadline)
    }

    let driver = system_driver(py);
    match deadline.get() {
        Some(deadline) => driver.now().checked_sub(deadline),
        None => of_parent(py, deadline),
    }
}

/// Seconds since 1970, as `time.time()` has them.
#[inline]
pub(super) fn wall() -> f64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// What the system's clock showed so many nanoseconds ago; rounded up, so that it is not before what it had shown then.
pub(super) fn wall_before(late: u64) -> f64 {
    let then = SystemTime::now() - Duration::from_nanos(late);
    match then.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64().next_up(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// A number of seconds, as an argument.
pub(super) struct Seconds(pub(super) f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // An `f64` would be extracted from an int by making a float of it first.
        if let Ok(whole) = object.cast_exact::<PyInt>()
            && let Ok(whole) = whole.extract::<i64>()
        {
            return Ok(Seconds(whole as f64));
        }
        object.extract().map(Seconds)
    }
}

/// What `dt` seconds are in ticks: the nearest nanosecond; 0 for what is past, at least 1 for what is not.
#[inline]
pub(super) fn ticks(Seconds(dt): Seconds) -> PyResult<u64> {
    if dt.is_nan() {
        return Err(PyValueError::new_err("dt is NaN, which is no time"));
    }
    // Ends at `u64::MAX`, which never comes.
    let ticks = (dt * 1e9 + 0.5) as u64;
    Ok(if ticks == 0 && dt > 0.0 { 1 } else { ticks })
}

/// The same as a duration.
pub(super) fn duration(dt: Seconds) -> PyResult<Duration> {
    ticks(dt).map(Duration::from_nanos)
}
