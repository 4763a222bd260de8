//! The socket to the primary until it becomes a connection of loop 0: blocking reads and writes that end when the link is no
//! longer wanted.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::replication::upstream::{Address, Upstream};
use crate::tls::Session;
use crate::tls::channel::Channel;
use crate::world::{Moment, World};

/// Time after which a wait checks whether the link is still wanted.
const CHECK: Duration = Duration::from_millis(100);
/// Maximum length of a line of the handshake.
const LINE_MAX: usize = 4 << 10;

/// A socket to the primary.
pub(crate) struct Wire<'u> {
    channel: Channel,
    upstream: &'u Upstream,
    generation: u64,
    /// Longest time without input.
    timeout: Duration,
    /// Input that has been read and not consumed.
    buffer: Vec<u8>,
    at: usize,
}

fn unwanted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the link is no longer wanted")
}

fn timed_out() -> io::Error {
    io::Error::from(io::ErrorKind::TimedOut)
}

impl<'u> Wire<'u> {
    /// Connects to a primary. Tries its addresses one after the other. With `session`, the bytes are encrypted.
    pub(crate) fn connect(
        upstream: &'u Upstream,
        generation: u64,
        address: &Address,
        timeout: Duration,
        session: Option<Session>,
    ) -> io::Result<Self> {
        let world = upstream.world;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for addr in (address.host.as_str(), address.port).to_socket_addrs()? {
            match connect_to(world, addr, timeout, || upstream.is_current(generation)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(CHECK))?;
                    stream.set_write_timeout(Some(CHECK))?;
                    stream.set_nodelay(true)?;
                    upstream.note_input(0);
                    let mut wire = Self {
                        channel: Channel {
                            world,
                            stream,
                            session: None,
                        },
                        upstream,
                        generation,
                        timeout,
                        buffer: Vec::new(),
                        at: 0,
                    };
                    if let Some(session) = session {
                        wire.encrypt(session)?;
                    }
                    return Ok(wire);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Agrees on keys.
    fn encrypt(&mut self, session: Session) -> io::Result<()> {
        self.channel.session = Some(Box::new(session));
        let began = self.channel.world.stopwatch();
        while let Err(error) = self.channel.shake_hands() {
            self.wait_or(error, began)?;
        }
        Ok(())
    }

    /// Sends `bytes`.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let began = self.channel.world.stopwatch();
        while !bytes.is_empty() {
            match self.channel.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => self.wait_or(error, began)?,
            }
        }
        while let Err(error) = self.channel.flush() {
            self.wait_or(error, began)?;
        }
        Ok(())
    }

    /// Sends a command.
    pub(crate) fn send_command(&mut self, args: &[&[u8]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        punctual_resp::encode_command(&mut bytes, args);
        self.send(&bytes)
    }

    /// Returns nothing if a read or write may be tried again.
    fn wait_or(&self, error: io::Error, began: Moment) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                if !self.upstream.is_current(self.generation) {
                    Err(unwanted())
                } else if self.channel.world.since(began) >= self.timeout {
                    Err(timed_out())
                } else {
                    Ok(())
                }
            }
            _ => Err(error),
        }
    }

    /// Reads some bytes into `place`; 0 at the end of the stream. Calls `idle` from time to time while there are none.
    pub(crate) fn read(
        &mut self,
        place: &mut [u8],
        mut idle: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<usize> {
        let held = &self.buffer[self.at..];
        if !held.is_empty() {
            let count = held.len().min(place.len());
            place[..count].copy_from_slice(&held[..count]);
            self.at += count;
            return Ok(count);
        }
        let began = self.channel.world.stopwatch();
        loop {
            match self.channel.read(place) {
                Ok(count) => {
                    self.upstream.note_input(count);
                    return Ok(count);
                }
                Err(error) => self.wait_or(error, began)?,
            }
            idle(self)?;
        }
    }

    /// Reads exactly `place.len()` bytes.
    pub(crate) fn read_exact(&mut self, place: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < place.len() {
            match self.read(&mut place[filled..], |_| Ok(()))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(())
    }

    /// Reads a line, without its end. A primary that has nothing to say yet sends empty lines.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(len) = memchr::memchr(b'\n', &self.buffer[self.at..]) {
                let line = &self.buffer[self.at..self.at + len];
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let text = String::from_utf8_lossy(line).into_owned();
                self.at += len + 1;
                return Ok(text);
            }
            if self.buffer.len() - self.at > LINE_MAX {
                return Err(io::Error::other("the line is too long"));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let mut place = [0; 1 << 10];
            match self.read_new(&mut place)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&place[..count]),
            }
        }
    }

    /// Reads from the socket only.
    fn read_new(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let held = std::mem::take(&mut self.buffer);
        let at = std::mem::take(&mut self.at);
        let count = self.read(place, |_| Ok(()));
        (self.buffer, self.at) = (held, at);
        count
    }

    /// Returns the socket, and the input that has been read beyond what was consumed.
    pub(crate) fn into_parts(mut self) -> (Channel, Vec<u8>) {
        self.buffer.drain(..self.at);
        (self.channel, self.buffer)
    }
}

/// Connects to one address, as long as the connection is `wanted`.
fn connect_to(
    world: World,
    addr: SocketAddr,
    timeout: Duration,
    wanted: impl Fn() -> bool,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let began = world.stopwatch();
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => loop {
            let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
            let ready = poll(
                &mut fds,
                Some(&Timespec::try_from(CHECK).unwrap_or_default()),
            );
            if ready.is_ok_and(|count| count > 0) {
                match socket.take_error()? {
                    Some(error) => return Err(error),
                    None => break,
                }
            }
            if !wanted() {
                return Err(unwanted());
            }
            if world.since(began) >= timeout {
                return Err(timed_out());
            }
        },
        Err(error) => return Err(error),
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}
