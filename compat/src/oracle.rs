//! A private redis-server to agree with.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::generate::ALL_EVENTS;
use crate::link::{Link, Side};

/// How long a started server may take until it accepts connections.
const START: Duration = Duration::from_secs(10);

/// Why there is no server to agree with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// The program is not there.
    #[error(
        "redis-server is not installed; it is what replies are compared with: apt-get install redis-server (macOS: brew install redis)"
    )]
    NotInstalled,
    /// The program, its directory or its port could not be had.
    #[error("cannot start redis-server: {0}")]
    Start(#[from] io::Error),
    /// It started and never became ready.
    #[error("redis-server was started and was not ready on port {port} within {} s; its log:\n{log}", START.as_secs())]
    Unreachable {
        /// Where it should have listened.
        port: u16,
        /// What it said.
        log: String,
    },
}

/// A redis-server of our own: nothing saved, a temporary directory, killed when dropped.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    address: SocketAddr,
    // Removed after the process is gone: fields drop after `Drop::drop` has killed and reaped it.
    _directory: TempDir,
}

impl Oracle {
    /// Starts one on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// An [`OracleError`].
    pub fn start() -> Result<Self, OracleError> {
        Self::start_with(&[])
    }

    /// The same with more arguments, after its own.
    ///
    /// # Errors
    /// An [`OracleError`].
    pub fn start_with(arguments: &[&str]) -> Result<Self, OracleError> {
        // Between finding a free port and redis-server taking it, another process may take it first.
        let mut last = None;
        for _ in 0..3 {
            match Self::start_on(free_port()?, arguments) {
                Err(error @ OracleError::Unreachable { .. }) => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or(OracleError::NotInstalled))
    }

    fn start_on(port: u16, arguments: &[&str]) -> Result<Self, OracleError> {
        let directory = tempfile::tempdir()?;
        let log_path = directory.path().join("redis.log");
        let process = Command::new("redis-server")
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
            _directory: directory,
        };
        let started = Instant::now();
        while started.elapsed() < START {
            if oracle.process.try_wait()?.is_some() {
                break;
            }
            // A connection alone could be to a stranger that took the port first; the log is ours.
            if std::fs::read_to_string(&log_path)
                .is_ok_and(|log| log.contains("Ready to accept connections"))
            {
                return Ok(oracle);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(OracleError::Unreachable {
            port,
            log: std::fs::read_to_string(log_path).unwrap_or_default(),
        })
    }

    /// Its version, as far as commands depend on it; (0, 0) if it does not tell.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It may have died already; there is nothing more to do then.
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
    fn it_tells_its_version() {
        let oracle = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
        assert!(oracle.version() >= (6, 0), "{:?}", oracle.version());
    }
}
