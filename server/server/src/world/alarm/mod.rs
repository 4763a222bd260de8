//! Alarms that wake an event loop exactly at a deadline.
//!
//! `epoll_wait` rounds its timeout up to whole milliseconds, so with a timeout every key would
//! expire up to a millisecond late. Deadlines are wall-clock times. An armed alarm is moved only to
//! an earlier time, never to a later one: a wake-up that is too early costs one turn of the loop.
//!
//! | systems | form |
//! |---|---|
//! | Linux, Android | [`timerfd`]: a timer of the kernel at an absolute wall-clock time |
//! | macOS, BSD | [`timeout`]: the timeout of `kevent`, which has nanoseconds |
//! | other Unix systems | [`thread`]: a thread that sleeps and then writes to a pipe |
//!
//! The second and the third form sleep for a duration, so they read the wall clock again after
//! [`SLEEP_MAX`] at most, in case that the clock was set or the machine was suspended. They compile
//! on every Unix system, and the tests run all forms. `RUSTFLAGS="--cfg alarm_thread"` builds a
//! server with the third form.

#[allow(dead_code, reason = "other systems use this form")]
mod thread;
#[allow(dead_code, reason = "other systems use this form")]
mod timeout;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[cfg_attr(alarm_thread, allow(dead_code, reason = "replaced on request"))]
mod timerfd;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

cfg_select! {
    alarm_thread => {
        pub(crate) use thread::{Alarm, NAME};
    }
    any(target_os = "linux", target_os = "android") => {
        pub(crate) use timerfd::{Alarm, NAME};
    }
    any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "dragonfly",
    ) => {
        pub(crate) use timeout::{Alarm, NAME};
    }
    _ => {
        pub(crate) use thread::{Alarm, NAME};
    }
}

/// Maximum sleep between two readings of the wall clock.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Returns the time from `now` until `at_ms` (Unix milliseconds): zero if it has passed, at most
/// [`SLEEP_MAX`].
fn sleep_until(at_ms: u64, now: SystemTime) -> Duration {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(at_ms));
    at.map_or(SLEEP_MAX, |at| at.duration_since(now).unwrap_or_default())
        .min(SLEEP_MAX)
}

#[cfg(test)]
mod tests;
