//! The instant at which a command runs, and the rounding rule for deadlines.
//!
//! Redis counts deadlines in whole milliseconds of Unix time; clocks are finer. Two rules prevent a
//! key from expiring early and a TTL from being greater than requested. When a deadline is compared
//! with the clock, the clock is rounded **down**, so a due deadline has passed. When a relative
//! deadline is computed, the clock is rounded **up**, so `PX 100` lasts at least 100 ms and reads
//! 100 at first.

/// The stored deadline of a key or a field without a deadline.
pub const NEVER: u64 = u64::MAX;

/// An instant, in microseconds of Unix time.
///
/// ```
/// use punctual_store::Now;
/// let now = Now::from_micros(1_000_300);
/// assert_eq!(now.read_ms(), 1_000); // elapsed milliseconds
/// assert_eq!(now.base_ms(), 1_001); // base of a relative deadline
/// assert!(now.is_due(1_000) && !now.is_due(1_001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    micros: u64,
    /// Deadlines in Unix ms that are equal to or less than this one are due.
    due_ms: u64,
}

impl Now {
    /// Creates the instant `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self {
            micros,
            due_ms: micros / 1000,
        }
    }

    /// Creates the instant `ms` milliseconds after the Unix epoch.
    pub const fn from_ms(ms: u64) -> Self {
        Self::from_micros(ms.saturating_mul(1000))
    }

    /// Returns the same instant, at which no deadline is due. It is for commands of a log of
    /// changes, which contains each expiry as a command. Such a command may set a deadline in the
    /// past without deleting the key.
    ///
    /// ```
    /// let now = punctual_store::Now::from_ms(5_000);
    /// assert!(!now.replaying().is_due(1));
    /// assert_eq!(now.replaying().read_ms(), 5_000);
    /// ```
    #[must_use]
    pub const fn replaying(self) -> Self {
        Self { due_ms: 0, ..self }
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Returns the milliseconds since the Unix epoch, rounded down.
    pub const fn read_ms(self) -> u64 {
        self.micros / 1000
    }

    /// Returns the milliseconds since the Unix epoch, rounded up. Relative deadlines and remaining
    /// times are computed from them.
    pub const fn base_ms(self) -> u64 {
        self.micros.div_ceil(1000)
    }

    /// Returns true if `deadline_ms` is now or in the past.
    pub const fn is_due(self, deadline_ms: u64) -> bool {
        deadline_ms <= self.due_ms
    }
}
