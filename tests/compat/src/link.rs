//! Connections to one server, and to both at once.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use punctual_harness::Peer;
use punctual_resp::{DecodeError, Decoder, Value, encode_command};

use crate::command::Command;

/// Maximum time to wait for a reply.
const SILENCE: Duration = Duration::from_secs(20);

/// Requests up to this size fit into the socket buffers even if the server does not read. For
/// larger requests, a separate thread for each server writes while this thread reads, so that
/// client and server cannot block each other.
const WRITE_INLINE_MAX: usize = 32 * 1024;

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server under test.
    A,
    /// The reference server.
    B,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::A => "A",
            Side::B => "B",
        })
    }
}

/// The error of a missing reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The server did not accept a connection.
    #[error("cannot connect to server {side} at {address}: {source}")]
    Connect {
        /// The server at the other end.
        side: Side,
        /// Its address.
        address: SocketAddr,
        /// Why it failed.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("server {side} closed the connection")]
    Closed {
        /// The server at the other end.
        side: Side,
    },
    /// For the time limit, the server sent nothing while a reply was due, or did not read a
    /// request.
    #[error("server {side} did not answer within {} s", SILENCE.as_secs())]
    Silent {
        /// The server at the other end.
        side: Side,
    },
    /// Reading or writing failed for another reason.
    #[error("connection to server {side}: {source}")]
    Io {
        /// The server at the other end.
        side: Side,
        /// Why it failed.
        source: io::Error,
    },
    /// The bytes are not RESP.
    #[error("server {side} sent bytes that are not RESP: {source}")]
    Malformed {
        /// The server at the other end.
        side: Side,
        /// Why the bytes cannot be decoded.
        source: DecodeError,
    },
}

/// A connection to one server.
#[derive(Debug)]
pub struct Link {
    side: Side,
    stream: TcpStream,
    decoder: Decoder,
    chunk: Box<[u8]>,
}

impl Link {
    /// Connects to a server.
    ///
    /// # Errors
    /// [`LinkError::Connect`].
    pub fn connect(side: Side, address: SocketAddr) -> Result<Self, LinkError> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
            Ok(stream)
        };
        let stream = connect().map_err(|source| LinkError::Connect {
            side,
            address,
            source,
        })?;
        Ok(Self {
            side,
            stream,
            decoder: Decoder::new(),
            chunk: vec![0; 64 * 1024].into(),
        })
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect` and `Malformed`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        (&self.stream)
            .write_all(bytes)
            .map_err(|source| failure(self.side, source))
    }

    /// Reads the next reply or message.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect`.
    pub fn read(&mut self) -> Result<Value, LinkError> {
        loop {
            let next = self
                .decoder
                .next_value()
                .map_err(|source| LinkError::Malformed {
                    side: self.side,
                    source,
                })?;
            if let Some(value) = next {
                return Ok(value);
            }
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Err(LinkError::Closed { side: self.side }),
                Ok(length) => self.decoder.feed(&self.chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failure(self.side, source)),
            }
        }
    }

    /// Sends one command and reads one reply.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect`.
    pub fn ask(&mut self, command: &Command) -> Result<Value, LinkError> {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, command.args());
        self.send(&bytes)?;
        self.read()
    }

    /// Closes the sending side, and returns the bytes that arrive until the server closes the
    /// connection. A reset counts as the end: a server that closes with unread input causes it.
    ///
    /// # Errors
    /// [`LinkError::Silent`] if the server does not close, [`LinkError::Io`].
    pub fn finish(mut self) -> Result<Vec<u8>, LinkError> {
        let mut rest = Vec::new();
        match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                return Err(failure(self.side, error));
            }
            _ => {}
        }
        loop {
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Ok(rest),
                Ok(length) => rest.extend_from_slice(&self.chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => match failure(self.side, error) {
                    LinkError::Closed { .. } => return Ok(rest),
                    other => return Err(other),
                },
            }
        }
    }
}

fn failure(side: Side, source: io::Error) -> LinkError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, WouldBlock,
    };
    match source.kind() {
        WouldBlock | TimedOut => LinkError::Silent { side },
        ConnectionReset | BrokenPipe | ConnectionAborted | NotConnected => {
            LinkError::Closed { side }
        }
        _ => LinkError::Io { side, source },
    }
}

