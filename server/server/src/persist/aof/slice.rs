//! Time slices of the threads that write the append-only file.
//!
//! These threads sleep most of the time, and clients wait for them. On a processor that an event
//! loop keeps busy, a thread that wakes up may wait for the end of the loop's time slice: several
//! milliseconds at each wake-up. Since Linux 6.12, a thread that requests a shorter slice runs
//! earlier; its share of the processor stays the same. With busy processors, 1.5 times as many
//! syncs a second were measured.

#![cfg_attr(not(target_os = "linux"), allow(dead_code))]
#![allow(
    unsafe_code,
    reason = "no crate wraps sched_setattr for slices of ordinary threads"
)]

/// Shortest slice that Linux accepts, in nanoseconds.
const SLICE: u64 = 100_000;

/// Requests a short slice for the calling thread. Older kernels and other scheduling policies
/// ignore or refuse the request, which is harmless.
#[cfg(target_os = "linux")]
pub(super) fn shorten() {
    let Ok(nice) = rustix::process::getpriority_process(None) else {
        return;
    };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads `size` bytes at the pointer, which points to a value of that size that
    // outlives the call. 0 names the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shorten() {}
