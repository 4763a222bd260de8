//! The socket of a connection: TCP or unix.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mio::net::{TcpStream, UnixStream};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Reads the available bytes. Calls the system directly: the C library's wrapper costs a few percent of a single
    /// command's time.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (count, _) = net::recv(self.fd(), buf, RecvFlags::empty())?;
        Ok(count)
    }

    /// Writes as many bytes as the socket accepts. See [`Socket::read`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    /// As [`Socket::write`], from several buffers.
    pub(crate) fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut control = SendAncillaryBuffer::default();
        Ok(net::sendmsg(
            self.fd(),
            buffers,
            &mut control,
            SendFlags::NOSIGNAL,
        )?)
    }

    /// Returns another descriptor of the socket, for a thread outside of the event loops.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.fd().try_clone_to_owned()
    }

    /// Lets the system collect bytes for larger packets, or not. Only TCP does so.
    pub(crate) fn set_nodelay(&self, on: bool) {
        if let Self::Tcp(stream) = self {
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
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Tcp(s) => s,
            Self::Unix(s) => s,
        }
    }
}
