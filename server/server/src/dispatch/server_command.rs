//! Execution of a server command. Its handler may change settings, and may leave queued commands, a
//! script or a wait in the session, which the dispatcher then executes.

use std::sync::atomic::Ordering;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::Flags;

use super::Dispatcher;
use crate::node::call::Call;
use crate::session::{Executing, Session};
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Runs the handler with this number. Returns `None` if the client waits.
    #[inline]
    pub(super) fn run_server_command(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        number: usize,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), Error>> {
        let start = self.output_len(out);
        let aside = self.chunks.as_mut();
        let mut reply = Reply::chunked(&mut *out, aside, self.reply_max, session.protocol);
        let mut call = Call {
            shared: self.shared,
            turn: self.turn,
            scripts: self.scripts,
            session,
            loop_number: self.loop_number,
        };
        let mut result = (self.shared.handlers[number])(&mut call, args, &mut reply);
        // CONFIG SET takes effect for the next command. Only the threshold of the slow log and
        // `latency-tracking` already apply to CONFIG SET itself.
        self.turn.classes = self.shared.classes();
        self.turn.limits = self.shared.store.limits();
        self.slow_ns = self.shared.observed.slow_ns.load(Ordering::Relaxed);
        self.latency_tracking = self
            .shared
            .observed
            .latency_tracking
            .load(Ordering::Relaxed);
        match session.executing.take() {
            // Monitors also see the call of a script or function that does not exist.
            None if entry.row.flags.has(Flags::SKIP_MONITOR)
                && self.shared.clients.monitors.any() =>
            {
                self.feed_monitors(session, entry, args);
            }
            None => {}
            Some(Executing::Transaction(transaction)) => {
                match self.misplaced_transaction(session, entry, args, &transaction) {
                    None => self.run_queued(session, &transaction, out),
                    Some(error) => {
                        session.set_multi(None);
                        self.turn.unpin();
                        result = Err(error);
                    }
                }
            }
            Some(Executing::Script(request)) => {
                result = self.run_script(session, entry, request, args, out);
            }
            Some(Executing::Wait(begin)) => {
                // The wait may end at once, on a thread that needs the shards.
                self.turn.release();
                self.begin_waiting_for(session, entry, args, begin);
                return None;
            }
        }
        self.turn.release_whole();
        Some(result.inspect_err(|_| self.truncate_output(out, start)))
    }
}
