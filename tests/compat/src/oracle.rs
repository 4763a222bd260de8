//! A private redis-server as the reference.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::generate::ALL_EVENTS;
use crate::link::{Link, Side};

/// Maximum time until a started server accepts connections.
const START: Duration = Duration::from_secs(30);

/// The error of starting the reference server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// The program is not installed.
    #[error(
        "redis-server is not installed; it is what replies are compared with: apt-get install redis-server (macOS: brew install redis)"
    )]
    NotInstalled,
    /// The program, its directory or its port is not available.
    #[error("cannot start redis-server: {0}")]
    Start(#[from] io::Error),
    /// The server started but did not become ready.
    #[error("redis-server was started and was not ready on port {port} within {} s; its log:\n{log}", START.as_secs())]
    Unreachable {
        /// The port on which it should have listened.
        port: u16,
        /// Its log.
        log: String,
    },
}

/// A private redis-server: it saves nothing, uses a temporary directory, and is killed when dropped.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    address: SocketAddr,
    log_path: PathBuf,
    // Removed after the process has ended: fields drop after `Drop::drop` has killed and reaped it.
    _directory: TempDir,
}

impl Oracle {
    /// Starts a server on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// An [`OracleError`].
    pub fn start() -> Result<Self, OracleError> {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments.
    ///
    /// # Errors
    /// An [`OracleError`].
    pub fn start_with(arguments: &[&str]) -> Result<Self, OracleError> {
        Self::start_program(Path::new("redis-server"), arguments)
    }

    /// Starts another program that takes redis-server's arguments.
    ///
    /// # Errors
    /// An [`OracleError`].
    pub fn start_program(program: &Path, arguments: &[&str]) -> Result<Self, OracleError> {
        // Another process may take the free port before the program does.
        let mut last = None;
        for _ in 0..3 {
            match Self::start_on(program, free_port()?, arguments) {
                Err(error @ OracleError::Unreachable { .. }) => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or(OracleError::NotInstalled))
    }

    fn start_on(program: &Path, port: u16, arguments: &[&str]) -> Result<Self, OracleError> {
        let directory = tempfile::tempdir()?;
        let log_path = directory.path().join("redis.log");
        let process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args([
                "--enable-debug-command",
                "yes",
                "--notify-keyspace-events",
                ALL_EVENTS,
            ])
            .arg("--dir")
            .arg(directory.path())
            .arg("--logfile")
            .arg(&log_path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => OracleError::NotInstalled,
                _ => OracleError::Start(error),
            })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // From here on dropping the value kills the process.
        let mut oracle = Self {
            process,
            address,
            log_path,
            _directory: directory,
        };
        let started = Instant::now();
        while started.elapsed() < START {
            if oracle.process.try_wait()?.is_some() {
                break;
            }
            // A connection alone could be to another process on that port; the log is the server's own.
            if oracle.log().contains("Ready to accept connections") {
                return Ok(oracle);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(OracleError::Unreachable {
            port,
            log: oracle.log(),
        })
    }

    /// Returns the version as far as commands depend on it, or (0, 0) if it is unknown.
    pub fn version(&self) -> (u32, u32) {
        let info = Link::connect(Side::B, self.address)
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

    /// Returns the exit status of the process, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log_path).unwrap_or_default()
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
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
