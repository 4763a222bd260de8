//! Outgoing connections, which are established and used without blocking.
//!
//! A [`Dial`] tries the addresses of a server one after the other, completes the TLS handshake if
//! the connection is encrypted, and then moves the bytes of a [`Conversation`]. A conversation has
//! no access to the socket. An event loop polls the dials of replication and of migrations. Only a
//! MIGRATE that blocks, for example within a transaction, polls its own dial.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Registry, Token};

use crate::net::socket::Socket;
use crate::tls::Tls;

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Size of the first read. Replies and packets of the bus are short, and a large buffer would have
/// to be filled with zeros for each read.
const FIRST_READ_BYTES: usize = 4 << 10;
/// Maximum number of reads in one step, so that a loop also serves its clients.
const READS_PER_STEP: usize = 16;

/// Our side of a protocol between two servers. The two sides may take turns, or send at the same
/// time.
pub(crate) trait Conversation {
    /// Appends the bytes that can be sent now. Called when the connection is established, and
    /// whenever all earlier output is sent. `now_ms` is the server's time.
    fn write_output(&mut self, now_ms: u64, output: &mut Vec<u8>);

    /// Removes complete messages from the input and handles them. Returns true if the conversation
    /// is over.
    fn read_input(&mut self, input: &mut Vec<u8>) -> bool;

    /// Returns the maximum number of bytes that may be read now.
    fn room(&self) -> usize {
        usize::MAX
    }
}

/// An error of the connection, with the operation that failed.
#[derive(Debug)]
pub(crate) enum DialError {
    Connecting(io::Error),
    Writing(io::Error),
    Reading(io::Error),
}

impl DialError {
    /// Returns the error without the operation.
    pub(crate) fn into_error(self) -> io::Error {
        match self {
            Self::Connecting(error) | Self::Writing(error) | Self::Reading(error) => error,
        }
    }
}

/// Result of [`Dial::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Call `step` again after the next event of the socket.
    Wait,
    /// Call `step` again soon: more input may be available.
    Again,
    /// The conversation is over.
    Over,
}

/// An outgoing connection, established or not.
#[derive(Debug)]
pub(crate) struct Dial {
    token: Token,
    tls: Option<Arc<Tls>>,
    /// Addresses that have not been tried.
    addresses: std::vec::IntoIter<SocketAddr>,
    socket: Socket,
    established: bool,
    input: Vec<u8>,
    /// Size of the next read. It doubles when a read fills it.
    read_bytes: usize,
    output: Vec<u8>,
    /// Number of bytes of `output` that are already sent.
    sent: usize,
    /// Whether the connection was established, or bytes were sent or received, since the last call
    /// of [`Dial::has_moved`].
    moved: bool,
}

