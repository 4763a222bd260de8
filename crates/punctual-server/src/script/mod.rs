//! Scripts: EVAL and its family.
//!
//! The *cache* of sources by SHA1 is shared by all loops. Each loop has an interpreter of its own and compiles a script when it
//! first needs it, so scripts of several loops run side by side as far as locks allow. A script runs like the commands of
//! a transaction: at one instant, with the shards pinned.

pub(crate) mod cache;
pub(crate) mod compiled;
pub(crate) mod functions;
mod host;
pub(crate) mod running;
mod shebang;

use punctual_lua::LogLevel;

use crate::log::{Level, Logger};

/// Writes a line of a script to the log.
fn log(logger: &Logger, level: LogLevel, text: &[u8]) {
    let level = match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warning => Level::Warning,
    };
    logger.write(level, format_args!("{}", String::from_utf8_lossy(text)));
}
