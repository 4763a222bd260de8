//! The kernel's clocks, read through the C library. rustix would read them through the vDSO, which
//! Valgrind hides from a program, so a program under Valgrind would abort.

#![allow(unsafe_code)]

const SECOND: u64 = 1_000_000_000;

/// Returns the time of the monotonic clock behind `time.monotonic()`, in nanoseconds.
#[inline]
pub(crate) fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns a reading of the same clock that is up to some milliseconds old, at a fifth of the cost:
/// the kernel updates it at intervals.
#[inline]
pub(crate) fn coarse() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(target_os = "linux"))]
    let clock = libc::CLOCK_MONOTONIC;
    read(clock)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes only to `time`.
    let refused = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(refused, 0, "this system has no such clock");
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Converts nanoseconds to a `timespec`.
#[cfg(target_os = "linux")]
pub(crate) fn timespec(time: u64) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: (time / SECOND) as _,
        tv_nsec: (time % SECOND) as _,
    }
}
