//! The server's clock: the machine's, or one that stands still until it is moved.
//!
//! Only the event loops read it; everything else is told the instant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_store::Now;

use crate::config::ClockKind;

/// Where the server's instants come from.
#[derive(Debug)]
pub struct ServerClock {
    kind: ClockKind,
    /// Microseconds of unix time, for a clock moved by hand.
    micros: AtomicU64,
}

impl ServerClock {
    /// A clock of this kind. A virtual one starts at the machine's time, on a whole millisecond.
    pub fn new(kind: ClockKind) -> Self {
        Self {
            kind,
            micros: AtomicU64::new(machine_micros() / 1000 * 1000),
        }
    }

    /// Whether it is moved by hand.
    pub fn is_virtual(&self) -> bool {
        self.kind == ClockKind::Virtual
    }

    /// The instant.
    #[inline]
    pub fn now(&self) -> Now {
        Now::from_micros(match self.kind {
            ClockKind::Real => machine_micros(),
            ClockKind::Virtual => self.micros.load(Ordering::Acquire),
        })
    }

    /// Moves a virtual clock. Has no effect on a real one.
    pub fn set(&self, now: Now) {
        self.micros.store(now.micros(), Ordering::Release);
    }
}

/// Microseconds of unix time on the machine's clock; 0 before 1970.
fn machine_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
