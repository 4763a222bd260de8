//! Memory for a command, before it runs. See [`crate::memory`].

use punctual_store::Error;
use punctual_store::spec::Flags;

use crate::dispatch::Dispatcher;
use crate::reclaim::limit::{Fit, OUT_OF_MEMORY, enforce};
use crate::session::Session;
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Evicts keys for a command that may need memory. Returns an error if memory stays above the
    /// limit.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self, session: &Session, entry: &Entry) -> Option<Error> {
        let flags = entry.row.flags;
        let queued = session.executed_by(entry);
        let denied = flags.has(Flags::DENYOOM)
            || queued.is_some_and(|queued| queued.has(Flags::DENYOOM))
            // Queued commands need memory too, until EXEC.
            || session.multi.is_some() && !flags.has(Flags::UNQUEUED);
        let asks = denied || flags.has(Flags::RUNS_SCRIPTS) || flags.has(Flags::EXECUTES);
        if !asks || self.background.is_none() {
            return None;
        }
        let fit = enforce(self.shared, self.loop_number, self.turn, self.clock);
        self.out_of_memory = fit == Fit::Full;
        (self.out_of_memory && denied).then_some(OUT_OF_MEMORY)
    }
}
