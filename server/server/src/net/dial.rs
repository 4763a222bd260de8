//! Outgoing connections: established and used without blocking, by whoever polls them.
//!
//! A [`Dial`] tries the addresses of a server one after the other, agrees on keys if the connection
//! is encrypted, and then moves the bytes of a [`Conversation`], which sees no socket. An event
//! loop polls the dials of replication and of migrations. A migration within a transaction polls
//! its own dial.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::net::socket::Socket;
use crate::tls::Tls;

/// Number of bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Number of reads in one step, so that a loop serves its clients too.
const READS_A_STEP: usize = 16;

/// What one server says to another. The two sides take turns, or talk at the same time.
pub(crate) trait Conversation {
    /// Appends what can be said now. Called when the connection is established, and whenever all
    /// earlier output is sent. `now_ms` is the server's time.
    fn say(&mut self, now_ms: u64, output: &mut Vec<u8>);

    /// Takes what it understands from the input. Returns true if the conversation is over.
    fn hear(&mut self, input: &mut Vec<u8>) -> bool;

    /// Returns the number of bytes that may be read now.
    fn room(&self) -> usize {
        usize::MAX
    }
}

/// An error of the connection, and what it interrupted.
#[derive(Debug)]
pub(crate) enum Trouble {
    Connecting(io::Error),
    Writing(io::Error),
    Reading(io::Error),
}

impl Trouble {
    /// Returns the error.
    pub(crate) fn into_error(self) -> io::Error {
        match self {
            Self::Connecting(error) | Self::Writing(error) | Self::Reading(error) => error,
        }
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next event of the socket calls for the next step.
    Wait,
    /// There may be more to read.
    Again,
    /// The conversation is over.
    Over,
}

/// An outgoing connection.
#[derive(Debug)]
pub(crate) struct Dial {
    token: Token,
    tls: Option<Arc<Tls>>,
    /// Addresses that have not been tried.
    addresses: std::vec::IntoIter<SocketAddr>,
    socket: Socket,
    established: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Number of bytes of `output` that are sent.
    sent: usize,
    /// Something has happened since [`Dial::has_moved`] was asked.
    moved: bool,
}

impl Dial {
    /// Begins to connect to the first of the addresses that can be reached. Events have this token.
    ///
    /// # Errors
    /// No address can be tried.
    pub(crate) fn begin(
        addresses: Vec<SocketAddr>,
        tls: Option<Arc<Tls>>,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, Trouble> {
        let mut addresses = addresses.into_iter();
        let none = io::ErrorKind::AddrNotAvailable.into();
        let socket = connect(&mut addresses, tls.as_deref(), registry, token, none)
            .map_err(Trouble::Connecting)?;
        Ok(Self {
            token,
            tls,
            addresses,
            socket,
            established: false,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            moved: false,
        })
    }

    /// Does what the socket allows now.
    ///
    /// # Errors
    /// The connection cannot be established, is broken, or has ended.
    pub(crate) fn step(
        &mut self,
        conversation: &mut dyn Conversation,
        registry: &Registry,
        now_ms: u64,
    ) -> Result<Step, Trouble> {
        if !self.established && !self.establish(registry).map_err(Trouble::Connecting)? {
            return Ok(Step::Wait);
        }
        for _ in 0..READS_A_STEP {
            while self.send().map_err(Trouble::Writing)? {
                conversation.say(now_ms, &mut self.output);
                if self.output.is_empty() {
                    break;
                }
            }
            let max = conversation.room().min(READ_BYTES);
            if max == 0 || !self.receive(max).map_err(Trouble::Reading)? {
                return Ok(Step::Wait);
            }
            if conversation.hear(&mut self.input) {
                return Ok(Step::Over);
            }
        }
        Ok(Step::Again)
    }

    /// Appends bytes to the output of an established connection; the next step sends them.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.established {
            self.output.extend_from_slice(bytes);
        }
    }

    /// Returns whether the connection has been established, or bytes have moved, since the last
    /// call.
    pub(crate) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns what a peer that is silent for too long interrupts.
    pub(crate) fn timed_out(&self) -> Trouble {
        let error = io::ErrorKind::TimedOut.into();
        match (self.established, self.output.is_empty()) {
            (false, _) => Trouble::Connecting(error),
            (true, false) => Trouble::Writing(error),
            (true, true) => Trouble::Reading(error),
        }
    }

    /// Returns the socket, which is not polled any more, and the input that nobody has taken.
    pub(crate) fn into_parts(mut self, registry: &Registry) -> (Socket, Vec<u8>) {
        // Fails only for a socket that the kernel has already removed.
        let _ = registry.deregister(self.socket.source());
        (self.socket, self.input)
    }

    /// Goes on until bytes can be sent. Returns whether they can.
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

    /// Reads at most `max` bytes. Returns whether there were any.
    fn receive(&mut self, max: usize) -> io::Result<bool> {
        let held = self.input.len();
        self.input.resize(held + max, 0);
        let read = self.socket.read(&mut self.input[held..]);
        self.input.truncate(held + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                self.moved = true;
                Ok(true)
            }
            Err(error) => wait(error),
        }
    }
}

/// Begins to connect to the next address. Returns `last` if there is none.
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
            let interest = Interest::READABLE | Interest::WRITABLE;
            registry.register(socket.source(), token, interest)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns false if the socket allows nothing now.
fn wait(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(false),
        _ => Err(error),
    }
}

/// Takes complete lines from the input, without their ends, until `take` returns false.
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
