//! Listening sockets, and accepted connections on their way to an event loop.
//!
//! The first event loop accepts all connections, and sends each as an [`Arrival`] to the loop that
//! will serve it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket as RawSocket, TcpKeepalive, Type};

use crate::config::{BindAddress, Settings};
use crate::net::socket::Socket;
use crate::tls::Tls;

/// Error of a socket that cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("Could not create server {what} listening socket {address}: {source}")]
pub struct ListenError {
    what: &'static str,
    address: String,
    source: io::Error,
}

impl ListenError {
    /// Returns the port, or `None` for a unix socket.
    pub(crate) fn port(&self) -> Option<&str> {
        let (_, port) = self.address.rsplit_once(':')?;
        (self.what == "TCP").then_some(port)
    }
}

/// A listening socket, by kind of connection.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Tls>),
    Unix(UnixListener, PathBuf),
    /// The cluster's bus, encrypted or not.
    Bus(TcpListener, Option<Arc<Tls>>),
}

/// Kinds of TCP listeners that use any free port instead of the configured port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FreePorts {
    pub(crate) plain: bool,
    pub(crate) tls: bool,
    pub(crate) metrics: bool,
}

/// An accepted connection, before a client is created for it.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    /// Address of the peer, as in CLIENT LIST.
    pub(crate) addr: String,
    /// Local address, as in CLIENT LIST.
    pub(crate) laddr: String,
    pub(crate) fd: i32,
    pub(crate) unix: bool,
    /// Whether the peer is on this machine: a loopback address or a unix socket.
    pub(crate) local: bool,
    /// A connection from this process. It may run every command.
    pub(crate) own: bool,
}

impl Listener {
    /// Opens all configured sockets for Redis clients.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on an address that is not optional.
    pub(crate) fn open(
        settings: &Settings,
        free: FreePorts,
        tls: &Arc<Tls>,
    ) -> Result<Vec<Self>, ListenError> {
        let mut all = Self::open_plain(settings, free)?;
        all.extend(Self::open_tls(settings, free, tls)?);
        if let Some(path) = &settings.unixsocket {
            let listener = unix(path, settings.unixsocket_mode).map_err(|source| ListenError {
                what: "unix",
                address: path.display().to_string(),
                source,
            })?;
            all.push(Self::Unix(listener, path.clone()));
        }
        Ok(all)
    }

    /// Opens the TCP sockets for connections without encryption.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on an address that is not optional.
    pub(crate) fn open_plain(
        settings: &Settings,
        free: FreePorts,
    ) -> Result<Vec<Self>, ListenError> {
        let (bind, backlog) = (&settings.bind, settings.tcp_backlog);
        open_tcp(bind, settings.port, free.plain, backlog, |listener| {
            Self::Tcp(TcpListener::from_std(listener))
        })
    }

    /// Opens the TCP sockets for encrypted connections.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on an address that is not optional.
    pub(crate) fn open_tls(
        settings: &Settings,
        free: FreePorts,
        tls: &Arc<Tls>,
    ) -> Result<Vec<Self>, ListenError> {
        let (bind, backlog) = (&settings.bind, settings.tcp_backlog);
        open_tcp(bind, settings.tls.port, free.tls, backlog, |listener| {
            Self::Tls(TcpListener::from_std(listener), Arc::clone(tls))
        })
    }

    /// Opens the TCP sockets of the cluster's bus. Returns them with their port.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on an address that is not optional.
    pub(crate) fn open_bus(
        settings: &Settings,
        port: u16,
        tls: Option<&Arc<Tls>>,
    ) -> Result<(Vec<Self>, u16), ListenError> {
        let (bind, backlog) = (&settings.bind, settings.tcp_backlog);
        let listeners = open_tcp(bind, port, port == 0, backlog, |listener| {
            Self::Bus(TcpListener::from_std(listener), tls.cloned())
        })?;
        let bound = listeners.iter().find_map(|listener| match listener {
            Self::Bus(l, _) => l.local_addr().ok(),
            _ => None,
        });
        Ok((listeners, bound.map_or(0, |addr| addr.port())))
    }

