//! The socket of a connection: TCP, unix, or TLS over TCP.
//!
//! Ground rule: only the event loop that owns the connection uses the socket. So neither the
//! descriptor nor the TLS session needs a lock.

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

    /// Reads available bytes into `buf`. If they do not fill `buf`, the socket is empty, unless
    /// [`Socket::has_more`] returns true. The function makes the system call directly, because the
    /// C library's wrapper takes a few percent of a single command's time.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Self::Tls(stream, session) = self {
            return session.read(stream.as_fd(), buf);
        }
        let (count, _) = net::recv(self.fd(), buf, RecvFlags::empty())?;
        Ok(count)
    }

    /// Writes as many bytes as the socket accepts. Makes the system call directly, as
    /// [`Socket::read`] does.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Tls(stream, session) = self {
            return session.write(stream.as_fd(), bytes);
        }
        Ok(net::send(self.fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    /// Writes as many bytes from several buffers as the socket accepts.
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

    /// Sends the encrypted bytes that earlier writes have left. Returns `WouldBlock` while some
    /// bytes are left.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream, session) => session.flush(stream.as_fd()),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Returns true if encrypted bytes of earlier writes are not sent yet.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.wants_write(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Returns true if a read would return data, or the end of the stream, even though the system
    /// does not report the socket as readable.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.has_more(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Returns true during the TLS handshake, when no data can be read or written.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Tls(_, session) => session.is_handshaking(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Continues the TLS handshake. Returns `WouldBlock` while the handshake waits for the peer.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream, session) => session.shake_hands(stream.as_fd()),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }

    /// Sends TLS's close alert if the connection is encrypted. Other connections need no message.
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

    /// Sets TCP_NODELAY: with `on` the system sends bytes at once instead of collecting larger
    /// packets.
    pub(crate) fn set_nodelay(&self, on: bool) {
        if let Some(stream) = self.tcp() {
            // A failure does no harm: the bytes arrive later.
            stream.set_nodelay(on).ok();
        }
    }

    /// Ends the connection in both directions, even if a child process has inherited the socket.
    /// Bytes written before still arrive.
    pub(crate) fn shutdown(&self) {
        // The call fails only if the peer has already ended the connection.
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
