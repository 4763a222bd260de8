//! Admission: decides whether a command may run.
//!
//! Commands come from six sources: a client, the queue of EXEC, a script, a timer, the primary's
//! stream, or an append-only file. [`CHECKS`] lists the checks for the commands of each source, and
//! [`Dispatcher::admit`] makes them in Redis's order. A new check is a row in [`CHECKS`] and a few
//! lines in `admit`. The caller handles a refusal: it sends an error reply, postpones or pauses a
//! timer, ends a link, or ends a load.
//!
//! Most states in which the server refuses commands (loading, a failed disk, too few replicas, ...)
//! are bits of one atomic ([`crate::node::gate`]), so one load covers them all.

use std::sync::atomic::Ordering;

use punctual_resp::Args;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Source};

use super::Dispatcher;
use super::writes::touches_data;
use crate::acl::check::{Denied, check};
use crate::acl::log::Context;
use crate::client::registry::ClientInfo;
use crate::memory::counters;
use crate::reclaim::limit::OUT_OF_MEMORY;
use crate::session::Session;
use crate::table::Entry;

/// A check of a command before it runs. Each variant describes the condition that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The client has authenticated.
    Authentication,
    /// The command is allowed within the open transaction.
    Transaction,
    /// The source may call this command.
    Callable,
    /// The user's rules allow the command.
    Rules,
    /// In cluster mode, all keys of the command have one slot, which this node serves.
    Slot,
    /// A read-only script calls no command that writes.
    ReadOnly,
    /// There is memory for the command.
    Memory,
    /// In cluster mode, all keys of the script's command have one slot, which this node serves.
    ScriptSlot,
    /// The server is not stopping, busy, loading or a stale replica. For a command that writes, it
    /// also is not a read-only replica, has enough replicas, and can persist the change.
    State,
    /// The client has no subscriptions in RESP2, where replies and messages look alike.
    Subscriptions,
    /// No pause of clients delays the command.
    Pause,
    /// The client is not a monitor or a replica, or the command does not access data.
    Attachment,
    /// No transaction is open in which the command must be queued.
    Queue,
}

use Check::*;
use Source::{Client, Exec, File, Script, Stream, Timer};

/// The checks in their order, each with the sources whose commands it applies to.
const CHECKS: [(Check, &[Source]); 13] = [
    (Authentication, &[Client]),
    (Transaction, &[Client]),
    (Callable, &[Script, File]),
    (Rules, &[Client, Exec, Script, Timer]),
    (Slot, &[Client, Timer]),
    (ReadOnly, &[Script]),
    (Memory, &[Client, Script]),
    (ScriptSlot, &[Script]),
    (State, &[Client, Script, Timer, Stream]),
    (Subscriptions, &[Client]),
    (Pause, &[Client, Stream]),
    (Attachment, &[Client]),
    (Queue, &[Client, Stream, File]),
];

/// The checks for each source, one bit each.
const BY_SOURCE: [u16; 6] = {
    let mut all = [0; 6];
    let mut row = 0;
    while row < CHECKS.len() {
        let (check, sources) = CHECKS[row];
        let mut at = 0;
        while at < sources.len() {
            all[sources[at] as usize] |= 1 << check as u16;
            at += 1;
        }
        row += 1;
    }
    all
};

impl Check {
    #[inline]
    const fn is_for(self, source: Source) -> bool {
        BY_SOURCE[source as usize] & (1 << self as u16) != 0
    }
}

/// Decision about a command that is not refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The command runs.
    Run,
    /// The command is queued in the open transaction.
    Queue,
    /// The command waits for the end of a pause.
    Hold,
    /// The command does not run and gets no reply, because the server stops.
    Close,
}

/// A refused command.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The check that the command has failed.
    pub(crate) check: Check,
    /// The error to reply.
    pub(crate) error: Error,
    /// The command, key or channel that the user may not access, for ACL LOG. `None` if another
    /// check has refused the command.
    denied: Option<Denied>,
}

