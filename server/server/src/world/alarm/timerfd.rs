//! An alarm that is a `timerfd` at an absolute wall-clock time.

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

use crate::world::World;

/// Name of the alarm in INFO.
pub(crate) const NAME: &str = "timerfd";

/// Wakes a loop at an absolute time.
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// Unix time in milliseconds at which the timer fires; `u64::MAX` if it is disarmed.
    set_ms: u64,
}

impl Alarm {
    /// Creates an alarm that reports its events to a poll under this token.
    ///
    /// # Errors
    /// Returns an error if the system refuses another timer.
    pub(crate) fn new(_: World, registry: &Registry, token: Token) -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Realtime,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            timer,
            set_ms: u64::MAX,
        })
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
