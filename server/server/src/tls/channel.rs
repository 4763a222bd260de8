//! A socket of a thread that waits: plain, or with a TLS session.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd as _;

use crate::tls::Session;
use crate::world::World;

/// A connected socket. If the stream has time limits, calls return `WouldBlock` after them.
pub(crate) struct Channel {
    pub(crate) world: World,
    pub(crate) stream: TcpStream,
    pub(crate) session: Option<Box<Session>>,
}

impl Channel {
    /// Agrees on keys, if there is a session.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        match &mut self.session {
            None => Ok(()),
            Some(session) => session.shake_hands(self.stream.as_fd()),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            return self.stream.read(place);
        };
        let began = self.world.stopwatch();
        loop {
            match session.read(self.stream.as_fd(), place) {
                // A part of a record has come.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && Some(self.world.since(began)) < self.stream.read_timeout()? => {}
                result => return result,
            }
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            None => self.stream.write(bytes),
            Some(session) => session.write(self.stream.as_fd(), bytes),
        }
    }

    /// Sends records that wait for the socket.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.session {
            None => Ok(()),
            Some(session) => session.flush(self.stream.as_fd()),
        }
    }
}
