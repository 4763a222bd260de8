//! One blocked operation, maybe on several channels at once.
//!
//! The operation ends once: with the first call of [`Waiter::complete`] by another thread, or with
//! [`Waiter::withdraw`] by the waiting thread. `progress` holds the outcome; `done` is 1 from then
//! on, and is the futex that the thread sleeps on. A greenlet does not sleep: gevent's hub polls a
//! socket, the waiter's [`Bell`]. Bells are used again, because the system takes longer to create
//! one than all else takes.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of forks in this process's history. The threads of waiters from before the last fork do
/// not exist in this process, so such waiters are never completed, and the next live waiter is
/// served instead.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts a fork. Called in the child while it has one thread.
#[allow(dead_code)] // unused by the tests without an interpreter
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The end of an operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<T> {
    Received(T),
    Sent,
    /// The channel was closed: nothing was received or sent.
    Closed,
}

enum Progress<T> {
    Waiting,
    /// Completed by this case.
    Done(u32, Outcome<T>),
    /// The thread has taken the outcome or withdrawn.
    Over,
}

/// The reason why a sleep ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Woken {
    Done,
    /// A signal was delivered to this thread, or the time limit passed.
    Early,
}

/// A pair of sockets. The waker writes a byte into one, and a hub polls the other.
pub(crate) struct Bell {
    waker: UnixStream,
    polled: UnixStream,
    /// A fork shares its sockets with its parent, which may use them.
    forks: u32,
}

/// Bells that no waiter has.
static IDLE_BELLS: Mutex<Vec<Bell>> = Mutex::new(Vec::new());
/// Maximum number of idle bells.
const IDLE_BELLS_MAX: usize = 64;

impl Bell {
    /// Returns a bell that has not rung.
    ///
    /// # Errors
    ///
    /// The process or the system has too many open files, or no memory.
    pub(crate) fn take() -> io::Result<Self> {
        let forks = forks();
        while let Some(bell) = idle_bells().pop() {
            if bell.forks == forks {
                return Ok(bell);
            }
        }
        let (waker, polled) = UnixStream::pair()?;
        polled.set_nonblocking(true)?;
        Ok(Bell {
            waker,
            polled,
            forks,
        })
    }

    fn ring(&self) {
        // The buffer of an empty socket has room for the only byte.
        let _ = (&self.waker).write(&[1]);
    }

    /// Keeps the bell for another waiter. It must not ring any more.
    fn put_back(self) {
        let mut rung = [0; 2];
        let is_quiet = match (&self.polled).read(&mut rung) {
            Ok(count) => count == 1,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        let mut idle = idle_bells();
        if is_quiet && self.forks == forks() && idle.len() < IDLE_BELLS_MAX {
            idle.push(self);
        }
    }
}

fn idle_bells() -> std::sync::MutexGuard<'static, Vec<Bell>> {
    IDLE_BELLS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Waiter<T> {
    done: AtomicU32,
    forks: u32,
    progress: Mutex<Progress<T>>,
    /// `None` if the thread sleeps.
    bell: Option<Bell>,
    #[cfg(not(target_os = "linux"))]
    thread: std::thread::Thread,
}

impl<T> Waiter<T> {
    /// Creates a waiter of the calling thread.
    pub(crate) fn new() -> Self {
        Self::of_process(forks())
    }

    /// Creates a waiter of the calling greenlet, which polls
    /// [`polled_file`](Waiter::polled_file) until it is readable and does not call
    /// [`sleep`](Waiter::sleep).
    #[allow(dead_code)] // unused by the tests without an interpreter
    pub(crate) fn of_greenlet(bell: Bell) -> Self {
        Waiter {
            bell: Some(bell),
            ..Self::new()
        }
    }

    #[allow(dead_code)] // unused by the tests without an interpreter
    pub(crate) fn polled_file(&self) -> Option<RawFd> {
        self.bell.as_ref().map(|bell| bell.polled.as_raw_fd())
    }

    /// Ends the use of a waiter that has ended. If another thread still has it, that thread may
    /// ring the waiter's bell, so the bell is not used again.
    #[allow(dead_code)] // unused by the tests without an interpreter
    pub(crate) fn put_back(waiter: Arc<Self>) {
        if let Some(bell) = Arc::into_inner(waiter).and_then(|waiter| waiter.bell) {
            bell.put_back();
        }
    }

    /// Creates a waiter that belongs to the process with this number of forks in its history.
    pub(crate) fn of_process(forks: u32) -> Self {
        Waiter {
            done: AtomicU32::new(0),
            forks,
            progress: Mutex::new(Progress::Waiting),
            bell: None,
            #[cfg(not(target_os = "linux"))]
            thread: std::thread::current(),
        }
    }

    /// Returns true if the waiter can still be completed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.done.load(Ordering::Acquire) == 0 && self.forks == forks()
    }

    /// Completes the operation by this case and wakes its thread. Returns the outcome if the waiter
    /// has already ended.
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
        match &self.bell {
            Some(bell) => bell.ring(),
            None => self.wake(),
        }
        Ok(())
    }

    /// Ends the operation; only its own thread may call this. Returns the case and the outcome if
    /// the operation was completed before.
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

    /// Sleeps until the waiter is completed, a signal is delivered to this thread, or `limit` has
    /// passed.
    #[cfg(target_os = "linux")]
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> Woken {
        use rustix::thread::futex;

        let limit = limit.and_then(|limit| rustix::time::Timespec::try_from(limit).ok());
        if self.done.load(Ordering::Acquire) == 0 {
            // Any result is fine: completed already, woken, interrupted or timed out.
            let _ = futex::wait(&self.done, futex::Flags::PRIVATE, 0, limit.as_ref());
        }
        self.woken()
    }

    #[cfg(target_os = "linux")]
    fn wake(&self) {
        use rustix::thread::futex;

        let _ = futex::wake(&self.done, futex::Flags::PRIVATE, 1);
    }

    /// Signals do not interrupt a sleep here, so it ends by itself after a short time.
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
