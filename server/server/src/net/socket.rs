//! The socket of a connection: TCP, unix, or TLS over TCP.
//!
//! Ground rules: only the event loop that owns the connection reads from the socket and writes to it. No other thread has the
//! descriptor or the session, so neither has a lock.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use mio::net::{TcpStream, UnixStream};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};

use crate::tls::Session;

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(TcpStream, Box<Session>),
}

impl Socket {
    /// Creates a socket whose bytes are encrypted.
    pub(crate) fn encrypted(stream: TcpStream, session: Session) -> Self {
        Self::Tls(stream, Box::new(session))
    }

    /// Reads the available bytes. A read that does not fill `buf` has emptied the socket, unless [`Socket::has_more`]. Calls
    /// the system directly: the C library's wrapper costs a few percent of a single command's time.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Self::Tls(stream, session) = self {
            return session.read(stream.as_fd(), buf);
        }
        let (count, _) = net::recv(self.fd(), buf, RecvFlags::empty())?;
        Ok(count)
    }

    /// Writes as many bytes as the socket accepts. See [`Socket::read`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Tls(stream, session) = self {
            return session.write(stream.as_fd(), bytes);
        }
        Ok(net::send(self.fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    /// As [`Socket::write`], from several buffers.
    pub(crate) fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Self::Tls(stream, session) = self {
            let pieces = buffers.iter().map(|buffer| &**buffer);
            return session.write_pieces(stream.as_fd(), pieces);
        }
        let mut control = SendAncillaryBuffer::default();
        Ok(net::sendmsg(
            self.fd(),
            buffers,
            &mut control,
            SendFlags::NOSIGNAL,
        )?)
    }

    /// Writes what was accepted but waits for the system, as records do. Returns `WouldBlock` while some is left.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream, session) => session.flush(stream.as_fd()),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Returns true if accepted bytes wait for the system.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.wants_write(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Returns true if a read returns data or the end although the system does not report the socket as readable.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.has_more(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Returns true until reads and writes are possible.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.is_handshaking(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Continues the handshake. Returns `WouldBlock` as long as it waits for the peer.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream, session) => session.shake_hands(stream.as_fd()),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Tells the peer that nothing follows, if the protocol does so.
    pub(crate) fn close(&mut self) {
        if let Self::Tls(stream, session) = self {
            session.close(stream.as_fd());
        }
    }

    /// Returns the stream of a socket over TCP.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => Some(stream),
            Self::Unix(_) => None,
        }
    }

    /// Lets the system collect bytes for larger packets, or not. Only TCP does so.
    pub(crate) fn set_nodelay(&self, on: bool) {
        if let Some(stream) = self.tcp() {
            // Not vital: the bytes arrive in any case.
            stream.set_nodelay(on).ok();
        }
    }

    /// Ends the connection in both directions, even if a child process has inherited the socket. Written bytes still arrive.
    pub(crate) fn shutdown(&self) {
        // Fails only if the peer has already ended the connection.
        let _ = net::shutdown(self.fd(), net::Shutdown::Both);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) | Self::Tls(s, _) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Tcp(s) | Self::Tls(s, _) => s,
            Self::Unix(s) => s,
        }
    }
}
