//! A timer that wakes an event loop exactly at a deadline.
//!
//! `epoll_wait` rounds its timeout up to whole milliseconds, so every key would expire up to a
//! millisecond late. Deadlines are wall-clock times, so the alarm is a `timerfd` at an absolute
//! wall-clock time. It is set only to an earlier time, never to a later one: a wake-up that is too
//! early costs one turn of the loop.

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
    /// Unix time in milliseconds at which the timer fires; `u64::MAX` if it is disarmed.
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

    /// Marks the timer as disarmed, after it has fired.
    pub(crate) fn fired(&mut self) {
        self.set_ms = u64::MAX;
    }

    /// Arms the timer to fire at `at_ms` (Unix milliseconds) or earlier. Returns a timeout for the
    /// poll if the kernel cannot represent that time.
    pub(crate) fn set(&mut self, at_ms: u64) -> Option<Duration> {
        if at_ms >= self.set_ms {
            return None;
        }
        let at = Timespec {
            tv_sec: i64::try_from(at_ms / 1000).unwrap_or(i64::MAX),
            // An all-zero time would disarm the timer, so a deadline at the Unix epoch is set one
            // nanosecond later.
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
            // The loop polls again in an hour.
            Err(_) => Some(Duration::from_secs(3600)),
        }
    }
}
