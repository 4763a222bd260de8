//! Execution of the commands of the embedding program. See [`crate::script::handler`].

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, UNIX_EPOCH};

use punctual_resp::{Args, Chunks, OwnedArgs, Protocol, Reply, Value, decode};
use punctual_store::{Error, Source};

use crate::dispatch::Dispatcher;
use crate::dispatch::admission::ScriptLimits;
use crate::dispatch::script::{Script, ScriptCalls};
use crate::log;
use crate::script::handler::{Calls, InHandler, Invocation};
use crate::session::Session;
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Runs the handler of a command of the embedding program, and appends its reply.
    ///
    /// # Errors
    /// The error to reply and to count.
    pub(super) fn run_handler(
        &mut self,
        client: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(handler) = self.shared.embedder_handlers.get(entry.row.name) else {
            return Err(Error::fixed("ERR the command has no handler"));
        };
        if self.shared.clients.monitors.any() {
            self.feed_monitors(client, entry, args);
        }
        let mut keys = Vec::new();
        entry
            .row
            .keys
            .each(args, &mut |at| keys.extend(args.get(at)));
        let outer = match self.turn.source() {
            Source::Script => self.script,
            _ => ScriptLimits::default(),
        };
        let limits = ScriptLimits {
            read_only: outer.read_only || !entry.writes(),
            ..outer
        };
        let caller = std::sync::Arc::clone(&client.info);
        let micros = self.turn.now.micros();
        let (shared, start) = (self.shared, self.command_start);
        let was_busy = shared.scripting.running.is_busy();
        let script = Script {
            name: &entry.name,
            is_function: false,
            args,
        };
        let run = |this: &mut Self, session: &mut Session, _: Option<&mut Chunks>, _| {
            let mut calls = HandlerCalls {
                calls: ScriptCalls::new(this, session, &caller, script),
                is_calling: false,
                words: OwnedArgs::new(),
                reply: Vec::new(),
            };
            let now = UNIX_EPOCH + Duration::from_micros(micros);
            let run = AssertUnwindSafe(|| {
                let _marked = InHandler::enter();
                handler(&mut Invocation::new(args, now, &mut calls))
            });
            let value = match catch_unwind(run) {
                Ok(value) => value,
                // The server's own code has panicked, so its state is not known.
                Err(panic) if calls.is_calling => resume_unwind(panic),
                Err(_) => {
                    let name = &entry.name;
                    log::warning!(shared.logger, "The handler of '{name}' has panicked.");
                    Value::Error(format!("ERR the handler of '{name}' has panicked").into())
                }
            };
            (value, calls.calls.busy)
        };
        let (value, busy) = self.as_script(client, keys.into_iter(), limits, run);
        self.end_script(busy && !was_busy);
        // The duration of the command includes the commands that its handler has called.
        self.command_start = start;
        if let Value::Error(text) | Value::BulkError(text) = value {
            return Err(Error::Bytes(text.into()));
        }
        let aside = self.chunks.as_mut();
        Reply::chunked(out, aside, self.reply_max, client.protocol).value(&value);
        Ok(())
    }
}

/// The server, as a running handler sees it.
struct HandlerCalls<'h, 'a, 's> {
    calls: ScriptCalls<'h, 'a, 's>,
    /// True while the server's own code runs.
    is_calling: bool,
    words: OwnedArgs,
    reply: Vec<u8>,
}

impl Calls for HandlerCalls<'_, '_, '_> {
    fn call(&mut self, args: &[&[u8]]) -> Value {
        self.words.clear();
        for arg in args {
            if let Err(error) = self.words.push(arg) {
                return Value::Error(format!("ERR {error}").into());
            }
        }
        if args.is_empty() {
            return Value::Error(b"ERR a command needs a name".to_vec());
        }
        self.reply.clear();
        self.is_calling = true;
        let calls = &mut self.calls;
        calls.call(self.words.as_args(), Protocol::Resp3, &mut self.reply);
        self.is_calling = false;
        match decode(&self.reply) {
            Ok(Some((value, _))) => value,
            Ok(None) => Value::Null,
            Err(error) => Value::Error(format!("ERR cannot decode the reply: {error}").into()),
        }
    }
    fn interrupted(&mut self) -> Option<Value> {
        self.is_calling = true;
        let error = self.calls.interrupt();
        self.is_calling = false;
        error.map(|error| Value::Error(format!("ERR {error}").into()))
    }
}
