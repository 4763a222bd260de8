//! Errors of the configuration, with Redis's texts.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Error of a configuration that cannot be read. `Display` is the text that the server prints
/// before it exits.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A line of a file, an option of the command line, or an option of the embedding program is
    /// invalid.
    #[error(
        "\n*** FATAL CONFIG FILE ERROR (Punctual {version}) ***\nReading {place}\n>>> '{line}'\n{reason}",
        version = env!("CARGO_PKG_VERSION")
    )]
    Line {
        /// The file or option that contains the line.
        place: Place,
        /// The line as written. For an argument: the equivalent line of a configuration file.
        line: String,
        /// The reason for which the line is invalid.
        reason: String,
    },
    /// A configuration file or standard input cannot be read.
    #[error("Fatal error, can't open config file '{}': {}", path.display(), io_reason(source))]
    Open {
        /// Path of the file, or `standard input`.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The current directory does not exist or may not be read.
    #[error("Can't tell the current directory: {}", io_reason(.0))]
    CurrentDirectory(io::Error),
}

/// Place of an invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a configuration text.
    File {
        /// Path of the file, or a name such as `standard input`.
        origin: String,
        /// Number of the line, counted from 1.
        line: usize,
    },
    /// An option of the command line, with its dashes.
    Argument(String),
    /// An option that a program sets for its embedded server.
    Program(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { origin, line } => {
                write!(f, "the configuration file, at line {line} of {origin}")
            }
            Self::Argument(name) => write!(f, "the command line, at {name}"),
            Self::Program(name) => write!(f, "the program's options, at {name}"),
        }
    }
}

/// Error of CONFIG SET. After an error, no value has changed. `Display` is Redis's error text
/// without its first word.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetError {
    /// No directive has this name.
    #[error("Unknown option or number of arguments for CONFIG SET - '{}'", String::from_utf8_lossy(.0))]
    Unknown(Vec<u8>),
    /// One of the directives may not change while the server loads its data at startup.
    #[error("Redis is loading the dataset in memory")]
    Loading,
    /// The directive may not be changed, is named twice, has an invalid value, or has a value that
    /// the server could not apply.
    #[error("CONFIG SET failed (possibly related to argument '{name}') - {reason}")]
    Refused {
        /// Name of the directive.
        name: String,
        /// The reason for which the change is refused.
        reason: String,
    },
}

impl SetError {
    /// Creates the error of a valid value that the server could not apply, such as a port in use.
    pub fn refused(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Refused {
            name: name.into(),
            reason: reason.into(),
        }
    }
}

/// Error of CONFIG REWRITE. After an error, the file is unchanged. `Display` is Redis's error text
/// after `ERR `.
#[derive(Debug, Error)]
pub enum RewriteError {
    /// The server was started without a file.
    #[error("The server is running without a config file")]
    NoFile,
    /// The file could not be read or replaced.
    #[error("Rewriting config file: {}", io_reason(.0))]
    Io(#[from] io::Error),
}

/// Returns the operating system's error text, as `strerror` gives it, without the error number.
pub(crate) fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
