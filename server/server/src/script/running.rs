//! The running script: the loops that wait for it, and its end by SCRIPT KILL.
//!
//! With several loops, a script begins only when no other script runs, and a command that needs the
//! script's shards waits before it locks anything. So no loop is blocked by an endless script:
//! while a loop waits, it serves its other clients, which get the error BUSY or may send SCRIPT
//! KILL.
//!
//! Waiting loops stand in a line, and no script begins before the loops in front of it have
//! continued. Without the line, a loop with many scripts would begin the next one before another
//! loop has woken up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use punctual_store::Error;

/// Maximum time for which a loop waits before it serves its other clients again.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// State of the script that runs on any of the loops.
#[derive(Default)]
pub(crate) struct Running {
    /// True from before a script locks its shards until after it has unlocked them. Used only with
    /// several loops.
    active: AtomicBool,
    /// Signals that the script has ended or that the line has changed.
    changed: Condvar,
    /// Tickets of the waiting loops, oldest first.
    line: Mutex<VecDeque<u64>>,
    /// Number of tickets in the line.
    waiting: AtomicUsize,
    last_ticket: AtomicU64,
    /// The script has run for longer than `busy-reply-threshold`.
    busy: AtomicBool,
    /// The running script must end.
    killed: AtomicBool,
    /// The busy script has changed data.
    wrote: AtomicBool,
    /// Description of the busy script, for errors and INFO.
    description: Mutex<Option<BusyScript>>,
}

/// A place in the line of waiting loops, until it is dropped.
pub(crate) struct Place<'r> {
    running: &'r Running,
    ticket: u64,
}

impl Place<'_> {
    /// Waits briefly if a script runs or another place is in front of this one.
    fn wait_to_begin(&self) {
        let running = self.running;
        let mut line = running.line.lock();
        if running.is_active() || line.front() != Some(&self.ticket) {
            running.changed.wait_for(&mut line, WAIT_MAX);
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

/// Description of a busy script.
#[derive(Clone, Debug)]
pub(crate) struct BusyScript {
    /// Name of the function; `None` for EVAL.
    pub(crate) function: Option<String>,
    /// The client's command that started the script.
    pub(crate) command: Vec<Vec<u8>>,
    /// Time of the start, in unix ms.
    pub(crate) began_ms: u64,
}

impl Running {
    /// Returns true if a script runs, or is about to run. Costs one atomic load.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Returns true if a script has run for too long. Costs one atomic load.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Begins a script and returns true, unless a script runs or another loop is first in the line.
    pub(crate) fn try_begin(&self, place: Option<&Place<'_>>) -> bool {
        let first = self.waiting.load(Ordering::Acquire) == 0
            || place.is_some_and(|place| self.line.lock().front() == Some(&place.ticket));
        first
            && self
                .active
                .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes a place in the line, unless `place` already is one, and waits briefly. If `begins`,
    /// the caller wants to begin a script and waits for the front of the line; otherwise it waits
    /// for the end of the running script.
    pub(crate) fn wait_in_line<'r>(&'r self, place: &mut Option<Place<'r>>, begins: bool) {
        let place = place.get_or_insert_with(|| self.join_line());
        match begins {
            true => place.wait_to_begin(),
            false => self.wait_briefly(),
        }
    }

    /// Takes the last place in the line.
    fn join_line(&self) -> Place<'_> {
        let mut line = self.line.lock();
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        line.push_back(ticket);
        self.waiting.store(line.len(), Ordering::Release);
        Place {
            running: self,
            ticket,
        }
    }

    /// Waits briefly for the end of the running script.
    pub(crate) fn wait_briefly(&self) {
        let mut line = self.line.lock();
        if self.is_active() {
            self.changed.wait_for(&mut line, WAIT_MAX);
        }
    }

    /// Ends the script that [`Running::try_begin`] began.
    pub(crate) fn end(&self) {
        let line = self.line.lock();
        self.active.store(false, Ordering::Release);
        drop(line);
        self.changed.notify_all();
    }

    /// Returns the description of the busy script.
    pub(crate) fn busy_script(&self) -> Option<BusyScript> {
        self.description.lock().clone()
    }

    /// Marks the running script as busy.
    pub(crate) fn begin_busy(&self, script: BusyScript, wrote: bool) {
        *self.description.lock() = Some(script);
        self.wrote.store(wrote, Ordering::SeqCst);
        self.busy.store(true, Ordering::SeqCst);
    }

    /// Ends the busy state.
    pub(crate) fn end_busy(&self) {
        *self.description.lock() = None;
        self.busy.store(false, Ordering::SeqCst);
        self.killed.store(false, Ordering::SeqCst);
    }

    /// Records that the busy script is about to change data, after which it cannot be killed.
    /// Returns false if it has already been killed.
    pub(crate) fn begin_writing(&self) -> bool {
        let _description = self.description.lock();
        self.wrote.store(true, Ordering::SeqCst);
        !self.killed.load(Ordering::SeqCst)
    }

    /// Returns true if the running script must end.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Returns the error for clients' commands while a script is busy.
    pub(crate) fn refusal(&self) -> Error {
        let function = self
            .description
            .lock()
            .as_ref()
            .is_some_and(|a| a.function.is_some());
        Error::fixed(if function {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        })
    }

    /// Makes the busy script end, unless it has changed data. `function` is true for FUNCTION KILL
    /// and false for SCRIPT KILL.
    ///
    /// # Errors
    /// Returns NOTBUSY without a busy script, UNKILLABLE if the script has changed data, and BUSY
    /// if the script must be ended by the other command.
    pub(crate) fn kill(&self, function: bool) -> Result<(), Error> {
        let description = self.description.lock();
        let Some(known) = &*description else {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        };
        if self.wrote.load(Ordering::SeqCst) {
            return Err(Error::fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        if known.function.is_some() != function {
            drop(description);
            return Err(self.refusal());
        }
        self.killed.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the busy script end even if it has changed data. Used when the server stops without
    /// saving.
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
        let (command, script) = (running.join_line(), running.join_line());
        assert!(!running.try_begin(Some(&command)), "a script runs");
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
