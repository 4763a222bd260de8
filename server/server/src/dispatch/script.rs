//! Running a script: the commands that it calls go through the dispatcher as a client's do.

use std::sync::atomic::Ordering;

use punctual_lua::{Call, Host, LogLevel, ScriptFlags};
use punctual_resp::{Args, Chunks, Protocol, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Keys};

use crate::acl::check::check;
use crate::acl::log::Context;
use crate::client::registry::ClientInfo;
use crate::dispatch::{Dispatcher, Flow, find};
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::reclaim::limit::OUT_OF_MEMORY;
use crate::script::running::About;
use crate::session::{Runnable, ScriptRequest, Session};
use crate::table::{Entry, Run};

/// Maximum length in bytes of a reply to a command of a script: as much as scripts may allocate.
const CALL_REPLY_MAX: usize = 1 << 30;

impl Dispatcher<'_, '_> {
    /// Runs a script of a client with the arguments of EVAL, or a function with those of FCALL, and appends its reply.
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
        let flags = match &request.script {
            Runnable::Script(index) => self.scripts.compiled[*index].flags,
            Runnable::Function(found) => Some(found.declaration().flags),
        };
        self.check_script(client, flags)?;
        let declares = |flag| flags.is_some_and(|flags| flags.has(flag));
        if self.shared.monitors.any() {
            // Monitors see the script before its commands.
            self.feed_monitors(client, entry, args);
        }
        let start = self.command_start;
        let errors = self.stats.errors.get();
        if !client.in_exec {
            self.turn
                .pin_and_grow(args.skip(3).take(request.keys).iter());
        }
        let could_wait = std::mem::replace(&mut self.turn.may_wait, false);
        self.turn.in_script = true;
        self.turn.begin_frame();
        let mut session = self.scripts.take_session(self.loop_number, client);
        // Replies to its commands are no output of the client.
        let mut chunks = self.chunks.replace(Chunks::default());
        let reply_max = std::mem::replace(&mut self.reply_max, CALL_REPLY_MAX);
        // What runs is taken out of `self`, which its commands need. No command among them runs another script.
        let compiled = std::mem::take(&mut self.scripts.compiled);
        let mut interpreter = self.scripts.interpreter.take();
        let mut engine = self.scripts.functions.engine.take();
        let (name, is_function) = match &request.script {
            Runnable::Script(index) => (&compiled[*index].name, false),
            Runnable::Function(found) => (&found.declaration().name, true),
        };
        let call = Call {
            name,
            keys: args.skip(3).take(request.keys),
            argv: args.skip(3 + request.keys),
        };
        let mut host = ScriptHost {
            dispatcher: self,
            session: &mut session,
            caller: &client.info,
            call: &call,
            is_function,
            args,
            read_only: request.read_only || declares(ScriptFlags::NO_WRITES),
            began: start,
            allows_oom: declares(ScriptFlags::ALLOW_OOM),
            wrote: false,
            busy: false,
            replied_errors: false,
            served: 0,
            busy_after: None,
        };
        let mut reply = Reply::chunked(&mut *out, chunks.as_mut(), reply_max, client.protocol);
        let mut result = match (&request.script, &mut interpreter, &mut engine) {
            (Runnable::Script(index), Some(interpreter), _) => {
                interpreter.run(&compiled[*index].script, &call, &mut host, &mut reply)
            }
            (Runnable::Function(found), _, Some(engine)) => {
                engine.call(found, &call, &mut host, &mut reply)
            }
            _ => unreachable!("the handler has loaded what runs"),
        };
        let (busy, mut failed) = (host.busy, host.replied_errors);
        if busy {
            self.shared.running.end_busy();
            self.shared.update_gate();
            // What was due meanwhile.
            self.shared.order_all(|| Order::Resume);
        }
        if let Some(engine) = &engine {
            self.stats.count_functions(engine.memory());
        }
        if let Some(interpreter) = &interpreter {
            self.stats.count_scripts(interpreter.memory());
        }
        self.chunks = chunks;
        self.reply_max = reply_max;
        self.scripts.compiled = compiled;
        self.scripts.interpreter = interpreter;
        self.scripts.functions.engine = engine;
        session.swap_users(client);
        self.scripts.session = Some(session);
        self.turn.end_frame();
        self.turn.may_wait = could_wait;
        self.turn.in_script = false;
        if !client.in_exec {
            self.turn.unpin();
        }
        // The script's time includes that of its commands.
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
        // The caller counts the error that this function returns. CONFIG RESETSTAT on another loop sets the count to 0.
        let counted = self.stats.errors.get().saturating_sub(errors);
        self.script_errors.own += counted + u64::from(result.is_err());
        result.map_err(|failure| Error::Bytes(failure.text.into()))
    }
}

