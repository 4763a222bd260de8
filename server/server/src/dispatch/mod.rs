//! Command dispatch: finds the row of a command, checks whether the command may run, runs it, and
//! records statistics. The name and the number of arguments are checked first, then the checks of
//! [`admission`].
//!
//! [`Dispatcher::run`] is the entry for clients and the primary's stream. EXEC, scripts and timers
//! call [`Dispatcher::execute`] for each of their commands. Keyspace commands run in [`Turn::run`],
//! the server's own commands in their handlers ([`server_command`]). Handlers of EXEC and EVAL only
//! note in the session which commands or script to execute; the dispatcher executes them after the
//! handler has returned.

mod admission;
mod beside;
pub(crate) mod blocking;
mod cluster;
pub(crate) mod from_file;
mod handler;
mod memory;
mod refusal;
mod replay;
mod script;
mod server_command;
pub(crate) mod timers;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::world::Counter;
use punctual_resp::{Args, Chunks, Command, Reply};
use punctual_store::command::dump;
use punctual_store::spec::Flags;
use punctual_store::{Error, Source, Turn};

use crate::acl::check::sort_denial;
use crate::changelog::Hold;
use crate::cluster::usage::SlotUsage;
use crate::log;
use crate::net::cross_protocol::is_http;
use crate::node::Shared;
use crate::node::scripts::Scripts;
use crate::observe::slowlog::Slow;
use crate::observe::stats::LoopStats;
use crate::session::transaction::{self, Transaction, aborted_by};
use crate::session::{ReplyMode, Session};
use crate::table::{Entry, Run};
use admission::{Admission, ScriptLimits};

/// Maximum length of a command's reply in bytes, unless the limit of the client's output is lower.
const REPLY_MAX: usize = 4 << 30;

/// Outcome of a dispatched command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The command is complete: it ran, was queued, or was rejected.
    Done,
    /// The command did not run, because a pause of clients delays it.
    Paused,
    /// The command waits. Its reply follows later.
    Blocked,
}

/// Work of a loop while a script on this or another loop delays it.
pub(crate) trait Background {
    /// Serves the loop's other clients: most commands get the error BUSY, and some, such as SCRIPT
    /// KILL, run.
    fn serve_clients(&mut self);
}

/// Errors during the run of scripts.
#[derive(Default)]
pub(crate) struct ScriptErrors {
    /// Number of errors of scripts and of their commands that the statistics count.
    pub(crate) own: u64,
    /// The first error of a called command that does not exist or is not allowed.
    pub(crate) refused: Option<Error>,
}

/// Runs the commands of one connection in order.
pub(crate) struct Dispatcher<'a, 's> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) loop_number: usize,
    pub(crate) stats: &'a LoopStats,
    pub(crate) turn: &'a mut Turn<'s>,
    pub(crate) scripts: &'a mut Scripts,
    pub(crate) clock: &'a Counter,
    /// Reading of `clock` at the start of the running command.
    pub(crate) command_start: u64,
    /// Minimum duration in nanoseconds of a command that the slow log or LATENCY records.
    slow_ns: u64,
    latency_tracking: bool,
    /// Counters of slots, with `cluster-slot-stats-enabled`.
    usage: Option<&'a SlotUsage>,
    /// The loop, which serves its other clients during a long wait. `None` for commands that run
    /// within such a wait, and for commands of a file, TIMER RUN and a virtual clock's timers.
    pub(crate) background: Option<&'a mut (dyn Background + 'a)>,
    /// Output of the client before the current buffer. `None` if replies must be in one piece.
    pub(crate) chunks: Option<Chunks>,
    /// Output size in bytes above which the client is disconnected.
    output_max: usize,
    /// Output size in bytes above which the command's reply is dropped.
    pub(crate) reply_max: usize,
    /// Whether a reply was too long, so that the client must be disconnected.
    pub(crate) exceeded: bool,
    /// Position in the log that the replies of the client wait for.
    pub(crate) hold: Hold,
    /// If the loop's counter of bytes is above this value, a command that may need memory checks
    /// `maxmemory` before it runs.
    memory_check: &'a AtomicI64,
    /// Whether memory was short when the client's command began.
    pub(crate) out_of_memory: bool,
    /// In cluster mode, the slot of the admitted command's keys.
    slot: Option<u16>,
    /// Permissions and progress of the running script.
    pub(crate) script: ScriptLimits,
    /// Errors of scripts, for the load of an append-only file.
    pub(crate) script_errors: ScriptErrors,
}

