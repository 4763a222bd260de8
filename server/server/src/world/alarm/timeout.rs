//! An alarm that is the poll's timeout, for systems whose poll rounds a timeout to nanoseconds.

use std::io;
use std::time::{Duration, SystemTime};

use mio::{Registry, Token};

use crate::world::World;
use crate::world::alarm::sleep_until;

/// Name of the alarm in INFO.
pub(crate) const NAME: &str = "kevent";

/// Wakes a loop at an absolute time.
pub(crate) struct Alarm;

impl Alarm {
    /// Creates an alarm. It never reports an event.
    pub(crate) fn new(_: World, _: &Registry, _: Token) -> io::Result<Self> {
        Ok(Self)
    }

    /// Handles the alarm's event, which this form does not have.
    pub(crate) fn fired(&mut self) {}

    /// Returns the timeout for the poll that ends at `at_ms` (Unix milliseconds) or earlier; `None`
    /// if `at_ms` is `u64::MAX`.
    pub(crate) fn set(&mut self, at_ms: u64) -> Option<Duration> {
        (at_ms != u64::MAX).then(|| sleep_until(at_ms, SystemTime::now()))
    }
}
