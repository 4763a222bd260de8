//! Handlers of commands that the embedding program adds to the server.
//!
//! Such a command runs as a script does: atomically, on an event loop's thread, with the
//! permissions of its client. The handler changes the keyspace only by the commands that it calls,
//! and these commands go to the log of changes. Meanwhile the event loop waits, and so does every
//! other command that needs the same shards.

use std::cell::Cell;
use std::time::SystemTime;

use punctual_resp::{Args, Value};

/// Function that runs a command. It returns the reply; an error reply is a [`Value::Error`], whose
/// text begins with a code: `ERR no such room`.
pub(crate) type Handler = dyn Fn(&mut Invocation<'_>) -> Value + Send + Sync;

/// The server, as a handler sees it.
pub(crate) trait Calls {
    /// Runs a command as part of the handler's command. Returns its reply.
    fn call(&mut self, args: &[&[u8]]) -> Value;

    /// Returns an error if the handler's command must end; see [`Invocation::interrupted`].
    fn interrupted(&mut self) -> Option<Value>;
}

/// A running command of the embedding program.
pub struct Invocation<'i> {
    args: Args<'i>,
    now: SystemTime,
    calls: &'i mut dyn Calls,
}

impl<'i> Invocation<'i> {
    pub(crate) fn new(args: Args<'i>, now: SystemTime, calls: &'i mut dyn Calls) -> Self {
        Self { args, now, calls }
    }

    /// Returns the arguments, beginning with the command's name.
    pub fn args(&self) -> impl Iterator<Item = &'i [u8]> + use<'i> {
        self.args.iter()
    }

    /// Returns an argument; the command's name is at 0.
    pub fn arg(&self, at: usize) -> Option<&'i [u8]> {
        self.args.get(at)
    }

    /// Returns the instant at which the command runs, by the server's clock. Keys expire by this
    /// instant until the command ends.
    pub fn now(&self) -> SystemTime {
        self.now
    }

    /// Runs a command of the server as part of this one, with the permissions of the client.
    /// Returns its reply, which has the types of RESP3. A command that would wait replies that it
    /// found nothing.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        self.calls.call(&args)
    }

    /// Returns the error to reply if the command must end: by SCRIPT KILL, or because the server
    /// stops. A handler that takes longer than a few milliseconds should call this every few
    /// milliseconds: after `busy-reply-threshold` the event loop serves its other clients within
    /// this call. They get the error BUSY, as during a slow script.
    pub fn interrupted(&mut self) -> Option<Value> {
        self.calls.interrupted()
    }
}

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
    /// The thread has taken a request that has no reply yet; see [`crate::script::requests`].
    static RUNS_REQUEST: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as running a handler until this value is dropped.
pub(crate) struct InHandler(bool);

impl InHandler {
    pub(crate) fn enter() -> Self {
        Self(RUNS.replace(true))
    }

    /// Sets whether the current thread has a request without a reply.
    pub(crate) fn set_request(has_one: bool) {
        RUNS_REQUEST.set(has_one);
    }

    /// Returns true if the current thread runs a handler, and so must not wait for an event loop.
    #[inline]
    pub(crate) fn is_current() -> bool {
        RUNS.get() || RUNS_REQUEST.get()
    }
}

impl Drop for InHandler {
    fn drop(&mut self) {
        RUNS.set(self.0);
    }
}