impl<'a, 's> Dispatcher<'a, 's> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        loop_number: usize,
        turn: &'a mut Turn<'s>,
        scripts: &'a mut Scripts,
        clock: &'a Counter,
        output_max: usize,
        background: Option<&'a mut (dyn Background + 'a)>,
    ) -> Self {
        Self {
            stats: &shared.observed.stats[loop_number],
            slow_ns: shared.observed.slow_ns.load(Ordering::Relaxed),
            latency_tracking: shared.observed.latency_tracking.load(Ordering::Relaxed),
            usage: match &shared.cluster {
                Some(cluster) => cluster.usage.active(),
                None => None,
            },
            shared,
            loop_number,
            turn,
            scripts,
            command_start: clock.raw(),
            clock,
            chunks: None,
            output_max,
            reply_max: REPLY_MAX,
            exceeded: false,
            hold: Hold::new(None),
            memory_check: &shared.memory.check_at[loop_number].0,
            out_of_memory: false,
            slot: None,
            script: ScriptLimits::default(),
            script_errors: ScriptErrors::default(),
            background,
        }
    }

    /// Returns the total size of the output, whose last part is `out`.
    #[inline]
    pub(crate) fn output_len(&self, out: &[u8]) -> usize {
        self.chunks.as_ref().map_or(0, Chunks::len) + out.len()
    }

    /// Truncates the output, whose last part is `out`, to `len` bytes.
    fn truncate_output(&mut self, out: &mut Vec<u8>, len: usize) {
        match &mut self.chunks {
            Some(chunks) => chunks.truncate(out, len),
            None => out.truncate(len),
        }
    }

    /// Runs one command and appends its reply to `out`.
    #[inline]
    pub(crate) fn run(&mut self, session: &mut Session, args: Args, out: &mut Vec<u8>) -> Flow {
        if let Some(chunks) = &mut self.chunks {
            chunks.take_long(out);
        }
        let start = self.output_len(out);
        self.reply_max = self.output_max.min(start.saturating_add(REPLY_MAX));
        let mode = session.reply_mode;
        let found = find(self.shared, session, args);
        let known = found.as_ref().ok().copied();
        let flow = match found {
            Ok(entry) if session.is_primary() => self.replay(session, entry, args, out),
            Ok(entry) => {
                let may_lock = self.turn.may_lock;
                let flow = match self.usage {
                    None => self.run_entry(session, entry, args, out),
                    Some(usage) => self.run_counted(usage, session, entry, args, out),
                };
                // If this command had to run without locks because of a script, the turn's next
                // commands may lock shards again.
                self.turn.may_lock = may_lock;
                flow
            }
            Err((None, error)) if session.is_primary() => {
                self.skip_or_refuse(session, &error, args);
                Flow::Done
            }
            Err((Some(_), error)) if session.is_primary() => {
                self.refuse_stream(session, &error, args);
                Flow::Done
            }
            Err((entry, error)) => {
                if entry.is_none() && is_http(args.at(0)) {
                    let Shared { http, logger, .. } = &**self.shared;
                    http.warn(logger, self.turn.now, &session.info.addr);
                    session.closing = true;
                    return Flow::Done;
                }
                match entry {
                    Some(entry) => self.reject(session, entry, args, &error, out),
                    None => {
                        session.refuse_transaction();
                        self.write_error(session, &error, out);
                        Flow::Done
                    }
                }
            }
        };
        if flow == Flow::Done && (mode != ReplyMode::On || session.reply_mode != ReplyMode::On) {
            let len = self.output_len(out);
            self.truncate_output(out, wanted_output(session, mode, start, len));
        }
        if session.caching && flow != Flow::Paused {
            session.end_caching(known);
        }
        if session.asking > 0 && flow != Flow::Paused && session.multi.is_none() {
            session.asking -= 1;
        }
        if session.separated {
            // Messages of this command to its own client follow its reply.
            self.shared.mailboxes[self.loop_number].take_separated(out);
        }
        if self.output_len(out) > self.output_max
            || self.chunks.as_mut().is_some_and(Chunks::take_cut)
        {
            self.exceeded = true;
            session.closing = true;
        }
        flow
    }

    /// Prefetches the keys of the next commands of a pipeline. Returns the number of commands that
    /// may run before the next call.
    pub(crate) fn look_ahead(&mut self, session: &Session, ahead: &[Command<'_>]) -> usize {
        if self.shared.mailboxes.len() > 1 && self.shared.scripting.running.is_active() {
            // Prefetching takes locks, which a command must not hold while it waits for a script.
            self.turn.end_ahead();
            return ahead.len();
        }
        let commands = ahead.iter().map(|command| command.args);
        // Commands of a pipeline are often alike. If the last command was a subcommand, the next
        // ones probably are, and their first key is one argument later.
        let key = session.last.map_or(1, Entry::words);
        self.turn.look_ahead(session.db, key, commands)
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&self, error: &Error) {
        self.stats.errors.add(1);
        self.shared.observed.errors.count(error);
    }

    pub(crate) fn write_error(&self, session: &Session, error: &Error, out: &mut Vec<u8>) {
        self.count_error(error);
        Reply::new(out, session.protocol).error(error.bytes());
    }

    /// Logs the reason why RESTORE has refused its payload, as Redis does.
    #[cold]
    fn log_flaw(&self, args: Args) {
        if let Some(flaw) = dump::flaw(&self.shared.store, &args[3]) {
            let key = args[1].escape_ascii();
            log::warning!(
                self.shared.logger,
                "Bad data format in RESTORE of '{key}': {flaw}"
            );
        }
    }

    /// Sends a command to the clients in MONITOR mode.
    #[cold]
    pub(crate) fn feed_monitors(&self, session: &Session, entry: &Entry, args: Args) {
        let Shared {
            clients,
            mailboxes,
            commands,
            ..
        } = &**self.shared;
        let monitors = &clients.monitors;
        monitors.feed(mailboxes, commands, self.turn.now, session, entry, args);
    }

    /// Rejects a known command before it runs, and marks the open transaction as failed.
    #[cold]
    pub(crate) fn reject(
        &mut self,
        session: &mut Session,
        entry: &Entry,
        args: Args,
        error: &Error,
        out: &mut Vec<u8>,
    ) -> Flow {
        session.refuse_transaction();
        self.stats.by_command[entry.id].rejected.add(1);
        if entry.row.flags.has(Flags::EXECUTES) {
            session.discard(self.turn);
            self.write_error(session, &aborted_by(error), out);
            if self.shared.clients.monitors.any() {
                self.feed_monitors(session, entry, args);
            }
        } else {
            self.write_error(session, error, out);
        }
        Flow::Done
    }

    #[inline]
    fn run_entry(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        match self.admit(Source::Client, session, entry, args) {
            Ok(Admission::Run) if self.shared.mailboxes.len() > 1 => {
                self.execute_beside_scripts(session, entry, args, out)
            }
            Ok(Admission::Run) => self.execute(session, entry, args, out),
            Ok(Admission::Queue) => self.queue(session, entry, args, out),
            Ok(Admission::Hold) => Flow::Paused,
            Ok(Admission::Close) => {
                session.closing = true;
                Flow::Done
            }
            Err(refusal) => {
                let info = &session.info;
                self.log_refusal(&refusal, Source::Client, info, session, entry, args);
                self.reject(session, entry, args, &refusal.error, out)
            }
        }
    }

    /// Queues a command in the open transaction.
    fn queue(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        session.queue(entry, args, self.may_write(entry, args));
        Reply::new(out, session.protocol).simple("QUEUED");
        self.command_start = self.clock.raw();
        Flow::Done
    }

    /// Runs a command that has passed the checks, records its statistics, and serves the waiters of
    /// keys that it has filled.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        let flags = entry.row.flags;
        let nested = self.turn.source().is_nested();
        let result = match entry.run {
            Run::Keyspace(command) => {
                let aside = self.chunks.as_mut();
                let mut reply = Reply::chunked(&mut *out, aside, self.reply_max, session.protocol);
                let touch = !session.no_touch;
                let flushes = flags.has(Flags::FLUSHES_ALL);
                if flushes && !nested {
                    // No other write may run between the flush and its snapshot.
                    self.turn.pin(None);
                }
                let denial = match session.restricted {
                    true => sort_denial(&session.user, entry, args, session.db)
                        .or_else(|| timers::denial_of_payload(&session.user, entry, args)),
                    false => None,
                };
                if session.reader.is_some() && flags.has(Flags::READONLY) {
                    self.turn.reader = session.reader;
                }
                let result = match denial {
                    None => self.turn.run(command, session.db, touch, args, &mut reply),
                    Some(error) => Err(error),
                };
                if self.turn.wait.is_some() {
                    self.begin_waiting(session, entry, args);
                    return Flow::Blocked;
                }
                if flushes {
                    if result.is_ok() {
                        self.shared.after_flushall(self.turn);
                    }
                    if !nested {
                        self.turn.unpin();
                        self.turn.release_whole();
                    }
                }
                result
            }
            Run::Server(number) => {
                match self.run_server_command(session, entry, number, args, out) {
                    Some(result) => result,
                    None => return Flow::Blocked,
                }
            }
            Run::Container => Err(Error::Syntax),
        };
        let log = &self.shared.durability.changelog;
        if self.hold.is_on(log) {
            self.hold.note(log, self.turn, entry, session.db, args);
        }
        if self.shared.clients.monitors.any()
            && !flags.has(Flags::SKIP_MONITOR)
            && !flags.has(Flags::ADMIN)
        {
            self.feed_monitors(session, entry, args);
        }
        let stats = &self.stats.by_command[entry.id];
        if let Err(error) = &result {
            stats.failed.add(1);
            self.write_error(session, error, out);
            if flags.has(Flags::RESTORES) && error.bytes() == dump::BAD_FORMAT.bytes() {
                self.log_flaw(args);
            }
            if session.upstream.is_some() {
                self.replayed_error(session, entry, error, args);
            }
        }
        let now = self.clock.raw();
        let nanos = self.clock.delta_as_nanos(self.command_start, now);
        self.command_start = now;
        self.stats.commands.add(1);
        stats.calls.add(1);
        stats.nanos.add(nanos);
        if self.latency_tracking {
            stats.latency.record(nanos);
        }
        if nanos >= self.slow_ns && !flags.has(Flags::SKIP_SLOWLOG) {
            self.shared.record_slow_command(&Slow {
                now: self.turn.now,
                nanos,
                info: &session.info,
                entry,
                args,
            });
        }
        // While a script forbids locks, the waiters are served at the end of the loop's turn.
        if self.turn.has_ready() && !nested && self.turn.may_lock {
            self.serve_ready();
        }
        Flow::Done
    }

    /// Runs the commands of a transaction. The turn has pinned all shards that they need.
    #[cold]
    #[inline(never)]
    fn run_queued(&mut self, session: &mut Session, transaction: &Transaction, out: &mut Vec<u8>) {
        let exec_start = self.command_start;
        self.command_start = self.clock.raw();
        transaction::write_reply_header(session, transaction.commands().len(), out);
        let outer = self.turn.enter(Source::Exec);
        self.turn.admit(transaction.changes_keys());
        self.turn.begin_frame();
        for (entry, args) in transaction.commands() {
            let start = self.output_len(out);
            if let Err(refusal) = self.admit(Source::Exec, session, entry, args) {
                // The user's rules have changed since the command was queued.
                let info = &session.info;
                self.log_refusal(&refusal, Source::Exec, info, session, entry, args);
                self.write_error(session, &refusal.error, out);
            } else {
                self.execute(session, entry, args, out);
            }
            if transaction::is_unwanted_queued_reply(session) {
                self.truncate_output(out, start);
            }
        }
        self.turn.end_frame();
        self.turn.admit(false);
        self.turn.leave(outer);
        session.set_multi(None);
        self.turn.unpin();
        // Replies that CLIENT REPLY suppresses have already been removed.
        session.ignore_reply_mode = true;
        // The duration of EXEC includes its commands.
        self.command_start = exec_start;
    }

    /// Returns the error for a command that must not run while a script is busy. Meanwhile the
    /// commands that may run must not lock shards.
    #[cold]
    fn busy(&mut self, entry: &Entry) -> Option<Error> {
        let flags = entry.row.flags;
        let busy = self.shared.scripting.running.is_busy() || self.background.is_none();
        self.turn.may_lock = !busy;
        // WATCH needs locks that the script holds.
        (busy && (flags.has(Flags::WATCHES) || !flags.has(Flags::ALLOW_BUSY)))
            .then(|| self.shared.scripting.running.refusal())
    }
}

