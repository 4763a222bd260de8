//! What can stop the comparison.

/// Why the comparison could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A table or plot that could not be written.
    #[error(transparent)]
    Figures(#[from] punctual_figures::Error),
    /// Nobody of that name takes part.
    #[error("no contender's name contains {given:?}; there are: {names}")]
    Nobody { given: String, names: String },
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
