//! `supervised`: notifies systemd when the server loads, is ready, saves and stops; notifies
//! Upstart when the server starts.
//!
//! systemd receives Redis's messages as datagrams on the socket in `NOTIFY_SOCKET` (the protocol of
//! sd_notify). For Upstart the process stops itself once with SIGSTOP.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::{Signal, getpid, kill_process};

use crate::config::Supervised;
use crate::log::{self, Logger};

/// The supervisor of the process.
#[derive(Debug)]
pub(crate) enum Supervision {
    None,
    Upstart,
    Systemd(Systemd),
    /// See `program/parent.rs`.
    Parent,
}

/// The notification socket of systemd. Failures to send are logged.
#[derive(Debug, Clone)]
pub(crate) struct Systemd {
    address: SocketAddr,
    logger: Logger,
}

impl Supervision {
    /// Notifies the supervisor, if there is one, that the server starts. Upstart expects the
    /// process to stop itself here; the function returns when Upstart lets the process continue.
    pub(crate) fn begin(mode: Supervised, logger: &Logger) -> Self {
        let upstart = env::var_os("UPSTART_JOB").is_some();
        let socket = env::var_os("NOTIFY_SOCKET");
        let mode = match mode {
            Supervised::Auto if upstart => Supervised::Upstart,
            Supervised::Auto if socket.is_some() => Supervised::Systemd,
            other => other,
        };
        match mode {
            Supervised::No | Supervised::Auto => Self::None,
            Supervised::Parent => Self::Parent,
            Supervised::Systemd => Self::systemd(socket, logger),
            Supervised::Upstart if !upstart => {
                log::warning!(
                    logger,
                    "Upstart supervision requested, but UPSTART_JOB not found!"
                );
                Self::None
            }
            Supervised::Upstart => {
                log::notice!(
                    logger,
                    "Supervised by upstart, will stop to signal readiness."
                );
                // A process may always send a signal to itself.
                let _ = kill_process(getpid(), Signal::STOP);
                Self::Upstart
            }
        }
    }

    fn systemd(socket: Option<OsString>, logger: &Logger) -> Self {
        let Some(socket) = socket else {
            log::warning!(
                logger,
                "systemd supervision error: NOTIFY_SOCKET not found!"
            );
            return Self::None;
        };
        let systemd = address(&socket).and_then(|address| {
            let systemd = Systemd {
                address,
                logger: logger.clone(),
            };
            systemd.send("STATUS=Redis is loading...\n")?;
            Ok(systemd)
        });
        match systemd {
            Ok(systemd) => {
                log::notice!(
                    logger,
                    "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and \
                     TimeoutStopSec in your service unit."
                );
                Self::Systemd(systemd)
            }
            Err(e) => {
                log::warning!(logger, "systemd supervision error: {e}");
                Self::None
            }
        }
    }
}

impl Systemd {
    /// Reports that the server has loaded its data and accepts connections.
    pub(crate) fn ready(&self) {
        self.notify("STATUS=Ready to accept connections\n");
        self.notify("READY=1\n");
    }

    /// Reports that the server stops.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\n");
    }

    /// Reports that the server saves a snapshot before it stops.
    pub(crate) fn saving(&self) {
        self.notify("STATUS=Saving the final RDB snapshot\n");
    }

    /// Reports that the snapshot failed and the server keeps running.
    pub(crate) fn save_failed(&self) {
        self.notify("STATUS=Error trying to save the DB, can't exit.\n");
    }

    fn notify(&self, message: &str) {
        if let Err(e) = self.send(message) {
            log::warning!(self.logger, "systemd supervision error: {e}");
        }
    }

    fn send(&self, message: &str) -> io::Result<()> {
        UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &self.address)?;
        Ok(())
    }
}

/// Returns the address for a path, or for a name in Linux's abstract namespace if the text begins
/// with `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketAddr::from_abstract_name(name)
        }
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "NOTIFY_SOCKET is neither a path nor an abstract name",
        )),
    }
}
