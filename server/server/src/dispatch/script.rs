//! Execution of scripts and functions.
//!
//! [`ScriptHost`] implements [`Host`], the server as Lua sees it. Each command of a script passes
//! the dispatcher, in a session of its own with a database and a protocol. Meanwhile the instant
//! `now` stays the same, and no command may wait.
//!
//! The turn begins with the shards of the declared keys, and adds shards when a command needs them
//! ([`punctual_store::Turn::pin_and_grow`]). It keeps all of them until the script ends, so a
//! script is atomic (strict two-phase locking, Eswaran et al., 1976). Such a turn cannot lock in
//! ascending order. So only one script runs at a time, and another turn that waits for a shard
//! releases the shards that the script needs.
//!
//! Lua calls [`Host::interrupt`] at regular intervals. After `busy-reply-threshold`, the script's
//! loop serves its other clients within that call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cluster::slot;
use punctual_lua::{Call, Host, LogLevel, ScriptFlags};
use punctual_resp::{Args, Chunks, Protocol, Reply};
use punctual_store::spec::Flags;
use punctual_store::{Error, Source};

use crate::acl::check::check;
use crate::client::registry::ClientInfo;
use crate::dispatch::admission::ScriptLimits;
use crate::dispatch::{Dispatcher, find};
use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::reclaim::limit::OUT_OF_MEMORY;
use crate::script::running::BusyScript;
use crate::session::{Runnable, ScriptRequest, Session};
use crate::table::Entry;

/// Maximum length of a reply to a command of a script, in bytes: the memory limit of scripts.
const CALL_REPLY_MAX: usize = 1 << 30;

impl Dispatcher<'_, '_> {
    /// Runs a client's script with the arguments of EVAL, or a function with the arguments of
    /// FCALL, and appends its reply.
    ///
    /// # Errors
    /// The error to reply and to count.
    pub(crate) fn run_script(
        &mut self,
        client: &mut Session,
        entry: &'static Entry,
        request: ScriptRequest,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let nested = self.turn.source().is_nested();
        let flags = match &request.script {
            Runnable::Script(index) => self.scripts.compiled[*index].flags,
            Runnable::Function(found) => Some(found.declaration().flags),
            Runnable::Handler => None,
        };
        self.check_script(nested, flags)?;
        let declares = |flag| flags.is_some_and(|flags| flags.has(flag));
        if let Runnable::Handler = request.script {
            return self.run_handler(client, entry, args, out);
        }
        if self.shared.clients.monitors.any() {
            // Monitors see the script before its commands.
            self.feed_monitors(client, entry, args);
        }
        let start = self.command_start;
        let errors = self.stats.errors.get();
        // The interpreters are moved out of `self`, which the script's commands borrow. A script
        // cannot run another script.
        let compiled = std::mem::take(&mut self.scripts.compiled);
        let mut interpreter = self.scripts.interpreter.take();
        let mut engine = self.scripts.functions.engine.take();
        let (name, is_function) = match &request.script {
            Runnable::Script(index) => (&*compiled[*index].name, false),
            Runnable::Function(found) => (&*found.declaration().name, true),
            Runnable::Handler => (&*entry.name, false),
        };
        let call = Call {
            name,
            keys: args.skip(3).take(request.keys),
            argv: args.skip(3 + request.keys),
        };
        let limits = ScriptLimits {
            read_only: request.read_only || declares(ScriptFlags::NO_WRITES),
            allows_oom: declares(ScriptFlags::ALLOW_OOM),
            // A script without flags has no shebang.
            crosses_slots: flags.is_none() || declares(ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
            slot: call.keys.iter().next().map(slot::of_key),
            wrote: false,
        };
        let script = Script {
            name,
            is_function,
            args,
        };
        let (info, protocol) = (Arc::clone(&client.info), client.protocol);
        let run = |this: &mut Self, session: &mut Session, chunks: Option<&mut Chunks>, max| {
            let mut host = ScriptHost {
                calls: ScriptCalls::new(this, session, &info, script),
                replied_errors: false,
            };
            let mut reply = Reply::chunked(&mut *out, chunks, max, protocol);
            let result = match (&request.script, &mut interpreter, &mut engine) {
                (Runnable::Script(index), Some(interpreter), _) => {
                    interpreter.run(&compiled[*index].script, &call, &mut host, &mut reply)
                }
                (Runnable::Function(found), _, Some(engine)) => {
                    engine.call(found, &call, &mut host, &mut reply)
                }
                _ => unreachable!("the handler of EVAL or FCALL has created the interpreter"),
            };
            (result, host.calls.busy, host.replied_errors)
        };
        let (mut result, busy, mut failed) = self.as_script(client, call.keys.iter(), limits, run);
        self.end_script(busy);
        if let Some(engine) = &engine {
            self.stats.count_functions(engine.memory());
        }
        if let Some(interpreter) = &interpreter {
            self.stats.count_scripts(interpreter.memory());
        }
        self.scripts.compiled = compiled;
        self.scripts.interpreter = interpreter;
        self.scripts.functions.engine = engine;
        // The duration of the script includes its commands.
        self.command_start = start;
        if let Err(failure) = result.as_ref()
            && failure.counted
        {
            Reply::new(out, client.protocol).error(&failure.text);
            result = Ok(());
            failed = true;
        }
        if failed {
            self.stats.by_command[entry.id].failed.add(1);
        }
        // The caller counts the error that this function returns. CONFIG RESETSTAT on another loop
        // may have set the count to 0.
        let counted = self.stats.errors.get().saturating_sub(errors);
        self.script_errors.own += counted + u64::from(result.is_err());
        result.map_err(|failure| Error::Bytes(failure.text.into()))
    }
}

impl Dispatcher<'_, '_> {
    /// Calls `run` with a session for commands that run atomically: no other client sees the
    /// keyspace between them. The shards of `keys` are locked first. `run` also gets the client's
    /// output before the current buffer, and the maximum length of the client's reply.
    pub(super) fn as_script<'k, R>(
        &mut self,
        client: &mut Session,
        keys: impl Iterator<Item = &'k [u8]>,
        limits: ScriptLimits,
        run: impl FnOnce(&mut Self, &mut Session, Option<&mut Chunks>, usize) -> R,
    ) -> R {
        let nested = self.turn.source().is_nested();
        if !nested {
            self.turn.pin_and_grow(keys);
        }
        let outer = self.turn.enter(Source::Script);
        self.turn.begin_frame();
        let mut session = self.scripts.take_session(self.loop_number, client);
        // Replies to the script's commands are not output of the client.
        let mut chunks = self.chunks.replace(Chunks::default());
        let reply_max = std::mem::replace(&mut self.reply_max, CALL_REPLY_MAX);
        let before = std::mem::replace(&mut self.script, limits);
        let result = run(self, &mut session, chunks.as_mut(), reply_max);
        let wrote = std::mem::replace(&mut self.script, before).wrote;
        self.script.wrote |= wrote;
        self.chunks = chunks;
        self.reply_max = reply_max;
        session.swap_users(client);
        self.scripts.session = Some(session);
        self.turn.end_frame();
        self.turn.leave(outer);
        if !nested {
            self.turn.unpin();
        }
        result
    }

