//! Commands that wait: registering a waiter, and serving the waiters of keys that have become
//! ready.
//!
//! A blocking command that finds nothing joins the queues of its keys under the locks that it ran
//! under, so no push can come in between. A commit marks a key as *ready* if a client waits for it.
//! When the command or the transaction is done, its loop runs the waiting commands again, oldest
//! first, also for clients of other loops. These commands may make further keys ready. Replies go
//! through the mailboxes of the clients' loops, in order with messages.
//!
//! Waiters of MIGRATE, SHUTDOWN, CLOCK, WAIT and WAITAOF are in no key's queue; other events end
//! their waits.

use std::sync::Arc;

use crate::world::Counter;
use punctual_resp::Args;
use punctual_store::keyspace::waiters::{Waiter, WaiterId, WaitingClient};
use punctual_store::spec::Flags;
use punctual_store::{Command, Turn};

use crate::dispatch::Dispatcher;
use crate::node::Shared;
use crate::node::waiting::{Completion, answer};
use crate::session::{BeginWait, ReplyMode, Session};
use crate::table::{CommandTable, Entry};

impl Dispatcher<'_, '_> {
    /// Registers a waiter for a command that has found nothing to return.
    #[cold]
    pub(crate) fn begin_waiting(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
    ) {
        let Some(wait) = self.turn.wait.take() else {
            return;
        };
        let client = self.waiting_client(session, entry);
        let waiter = self.turn.begin_waiting(wait, args.into(), &client);
        self.park(session, entry, args, &waiter);
    }

    /// Registers a waiter and passes it to `begin`. The waiter has keys and a timeout only if the
    /// command has stored them in the turn (`Turn::wait`).
    #[cold]
    pub(crate) fn begin_waiting_for(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        begin: BeginWait,
    ) {
        let client = self.waiting_client(session, entry);
        let waiter = match self.turn.wait.take() {
            Some(wait) => self.turn.begin_waiting(wait, args.into(), &client),
            None => Arc::new(Waiter::without_keys(args.into(), &client)),
        };
        self.park(session, entry, args, &waiter);
        begin(waiter);
    }

    fn waiting_client(&self, session: &Session, entry: &Entry) -> WaitingClient {
        WaitingClient {
            db: session.db,
            touch: !session.no_touch,
            protocol: session.protocol,
            id: WaiterId {
                client: session.id,
                loop_number: self.loop_number,
                slot: session.info.slot,
                entry: entry.id,
                silent: matches!(session.reply_mode, ReplyMode::SkipNext | ReplyMode::Off),
                nanos: self
                    .clock
                    .delta_as_nanos(self.command_start, self.clock.raw()),
            },
        }
    }

    fn park(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        waiter: &Arc<Waiter>,
    ) {
        if session.reply_mode == ReplyMode::SkipNext {
            session.reply_mode = ReplyMode::On;
        }
        *session.info.waiter.lock() = Some(Arc::clone(waiter));
        session.waiter = Some(Arc::clone(waiter));
        self.shared
            .clients
            .registry
            .set_waiting(&session.info, true);
        let flags = entry.row.flags;
        if self.shared.clients.monitors.any()
            && !flags.has(Flags::SKIP_MONITOR)
            && !flags.has(Flags::ADMIN)
        {
            self.feed_monitors(session, entry, args);
        }
        self.command_start = self.clock.raw();
    }

    /// Serves the waiters of keys that the last command, or a waiter served before, has filled.
    #[cold]
    pub(crate) fn serve_ready(&mut self) {
        serve_ready(self.shared, self.turn, self.loop_number, self.clock);
        self.command_start = self.clock.raw();
    }
}

/// Serves the waiters of keys that have become ready.
#[cold]
pub(crate) fn serve_ready(shared: &Shared, turn: &mut Turn, loop_number: usize, clock: &Counter) {
    let mut reply = Vec::new();
    let table = shared.commands.table();
    // The last command may have taken long, so the waiting commands run at the current time.
    turn.now = shared.clock.now();
    loop {
        reply.clear();
        let began = clock.raw();
        let Some((waiter, result)) = turn.serve_next(|id| command_of(table, id), &mut reply) else {
            break;
        };
        let nanos = clock.delta_as_nanos(began, clock.raw());
        if shared.durability.changelog.holds() || shared.mailboxes.len() > 1 {
            // The change must be in the log before the reply is sent: the reply is held until the
            // position of the change is released, and WAIT by a client of another loop counts from
            // the end of the log.
            turn.release();
        }
        answer(shared, &waiter, &reply);
        let completion = Completion {
            nanos,
            error: result.err(),
        };
        completion.record(shared, loop_number, turn.now, &waiter);
    }
}

fn command_of(table: &'static CommandTable, id: &WaiterId) -> &'static Command {
    table
        .keyspace_command(id.entry)
        .expect("only commands of the keyspace wait")
}
