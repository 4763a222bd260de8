//! The wall clock, which also measures lateness: deadlines of keys are Unix times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the unix time in microseconds.
pub(crate) fn unix_micros() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Blocks until a unix time in microseconds.
pub(crate) fn sleep_until(micros: u64) {
    let left = micros.saturating_sub(unix_micros());
    std::thread::sleep(Duration::from_micros(left));
}
