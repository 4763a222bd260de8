//! A private redis-server as the reference.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use punctual_harness::{Launch, LaunchError, Process};

use crate::generate::ALL_EVENTS;
use crate::link::{Link, Side};

/// A private redis-server. It saves no snapshots, uses a temporary directory, and is killed when
/// dropped.
#[derive(Debug)]
pub struct Oracle(Process);

impl Oracle {
    /// Starts a server on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start() -> Result<Self, LaunchError> {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start_with(arguments: &[&str]) -> Result<Self, LaunchError> {
        Self::start_program(Path::new("redis-server"), arguments)
    }

    /// Starts another program that takes redis-server's arguments.
    ///
    /// # Errors
    /// A [`LaunchError`].
    pub fn start_program(program: &Path, arguments: &[&str]) -> Result<Self, LaunchError> {
        let launch = Launch::of(program)
            .options(["--bind", "127.0.0.1", "--save", ""])
            .options(["--enable-debug-command", "yes"])
            .options(["--notify-keyspace-events", ALL_EVENTS])
            .options(arguments);
        Ok(Self(launch.start()?))
    }

    /// Returns the major and minor version, or (0, 0) if the version is unknown.
    pub fn version(&self) -> (u32, u32) {
        let info = Link::connect(Side::B, self.address())
            .and_then(|mut link| link.ask(&crate::command::Command::of(&["INFO", "server"])));
        let info = info
            .ok()
            .and_then(|reply| Some(reply.as_bytes()?.to_vec()))
            .unwrap_or_default();
        String::from_utf8_lossy(&info)
            .lines()
            .find_map(|line| {
                let mut numbers = line.strip_prefix("redis_version:")?.split('.');
                Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
            })
            .unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_known() {
        let oracle = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
        assert!(oracle.version() >= (6, 0), "{:?}", oracle.version());
    }
}
