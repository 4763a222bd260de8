//! Commands that arrive while a script runs on another loop.
//!
//! A script holds shards until it ends, and takes more of them while it runs. So a command of
//! another loop either gets all of its shards at once, or waits for the end of the script before it
//! locks anything. [`crate::script::running`] has the queue of the waiting commands.

use std::sync::atomic::Ordering;

use punctual_resp::Args;
use punctual_store::spec::{Flags, Keys};

use super::{Dispatcher, Flow};
use crate::session::Session;
use crate::table::{Entry, Run};

impl Dispatcher<'_, '_> {
    /// Executes a command when the server has several loops. A command that may need shards of a
    /// running script waits for the script's end. A command that runs a script waits until no other
    /// script runs. While the script is busy, the command gets the error BUSY instead.
    pub(crate) fn execute_beside_scripts(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        let flags = entry.row.flags;
        let runs = session.runs_scripts(entry);
        let locks = !(flags.has(Flags::KEYLESS) || flags.has(Flags::ALLOW_BUSY))
            || flags.has(Flags::EXECUTES)
            || flags.has(Flags::WATCHES);
        let running = &self.shared.scripting.running;
        let mut place = None;
        while if runs {
            !running.try_begin(place.as_ref())
        } else {
            locks && running.is_active() && !self.locks_at_once(entry, args)
        } {
            // The script may need a shard that this turn still holds.
            self.turn.release();
            if self.shared.stopping.load(Ordering::Acquire) {
                // The server stops. If the script's loop has panicked, the script never ends.
                session.closing = true;
                return Flow::Done;
            }
            if running.is_busy() {
                // This command leaves the queue first, so that the clients that are served now need
                // not wait for it.
                drop(place);
                if let Some(background) = &mut self.background {
                    background.serve_clients();
                }
                return self.reject(session, entry, args, &running.refusal(), out);
            }
            running.wait_in_line(&mut place, runs);
        }
        drop(place);
        self.turn.may_lock = locks || !running.is_active();
        let misplaced = match locks {
            true => self.misplaced_meanwhile(session, entry, args),
            false => None,
        };
        let flow = match misplaced {
            None => self.execute(session, entry, args, out),
            Some(error) => self.reject(session, entry, args, &error, out),
        };
        if runs {
            self.turn.release();
            running.end();
        }
        flow
    }

    /// Waits for the end of a script on another loop, unless the turn holds every shard. If
    /// `begins` is true, waits until no other script runs, and begins one.
    pub(super) fn wait_for_scripts(&mut self, session: &mut Session, begins: bool) {
        let running = &self.shared.scripting.running;
        let mut place = None;
        while if begins {
            !running.try_begin(place.as_ref())
        } else {
            running.is_active() && !self.turn.holds_whole()
        } {
            session.end_stretch(self.shared, self.turn);
            if self.shared.stopping.load(Ordering::Acquire) {
                return;
            }
            if running.is_busy()
                && let Some(background) = &mut self.background
            {
                // This command leaves the queue first, so that the clients that are served now need
                // not wait for it.
                place = None;
                background.serve_clients();
            }
            running.wait_in_line(&mut place, begins);
        }
    }

    /// Locks the shards of a command if its row names its keys and all of the locks are free.
    fn locks_at_once(&mut self, entry: &Entry, args: Args) -> bool {
        match entry.run {
            Run::Keyspace(command) => {
                !matches!(command.keys, Keys::None) && self.turn.try_lock_for(command, args)
            }
            _ => false,
        }
    }
}
