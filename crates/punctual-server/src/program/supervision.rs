//! `supervised`: tells systemd or Upstart when the server is ready and when it stops.
//!
//! For systemd these are datagrams to the socket that the environment names (the protocol of sd_notify), with Redis's
//! messages. For Upstart the process stops itself once.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::{Signal, getpid, kill_process};

use crate::config::Supervised;
use crate::log::{self, Logger};

/// Who has started the server.
#[derive(Debug)]
pub(crate) enum Supervision {
    None,
    Upstart,
    Systemd(Systemd),
}

/// The socket of the service manager.
#[derive(Debug, Clone)]
pub(crate) struct Systemd {
    address: SocketAddr,
    logger: Logger,
}

impl Supervision {
    /// Tells the supervisor that the server starts, if there is one. Upstart expects the process to stop here; this
    /// returns when it is continued.
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
                // A process may always signal itself.
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
    /// The server accepts connections and has loaded its data.
    pub(crate) fn ready(&self) {
        self.tell("STATUS=Ready to accept connections\n");
        self.tell("READY=1\n");
    }

    /// The server has been asked to stop. `saves`: it makes a snapshot first.
    pub(crate) fn stopping(&self, saves: bool) {
        self.tell("STOPPING=1\n");
        if saves {
            self.tell("STATUS=Saving the final RDB snapshot\n");
        }
    }

    /// The snapshot failed, and the server goes on.
    pub(crate) fn goes_on(&self) {
        self.tell("STATUS=Error trying to save the DB, can't exit.\n");
    }

    fn tell(&self, message: &str) {
        if let Err(e) = self.send(message) {
            log::warning!(self.logger, "systemd supervision error: {e}");
        }
    }

    fn send(&self, message: &str) -> io::Result<()> {
        UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &self.address)?;
        Ok(())
    }
}

/// A path, or with a leading `@` a name in Linux's abstract namespace.
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
