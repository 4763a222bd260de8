//! Scripts: EVAL and related commands, and the state that loops share about them.
//!
//! - The [`cache::Cache`] of sources by SHA1 is shared; interpreters are not. Each loop has its own
//!   and compiles a script when it first needs it. After SCRIPT FLUSH, each loop drops its compiled
//!   scripts.
//! - A script runs like the commands of a transaction, at one instant. It begins with the shards of
//!   its declared keys locked, locks more when a command needs them, and keeps all to its end, so
//!   it is atomic. The additional locks are not in ascending order. So only one script runs at a
//!   time, and other turns give way to it ([`running::Running`]).
//! - Each command of a script is admitted and executed like a client's command
//!   (`dispatch/script.rs`), and may not wait.
//! - Lua calls `Host::interrupt` at regular intervals. After `busy-reply-threshold` the script's
//!   loop serves its other clients within that call. The loop runs only the commands that Redis
//!   allows during a busy script. A killed script gets an error on each further line, so it cannot
//!   continue after a `pcall` that catches the error.

pub(crate) mod cache;
pub(crate) mod functions;
pub(crate) mod handler;
pub(crate) mod requests;
pub(crate) mod running;
pub(crate) mod shebang;

use punctual_lua::{LogLevel, Options};

use crate::log::{Level, Logger};
use cache::Cache;
use functions::registry::Registry;
use running::Running;

/// State of the scripts and functions of a server.
#[derive(Default)]
pub(crate) struct Scripting {
    /// Scripts by SHA1.
    pub(crate) cache: Cache,
    /// The running script, and the loops that wait for it.
    pub(crate) running: Running,
    /// Libraries of functions.
    pub(crate) functions: Registry,
}

/// Returns the options of every interpreter. `version` is the Redis version that scripts see.
pub(crate) fn options(version: &'static str) -> Options {
    Options {
        version,
        ..Options::default()
    }
}

/// Writes a message from a script to the log.
pub(crate) fn log(logger: &Logger, level: LogLevel, text: &[u8]) {
    let level = match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warning => Level::Warning,
    };
    logger.write(level, format_args!("{}", String::from_utf8_lossy(text)));
}
