//! Puts the driver's thread to sleep and wakes it.
//!
//! The [`Announcement`] decides whether a wake-up is needed, and the condition variable carries it
//! out. `model.rs` checks all interleavings with loom.

use std::io;
use std::time::Duration;

use super::announcement::Announcement;
use super::sync::{Condvar, Mutex, lock, wait};

#[derive(Debug)]
pub(super) struct Sleeper {
    /// Before the driver's thread exists, the announcement is `u64::MAX`, as of a thread that
    /// sleeps until it is woken. So the first thread that arms an alarm finds that it must wake the
    /// driver's thread, and starts it.
    announcement: Announcement,
    /// True if another thread has replaced the announcement in order to wake the driver's thread,
    /// which then must not sleep. Set and cleared only on the slow path.
    woken: Mutex<bool>,
    wake: Condvar,
}

impl Sleeper {
    pub(super) fn new() -> Self {
        let announcement = Announcement::new();
        announcement.announce(u64::MAX);
        Sleeper {
            announcement,
            woken: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Marks the driver's thread as awake. The thread calls this when it starts.
    pub(super) fn mark_awake(&self) {
        self.announcement.withdraw();
    }

    /// Announces a sleep until tick `until`, which is `timeout` from now, and sleeps, unless
    /// `has_work` then returns true.
    pub(super) fn sleep(&self, until: u64, timeout: Duration, has_work: impl FnOnce() -> bool) {
        self.announcement.announce(until);
        if !has_work() {
            let mut woken = lock(&self.woken);
            if !*woken {
                (woken, _) = wait(&self.wake, woken, timeout);
            }
            *woken = false;
        }
        self.announcement.withdraw();
    }

    /// Wakes the driver's thread if it would sleep beyond `tick`. The caller must have published
    /// work that is due at `tick`. `start` starts the thread if it does not run yet.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    #[inline]
    pub(super) fn wake_for(&self, tick: u64, start: impl FnOnce() -> io::Result<()>) {
        if let Some(until) = self.announcement.take_if_after(tick) {
            self.wake(until, start);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, until: u64, start: impl FnOnce() -> io::Result<()>) {
        if let Err(error) = start() {
            // The next thread that arms an alarm tries again.
            self.announcement.announce(until);
            panic!("the thread of the timer driver cannot be started: {error}");
        }
        *lock(&self.woken) = true;
        self.wake.notify_one();
    }
}
