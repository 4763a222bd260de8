//! The instant a command runs at, in Redis's unit, and the one rounding rule.
//!
//! Redis counts deadlines in whole milliseconds of unix time; clocks are finer. A key never goes early
//! and a TTL never reads longer than it was given if both directions are fixed once:
//! a *reading* of the clock rounds **down** (a key is due when its deadline has truly passed), and an
//! instant that becomes a *base for a deadline* rounds **up** (`PX 100` lasts at least 100 ms).

/// Deadline of a key or field without one.
pub const NEVER: u64 = u64::MAX;

/// One instant, in microseconds of unix time.
///
/// ```
/// use punctual_store::Now;
/// let now = Now::from_micros(1_000_300);
/// assert_eq!(now.read_ms(), 1_000); // what has passed
/// assert_eq!(now.base_ms(), 1_001); // what a relative deadline counts from
/// assert!(now.is_due(1_000) && !now.is_due(1_001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    micros: u64,
}

impl Now {
    /// The instant `micros` microseconds after the unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// The instant `ms` milliseconds after the unix epoch, exactly.
    pub const fn from_ms(ms: u64) -> Self {
        Self {
            micros: ms.saturating_mul(1000),
        }
    }

    /// Microseconds since the unix epoch.
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Whole milliseconds that have passed: rounds down.
    pub const fn read_ms(self) -> u64 {
        self.micros / 1000
    }

    /// The millisecond from which a relative deadline or a remaining time counts: rounds up.
    pub const fn base_ms(self) -> u64 {
        self.micros.div_ceil(1000)
    }

    /// Whether a deadline (ms) has been reached.
    pub const fn is_due(self, deadline_ms: u64) -> bool {
        deadline_ms <= self.read_ms()
    }
}
