//! Cleanup at the end of a run, also after an error or a signal: kills the started processes.
//!
//! A [`Guard`] runs its action once: when it is dropped, or when the process receives SIGINT,
//! SIGTERM or SIGHUP.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

type Action = Box<dyn FnOnce() + Send>;

/// The number of the last guard, and the pending actions with the numbers of their guards. The
/// newest action runs first.
static PENDING: Mutex<(u64, Vec<(u64, Action)>)> = Mutex::new((0, Vec::new()));

fn pending() -> MutexGuard<'static, (u64, Vec<(u64, Action)>)> {
    // The list stays consistent if a thread panics while it holds the lock, so a poisoned lock is
    // no error.
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an action when it is dropped or when a signal ends the process.
#[must_use = "the action runs as soon as the guard is dropped"]
#[derive(Debug)]
pub(crate) struct Guard(u64);

impl Guard {
    /// Registers `action`.
    pub(crate) fn new(action: impl FnOnce() + Send + 'static) -> Self {
        let mut pending = pending();
        pending.0 += 1;
        let id = pending.0;
        pending.1.push((id, Box::new(action)));
        Self(id)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let action = {
            let mut pending = pending();
            let found = pending.1.iter().position(|(id, _)| *id == self.0);
            found.map(|at| pending.1.remove(at).1)
        };
        if let Some(action) = action {
            action();
        }
    }
}

/// Starts a thread that waits for the signals that end a program.
pub(crate) fn install() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                end(128 + signal);
            }
        })?;
    Ok(())
}

/// Runs all pending actions, and ends the process with this code.
pub(crate) fn end(code: i32) -> ! {
    let actions: Vec<_> = pending().1.drain(..).rev().collect();
    for (_, action) in actions {
        action();
    }
    std::process::exit(code);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn runs_once_on_drop() {
        let count = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&count);
        let guard = Guard::new(move || {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(guard);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
