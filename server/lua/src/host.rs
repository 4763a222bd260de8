//! The interface between scripts and the server.

use punctual_resp::{Args, Protocol};

/// Severity of a line that a script logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`.
    Debug,
    /// `redis.LOG_VERBOSE`.
    Verbose,
    /// `redis.LOG_NOTICE`.
    Notice,
    /// `redis.LOG_WARNING`.
    Warning,
}

/// The operations of the server that a running script can use.
pub trait Host {
    /// Runs a command, and appends exactly one reply in `protocol`, which may be an error.
    fn call(&mut self, args: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>);

    /// Called for each error in the reply of a script, for the statistics of errors. `counted` is
    /// true for the error reply of a command, which the server has counted when
    /// [`call`](Host::call) returned it. Does nothing by default.
    fn replied_error(&mut self, text: &[u8], counted: bool) {
        let _ = (text, counted);
    }

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Returns whether the client may run a command, or `None` if there is no such command. Returns
    /// true by default.
    fn acl_check(&mut self, args: Args<'_>) -> Option<bool> {
        let _ = args;
        Some(true)
    }

    /// Returns the error with which the script must end now, or `None` if it may continue. Called
    /// every 10,000 instructions of Lua; work of native functions counts as instructions. After it
    /// has returned an error, it is called at each instruction until the script ends.
    fn interrupt(&mut self) -> Option<&'static str>;
}
