//! Errors of a benchmark.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that prevents or ends a benchmark.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No server answers at an address.
    #[error("no server answers at {addr}: {source}; is it running?")]
    Connect { addr: SocketAddr, source: io::Error },
    /// An established connection failed.
    #[error("{doing} {addr}: {source}")]
    Broken {
        doing: &'static str,
        addr: SocketAddr,
        source: io::Error,
    },
    /// The server sent malformed replies.
    #[error("{addr} sent something that is not RESP: {reason}")]
    NotResp { addr: SocketAddr, reason: String },
    /// The server replied with an error or an unexpected value.
    #[error("{addr} answered {command} with: {answer}")]
    Refused {
        addr: SocketAddr,
        command: String,
        answer: String,
    },
    /// A program could not be started.
    #[error("{program} cannot be started: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// A server could not be started.
    #[error(transparent)]
    Launch(#[from] punctual_harness::LaunchError),
    /// No server is left to measure.
    #[error("there is no server to measure: {0}")]
    NoServer(String),
    /// Options with which the benchmark cannot run.
    #[error("{0}")]
    Options(String),
    /// The run did not measure what it should.
    #[error("the run is not valid: {0}")]
    Invalid(String),
    /// A table or plot could not be written.
    #[error(transparent)]
    Figures(#[from] punctual_figures::Error),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        doing: &'static str,
        source: io::Error,
    },
}

impl Error {
    /// Returns a function from a system's error to [`Error::System`].
    pub(crate) fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    /// Returns a function from a connection's error to [`Error::Broken`].
    pub(crate) fn broken(doing: &'static str, addr: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |source| Self::Broken {
            doing,
            addr,
            source,
        }
    }
}

/// `Result` with this crate's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;
