//! Sleeps with microsecond precision: `ppoll` on the selector's own descriptor, which is readable
//! when it has an event.
//!
//! `epoll_wait` counts in milliseconds, and Python rounds up to them.

#![allow(unsafe_code, reason = "Python gives descriptors as numbers")]

use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::time::Duration;

/// Sleeps until the epoll `fd` has an event, a signal arrives, or `time` is over. Returns whether
/// it may have an event. Releases the GIL.
#[cfg(target_os = "linux")]
pub(super) fn nap(py: Python<'_>, fd: RawFd, time: Duration) -> PyResult<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
    use rustix::io::Errno;
    use std::mem::MaybeUninit;
    use std::os::fd::BorrowedFd;

    let timeout = Timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    };
    // SAFETY: the descriptor belongs to the loop's selector. `loop.close` closes it, and refuses to
    // while the loop runs. If it is closed nevertheless, the calls return at once; nothing reads
    // from it.
    let selector = unsafe { BorrowedFd::borrow_raw(fd) };
    let slept = py.detach(|| {
        if time.is_zero() {
            // Takes a third of the time of `ppoll`. A selector's events stay until they are
            // handled.
            let mut event = [MaybeUninit::<epoll::Event>::uninit()];
            return epoll::wait(selector, &mut event, Some(&timeout))
                .map(|(events, _)| events.len());
        }
        let mut fds = [PollFd::from_borrowed_fd(selector, PollFlags::IN)];
        poll(&mut fds, Some(&timeout))
    });
    match slept {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => py.check_signals().map(|()| true),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// Other systems' selectors are precise themselves: kqueue takes nanoseconds.
#[cfg(not(target_os = "linux"))]
pub(super) fn nap(_: Python<'_>, _: RawFd, _: Duration) -> PyResult<bool> {
    Ok(true)
}
