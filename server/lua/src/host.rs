//! What a script can reach of the server.

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

/// The server, as a running script sees it.
pub trait Host {
    /// Runs a command, and appends exactly one reply in `protocol`. An error is a reply too.
    fn call(&mut self, args: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>);

    /// Hears of an error in the value that the script returns. `counted` is true for the error of a
    /// command, whose reply the host has seen.
    fn replied_error(&mut self, text: &[u8], counted: bool) {
        let _ = (text, counted);
    }

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Returns whether the client may run a command, or `None` if there is no such command. By
    /// default it may run all.
    fn acl_check(&mut self, args: Args<'_>) -> Option<bool> {
        let _ = args;
        Some(true)
    }

    /// Returns the error with which the script must end now. Asked every 10,000 instructions, or
    /// after as much other work.
    fn interrupt(&mut self) -> Option<&'static str>;
}
