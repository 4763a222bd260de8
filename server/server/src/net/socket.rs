//! The socket of a connection: TCP, unix, TLS over TCP, or a pipe within the process.
//!
//! Ground rule: only the event loop that owns the connection uses the socket. So neither the
//! descriptor nor the TLS session needs a lock.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer};

use crate::net::local::ServerEnd;
use crate::tls::Session;
use crate::world::system::{self, NO_SIGNAL};

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(TcpStream, Box<Session>),
    Local(ServerEnd),
}

impl Socket {
    /// Creates a socket whose bytes are encrypted.
    pub(crate) fn encrypted(stream: TcpStream, session: Session) -> Self {
        Self::Tls(stream, Box::new(session))
    }

    /// Reads available bytes into `buf`. If they do not fill `buf`, the socket is empty, unless
    /// [`Socket::has_more`] returns true. The function makes the system call directly, because the
    /// C library's wrapper takes a few percent of a single command's time.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let fd = match self {
            Self::Tcp(stream) => AsFd::as_fd(&*stream),
            Self::Unix(stream) => AsFd::as_fd(&*stream),
            Self::Tls(stream, session) => return session.read(stream.as_fd(), buf),
            Self::Local(pipe) => return pipe.read(buf),
        };
        let (count, _) = net::recv(fd, buf, RecvFlags::empty())?;
        Ok(count)
    }

    /// Writes as many bytes as the socket accepts. Makes the system call directly, as
    /// [`Socket::read`] does.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fd = match self {
            Self::Tcp(stream) => AsFd::as_fd(&*stream),
            Self::Unix(stream) => AsFd::as_fd(&*stream),
            Self::Tls(stream, session) => return session.write(stream.as_fd(), bytes),
            Self::Local(pipe) => return pipe.write(bytes),
        };
        Ok(net::send(fd, bytes, NO_SIGNAL)?)
    }

    /// Writes as many bytes from several buffers as the socket accepts; to a pipe at most the first
    /// buffer.
    pub(crate) fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let fd = match self {
            Self::Tcp(stream) => AsFd::as_fd(&*stream),
            Self::Unix(stream) => AsFd::as_fd(&*stream),
            Self::Tls(stream, session) => {
                let pieces = buffers.iter().map(|buffer| &**buffer);
                return session.write_pieces(stream.as_fd(), pieces);
            }
            Self::Local(pipe) => {
                let first = buffers.iter().find(|buffer| !buffer.is_empty());
                return first.map_or(Ok(0), |buffer| pipe.write(buffer));
            }
        };
        let mut control = SendAncillaryBuffer::default();
        Ok(net::sendmsg(fd, buffers, &mut control, NO_SIGNAL)?)
    }

    /// Returns the TLS session of an encrypted socket.
    fn tls(&mut self) -> Option<(&mut TcpStream, &mut Session)> {
        match self {
            Self::Tls(stream, session) => Some((stream, session)),
            Self::Tcp(_) | Self::Unix(_) | Self::Local(_) => None,
        }
    }

    /// Sends the encrypted bytes that earlier writes have left. Returns `WouldBlock` while some
    /// bytes are left.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let tls = self.tls();
        tls.map_or(Ok(()), |(stream, session)| session.flush(stream.as_fd()))
    }

    /// Returns true if encrypted bytes of earlier writes are not sent yet.
    pub(crate) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(_, session) if session.wants_write())
    }

    /// Returns true if a read would return data, or the end of the stream, even though the system
    /// does not report the socket as readable.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self, Self::Tls(_, session) if session.has_more())
    }

    /// Returns true during the TLS handshake, when no data can be read or written.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(_, session) if session.is_handshaking())
    }

    /// Returns true if the client is in the server's process.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Continues the TLS handshake. Returns `WouldBlock` while the handshake waits for the peer.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        let tls = self.tls();
        tls.map_or(Ok(()), |(stream, session)| {
            session.shake_hands(stream.as_fd())
        })
    }

    /// Sends TLS's close alert, or ends a pipe. Other connections need no message.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Tls(stream, session) => session.close(stream.as_fd()),
            Self::Local(pipe) => pipe.close(),
            Self::Tcp(_) | Self::Unix(_) => {}
        }
    }

    /// Returns the stream of a socket over TCP.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => Some(stream),
            Self::Unix(_) | Self::Local(_) => None,
        }
    }

    /// Sets TCP_NODELAY: with `on` the system sends bytes at once instead of collecting larger
    /// packets.
    pub(crate) fn set_nodelay(&self, on: bool) {
        if let Some(stream) = self.tcp() {
            // If this fails, bytes only arrive later.
            stream.set_nodelay(on).ok();
        }
    }

    /// Ends the connection in both directions, even if a child process has inherited the socket.
    /// Bytes written before still arrive.
    pub(crate) fn shutdown(&self) {
        let fd = match self {
            Self::Tcp(s) | Self::Tls(s, _) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
            Self::Local(pipe) => return pipe.close(),
        };
        // The call fails only if the peer has already ended the connection.
        let _ = net::shutdown(fd, net::Shutdown::Both);
    }

    /// Registers the socket, so that its events are reported with `token`.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(s) | Self::Tls(s, _) => system::ignore_broken_pipe(s.as_fd()),
            Self::Unix(s) => system::ignore_broken_pipe(s.as_fd()),
            Self::Local(_) => {}
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(s) | Self::Tls(s, _) => registry.register(s, token, interest),
            Self::Unix(s) => registry.register(s, token, interest),
            Self::Local(_) => Ok(()),
        }
    }

    /// Deregisters the socket.
    pub(crate) fn deregister(&mut self, registry: &Registry) {
        // Deregistering fails only for a socket that the kernel has already removed.
        let _ = match self {
            Self::Tcp(s) | Self::Tls(s, _) => registry.deregister(s),
            Self::Unix(s) => registry.deregister(s),
            Self::Local(_) => Ok(()),
        };
    }
}
