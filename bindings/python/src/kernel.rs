//! The kernel's clocks, read through the C library. (rustix reads them by itself from a page that Valgrind hides: programs
//! end there.)

#![allow(unsafe_code)]

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds since some instant: the clock that timers go by, the one behind `time.monotonic()`.
#[inline]
pub(crate) fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The same, some milliseconds behind: the kernel sets it once in a while. Reading it takes a fifth of the time.
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
    // SAFETY: it writes to `time` alone.
    let refused = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(refused, 0, "this system has no such clock");
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// The same time for the kernel.
#[cfg(target_os = "linux")]
pub(crate) fn timespec(time: u64) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: (time / SECOND) as _,
        tv_nsec: (time % SECOND) as _,
    }
}
