//! Output of the benchmarks: tables, CSV files, SVG plots, and the description of the machine.
//!
//! Two programs use this crate: `punctual-bench`, and the comparison of timers in
//! `benchmarks/timers/`, which is a separate workspace.
#![forbid(unsafe_code)]

pub mod bar;
pub mod csv;
pub mod machine;
pub mod plot;
pub mod sleeper;
pub mod spread;
pub mod table;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

/// The error of an operation that writes results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of results could not be created or written.
    #[error("{path}: {source}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A plot could not be drawn.
    #[error("the plot {path} could not be drawn: {reason}")]
    Plot {
        /// The plot's file.
        path: PathBuf,
        /// Error text of the plotter.
        reason: String,
    },
}

impl Error {
    /// Creates the error of an operation on the file or directory at `path`.
    fn file(path: &Path, source: io::Error) -> Self {
        Error::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Creates a directory for results, and its parents.
///
/// # Errors
/// [`Error::File`] if the operating system refuses.
pub fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::file(path, source))
}

/// Appends text to a file, which is created if it does not exist.
///
/// # Errors
/// [`Error::File`] if the operating system refuses.
pub fn append(path: &Path, text: &str) -> Result<()> {
    let options = OpenOptions::new().create(true).append(true).open(path);
    options
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| Error::file(path, source))
}

/// Creates a progress bar on standard error, which is hidden if standard error is not a terminal.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) =
        ProgressStyle::with_template("{msg:<48!} {wide_bar} {human_pos}/{human_len} {eta:>4}")
    {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
