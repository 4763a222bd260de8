//! What can stop a benchmark.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a benchmark could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An address that names no host and port.
    #[error("--addr {given}: {reason}; write it as host:port, for example 127.0.0.1:6379")]
    Address { given: String, reason: String },
    /// Nobody answers there.
    #[error("no server answers at {addr}: {source}; is it running?")]
    Connect { addr: SocketAddr, source: io::Error },
    /// The connection broke while it was in use.
    #[error("{doing} {addr}: {source}")]
    Broken {
        doing: &'static str,
        addr: SocketAddr,
        source: io::Error,
    },
    /// The server sent bytes that are no reply.
    #[error("{addr} sent something that is not RESP: {reason}")]
    NotResp { addr: SocketAddr, reason: String },
    /// The server answered with an error, or with something that the command cannot answer.
    #[error("{addr} answered {command} with: {answer}")]
    Refused {
        addr: SocketAddr,
        command: String,
        answer: String,
    },
    /// A program that would not run.
    #[error("{program} cannot be started: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// A program that ran and did not serve.
    #[error("{program} did not begin to serve on port {port}: {reason}\n{log}")]
    NotServing {
        program: PathBuf,
        port: u16,
        reason: String,
        log: String,
    },
    /// No server is left to measure.
    #[error("there is no server to measure: {0}")]
    NoServer(String),
    /// Options that do not go together.
    #[error("{0}")]
    Options(String),
    /// The run went differently from what it was meant to measure.
    #[error("the run is not valid: {0}")]
    Invalid(String),
    /// A table or plot that could not be written.
    #[error(transparent)]
    Figures(#[from] punctual_figures::Error),
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    System {
        doing: &'static str,
        source: io::Error,
    },
}

/// `Result` with this crate's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;
