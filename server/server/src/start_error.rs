//! The errors of a server's start.

use std::io;

use crate::acl::file::UsersError;
pub use crate::cluster::NodesFileError;
use crate::config::ConfigError;
pub use crate::durability::files::AofError;
pub use crate::durability::manifest::ManifestError;
use crate::net::listener::ListenError;
pub use crate::net::open_files::TooFewFiles;
pub use crate::persist::load::LoadError;
use crate::tls::TlsError;

/// Error of a server's start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A command of the embedding program has the name of another command, or an invalid name.
    #[error(
        "the command name '{0}' is taken or invalid: use lower-case letters, digits, '.', '_', '-'"
    )]
    CommandName(String),
    /// The users cannot be loaded.
    #[error(transparent)]
    Users(UsersError),
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificates, keys or other TLS settings are invalid.
    #[error("{0}\nFailed to configure TLS. Check logs for more info.")]
    Tls(#[from] TlsError),
    /// The process cannot become a daemon.
    #[error("Can't daemonize: {0}")]
    Daemonize(#[source] io::Error),
    /// The log file cannot be opened.
    #[error("Can't open the log file: {0}")]
    Log(#[source] io::Error),
    /// The file of the cluster's nodes cannot be used.
    #[error(transparent)]
    Cluster(#[from] NodesFileError),
    /// In cluster mode the cluster decides which node is a replica.
    #[error("replicaof directive not allowed in cluster mode")]
    ReplicaInCluster,
    /// The port of the cluster's bus does not exist.
    #[error("Redis port number too high for cluster mode.")]
    BusPort,
    /// The limit of open files is too low.
    #[error(transparent)]
    OpenFiles(#[from] TooFewFiles),
    /// The snapshot or the append-only file cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system refuses an event queue, a timer, a thread or a signal handler.
    #[error("Can't start an event loop: {0}")]
    EventLoop(#[from] io::Error),
}

impl From<UsersError> for StartError {
    fn from(error: UsersError) -> Self {
        match error {
            UsersError::Line(error) => Self::Config(error),
            other => Self::Users(other),
        }
    }
}
