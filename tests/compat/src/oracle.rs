//! A private server of another project as the reference.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use punctual_harness::{Launch, LaunchError, Peer, Process};

use crate::generate::ALL_EVENTS;

/// A private reference server. It saves no snapshots, uses a temporary directory, and is killed
/// when dropped.
#[derive(Debug)]
pub struct Oracle(Process);

impl Oracle {
    /// Starts a redis-server 7.0 on a free port of 127.0.0.1, and waits until it accepts
    /// connections.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start() -> Result<Self, LaunchError> {
        Self::start_with(&[])
    }

    /// Starts a redis-server 7.0 with additional arguments.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start_with(arguments: &[&str]) -> Result<Self, LaunchError> {
        Self::start_program(&Peer::Redis7.program(), arguments)
    }

    /// Starts another program that takes redis-server's arguments.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start_program(program: &Path, arguments: &[&str]) -> Result<Self, LaunchError> {
        let options = Self::options(arguments);
        Ok(Self(Launch::of(program).options(options).start()?))
    }

    /// Starts a peer with additional arguments. If it is not installed, prints a message and
    /// returns `None`.
    ///
    /// # Panics
    /// If the server does not start.
    #[track_caller]
    pub fn start_peer(peer: Peer, arguments: &[&str]) -> Option<Self> {
        peer.start(&Self::options(arguments)).map(Self)
    }

    fn options<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        let own = [
            ["--bind", "127.0.0.1"],
            ["--save", ""],
            ["--enable-debug-command", "yes"],
            ["--notify-keyspace-events", ALL_EVENTS],
        ];
        [own.as_flattened(), arguments].concat()
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Deref for Oracle {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl DerefMut for Oracle {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.0
    }
}
