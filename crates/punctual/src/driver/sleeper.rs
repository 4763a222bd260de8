//! Sleep and wake-up of the driver's thread.
//!
//! The [`Announcement`] decides whether a wake-up is needed; the condition variable carries it out.
//! `model.rs` checks every order with loom.

use std::io;
use std::time::Duration;

use super::announcement::Announcement;
use super::sync::{Condvar, Mutex, lock, wait};

#[derive(Debug)]
pub(super) struct Sleeper {
    /// Announces `u64::MAX` before the thread exists, so that the first thread that arms starts it.
    announcement: Announcement,
    /// A thread has taken the announcement: the driver's thread must not sleep. Set and cleared on
    /// the slow path only.
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

    /// Marks the driver's thread as awake. The thread calls this first.
    pub(super) fn enter(&self) {
        self.announcement.withdraw();
    }

    /// Sleeps until `until`, `timeout` from now, unless `look` finds something to do after the
    /// announcement.
    pub(super) fn sleep(&self, until: u64, timeout: Duration, look: impl FnOnce() -> bool) {
        self.announcement.announce(until);
        if !look() {
            let mut woken = lock(&self.woken);
            if !*woken {
                (woken, _) = wait(&self.wake, woken, timeout);
            }
            *woken = false;
        }
        self.announcement.withdraw();
    }

    /// Wakes the thread if it would sleep beyond `tick`, at which the caller has published work.
    /// `start` starts the thread if there is none.
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
            // The next thread that arms tries again.
            self.announcement.announce(until);
            panic!("the thread of the timer driver cannot be started: {error}");
        }
        *lock(&self.woken) = true;
        self.wake.notify_one();
    }
}
