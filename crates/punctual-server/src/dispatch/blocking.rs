//! Commands that wait for a key: starting a wait, and serving waiters.

use std::sync::Arc;

use punctual_resp::Args;
use punctual_store::Command;
use punctual_store::keyspace::waiters::{WaiterId, WaitingClient};
use punctual_store::spec::Flags;

use super::Dispatcher;
use super::table::{CommandTable, Entry};
use crate::client::session::{ReplyMode, Session};
use crate::client::waiting::{Completion, answer};

impl Dispatcher<'_, '_> {
    /// Registers the command that has just found nothing as a waiter.
    #[cold]
    pub(crate) fn begin_waiting(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args<'_>,
    ) {
        let Some(wait) = self.turn.wait.take() else {
            return;
        };
        let skipped = session.reply_mode == ReplyMode::SkipNext;
        let client = WaitingClient {
            db: session.db,
            touch: !session.no_touch,
            protocol: session.protocol,
            id: WaiterId {
                client: session.id,
                loop_number: self.loop_number,
                slot: session.info.slot,
                entry: entry.id,
                silent: skipped || session.reply_mode == ReplyMode::Off,
                nanos: self
                    .clock
                    .delta_as_nanos(self.command_start, self.clock.raw()),
            },
        };
        let waiter = self.turn.begin_waiting(wait, args.into(), &client);
        if skipped {
            session.reply_mode = ReplyMode::On;
        }
        *session.info.waiter.lock() = Some(Arc::clone(&waiter));
        session.waiter = Some(waiter);
        self.shared.clients.set_waiting(&session.info, true);
        if self.shared.monitors.any() && !entry.row.flags.has(Flags::SKIP_MONITOR) {
            self.feed_monitors(session, entry, args);
        }
        self.command_start = self.clock.raw();
    }

    /// Serves the waiters of keys that the last command or an already served waiter has filled.
    #[cold]
    pub(crate) fn serve_ready(&mut self) {
        let mut reply = Vec::new();
        let table = self.shared.commands.table();
        // The last command may have been a long transaction.
        self.turn.now = self.shared.clock.now();
        loop {
            reply.clear();
            let began = self.clock.raw();
            let Some((waiter, result)) =
                self.turn.serve_next(|id| command_of(table, id), &mut reply)
            else {
                break;
            };
            let nanos = self.clock.delta_as_nanos(began, self.clock.raw());
            if self.hold.is_on() {
                // The reply waits until the change is on the device, so its position must be known.
                self.turn.release();
            }
            answer(self.shared, &waiter, &reply);
            let completion = Completion {
                nanos,
                error: result.err(),
            };
            completion.record(self.shared, self.loop_number, self.turn.now, &waiter);
        }
        self.command_start = self.clock.raw();
    }
}

/// Returns the command that a waiter runs.
fn command_of(table: &'static CommandTable, id: &WaiterId) -> &'static Command {
    table
        .keyspace_command(id.entry)
        .expect("only commands of the keyspace wait")
}