impl Dispatcher<'_, '_> {
    /// Checks whether a script with these flags may run.
    fn check_script(&self, client: &Session, flags: Option<ScriptFlags>) -> Result<(), Error> {
        if self.shared.gate_closed.load(Ordering::Relaxed)
            && let Some(refusal) = self.refusal_of_script(client, flags)
        {
            return Err(refusal);
        }
        let refuses = |flags: ScriptFlags| {
            !flags.has(ScriptFlags::ALLOW_OOM) && !flags.has(ScriptFlags::NO_WRITES)
        };
        if self.out_of_memory && flags.is_some_and(refuses) {
            // EXEC has been accepted, so its script is refused in other words.
            return Err(match client.in_exec {
                false => OUT_OF_MEMORY,
                true => Error::fixed(
                    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
                ),
            });
        }
        Ok(())
    }

    /// Executes a command with several loops: after the script that runs on another one. A script begins when no other one
    /// runs.
    pub(crate) fn execute_beside_scripts(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        let flags = entry.row.flags;
        let runs = session.runs_scripts(entry);
        let locks = !(flags.has(Flags::KEYLESS) || flags.has(Flags::ALLOW_BUSY))
            || flags.has(Flags::EXECUTES)
            || flags.has(Flags::WATCHES);
        let running = &self.shared.running;
        let mut place = None;
        while if runs {
            !running.try_begin(place.as_ref())
        } else {
            locks && running.is_active() && !self.locks_at_once(entry, args)
        } {
            // The script may need a shard that this turn still holds.
            self.turn.release();
            if self.shared.stopping.load(Ordering::Acquire) {
                // The loop of the script may have ended by a panic.
                session.closing = true;
                return Flow::Done;
            }
            if running.is_busy() {
                // Commands that are served meanwhile must not stand behind this one.
                drop(place);
                if let Some(background) = &mut self.background {
                    background.serve_clients();
                }
                return self.reject(session, entry, args, &running.refusal(), out);
            }
            let place = place.get_or_insert_with(|| running.stand_in_line());
            match runs {
                true => place.wait_to_begin(),
                false => running.wait_briefly(),
            }
        }
        drop(place);
        self.turn.may_lock = locks || !running.is_active();
        let flow = self.execute(session, entry, args, out);
        if runs {
            self.turn.release();
            running.end();
        }
        flow
    }
}

impl Dispatcher<'_, '_> {
    /// Locks what a command needs, if that is known and free.
    fn locks_at_once(&mut self, entry: &Entry, args: Args) -> bool {
        match entry.run {
            Run::Keyspace(command) => {
                !matches!(command.keys, Keys::None) && self.turn.try_lock_for(command, args)
            }
            _ => false,
        }
    }
}

/// The server as a running script sees it.
struct ScriptHost<'h, 'a, 's> {
    dispatcher: &'h mut Dispatcher<'a, 's>,
    session: &'h mut Session,
    caller: &'h ClientInfo,
    call: &'h Call<'h>,
    is_function: bool,
    /// The client's command.
    args: Args<'h>,
    read_only: bool,
    /// Stopwatch reading at the start.
    began: u64,
    /// The script may run without memory.
    allows_oom: bool,
    wrote: bool,
    /// The script has returned an error as its value, or as a part of it.
    replied_errors: bool,
    /// The script has run for longer than the threshold.
    busy: bool,
    /// Time from the start until clients were last served, in ns.
    served: u64,
    /// `busy-reply-threshold` in ns, read when the script is first interrupted.
    busy_after: Option<u64>,
}

