//! Errors of the comparison.

/// Reason why the comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A table or plot cannot be written.
    #[error(transparent)]
    Figures(#[from] punctual_figures::Error),
    /// The thread that sleeps beside the run cannot be started.
    #[error("cannot start a thread: {0}")]
    Sleeper(std::io::Error),
    /// No contender has this name.
    #[error("no contender's name contains {given:?}; there are: {names}")]
    Nobody { given: String, names: String },
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
