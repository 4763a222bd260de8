//! How the driver's thread goes to sleep, and who wakes it.
//!
//! The thread announces until when it sleeps; whoever arms an earlier deadline takes the announcement away and wakes
//! it. Both sides write first, then read what the other wrote, with a sequentially consistent fence in between: of
//! two who do this at once, at least one sees the other. So either the thread sees the new deadline in its second
//! look, or the arming thread sees the announcement. `model.rs` has loom try every order.

use std::io;
use std::time::Duration;

use super::sync::{AtomicU64, Condvar, Mutex, Ordering, fence, lock, wait};

/// Nobody need wake the thread: no deadline is earlier than 0.
const AWAKE: u64 = 0;

#[derive(Debug)]
pub(super) struct Sleeper {
    /// The tick until which the thread sleeps; [`AWAKE`] while it does not. At first "for ever": the first to arm
    /// finds the thread asleep, and starts it.
    ///
    /// Both sides change it by `swap`: each sees what the other did last, so of an announcement and its taking it
    /// is never in doubt which came first.
    until: AtomicU64,
    /// Somebody took the announcement: the thread shall not sleep. Set and cleared on the slow path only.
    woken: Mutex<bool>,
    wake: Condvar,
}

impl Sleeper {
    pub(super) fn new() -> Self {
        Sleeper {
            until: AtomicU64::new(u64::MAX),
            woken: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// On the driver's thread, before anything else.
    pub(super) fn enter(&self) {
        self.until.swap(AWAKE, Ordering::AcqRel);
    }

    /// Sleeps until `until`, `timeout` from now, unless `look` finds something to do after the announcement.
    pub(super) fn sleep(&self, until: u64, timeout: Duration, look: impl FnOnce() -> bool) {
        self.until.swap(until, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if !look() {
            let mut woken = lock(&self.woken);
            if !*woken {
                (woken, _) = wait(&self.wake, woken, timeout);
            }
            *woken = false;
        }
        self.until.swap(AWAKE, Ordering::AcqRel);
    }

    /// The caller has published that there is something to do at `tick`: wakes the thread if it would sleep longer.
    /// `start` sees to it that there is a thread.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    #[inline]
    pub(super) fn wake_for(&self, tick: u64, start: impl FnOnce() -> io::Result<()>) {
        fence(Ordering::SeqCst);
        if tick < self.until.load(Ordering::Relaxed) {
            self.wake(start);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, start: impl FnOnce() -> io::Result<()>) {
        let until = self.until.swap(AWAKE, Ordering::AcqRel);
        if until == AWAKE {
            return; // another took the announcement, and wakes the thread
        }
        if let Err(error) = start() {
            // The next to arm tries again.
            self.until.swap(until, Ordering::AcqRel);
            panic!("the thread of the timer driver cannot be started: {error}");
        }
        *lock(&self.woken) = true;
        self.wake.notify_one();
    }
}
