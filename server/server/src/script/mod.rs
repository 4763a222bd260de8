//! Scripts: EVAL and its family.
//!
//! The *cache* of sources by SHA1 is shared by all loops. Each loop has an interpreter of its own
//! and compiles a script when it first needs it. A script runs like the commands of a transaction:
//! at one instant, with its shards pinned. One script runs at a time on the server.

pub(crate) mod cache;
pub(crate) mod functions;
pub(crate) mod running;
pub(crate) mod shebang;

use punctual_lua::{LogLevel, Options};

use crate::log::{Level, Logger};
use cache::Cache;
use functions::registry::Registry;
use running::Running;

/// Scripts and functions of a server.
#[derive(Default)]
pub(crate) struct Scripting {
    /// Scripts by SHA1.
    pub(crate) cache: Cache,
    /// The script that runs.
    pub(crate) running: Running,
    /// Libraries of functions.
    pub(crate) functions: Registry,
}

/// Returns the options of each interpreter. `version` is the Redis version that scripts see.
pub(crate) fn options(version: &'static str) -> Options {
    Options {
        version,
        ..Options::default()
    }
}

/// Writes a line of a script to the log.
pub(crate) fn log(logger: &Logger, level: LogLevel, text: &[u8]) {
    let level = match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warning => Level::Warning,
    };
    logger.write(level, format_args!("{}", String::from_utf8_lossy(text)));
}