    /// Ends the busy state of a script that has ended.
    pub(super) fn end_script(&self, busy: bool) {
        if busy {
            self.shared.scripting.running.end_busy();
            self.shared.gate.set(Reason::Busy, false);
            // Loops may have delayed work during the script.
            self.shared.order_all(|| Order::Resume);
        }
    }

    /// Checks whether a script with these flags may run. `nested` says whether it runs in EXEC or a
    /// timer.
    fn check_script(&self, nested: bool, flags: Option<ScriptFlags>) -> Result<(), Error> {
        if self.shared.gate.is_closed()
            && let Some(refusal) = self.refusal_of_script(flags)
        {
            return Err(refusal);
        }
        let refuses = |flags: ScriptFlags| {
            !flags.has(ScriptFlags::ALLOW_OOM) && !flags.has(ScriptFlags::NO_WRITES)
        };
        if self.out_of_memory && flags.is_some_and(refuses) {
            // EXEC itself has been accepted, so Redis refuses its script with another text.
            return Err(match nested {
                false => OUT_OF_MEMORY,
                true => Error::fixed(
                    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
                ),
            });
        }
        Ok(())
    }
}

/// A running script, or a running command of the embedding program.
#[derive(Clone, Copy)]
pub(super) struct Script<'h> {
    /// Name for the log.
    pub(super) name: &'h str,
    pub(super) is_function: bool,
    /// The arguments of the client's command.
    pub(super) args: Args<'h>,
}

/// The commands of a script, or of a handler of the embedding program.
pub(super) struct ScriptCalls<'h, 'a, 's> {
    dispatcher: &'h mut Dispatcher<'a, 's>,
    /// Session of the script's own commands.
    session: &'h mut Session,
    /// Client that runs the script, for ACL LOG.
    caller: &'h ClientInfo,
    script: Script<'h>,
    /// Reading of the dispatcher's `clock` at the start of the script.
    began: u64,
    /// Nanoseconds from the start until clients were last served.
    served: u64,
    /// `busy-reply-threshold` in nanoseconds, read at the script's first interrupt.
    busy_after: Option<u64>,
    /// Whether the script has run for longer than the threshold.
    pub(super) busy: bool,
}

/// The server, as a running script sees it.
struct ScriptHost<'h, 'a, 's> {
    calls: ScriptCalls<'h, 'a, 's>,
    /// Whether the script has returned an error, or a table that contains an error.
    replied_errors: bool,
}

impl<'h, 'a, 's> ScriptCalls<'h, 'a, 's> {
    pub(super) fn new(
        dispatcher: &'h mut Dispatcher<'a, 's>,
        session: &'h mut Session,
        caller: &'h ClientInfo,
        script: Script<'h>,
    ) -> Self {
        Self {
            began: dispatcher.command_start,
            dispatcher,
            session,
            caller,
            script,
            served: 0,
            busy_after: None,
            busy: false,
        }
    }

