//! Clients whose command waits for a key: how they get their reply.
//!
//! A waiting command ends once: a push serves it, its timer fires, CLIENT UNBLOCK ends it, or its connection closes. The
//! thread that claims it answers it. The reply goes through the mailbox, so it keeps its place among messages, and an order
//! behind it resumes the connection.

use std::sync::Arc;

use punctual_resp::Reply;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::{Error, Now};

use crate::client::session::Session;
use crate::net::order::Order;
use crate::observe::slowlog::Slow;
use crate::shared::Shared;

impl Session {
    /// Nothing waits any more; what did.
    pub(crate) fn end_waiting(&mut self) -> Option<Arc<Waiter>> {
        let waiter = self.waiter.take()?;
        *self.info.waiter.lock() = None;
        Some(waiter)
    }
}

/// How a command that has waited came to its end.
pub(crate) struct Ended {
    /// How long it took in the end.
    pub(crate) nanos: u64,
    pub(crate) error: Option<Error>,
}

impl Ended {
    /// Counts the command, as any other when it is done.
    pub(crate) fn count(&self, shared: &Shared, loop_number: usize, now: Now, waiter: &Waiter) {
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
            && let Some(entry) = shared.commands.table().entry(id.entry)
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
pub(crate) fn answer(shared: &Shared, waiter: &Waiter, reply: &[u8]) {
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
