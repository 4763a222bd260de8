//! What can stop the comparison.

use std::io;
use std::path::PathBuf;

/// Why the comparison could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of results.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A plot that could not be drawn.
    #[error("the plot {path} could not be drawn: {reason}")]
    Plot { path: PathBuf, reason: String },
    /// Nobody of that name takes part.
    #[error("no contender's name contains {given:?}; there are: {names}")]
    Nobody { given: String, names: String },
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