/// Returns the row of the called command. Compares the name with the client's last command first.
///
/// # Errors
/// Returns Redis's error for an unknown command or subcommand, or, with the row, for a wrong number
/// of arguments.
#[inline]
pub(crate) fn find(
    shared: &Shared,
    session: &mut Session,
    args: Args<'_>,
) -> Result<&'static Entry, (Option<&'static Entry>, Error)> {
    if let Some(last) = session.last
        && last.is_called_by(args)
    {
        last.check_arity(args)?;
        return Ok(last);
    }
    let entry = shared.commands.find(args)?;
    session
        .info
        .last_command
        .store(entry.id as u32 + 1, Ordering::Relaxed);
    // `is_called_by` compares with the original name, which a renamed command does not have, and
    // does not look for subcommands.
    let reusable = entry.subcommands.is_empty() && entry.is_called_by(args);
    session.last = reusable.then_some(entry);
    Ok(entry)
}

/// Returns the length of the output to keep: `start` if CLIENT REPLY suppresses the reply between
/// `start` and `len`, and `len` otherwise. Advances the reply mode.
fn wanted_output(session: &mut Session, before: ReplyMode, start: usize, len: usize) -> usize {
    // Replies of SUBSCRIBE and similar commands are messages, which are always sent.
    let start = if std::mem::take(&mut session.ignore_reply_mode) {
        len
    } else {
        start
    };
    match (before, session.reply_mode) {
        // The command was CLIENT REPLY: ON gets a reply, OFF and SKIP do not.
        (_, ReplyMode::Skip) => {
            session.reply_mode = ReplyMode::SkipNext;
            start
        }
        (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
            session.reply_mode = ReplyMode::On;
            start
        }
        (_, ReplyMode::Off) => start,
        _ => len,
    }
}
