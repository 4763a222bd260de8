//! Failures of the append-only file.

use std::io;

/// An operation that has failed.
pub(super) struct Failure {
    /// Description of the operation, for the log.
    pub(super) what: &'static str,
    pub(super) error: io::Error,
    /// Bytes that were written before the failure may be lost.
    pub(super) loses_writes: bool,
}

/// Turns the error of a sync into a failure.
pub(super) fn failed_sync(error: io::Error) -> Failure {
    Failure {
        loses_writes: true,
        ..failure("Fail to fsync the AOF file")(error)
    }
}

/// Returns the function that turns the error of an operation into a failure.
pub(super) fn failure(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure {
        what,
        error,
        loses_writes: false,
    }
}

/// Returns the text of an error as Redis shows it, without the error number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