impl ScriptHost<'_, '_, '_> {
    /// Returns the command to run.
    ///
    /// # Errors
    /// The error, and the command if there is one.
    fn admit(&mut self, args: Args<'_>) -> Result<&'static Entry, (Option<&'static Entry>, Error)> {
        let shared = self.dispatcher.shared;
        let entry = find(shared, self.session, args).map_err(|(entry, _)| {
            let error = match entry {
                Some(_) => "ERR Wrong number of args calling Redis command from script",
                None => "ERR Unknown Redis command called from script",
            };
            (entry, Error::fixed(error))
        })?;
        let flags = entry.row.flags;
        let refusal = if flags.has(Flags::NOSCRIPT) && !may_call_refused(shared, flags) {
            Some(Error::fixed(
                "ERR This Redis command is not allowed from script",
            ))
        } else if self.session.restricted
            && let Err(denied) = check(&self.session.user, entry, args)
        {
            let user = &self.session.user;
            shared.log_denial(self.caller, user, denied, Context::Lua, entry, args);
            Some(denied.error_in_script())
        } else if self.read_only && entry.writes() {
            Some(Error::fixed(
                "ERR Write commands are not allowed from read-only scripts.",
            ))
        } else if self.dispatcher.out_of_memory
            // A script that has written is not stopped halfway.
            && !self.wrote
            && !self.allows_oom
            && flags.has(Flags::DENYOOM)
        {
            Some(OUT_OF_MEMORY)
        } else if shared.gate_closed.load(Ordering::Relaxed) && !self.session.replays {
            let refusal = self.dispatcher.refusal(self.session, entry, args);
            refusal.map(|error| match error.bytes() {
                text if text.starts_with(b"MASTERDOWN") => {
                    Error::fixed("ERR Can not execute the command on a stale replica")
                }
                _ => error,
            })
        } else {
            None
        };
        match refusal {
            None => Ok(entry),
            Some(error) => Err((Some(entry), error)),
        }
    }
}

/// Returns whether DEBUG lets scripts call a command that is refused in scripts. A script is executed as a transaction is, so
/// this excludes the commands that transactions exclude.
fn may_call_refused(shared: &Shared, flags: Flags) -> bool {
    let excluded = [Flags::NO_MULTI, Flags::UNQUEUED, Flags::RUNS_SCRIPTS];
    shared.switches.scripts_call_all.load(Ordering::Relaxed)
        && !excluded.iter().any(|flag| flags.has(*flag))
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(&mut self, args: Args, protocol: Protocol, reply: &mut Vec<u8>) {
        self.session.protocol = protocol;
        self.dispatcher.command_start = self.dispatcher.clock.raw();
        match self.admit(args) {
            Ok(entry) => {
                if !self.wrote && entry.row.flags.has(Flags::WRITE) {
                    if self.busy && !self.dispatcher.shared.running.begin_writing() {
                        return Reply::new(reply, protocol).error(format!("ERR {KILLED}"));
                    }
                    self.wrote = true;
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

    fn replied_error(&mut self, text: &[u8], counted: bool) {
        self.replied_errors = true;
        if !counted {
            self.dispatcher.count_error(&Error::Bytes(text.into()));
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        crate::script::log(&self.dispatcher.shared.logger, level, text);
    }

    fn acl_check(&mut self, args: Args) -> Option<bool> {
        match find(self.dispatcher.shared, self.session, args) {
            // The number of arguments is not checked.
            Ok(entry) | Err((Some(entry), _)) => {
                Some(check(&self.session.user, entry, args).is_ok())
            }
            Err((None, _)) => None,
        }
    }

    fn interrupt(&mut self) -> Option<&'static str> {
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
                    if self.is_function {
                        "FUNCTION"
                    } else {
                        "SCRIPT"
                    },
                    self.call.name
                );
                let about = About {
                    function: self.is_function.then(|| self.call.name.to_owned()),
                    command: self.args.iter().map(<[u8]>::to_vec).collect(),
                    began_ms: self.dispatcher.turn.now.read_ms(),
                };
                shared.running.begin_busy(about, self.wrote);
                shared.update_gate();
            }
            if elapsed >= self.served + SERVICE_NS
                && let Some(background) = &mut self.dispatcher.background
            {
                background.serve_clients();
                self.served = elapsed;
            }
            if shared.running.is_killed() {
                return Some(KILLED);
            }
        }
        // The last snapshot, if there is one, has been written before: nothing keeps what the script has changed.
        let stopping = shared.stopping.load(Ordering::Acquire);
        stopping.then_some(KILLED)
    }
}

/// Time between two services of a busy loop's clients, in ns.
const SERVICE_NS: u64 = 1_000_000;
/// Error of a script that was killed.
const KILLED: &str = "Script killed by user with SCRIPT KILL...";
