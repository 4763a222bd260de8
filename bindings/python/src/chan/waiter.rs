//! One operation that waits, perhaps on several channels at once.
//!
//! It ends once: whoever calls [`Waiter::complete`] first, or the waiting thread itself by [`Waiter::withdraw`]. What
//! it was completed with lies under `progress`; `done` is only what the thread sleeps on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many forks this process has been through. What waited before the last one does not exist in this process: it
/// is never completed, and what was meant for it goes to somebody alive.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// In the child of a fork, while it has one thread.
#[allow(dead_code)] // not by the tests that stand without an interpreter
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How an operation ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<T> {
    Received(T),
    Sent,
    /// The channel was closed: nothing was received, or nothing was sent.
    Closed,
}

enum Progress<T> {
    Waiting,
    /// By this case.
    Done(u32, Outcome<T>),
    /// The thread knows, or has gone.
    Over,
}

/// Why a sleep ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Woken {
    Done,
    /// A signal was delivered to this thread, or the time was over.
    Early,
}

pub(crate) struct Waiter<T> {
    done: AtomicU32,
    forks: u32,
    progress: Mutex<Progress<T>>,
    #[cfg(not(target_os = "linux"))]
    thread: std::thread::Thread,
}

impl<T> Waiter<T> {
    /// Of the calling thread.
    pub(crate) fn new() -> Self {
        Self::of_process(forks())
    }

    /// Of a thread of the process with so many forks behind it.
    pub(crate) fn of_process(forks: u32) -> Self {
        Waiter {
            done: AtomicU32::new(0),
            forks,
            progress: Mutex::new(Progress::Waiting),
            #[cfg(not(target_os = "linux"))]
            thread: std::thread::current(),
        }
    }

    /// Whether it can still be completed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.done.load(Ordering::Acquire) == 0 && self.forks == forks()
    }

    /// Ends it by this case, and wakes its thread. Gives the outcome back if it has ended before.
    pub(crate) fn complete(&self, case: u32, outcome: Outcome<T>) -> Result<(), Outcome<T>> {
        if self.forks != forks() {
            return Err(outcome);
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*progress, Progress::Waiting) {
            return Err(outcome);
        }
        *progress = Progress::Done(case, outcome);
        drop(progress);
        self.done.store(1, Ordering::Release);
        self.wake();
        Ok(())
    }

    /// On its own thread: ends it if nobody has, else tells by which case and how it ended.
    pub(crate) fn withdraw(&self) -> Option<(usize, Outcome<T>)> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *progress, Progress::Over);
        drop(progress);
        self.done.store(1, Ordering::Release);
        match before {
            Progress::Done(case, outcome) => Some((case as usize, outcome)),
            Progress::Waiting | Progress::Over => None,
        }
    }

    /// Sleeps until it is completed, a signal is delivered to this thread, or `limit` is over.
    #[cfg(target_os = "linux")]
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> Woken {
        use rustix::thread::futex;

        let limit = limit.and_then(|limit| rustix::time::Timespec::try_from(limit).ok());
        if self.done.load(Ordering::Acquire) == 0 {
            // Whatever it answers: completed in the meantime, woken, a signal, the time.
            let _ = futex::wait(&self.done, futex::Flags::PRIVATE, 0, limit.as_ref());
        }
        self.woken()
    }

    #[cfg(target_os = "linux")]
    fn wake(&self) {
        use rustix::thread::futex;

        let _ = futex::wake(&self.done, futex::Flags::PRIVATE, 1);
    }

    /// Signals do not end a sleep here, so it ends by itself before anybody gets impatient.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> Woken {
        const IMPATIENT: Duration = Duration::from_millis(50);

        if self.done.load(Ordering::Acquire) == 0 {
            std::thread::park_timeout(limit.unwrap_or(IMPATIENT).min(IMPATIENT));
        }
        self.woken()
    }

    #[cfg(not(target_os = "linux"))]
    fn wake(&self) {
        self.thread.unpark();
    }

    fn woken(&self) -> Woken {
        if self.done.load(Ordering::Acquire) == 0 {
            Woken::Early
        } else {
            Woken::Done
        }
    }
}
