//! Sleeping exactly until a deadline.
//!
//! `epoll_wait` counts whole milliseconds and rounds up, which would make every key up to a millisecond late; so the
//! wake-up is a `timerfd` at an absolute time of the wall clock, in which deadlines are given. It is only set
//! when an earlier wake-up than the one it stands at is needed: one that turns out too early costs one look.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Wakes a loop at an absolute time.
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// What it is set to, unix ms; `u64::MAX`: nothing.
    set_ms: u64,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            timer: timerfd_create(
                TimerfdClockId::Realtime,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )?,
            set_ms: u64::MAX,
        })
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(
            &mut SourceFd(&self.timer.as_raw_fd()),
            token,
            Interest::READABLE,
        )
    }

    /// It has rung: it stands at nothing.
    pub(crate) fn rang(&mut self) {
        self.set_ms = u64::MAX;
    }

    /// Wakes the loop at `at_ms` (unix ms) or a little earlier, never later. Gives the timeout to poll with.
    pub(crate) fn set(&mut self, at_ms: u64) -> Option<Duration> {
        if at_ms >= self.set_ms {
            return None;
        }
        let at = Timespec {
            tv_sec: i64::try_from(at_ms / 1000).unwrap_or(i64::MAX),
            // An all-zero time would disarm the timer: a nanosecond after the epoch is as good.
            tv_nsec: (at_ms % 1000 * 1_000_000 + u64::from(at_ms == 0)) as _,
        };
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: at,
        };
        match timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once) {
            Ok(_) => {
                self.set_ms = at_ms;
                None
            }
            // A time beyond what the kernel counts: look again in an hour.
            Err(_) => Some(Duration::from_secs(3600)),
        }
    }
}
