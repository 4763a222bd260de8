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

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Returns the error with which the script must end now. Asked every 100,000 instructions.
    fn interrupt(&mut self) -> Option<&'static str>;
}