/// The addresses of both servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address of the server under test.
    pub a: SocketAddr,
    /// The address of the reference server.
    pub b: SocketAddr,
    /// The kind of the reference server, whose known differences are accepted; `None` for a
    /// redis-server 7.0, or for a server that must have equal replies.
    pub peer: Option<Peer>,
}

/// The replies of both servers to the same commands.
#[derive(Debug)]
pub struct Exchange {
    /// The pairs of replies, in the order of the commands.
    pub replies: Vec<(Value, Value)>,
    /// The reason for missing replies, if any.
    pub failure: Option<LinkError>,
    /// Time from the first byte sent to the last byte received. Both servers executed all commands
    /// in this time.
    pub elapsed: Duration,
}

/// A connection to each server, used in parallel.
#[derive(Debug)]
pub struct Pair {
    /// The connection to the server under test.
    pub a: Link,
    /// The connection to the reference server.
    pub b: Link,
    /// The kind of the reference server.
    pub peer: Option<Peer>,
}

impl Pair {
    /// Connects to both servers.
    ///
    /// # Errors
    /// [`LinkError::Connect`].
    pub fn connect(addresses: Addresses) -> Result<Self, LinkError> {
        Ok(Self {
            a: Link::connect(Side::A, addresses.a)?,
            b: Link::connect(Side::B, addresses.b)?,
            peer: addresses.peer,
        })
    }

    /// Sends the commands to both servers at the same time, and reads `replies` replies from each.
    pub fn exchange<'c>(
        &mut self,
        commands: impl IntoIterator<Item = &'c Command>,
        replies: usize,
    ) -> Exchange {
        let mut bytes = Vec::new();
        for command in commands {
            encode_command(&mut bytes, command.args());
        }
        let start = Instant::now();
        let (from_a, from_b) = if bytes.len() <= WRITE_INLINE_MAX {
            let sent = self.a.send(&bytes).and_then(|()| self.b.send(&bytes));
            let mut both = (
                read_many(&mut self.a, replies),
                read_many(&mut self.b, replies),
            );
            if let Err(error) = sent {
                both.0.1.get_or_insert(error);
            }
            both
        } else {
            // A failed write is ignored: replies will be missing.
            let (to_a, to_b) = (&self.a.stream.try_clone(), &self.b.stream.try_clone());
            let bytes = &bytes[..];
            thread::scope(|scope| {
                for stream in [to_a, to_b].into_iter().flatten() {
                    let mut stream: &TcpStream = stream;
                    scope.spawn(move || stream.write_all(bytes));
                }
                (
                    read_many(&mut self.a, replies),
                    read_many(&mut self.b, replies),
                )
            })
        };
        Exchange {
            replies: from_a.0.into_iter().zip(from_b.0).collect(),
            failure: from_a.1.or(from_b.1),
            elapsed: start.elapsed(),
        }
    }

    /// Sends one command to both servers and reads one reply from each.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect`.
    pub fn ask(&mut self, command: &Command) -> Result<(Value, Value), LinkError> {
        let mut exchange = self.exchange([command], 1);
        match exchange.failure.take() {
            Some(error) => Err(error),
            None => Ok(exchange.replies.remove(0)),
        }
    }

    /// Reads values from each server, up to and including the first value for which `last` returns
    /// true.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect`.
    pub fn read_until(
        &mut self,
        last: impl Fn(&Value) -> bool,
    ) -> Result<(Vec<Value>, Vec<Value>), LinkError> {
        let until = |link: &mut Link| {
            let mut values = Vec::new();
            loop {
                let value = link.read()?;
                let done = last(&value);
                values.push(value);
                if done {
                    return Ok(values);
                }
            }
        };
        Ok((until(&mut self.a)?, until(&mut self.b)?))
    }

    /// Sends raw bytes to both servers.
    ///
    /// # Errors
    /// Any [`LinkError`] except `Connect` and `Malformed`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        self.a.send(bytes)?;
        self.b.send(bytes)
    }
}

fn read_many(link: &mut Link, count: usize) -> (Vec<Value>, Option<LinkError>) {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        match link.read() {
            Ok(value) => values.push(value),
            Err(error) => return (values, Some(error)),
        }
    }
    (values, None)
}
