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
use crate::kernel::{coarse, monotonic};

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
            None => system(py).driver,
            Some(clock) => clock.get().driver(),
        }
    }

    /// The tick of its driver, for deadlines.
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

/// The driver on the system's clock, and what goes with it.
#[derive(Clone, Copy)]
struct System {
    driver: &'static TimeDriver,
    /// The forks that its process has been through.
    forks: u32,
    /// What the kernel's clock shows at tick 0, or a little before.
    origin: u64,
}

/// The driver on the system's clock, made when it is first wanted, in each process anew. That of a parent process is
/// left alone: its threads do not exist here.
#[inline]
fn system(py: Python<'_>) -> System {
    static SYSTEM: GilCell<Option<System>> = GilCell::new(None);

    #[cold]
    fn make(py: Python<'_>) -> System {
        fork::watch();
        let driver = Box::leak(Box::new(TimeDriver::new(callback::workers())));
        let system = System {
            driver,
            forks: forks(),
            origin: origin(driver),
        };
        if let Some(parent) = SYSTEM.replace(py, Some(system))
            && let Some(forked) = fork::moment()
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

/// That of the process that this one was forked from, and the tick of the fork. It only tells the time here.
static PARENT: GilCell<Option<(System, u64)>> = GilCell::new(None);

impl System {
    /// Whether a deadline is so far off that a clock can tell which is some milliseconds behind.
    #[inline]
    fn is_far(self, deadline: u64) -> bool {
        const FAR: u64 = 1_000_000_000;
        let about_now = coarse().wrapping_sub(self.origin);
        cfg!(target_os = "linux") && deadline.saturating_sub(about_now) > FAR
    }

    /// The driver's tick, or a few nanoseconds after it: that only delays what is armed.
    #[inline]
    fn now(self) -> u64 {
        if cfg!(target_os = "linux") {
            monotonic().wrapping_sub(self.origin)
        } else {
            self.driver.now()
        }
    }
}

/// The best of some readings of both clocks: in between the thread may have had to wait for a processor.
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

/// For how many ticks of the system's driver a deadline has passed; `None` if it has not. A parent's has passed if it had at
/// the fork, and is of no meaning if it had not.
#[inline]
pub(super) fn late(py: Python<'_>, deadline: Ours<u64>) -> Option<u64> {
    #[cold]
    fn of_parent(py: Python<'_>, deadline: Ours<u64>) -> Option<u64> {
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

/// Whether a deadline of this process is still to come on the system's clock.
#[inline]
pub(super) fn is_to_come(py: Python<'_>, deadline: Ours<u64>) -> bool {
    let system = system(py);
    let to_come = |deadline| system.is_far(deadline) || system.now() < deadline;
    deadline.get().is_some_and(to_come)
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
