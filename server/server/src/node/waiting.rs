//! Replies to clients whose command waits.
//!
//! A waiting command ends exactly once: a change of a key serves it, its timeout passes, its
//! connection closes, CLIENT UNBLOCK ends it, its user loses a permission, or the server's role
//! changes. Acknowledgements of replicas end WAIT and WAITAOF; a sync of this server's file may
//! also end WAITAOF. The end of the transfer ends MIGRATE, the end of the shutdown ends SHUTDOWN,
//! the output of all loops ends CLOCK ADVANCE, and a save of the cluster's table ends a CLUSTER
//! command; the four ignore CLIENT UNBLOCK. The thread that claims the waiter sends the reply. The
//! reply goes through the mailbox, which keeps it in order with messages. An order that resumes the
//! connection follows the reply.

use std::sync::Arc;

use punctual_resp::Reply;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::{Error, Now};

use crate::node::Shared;
use crate::node::order::Order;
use crate::observe::slowlog::Slow;
use crate::session::Session;

impl Session {
    /// Removes and returns the waiter.
    pub(crate) fn end_waiting(&mut self) -> Option<Arc<Waiter>> {
        let waiter = self.waiter.take()?;
        *self.info.waiter.lock() = None;
        Some(waiter)
    }
}

/// Outcome of a command that has waited.
pub(crate) struct Completion {
    /// Time that serving the command took, in ns.
    pub(crate) nanos: u64,
    pub(crate) error: Option<Error>,
}

impl Completion {
    /// Records the command in the statistics and the slow log.
    pub(crate) fn record(&self, shared: &Shared, loop_number: usize, now: Now, waiter: &Waiter) {
        let id = waiter.id();
        let loop_stats = &shared.observed.stats[loop_number];
        let stats = &loop_stats.by_command[id.entry];
        let nanos = id.nanos + self.nanos;
        loop_stats.commands.add(1);
        stats.calls.add(1);
        stats.nanos.add(nanos);
        if let Some(error) = &self.error {
            stats.failed.add(1);
            loop_stats.errors.add(1);
            shared.observed.errors.count(error);
        }
        if shared.settings().latency_tracking {
            stats.latency.record(nanos);
        }
        if nanos
            >= shared
                .observed
                .slow_ns
                .load(std::sync::atomic::Ordering::Relaxed)
            && let Some(entry) = shared.commands.table().entry(id.entry)
            && let Some(info) = shared.clients.registry.get(id.client)
        {
            shared.record_slow_command(&Slow {
                now,
                nanos,
                info: &info,
                entry,
                args: waiter.args().as_args(),
            });
        }
    }
}

/// Sends the reply of a claimed waiter, and resumes its client. All changes that the reply reveals
/// must already be in the log of changes.
pub(crate) fn answer(shared: &Shared, waiter: &Waiter, reply: &[u8]) {
    let id = waiter.id();
    let reply = if id.silent { &[] } else { reply };
    let resume = Order::Unblocked {
        client: id.client,
        slot: id.slot,
        until: shared.durability.changelog.file_end(),
    };
    shared.mailboxes[id.loop_number].answer(reply, id.client, id.slot, resume);
}

/// Returns the reply for a waiter that was not served: `error`, the acknowledgements so far (WAIT
/// and WAITAOF), or a null array.
pub(crate) fn unserved_reply(
    shared: &Shared,
    waiter: &Arc<Waiter>,
    error: Option<&Error>,
) -> Vec<u8> {
    let acks = shared.reply_without_acks(waiter);
    if let (Some(reply), None) = (acks, error) {
        return reply;
    }
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, waiter.protocol());
    match error {
        Some(error) => reply.error(error.bytes()),
        None => reply.null_array(),
    }
    bytes
}

/// Ends a claimed waiter without serving it, on behalf of a command on loop `loop_number`.
pub(crate) fn answer_unserved(
    shared: &Shared,
    loop_number: usize,
    waiter: &Arc<Waiter>,
    error: Option<&Error>,
) {
    answer(shared, waiter, &unserved_reply(shared, waiter, error));
    record_unserved(shared, loop_number, shared.clock.now(), waiter, error);
}

/// Ends a waiter with a reply, unless another thread has ended it, on behalf of a command on loop
/// `loop_number`.
pub(crate) fn finish(shared: &Shared, loop_number: usize, waiter: &Waiter, reply: &[u8]) {
    if waiter.claim() {
        answer(shared, waiter, reply);
        record_unserved(shared, loop_number, shared.clock.now(), waiter, None);
    }
}

/// Records a command that waited and was not served.
pub(crate) fn record_unserved(
    shared: &Shared,
    loop_number: usize,
    now: Now,
    waiter: &Waiter,
    error: Option<&Error>,
) {
    let completion = Completion {
        nanos: 0,
        error: error.cloned(),
    };
    completion.record(shared, loop_number, now, waiter);
}
