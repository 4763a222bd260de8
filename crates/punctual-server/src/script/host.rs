//! Running a script: the commands that it calls go through the dispatcher as a client's do.

use std::sync::atomic::Ordering;

use punctual_lua::{Call, Host, LogLevel};
use punctual_resp::{Args, Protocol, Reply};
use punctual_store::Error;
use punctual_store::spec::Flags;

use crate::client::session::{ScriptRequest, Session};
use crate::dispatch::table::Entry;
use crate::dispatch::{Dispatcher, find};
use crate::log::Level;

impl Dispatcher<'_, '_> {
    /// Runs a script of a client with the arguments of EVAL, and appends its reply.
    ///
    /// # Errors
    /// The error to reply and to count.
    pub(crate) fn run_script(
        &mut self,
        client: &mut Session,
        entry: &'static Entry,
        request: ScriptRequest,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.shared.monitors.any() {
            // Monitors see the script before its commands.
            self.feed_monitors(client, entry, args);
        }
        let start = self.command_start;
        if !client.in_exec {
            self.turn.pin(None);
        }
        let could_wait = std::mem::replace(&mut self.turn.may_wait, false);
        let mut interpreter = self
            .scripts
            .interpreter
            .take()
            .expect("it has compiled the script");
        let mut session = self.scripts.take_session(self.loop_number);
        let compiled = std::mem::take(&mut self.scripts.compiled);
        session.db = client.db;
        session.no_touch = client.no_touch;
        let script = &compiled[request.script];
        let call = Call {
            name: &script.name,
            keys: args.skip(3).take(request.keys),
            argv: args.skip(3 + request.keys),
            protocol: client.protocol,
        };
        let mut host = ScriptHost {
            dispatcher: self,
            session: &mut session,
            read_only: request.read_only || script.flags.no_writes,
        };
        let result = interpreter.run(&script.script, &call, &mut host, out);
        self.scripts.compiled = compiled;
        self.scripts.session = Some(session);
        self.scripts.interpreter = Some(interpreter);
        self.turn.may_wait = could_wait;
        if !client.in_exec {
            self.turn.unpin();
        }
        // The script's time includes that of its commands.
        self.command_start = start;
        match result {
            Ok(()) => Ok(()),
            Err(failure) if failure.counted => {
                Reply::new(out, client.protocol).error(&failure.text);
                Ok(())
            }
            Err(failure) => Err(Error::Bytes(failure.text.into())),
        }
    }
}

/// The server as a running script sees it.
struct ScriptHost<'h, 'a, 's> {
    dispatcher: &'h mut Dispatcher<'a, 's>,
    session: &'h mut Session,
    read_only: bool,
}

impl ScriptHost<'_, '_, '_> {
    /// Returns the command to run.
    fn admit(&mut self, args: Args<'_>) -> Result<&'static Entry, Error> {
        let shared = self.dispatcher.shared;
        let entry = find(shared, self.session, args).map_err(|(entry, _)| match entry {
            Some(_) => Error::fixed("ERR Wrong number of args calling Redis command from script"),
            None => Error::fixed("ERR Unknown Redis command called from script"),
        })?;
        let flags = entry.row.flags;
        if flags.has(Flags::NOSCRIPT) {
            return Err(Error::fixed(
                "ERR This Redis command is not allowed from script",
            ));
        }
        if self.read_only && entry.writes() {
            return Err(Error::fixed(
                "ERR Write commands are not allowed from read-only scripts.",
            ));
        }
        if shared.gate_closed.load(Ordering::Relaxed)
            && let Some(error) = self.dispatcher.refusal(self.session, entry)
        {
            return Err(error);
        }
        Ok(entry)
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(&mut self, args: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>) {
        self.session.protocol = protocol;
        self.dispatcher.command_start = self.dispatcher.clock.raw();
        match self.admit(args) {
            Ok(entry) => {
                self.dispatcher.execute(self.session, entry, args, reply);
            }
            Err(error) => self.dispatcher.write_error(self.session, &error, reply),
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let level = match level {
            LogLevel::Debug => Level::Debug,
            LogLevel::Verbose => Level::Verbose,
            LogLevel::Notice => Level::Notice,
            LogLevel::Warning => Level::Warning,
        };
        let text = String::from_utf8_lossy(text);
        self.dispatcher
            .shared
            .logger
            .write(level, format_args!("{text}"));
    }

    fn interrupt(&mut self) -> Option<&'static str> {
        let stopping = self.dispatcher.shared.stopping.load(Ordering::Relaxed);
        stopping.then_some("Script killed because the server stops.")
    }
}
