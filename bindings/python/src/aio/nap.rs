//! Sleeps with microsecond precision: `ppoll` on the selector's own descriptor, which is readable when it has an event.
//!
//! `epoll_wait` counts in milliseconds, and Python rounds up to them.

#![allow(unsafe_code, reason = "Python gives descriptors as numbers")]

use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::time::Duration;

/// Sleeps until the selector behind `fd` has an event, a signal arrives, or `time` is over. Releases the GIL.
#[cfg(target_os = "linux")]
pub(super) fn nap(py: Python<'_>, fd: RawFd, time: Duration) -> PyResult<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use std::os::fd::BorrowedFd;

    let timeout = Timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    };
    // SAFETY: the descriptor belongs to the loop's selector. `loop.close` closes it, and refuses to while the loop
    // runs. If it is closed nevertheless, `ppoll` returns at once; nothing reads from it.
    let selector = unsafe { BorrowedFd::borrow_raw(fd) };
    let slept = py.detach(|| {
        let mut fds = [PollFd::from_borrowed_fd(selector, PollFlags::IN)];
        poll(&mut fds, Some(&timeout))
    });
    match slept {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => py.check_signals(),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// Other systems' selectors are precise themselves: kqueue takes nanoseconds.
#[cfg(not(target_os = "linux"))]
pub(super) fn nap(_: Python<'_>, _: RawFd, _: Duration) -> PyResult<()> {
    Ok(())
}