    pub(crate) fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Tcp(l) | Self::Tls(l, _) | Self::Bus(l, _) => l,
            Self::Unix(l, _) => l,
        }
    }

    /// Stops listening, even if a child process has inherited the socket.
    pub(crate) fn shutdown(&self) {
        let socket = match self {
            Self::Tcp(l) | Self::Tls(l, _) | Self::Bus(l, _) => SockRef::from(l),
            Self::Unix(l, _) => SockRef::from(l),
        };
        // Some systems cannot shut down a listening socket; there, closing it is enough.
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }

    /// Returns the local address if this listener accepts TCP connections without encryption.
    pub(crate) fn tcp_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(l) => l.local_addr().ok(),
            Self::Tls(..) | Self::Unix(..) | Self::Bus(..) => None,
        }
    }

    /// Returns the local address if this listener accepts encrypted connections.
    pub(crate) fn tls_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tls(l, _) => l.local_addr().ok(),
            Self::Tcp(_) | Self::Unix(..) | Self::Bus(..) => None,
        }
    }

    /// Accepts the next connection. Returns `WouldBlock` if no connection is pending.
    pub(crate) fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Tcp(l) | Self::Tls(l, _) | Self::Bus(l, _) => {
                let (stream, peer) = l.accept()?;
                stream.set_nodelay(true).ok();
                Ok(Arrival {
                    fd: stream.as_raw_fd(),
                    addr: peer.to_string(),
                    laddr: stream
                        .local_addr()
                        .map(|a| a.to_string())
                        .unwrap_or_default(),
                    unix: false,
                    local: is_loopback(peer.ip()),
                    own: false,
                    socket: match self {
                        Self::Tls(_, tls) | Self::Bus(_, Some(tls)) => {
                            Socket::encrypted(stream, tls.accept()?)
                        }
                        _ => Socket::Tcp(stream),
                    },
                })
            }
            Self::Unix(l, path) => {
                let (stream, _) = l.accept()?;
                let name = format!("{}:0", path.display());
                Ok(Arrival {
                    fd: stream.as_raw_fd(),
                    addr: name.clone(),
                    laddr: name,
                    unix: true,
                    local: true,
                    own: false,
                    socket: Socket::Unix(stream),
                })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // If this fails, the next start of the server removes the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Arrival {
    /// Sends an error and closes the connection. The peer may miss the error: it may be gone, and
    /// an encrypted connection sends nothing before its handshake.
    pub(crate) fn refuse(mut self, text: &str) {
        let line = format!("-{text}\r\n");
        let _ = self.socket.write(line.as_bytes());
    }

    /// Enables keep-alive probes (`tcp-keepalive`): the first probe after `seconds` of silence,
    /// further probes at intervals of a third of that time.
    pub(crate) fn set_keepalive(&self, seconds: u32) {
        if let Some(stream) = self.socket.tcp()
            && seconds > 0
        {
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_secs(seconds.into()))
                .with_interval(Duration::from_secs((seconds / 3).max(1).into()))
                .with_retries(3);
            // A socket without keep-alive still works.
            let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
    }
}

pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}

/// Opens TCP sockets on these addresses, and passes each socket to `wrap`. With `free_port` the
/// system chooses the port; otherwise port 0 opens no socket.
///
/// # Errors
/// Returns an error if the server cannot listen on an address that is not optional.
pub(crate) fn open_tcp<T>(
    addresses: &[BindAddress],
    port: u16,
    free_port: bool,
    backlog: u32,
    wrap: impl Fn(StdListener) -> T,
) -> Result<Vec<T>, ListenError> {
    let mut all = Vec::new();
    let mut port = if free_port { 0 } else { port };
    if free_port || port != 0 {
        for bind in addresses {
            match tcp(&bind.host, port, backlog) {
                Ok(listeners) => {
                    for listener in listeners {
                        // All addresses must use the same free port.
                        if port == 0 {
                            port = listener.local_addr().map_or(0, |a| a.port());
                        }
                        all.push(wrap(listener));
                    }
                }
                Err(_) if bind.optional => {}
                Err(source) => {
                    return Err(ListenError {
                        what: "TCP",
                        address: format!("{}:{port}", bind.host),
                        source,
                    });
                }
            }
        }
    }
    Ok(all)
}

fn tcp(host: &str, port: u16, backlog: u32) -> io::Result<Vec<StdListener>> {
    (host, port)
        .to_socket_addrs()?
        .map(|addr| {
            let socket =
                RawSocket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if addr.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_nonblocking(true)?;
            socket.bind(&SockAddr::from(addr))?;
            socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
            Ok(socket.into())
        })
        .collect()
}

fn unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    // A socket file left by an earlier server would make `bind` fail.
    if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    if mode != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(listener)
}
