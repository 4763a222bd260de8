//! The wall clock: deadlines of keys are unix time, so lateness is measured against it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
pub(crate) fn unix_micros() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Sleeps until that many microseconds since 1970.
pub(crate) fn sleep_until(micros: u64) {
    let left = micros.saturating_sub(unix_micros());
    std::thread::sleep(Duration::from_micros(left));
}
