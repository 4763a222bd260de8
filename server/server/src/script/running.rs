//! The script that runs: who waits for it, and who may end it.
//!
//! With several loops a script begins only when no other one runs, and commands of other loops wait
//! before they lock anything. So a loop is never stuck behind a script that does not end: while it
//! waits, it serves its clients the error BUSY, and takes SCRIPT KILL from them.
//!
//! Loops that wait stand in a line, and no script begins before those in front of it have gone on:
//! a loop with many scripts would otherwise begin the next one before another loop has woken up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use punctual_store::Error;

/// Longest wait before a loop looks after its clients again.
const PATIENCE: Duration = Duration::from_millis(5);

/// The script that runs on any loop.
#[derive(Default)]
pub(crate) struct Running {
    /// True from before a script locks its shards until after it has unlocked them. Used with
    /// several loops only.
    active: AtomicBool,
    /// The script has ended, or the line has changed.
    changed: Condvar,
    /// Tickets of the loops that wait, first come first.
    line: Mutex<VecDeque<u64>>,
    /// Number of tickets in the line.
    waiting: AtomicUsize,
    last_ticket: AtomicU64,
    /// The script has run for longer than `busy-reply-threshold`.
    busy: AtomicBool,
    /// The running script must end.
    killed: AtomicBool,
    /// The busy script has written.
    wrote: AtomicBool,
    /// The busy script.
    about: Mutex<Option<About>>,
}

/// A place in the line of the loops that wait for the running script, until it is dropped.
pub(crate) struct Place<'r> {
    running: &'r Running,
    ticket: u64,
}

impl Place<'_> {
    /// Waits a moment for the end of the running script and for the loops in front of this place.
    fn wait_to_begin(&self) {
        let running = self.running;
        let mut line = running.line.lock();
        if running.is_active() || line.front() != Some(&self.ticket) {
            running.changed.wait_for(&mut line, PATIENCE);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut line = self.running.line.lock();
        line.retain(|ticket| *ticket != self.ticket);
        self.running.waiting.store(line.len(), Ordering::Release);
        drop(line);
        self.running.changed.notify_all();
    }
}

/// A busy script.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Name of the function; `None` for EVAL.
    pub(crate) function: Option<String>,
    /// The client's command.
    pub(crate) command: Vec<Vec<u8>>,
    /// Start, unix ms.
    pub(crate) began_ms: u64,
}

impl Running {
    /// Returns whether a script runs on another loop, or will soon. One load.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Returns whether a script runs for too long. One load.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Begins a script, unless another one runs or another loop is first in the line.
    pub(crate) fn try_begin(&self, place: Option<&Place<'_>>) -> bool {
        let first = self.waiting.load(Ordering::Acquire) == 0
            || place.is_some_and(|place| self.line.lock().front() == Some(&place.ticket));
        first
            && self
                .active
                .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes a place in the line, if there is none yet, and waits a moment: for the turn to begin a
    /// script, or for the end of the running one.
    pub(crate) fn wait_in_line<'r>(&'r self, place: &mut Option<Place<'r>>, begins: bool) {
        let place = place.get_or_insert_with(|| self.stand_in_line());
        match begins {
            true => place.wait_to_begin(),
            false => self.wait_briefly(),
        }
    }

    /// Takes the last place in the line.
    fn stand_in_line(&self) -> Place<'_> {
        let mut line = self.line.lock();
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        line.push_back(ticket);
        self.waiting.store(line.len(), Ordering::Release);
        Place {
            running: self,
            ticket,
        }
    }

    /// Waits a moment for the end of the running script.
    pub(crate) fn wait_briefly(&self) {
        let mut line = self.line.lock();
        if self.is_active() {
            self.changed.wait_for(&mut line, PATIENCE);
        }
    }

    /// Ends the script that [`Running::try_begin`] began.
    pub(crate) fn end(&self) {
        let line = self.line.lock();
        self.active.store(false, Ordering::Release);
        drop(line);
        self.changed.notify_all();
    }

    /// Returns what is known about the busy script.
    pub(crate) fn about(&self) -> Option<About> {
        self.about.lock().clone()
    }

    /// Makes the running script busy.
    pub(crate) fn begin_busy(&self, about: About, wrote: bool) {
        *self.about.lock() = Some(about);
        self.wrote.store(wrote, Ordering::SeqCst);
        self.busy.store(true, Ordering::SeqCst);
    }

    /// Ends the busy state.
    pub(crate) fn end_busy(&self) {
        *self.about.lock() = None;
        self.busy.store(false, Ordering::SeqCst);
        self.killed.store(false, Ordering::SeqCst);
    }

    /// Notes that the busy script writes. It cannot be killed from now on; returns false if it has
    /// been killed before.
    pub(crate) fn begin_writing(&self) -> bool {
        let _about = self.about.lock();
        self.wrote.store(true, Ordering::SeqCst);
        !self.killed.load(Ordering::SeqCst)
    }

    /// Returns whether the running script must end.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Returns the error for commands of clients while a script is busy.
    pub(crate) fn refusal(&self) -> Error {
        let function = self
            .about
            .lock()
            .as_ref()
            .is_some_and(|a| a.function.is_some());
        Error::fixed(if function {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        })
    }

    /// Makes the busy script end, unless it has written. `function` is true for FUNCTION KILL and
    /// false for SCRIPT KILL.
    ///
    /// # Errors
    /// NOTBUSY without a busy script, UNKILLABLE if it has written, BUSY if the other command would
    /// end it.
    pub(crate) fn kill(&self, function: bool) -> Result<(), Error> {
        let about = self.about.lock();
        let Some(known) = &*about else {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        };
        if self.wrote.load(Ordering::SeqCst) {
            return Err(Error::fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        if known.function.is_some() != function {
            drop(about);
            return Err(self.refusal());
        }
        self.killed.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the busy script end even if it has written: its changes will not be saved.
    pub(crate) fn force_kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_begins_before_the_loops_that_wait() {
        let running = Running::default();
        assert!(running.try_begin(None));
        let (command, script) = (running.stand_in_line(), running.stand_in_line());
        assert!(!running.try_begin(Some(&command)), "one runs");
        running.end();
        assert!(!running.try_begin(None));
        assert!(!running.try_begin(Some(&script)));
        drop(command);
        assert!(!running.try_begin(None));
        assert!(running.try_begin(Some(&script)));
        drop(script);
        running.end();
        assert!(running.try_begin(None));
    }
}
