//! Memory for a command, before it runs. See [`crate::memory`].

use punctual_store::Error;
use punctual_store::spec::Flags;

use crate::dispatch::Dispatcher;
use crate::reclaim::limit::{Fit, OUT_OF_MEMORY, enforce};
use crate::session::Session;
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Evicts keys for a command that may need memory. Returns an error if nothing more can be
    /// evicted and the command must not run without room. Sets `out_of_memory`, which the commands
    /// of a script or transaction read.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self, session: &Session, entry: &Entry) -> Option<Error> {
        let flags = entry.row.flags;
        let queued = session.executed_by(entry);
        let needs_room = flags.has(Flags::DENYOOM)
            || queued.is_some_and(|queued| queued.has(Flags::DENYOOM))
            // MULTI's queue keeps the command in memory until EXEC.
            || session.multi.is_some() && !flags.has(Flags::UNQUEUED);
        let may_evict = needs_room || flags.has(Flags::RUNS_SCRIPTS) || flags.has(Flags::EXECUTES);
        // Within a busy script, the loop changes no keys for its other clients.
        if !may_evict || self.background.is_none() {
            return None;
        }
        let fit = enforce(self.shared, self.loop_number, self.turn, self.clock);
        self.out_of_memory = fit == Fit::Full;
        (self.out_of_memory && needs_room).then_some(OUT_OF_MEMORY)
    }
}