    /// Returns the row of the command to run.
    ///
    /// # Errors
    /// The error, with the row if the command exists.
    fn admit(&mut self, args: Args<'_>) -> Result<&'static Entry, (Option<&'static Entry>, Error)> {
        let shared = self.dispatcher.shared;
        let entry = find(shared, self.session, args).map_err(|(entry, _)| {
            let error = match entry {
                Some(_) => "ERR Wrong number of args calling Redis command from script",
                None => "ERR Unknown Redis command called from script",
            };
            (entry, Error::fixed(error))
        })?;
        let source = Source::Script;
        match self.dispatcher.admit(source, self.session, entry, args) {
            Ok(_) => Ok(entry),
            Err(refusal) => {
                let (dispatcher, info) = (&self.dispatcher, self.caller);
                dispatcher.log_refusal(&refusal, source, info, self.session, entry, args);
                Err((Some(entry), refusal.error))
            }
        }
    }

    /// Runs a command and appends its reply.
    pub(super) fn call(&mut self, args: Args, protocol: Protocol, reply: &mut Vec<u8>) {
        self.session.protocol = protocol;
        self.dispatcher.command_start = self.dispatcher.clock.raw();
        match self.admit(args) {
            Ok(entry) => {
                if !self.dispatcher.script.wrote && entry.row.flags.has(Flags::WRITE) {
                    if self.busy && !self.dispatcher.shared.scripting.running.begin_writing() {
                        return Reply::new(reply, protocol).error(format!("ERR {KILLED}"));
                    }
                    self.dispatcher.script.wrote = true;
                }
                self.dispatcher.execute(self.session, entry, args, reply);
                if let Some(chunks) = &mut self.dispatcher.chunks {
                    if chunks.take_cut() {
                        chunks.truncate(reply, 0);
                        return Reply::new(reply, protocol).error("ERR not enough memory");
                    }
                    chunks.join(reply);
                }
            }
            Err((entry, error)) => {
                if let Some(entry) = entry {
                    let stats = &self.dispatcher.stats.by_command[entry.id];
                    stats.rejected.add(1);
                }
                self.dispatcher.write_error(self.session, &error, reply);
                let refused = &mut self.dispatcher.script_errors.refused;
                refused.get_or_insert(error);
            }
        }
    }

    /// Returns an error if the script must end. Serves other clients if the script is busy.
    pub(super) fn interrupt(&mut self) -> Option<&'static str> {
        let shared: &Shared = self.dispatcher.shared;
        let after = *self.busy_after.get_or_insert_with(|| {
            let ms = shared.settings().busy_reply_threshold_ms;
            if ms == 0 {
                u64::MAX
            } else {
                ms.saturating_mul(1_000_000)
            }
        });
        let clock = self.dispatcher.clock;
        let elapsed = clock.delta_as_nanos(self.began, clock.raw());
        if elapsed > after {
            if !std::mem::replace(&mut self.busy, true) {
                log::warning!(
                    shared.logger,
                    "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the {} KILL command. Script name is: {}.",
                    elapsed / 1_000_000,
                    if self.script.is_function {
                        "FUNCTION"
                    } else {
                        "SCRIPT"
                    },
                    self.script.name
                );
                let about = BusyScript {
                    function: self.script.is_function.then(|| self.script.name.to_owned()),
                    command: self.script.args.iter().map(<[u8]>::to_vec).collect(),
                    began_ms: self.dispatcher.turn.now.read_ms(),
                };
                shared
                    .scripting
                    .running
                    .begin_busy(about, self.dispatcher.script.wrote);
                shared.gate.set(Reason::Busy, true);
            }
            if elapsed >= self.served + SERVICE_NS
                && let Some(background) = &mut self.dispatcher.background
            {
                background.serve_clients();
                self.served = elapsed;
            }
            if shared.scripting.running.is_killed() {
                return Some(KILLED);
            }
        }
        // The server stops, and its last snapshot is complete, so the script's changes would be
        // lost.
        let stopping = shared.stopping.load(Ordering::Acquire);
        stopping.then_some(KILLED)
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(&mut self, args: Args, protocol: Protocol, reply: &mut Vec<u8>) {
        self.calls.call(args, protocol, reply);
    }

    fn replied_error(&mut self, text: &[u8], counted: bool) {
        self.replied_errors = true;
        if !counted {
            self.calls
                .dispatcher
                .count_error(&Error::Bytes(text.into()));
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        crate::script::log(&self.calls.dispatcher.shared.logger, level, text);
    }

    fn acl_check(&mut self, args: Args) -> Option<bool> {
        match find(self.calls.dispatcher.shared, self.calls.session, args) {
            // The number of arguments is not checked.
            Ok(entry) | Err((Some(entry), _)) => {
                let session = &*self.calls.session;
                Some(check(&session.user, entry, args, session.db).is_ok())
            }
            Err((None, _)) => None,
        }
    }

    fn interrupt(&mut self) -> Option<&'static str> {
        self.calls.interrupt()
    }
}

/// Minimum time in nanoseconds between two calls of `serve_clients`.
const SERVICE_NS: u64 = 1_000_000;
/// Error of a killed script.
const KILLED: &str = "Script killed by user with SCRIPT KILL...";
