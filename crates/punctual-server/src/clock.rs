//! The server's clock: the machine's, or one that stands still until it is moved.
//!
//! Only the event loops read it; everything else is told the instant. Whoever moves it holds every shard meanwhile, so
//! that movers come one after the other and nobody meets keys of the old time at the new one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_store::Now;

use crate::config::ClockKind;

/// The last instant whose microseconds can be counted, in unix milliseconds.
pub(crate) const LAST_MS: u64 = i64::MAX as u64 / 1000;

/// Why a clock was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// It is the machine's.
    #[error("the clock is real and cannot be moved; start the server with --clock virtual")]
    Real,
    /// It is past that time already.
    #[error("the clock cannot go back")]
    Backwards,
    /// The time is later than can be counted.
    #[error("value is out of range")]
    OutOfRange,
    /// Nobody serves any more.
    #[error("the server has stopped")]
    Stopped,
}

/// Where a clock is moved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    /// Microseconds on.
    By(u64),
    /// To a time in microseconds of unix time.
    To(u64),
}

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

    /// Sets a virtual clock. The caller holds every shard.
    pub(crate) fn set(&self, to: Now) {
        self.micros.store(to.micros(), Ordering::Release);
    }

    /// Returns the instant that `to` leads to.
    ///
    /// # Errors
    /// The clock is real, or the instant is earlier than now or later than can be counted.
    pub(crate) fn destination(&self, to: Move) -> Result<Now, MoveError> {
        if !self.is_virtual() {
            return Err(MoveError::Real);
        }
        let now = self.now().micros();
        let micros = match to {
            Move::By(micros) => now.checked_add(micros).ok_or(MoveError::OutOfRange)?,
            Move::To(micros) if micros < now => return Err(MoveError::Backwards),
            Move::To(micros) => micros,
        };
        if micros > LAST_MS * 1000 {
            return Err(MoveError::OutOfRange);
        }
        Ok(Now::from_micros(micros))
    }
}

/// Microseconds of unix time on the machine's clock; 0 before 1970.
fn machine_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