impl Dial {
    /// Begins to connect to the first address for which the system can start a connection.
    /// Registers the socket with `token`.
    ///
    /// # Errors
    /// Returns the last error if no connection can be started.
    pub(crate) fn begin(
        addresses: Vec<SocketAddr>,
        tls: Option<Arc<Tls>>,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, DialError> {
        let mut addresses = addresses.into_iter();
        let none = io::ErrorKind::AddrNotAvailable.into();
        let socket = connect(&mut addresses, tls.as_deref(), registry, token, none)
            .map_err(DialError::Connecting)?;
        Ok(Self::new(socket, addresses, tls, token))
    }

    fn new(
        socket: Socket,
        addresses: std::vec::IntoIter<SocketAddr>,
        tls: Option<Arc<Tls>>,
        token: Token,
    ) -> Self {
        Self {
            token,
            tls,
            addresses,
            socket,
            established: false,
            input: Vec::new(),
            read_bytes: FIRST_READ_BYTES,
            output: Vec::new(),
            sent: 0,
            moved: false,
        }
    }

    /// Serves a connection that the other server has opened. Registers the socket with `token`.
    ///
    /// # Errors
    /// Returns an error if the system cannot report the events of the socket.
    pub(crate) fn accepted(
        mut socket: Socket,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, DialError> {
        (socket.register(registry, token)).map_err(DialError::Connecting)?;
        Ok(Self::new(socket, Vec::new().into_iter(), None, token))
    }

    /// Returns whether the connection is established.
    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    /// Sends and reads as many bytes as the socket allows now, within limits.
    ///
    /// # Errors
    /// Returns an error if the connection cannot be established, is broken, or has ended.
    pub(crate) fn step(
        &mut self,
        conversation: &mut dyn Conversation,
        registry: &Registry,
        now_ms: u64,
    ) -> Result<Step, DialError> {
        if !self.established && !self.establish(registry).map_err(DialError::Connecting)? {
            return Ok(Step::Wait);
        }
        for _ in 0..READS_PER_STEP {
            self.push(conversation, now_ms)?;
            let max = conversation.room().min(self.read_bytes);
            if max == 0 || !self.receive(max).map_err(DialError::Reading)? {
                return Ok(Step::Wait);
            }
            if conversation.read_input(&mut self.input) {
                return Ok(Step::Over);
            }
        }
        Ok(Step::Again)
    }

    /// Sends as many bytes as the socket allows now, and reads none.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(crate) fn push(
        &mut self,
        conversation: &mut dyn Conversation,
        now_ms: u64,
    ) -> Result<(), DialError> {
        while self.established && self.send().map_err(DialError::Writing)? {
            conversation.write_output(now_ms, &mut self.output);
            if self.output.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Appends bytes to the output of an established connection. The next step sends the bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.established {
            self.output.extend_from_slice(bytes);
        }
    }

    /// Returns the number of bytes of the output that the system has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Returns true if the connection was established, or bytes were sent or received, since the
    /// last call.
    pub(crate) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns the error for a peer that has been silent for too long.
    pub(crate) fn timed_out(&self) -> DialError {
        let error = io::ErrorKind::TimedOut.into();
        match (self.established, self.output.is_empty()) {
            (false, _) => DialError::Connecting(error),
            (true, false) => DialError::Writing(error),
            (true, true) => DialError::Reading(error),
        }
    }

    /// Returns the socket, which is no longer polled, and the input that the conversation has not
    /// taken.
    pub(crate) fn into_parts(mut self, registry: &Registry) -> (Socket, Vec<u8>) {
        self.socket.deregister(registry);
        (self.socket, self.input)
    }

    /// Continues to establish the connection. Returns true if the connection is established.
    fn establish(&mut self, registry: &Registry) -> io::Result<bool> {
        let connected = match self.socket.tcp() {
            None => Ok(true),
            Some(stream) => match stream.take_error() {
                Ok(None) => match stream.peer_addr() {
                    Ok(_) => Ok(true),
                    Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
                    Err(e) => Err(e),
                },
                Ok(Some(error)) | Err(error) => Err(error),
            },
        };
        match connected {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                let tls = self.tls.as_deref();
                self.socket = connect(&mut self.addresses, tls, registry, self.token, error)?;
                return Ok(false);
            }
        }
        match self.socket.shake_hands() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        self.socket.set_nodelay(true);
        self.established = true;
        self.moved = true;
        Ok(true)
    }

    /// Sends output. Returns true if all of it is sent.
    fn send(&mut self) -> io::Result<bool> {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    self.moved = true;
                }
                Err(error) => return wait(error),
            }
        }
        self.sent = 0;
        self.output.clear();
        self.output.shrink_to(READ_BYTES);
        match self.socket.flush() {
            Ok(()) => Ok(true),
            Err(error) => wait(error),
        }
    }

    /// Reads at most `max` bytes. Returns false if no bytes are available now.
    fn receive(&mut self, max: usize) -> io::Result<bool> {
        let held = self.input.len();
        self.input.resize(held + max, 0);
        let read = self.socket.read(&mut self.input[held..]);
        self.input.truncate(held + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                if count == self.read_bytes {
                    self.read_bytes = READ_BYTES.min(2 * count);
                }
                self.moved = true;
                Ok(true)
            }
            Err(error) => wait(error),
        }
    }
}

/// Begins to connect to the next address. Returns the last error if no address is left.
fn connect(
    addresses: &mut std::vec::IntoIter<SocketAddr>,
    tls: Option<&Tls>,
    registry: &Registry,
    token: Token,
    mut last: io::Error,
) -> io::Result<Socket> {
    for address in addresses {
        let socket = TcpStream::connect(address).and_then(|stream| {
            let mut socket = match tls {
                None => Socket::Tcp(stream),
                Some(tls) => Socket::encrypted(stream, tls.connect()?),
            };
            socket.register(registry, token)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns `Ok(false)` for `WouldBlock`, and otherwise the error.
fn wait(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(false),
        _ => Err(error),
    }
}

/// Removes complete lines from the input and passes them to `take`, without their line ends, until
/// `take` returns false.
pub(crate) fn take_lines(input: &mut Vec<u8>, mut take: impl FnMut(&[u8]) -> bool) {
    let mut at = 0;
    while let Some(len) = memchr::memchr(b'\n', &input[at..]) {
        let line = &input[at..at + len];
        at += len + 1;
        if !take(line.strip_suffix(b"\r").unwrap_or(line)) {
            break;
        }
    }
    input.drain(..at);
}
