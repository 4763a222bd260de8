//! Commands that wait for a key: how their clients are parked, and answered.
//!
//! A command that finds nothing joins the queues of its keys (`punctual_store::keyspace::waiters`), and its connection runs
//! nothing more. It ends once: it is served by whoever brings what it waits for, on whatever loop that is; or its timer
//! fires; or CLIENT UNBLOCK ends it; or its connection goes. Who claims it answers it: the reply goes the way of a
//! message, so it keeps its place among messages, and an order behind it lets the connection go on.

use std::sync::Arc;

use punctual_resp::{Args, Reply};
use punctual_store::keyspace::waiters::{Waiter, WaiterId, WaitingClient};
use punctual_store::spec::Flags;
use punctual_store::{Command, Error, Now};

use crate::dispatch::Batch;
use crate::monitor;
use crate::net::order::Order;
use crate::session::{ReplyMode, Session};
use crate::shared::Shared;
use crate::slowlog::Slow;
use crate::table::{Entry, TABLE};

impl Batch<'_, '_> {
    /// Lets the command wait that has just found nothing.
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
                nanos: self.clock.delta_as_nanos(self.mark, self.clock.raw()),
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
            monitor::feed(self.shared, self.turn.now, session, entry, args);
        }
        self.mark = self.clock.raw();
    }

    /// Serves those who have waited for what the last command brought, and those who have waited for what that brings.
    #[cold]
    pub(crate) fn serve_ready(&mut self) {
        let mut reply = Vec::new();
        // A transaction may have taken its time.
        self.turn.now = self.shared.clock.now();
        loop {
            reply.clear();
            let began = self.clock.raw();
            let Some((waiter, result)) = self.turn.serve_next(command_of, &mut reply) else {
                break;
            };
            let nanos = self.clock.delta_as_nanos(began, self.clock.raw());
            answer(self.shared, &waiter, &reply);
            let ended = Ended {
                nanos,
                error: result.err(),
            };
            ended.count(self.shared, self.loop_number, self.turn.now, &waiter);
        }
        self.mark = self.clock.raw();
    }
}

impl Session {
    /// Nothing waits any more; what did.
    pub(crate) fn end_waiting(&mut self) -> Option<Arc<Waiter>> {
        let waiter = self.waiter.take()?;
        *self.info.waiter.lock() = None;
        Some(waiter)
    }
}

/// Returns the command that a waiter runs.
fn command_of(id: &WaiterId) -> &'static Command {
    TABLE
        .keyspace_command(id.entry)
        .expect("only commands of the keyspace wait")
}

/// How a command that has waited came to its end.
struct Ended {
    /// How long it took in the end.
    nanos: u64,
    error: Option<Error>,
}

impl Ended {
    /// Counts the command, as any other when it is done.
    fn count(&self, shared: &Shared, loop_number: usize, now: Now, waiter: &Waiter) {
        let id = waiter.id();
        let loop_stats = &shared.stats[loop_number];
        let stats = &loop_stats.by_command[id.entry];
        let nanos = id.nanos + self.nanos;
        loop_stats.commands.add(1);
        stats.calls.add(1);
        stats.nanos.add(nanos);
        if let Some(error) = &self.error {
            stats.failed.add(1);
            loop_stats.errors.add(1);
            shared.errors.count(error);
        }
        if shared.settings().latency_tracking {
            stats.latency.record(nanos);
        }
        if nanos >= shared.slow_ns.load(std::sync::atomic::Ordering::Relaxed)
            && let Some(entry) = TABLE.all().find(|e| e.id == id.entry)
            && let Some(info) = shared.clients.get(id.client)
        {
            shared.note_slow(&Slow {
                now,
                nanos,
                info: &info,
                entry,
                args: waiter.args().as_args(),
            });
        }
    }
}

/// Leaves the reply of a command that was claimed for its client, and lets it go on.
fn answer(shared: &Shared, waiter: &Waiter, reply: &[u8]) {
    let id = waiter.id();
    let reply = if id.silent { &[] } else { reply };
    let resume = Order::Unblocked {
        client: id.client,
        slot: id.slot,
    };
    shared.mailboxes[id.loop_number].answer(reply, id.client, id.slot, resume);
}

/// What a command answers that has waited in vain: an error, or that there was nothing.
pub(crate) fn nothing(waiter: &Waiter, error: Option<&Error>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, waiter.protocol());
    match error {
        Some(error) => reply.error(error.bytes()),
        None => reply.null_array(),
    }
    bytes
}

/// Ends a command that was claimed, by CLIENT UNBLOCK on loop `loop_number`.
pub(crate) fn answer_without(
    shared: &Shared,
    loop_number: usize,
    waiter: &Waiter,
    error: Option<&Error>,
) {
    answer(shared, waiter, &nothing(waiter, error));
    count_in_vain(shared, loop_number, shared.clock.now(), waiter, error);
}

/// Counts a command that has waited in vain.
pub(crate) fn count_in_vain(
    shared: &Shared,
    loop_number: usize,
    now: Now,
    waiter: &Waiter,
    error: Option<&Error>,
) {
    let ended = Ended {
        nanos: 0,
        error: error.cloned(),
    };
    ended.count(shared, loop_number, now, waiter);
}
