//! Sleeps with microsecond precision: `ppoll` on the descriptor of the loop's epoll, which is
//! readable when the epoll has an event.
//!
//! `epoll_wait` itself counts milliseconds, and Python rounds timeouts up to the next one.

#![allow(unsafe_code, reason = "Python gives descriptors as numbers")]

use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::time::Duration;

/// Sleeps until the epoll `fd` has an event, a signal arrives, or `time` is over. Releases the GIL.
/// Returns false if the epoll has no event after `time`.
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
    // SAFETY: the descriptor belongs to the loop's selector. `loop.close` closes it, and raises an
    // error while the loop runs. If the program closes the descriptor nevertheless, the calls
    // return at once; nothing reads from it.
    let selector = unsafe { BorrowedFd::borrow_raw(fd) };
    let slept = py.detach(|| {
        if time.is_zero() {
            // Takes a third of the time of `ppoll`. The event stays in the epoll (it is
            // level-triggered), so `select` returns it again.
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

/// Does not sleep: selectors of other systems are precise enough, such as kqueue, which counts
/// nanoseconds.
#[cfg(not(target_os = "linux"))]
pub(super) fn nap(_: Python<'_>, _: RawFd, _: Duration) -> PyResult<bool> {
    Ok(true)
}