impl Refusal {
    #[cold]
    fn new(check: Check, error: Error) -> Self {
        Self {
            check,
            error,
            denied: None,
        }
    }

    #[cold]
    fn denied(source: Source, entry: &Entry, denied: Denied) -> Self {
        Self {
            check: Rules,
            error: match source {
                Exec => denied.error_in_exec(),
                Script => denied.error_in_script(),
                _ => denied.error(entry),
            },
            denied: Some(denied),
        }
    }
}

/// Permissions and progress of a script.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScriptLimits {
    /// Whether the script must not write.
    pub(crate) read_only: bool,
    /// Whether the script may write above `maxmemory`.
    pub(crate) allows_oom: bool,
    /// Whether the script may use keys of several slots in cluster mode.
    pub(crate) crosses_slots: bool,
    /// In cluster mode, the slot of the script's keys.
    pub(crate) slot: Option<u16>,
    /// Whether the script has written. After that, neither `maxmemory` nor SCRIPT KILL stops it.
    pub(crate) wrote: bool,
}

impl Dispatcher<'_, '_> {
    /// Checks whether a command of this source may run.
    ///
    /// # Errors
    /// The refusal, with the error text for this source.
    #[expect(
        clippy::inline_always,
        reason = "the source is a constant, so most of the checks disappear"
    )]
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        source: Source,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) -> Result<Admission, Refusal> {
        let flags = entry.row.flags;
        if Authentication.is_for(source) && !session.authenticated && !flags.has(Flags::NO_AUTH) {
            let error = Error::fixed("NOAUTH Authentication required.");
            return Err(Refusal::new(Authentication, error));
        }
        if Transaction.is_for(source) && session.multi.is_some() && flags.has(Flags::NO_MULTI) {
            let error = Error::fixed("ERR Command not allowed inside a transaction");
            return Err(Refusal::new(Transaction, error));
        }
        if Callable.is_for(source)
            && let Some(error) = self.uncallable(source, entry)
        {
            return Err(Refusal::new(Callable, error));
        }
        if Rules.is_for(source)
            && session.restricted
            && let Err(denied) = check(&session.user, entry, args, session.db)
        {
            return Err(Refusal::denied(source, entry, denied));
        }
        if Slot.is_for(source)
            && let Some(cluster) = &self.shared.cluster
            && !self.has_stable_slot(source, cluster, entry, args)
            && let Some(error) = self.misplaced(cluster, session, entry, args)
        {
            return Err(Refusal::new(Slot, error));
        }
        if ReadOnly.is_for(source) && self.script.read_only && entry.writes() {
            let error = "ERR Write commands are not allowed from read-only scripts.";
            return Err(Refusal::new(ReadOnly, Error::fixed(error)));
        }
        if Memory.is_for(source)
            && let Some(error) = self.lacks_memory(source, session, entry)
        {
            return Err(Refusal::new(Memory, error));
        }
        if ScriptSlot.is_for(source)
            && let Some(cluster) = &self.shared.cluster
            && let Some(error) = self.misplaced_in_script(cluster, session, entry, args)
        {
            return Err(Refusal::new(ScriptSlot, error));
        }
        // Without `background`, this command of a client arrives during a busy script of its loop.
        if State.is_for(source)
            && (self.shared.gate.is_closed() || source == Client && self.background.is_none())
        {
            if source != Script && self.shared.stopping.load(Ordering::Acquire) {
                // A write after the last snapshot would be lost, so it must not be acknowledged.
                return Ok(Admission::Close);
            }
            if let Some(error) = self.unready(source, session, entry, args) {
                return Err(Refusal::new(State, error));
            }
        }
        if Subscriptions.is_for(source)
            && session.in_subscribed_mode()
            && !flags.has(Flags::SUBSCRIBER)
        {
            return Err(Refusal::new(Subscriptions, subscribed_mode(entry)));
        }
        if Pause.is_for(source)
            && (self.shared.clients.pauses.any() || source == Client && self.turn.frozen)
            && self.apply_pause(session, entry, args)
        {
            return Ok(Admission::Hold);
        }
        if Attachment.is_for(source)
            && (session.monitor || session.replica.is_some())
            && (touches_data(session, entry) || self.calls_writer(entry, args))
        {
            let error = Error::fixed("ERR Replica can't interact with the keyspace");
            return Err(Refusal::new(Attachment, error));
        }
        if Queue.is_for(source) && session.multi.is_some() && !flags.has(Flags::UNQUEUED) {
            return Ok(Admission::Queue);
        }
        Ok(Admission::Run)
    }

    /// Returns the error for a command that this source must not call.
    fn uncallable(&self, source: Source, entry: &Entry) -> Option<Error> {
        let flags = entry.row.flags;
        if source == File {
            let refused = flags.has(Flags::ADMIN) || entry.row.group == Group::Pubsub;
            let error = "ERR the command is not allowed in an append-only file";
            return refused.then_some(Error::fixed(error));
        }
        // DEBUG SET-DISABLE-DENY-SCRIPTS allows NOSCRIPT commands in scripts. It does not allow
        // commands that a transaction excludes, because a script runs like a transaction.
        let allowed = self
            .shared
            .switches
            .scripts_call_all
            .load(Ordering::Relaxed)
            && ![Flags::NO_MULTI, Flags::UNQUEUED, Flags::RUNS_SCRIPTS]
                .iter()
                .any(|flag| flags.has(*flag));
        let refused = flags.has(Flags::NOSCRIPT) && !allowed;
        let error = "ERR This Redis command is not allowed from script";
        refused.then_some(Error::fixed(error))
    }

    /// Frees memory for a command of a client if necessary. Returns an error if memory is still
    /// short. For a command of a script, frees nothing, and returns an error if memory was short
    /// when the script began.
    #[inline]
    fn lacks_memory(&mut self, source: Source, session: &Session, entry: &Entry) -> Option<Error> {
        if source == Script {
            let ScriptLimits {
                wrote, allows_oom, ..
            } = self.script;
            let denied = entry.row.flags.has(Flags::DENYOOM) && !wrote && !allows_oom;
            return (self.out_of_memory && denied).then_some(OUT_OF_MEMORY);
        }
        self.out_of_memory = false;
        if counters::own() > self.memory_check.load(Ordering::Relaxed) {
            return self.make_room(session, entry);
        }
        None
    }

    /// Returns the error for a command that the server refuses in its current state.
    #[cold]
    fn unready(
        &mut self,
        source: Source,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) -> Option<Error> {
        match source {
            Client => self
                .busy(entry)
                .or_else(|| self.refusal(session, entry, args)),
            Script if !self.turn.replays() => {
                let error = self.refusal(session, entry, args)?;
                Some(if error.bytes().starts_with(b"MASTERDOWN") {
                    Error::fixed("ERR Can not execute the command on a stale replica")
                } else {
                    error
                })
            }
            // Firing changes the timer's key, even if the timer's command only reads.
            Timer => self.refusal_of_changes(),
            _ => None,
        }
    }

    /// Adds a denial by the user's rules to ACL LOG. `info` is the client that has sent the
    /// command.
    #[cold]
    pub(super) fn log_refusal(
        &self,
        refusal: &Refusal,
        source: Source,
        info: &ClientInfo,
        session: &Session,
        entry: &Entry,
        args: Args,
    ) {
        let Some(denied) = refusal.denied else {
            return;
        };
        let context = match source {
            Exec => Context::Multi,
            Script => Context::Lua,
            Timer => Context::Timer,
            _ if session.multi.is_some() => Context::Multi,
            _ => Context::TopLevel,
        };
        self.shared
            .log_denial(info, &session.user, denied, context, entry, args);
    }
}

fn subscribed_mode(entry: &Entry) -> Error {
    Error::Text(
        format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            entry.name
        )
        .into(),
    )
}
