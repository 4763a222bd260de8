//! One TLS session over a socket: plain bytes on the server's side, TLS records on the socket's
//! side.
//!
//! Ground rules: a session never blocks. It reads and writes the socket that its caller passes, and
//! returns the socket's `WouldBlock`. The bytes that a session holds between calls are bounded: the
//! records of an unfinished handshake or an incomplete record, the plain bytes of one read for
//! which the caller had no space, and the records of one write that the socket did not accept. An
//! idle session holds no buffer; the buffers of a call belong to the thread.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::{self, RecvFlags, SendFlags};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

use crate::world::system::NO_SIGNAL;

/// Maximum number of plain bytes in a record.
const RECORD: usize = 16 << 10;
/// Bytes of a record in addition to its plain bytes, rounded up.
const OVERHEAD: usize = 256;
/// Maximum number of plain bytes that one write encrypts.
const WRITE: usize = 4 * RECORD;
/// Minimum and maximum size of one read from the socket. Between them, a read has the size of the
/// caller's buffer, so that almost all of its plain bytes fit into that buffer. The minimum is a
/// whole record.
const READ: std::ops::RangeInclusive<usize> = RECORD + OVERHEAD..=64 << 10;

/// Buffers for the duration of a call.
#[derive(Default)]
struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Side of the connection in the handshake.
enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// One TLS session, with the bytes that it holds between calls.
pub(crate) struct Session {
    side: Side,
    held: Held,
}

/// State and bytes that a session keeps between calls.
#[derive(Default)]
struct Held {
    /// Start of a record that is not complete.
    input: Vec<u8>,
    /// Plain bytes that the caller has not read.
    plain: Vec<u8>,
    /// Records to send. The first `sent` bytes are already sent.
    output: Vec<u8>,
    sent: usize,
    /// The peer has closed its direction of the connection.
    ended: bool,
    /// This side has closed its direction of the connection.
    closed: bool,
    failure: Option<rustls::Error>,
}

/// State of the session after one step.
enum Step<'c, D> {
    /// The step must be repeated.
    Again,
    /// The session needs more input.
    Input,
    /// The session can encrypt.
    Ready(rustls::unbuffered::WriteTraffic<'c, D>),
    Failed(rustls::Error),
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Begins the session of a client of this server.
    pub(super) fn server(connection: UnbufferedServerConnection) -> Self {
        Self {
            side: Side::Server(connection),
            held: Held::default(),
        }
    }

    /// Begins a session with another server.
    pub(super) fn client(connection: UnbufferedClientConnection) -> Self {
        Self {
            side: Side::Client(connection),
            held: Held::default(),
        }
    }

    /// Returns true until both sides have agreed on keys.
    pub(crate) fn is_handshaking(&self) -> bool {
        match &self.side {
            Side::Server(connection) => connection.is_handshaking(),
            Side::Client(connection) => connection.is_handshaking(),
        }
    }

    /// Returns true if records wait for the socket to accept them.
    pub(crate) fn wants_write(&self) -> bool {
        !self.held.output.is_empty()
    }

    /// Returns true if a read returns at once even though the socket is not readable.
    pub(crate) fn has_more(&self) -> bool {
        !self.held.plain.is_empty() || self.held.ended || self.held.failure.is_some()
    }

    /// Continues the handshake. Returns `WouldBlock` while the handshake waits for the peer.
    pub(crate) fn shake_hands(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.check()?;
        if self.held.input.is_empty() {
            // The client side starts the handshake without input.
            self.step(&mut [], &mut [], &mut 0);
        }
        while self.is_handshaking() {
            self.send_held(socket)?;
            let end = self.receive(socket, &mut [], &mut 0);
            // An alert reports the failure to the peer.
            let sent = self.send_held(socket);
            end?;
            self.check()?;
            if self.held.ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sent?;
        }
        match self.send_held(socket) {
            // The next write sends the unsent records first.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Reads plain bytes. As with a socket, a read that does not fill `place` has emptied the
    /// socket, and 0 is the end of the stream. If more follows even so, [`Session::has_more`]
    /// returns true.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>, place: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take_plain(place);
        while filled < place.len() {
            if filled == 0 {
                self.check()?;
            }
            if self.held.ended || self.held.failure.is_some() {
                return Ok(filled);
            }
            let emptied = match self.receive(socket, place, &mut filled) {
                Ok(emptied) => emptied,
                Err(_) if filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            };
            // Sends an alert or a key update. If that fails, the next write sends the unsent
            // records or returns the error.
            let _ = self.send_held(socket);
            if emptied && filled > 0 {
                return Ok(filled);
            }
            if emptied && !self.has_more() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(filled)
    }

    /// Encrypts and sends bytes from the start of `bytes`; returns their number. Some of their
    /// records may still wait for the socket: see [`Session::flush`].
    pub(crate) fn write(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.write_pieces(socket, std::iter::once(bytes))
    }

    /// Encrypts and sends bytes from several buffers; see [`Session::write`].
    pub(crate) fn write_pieces<'b>(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: impl IntoIterator<Item = &'b [u8]>,
    ) -> io::Result<usize> {
        self.flush(socket)?;
        if self.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut taken = 0;
            scratch.output.clear();
            'all: for bytes in pieces {
                for piece in bytes.chunks(RECORD) {
                    if taken + piece.len() > WRITE {
                        break 'all;
                    }
                    self.encrypt(piece, &mut scratch.output)?;
                    taken += piece.len();
                }
            }
            let mut sent = 0;
            while sent < scratch.output.len() {
                match net::send(socket, &scratch.output[sent..], NO_SIGNAL) {
                    Ok(count) => sent += count,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            self.held.output.extend_from_slice(&scratch.output[sent..]);
            Ok(taken)
        })
    }

    /// Sends the records that wait for the socket.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.send_held(socket)
    }

    /// Sends the peer a close alert, if the socket accepts it at once.
    pub(crate) fn close(&mut self, socket: BorrowedFd<'_>) {
        let closed = std::mem::replace(&mut self.held.closed, true);
        let failed = self.is_handshaking() || self.check().is_err();
        if closed || failed || self.send_held(socket).is_err() {
            return;
        }
        let mut record = [0; OVERHEAD];
        let held = &mut self.held;
        let mut input = std::mem::take(&mut held.input);
        let count = match &mut self.side {
            Side::Server(c) => {
                let status = c.process_tls_records(&mut input);
                close_notify(held.advance(status, &mut [], &mut 0).1, &mut record)
            }
            Side::Client(c) => {
                let status = c.process_tls_records(&mut input);
                close_notify(held.advance(status, &mut [], &mut 0).1, &mut record)
            }
        };
        // The peer may already be gone.
        let _ = net::send(socket, &record[..count], NO_SIGNAL | SendFlags::DONTWAIT);
    }

    /// Appends the records of `piece` to `output`.
    fn encrypt(&mut self, piece: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        self.check()?;
        let mut input = std::mem::take(&mut self.held.input);
        let mut used = self.step(&mut input, &mut [], &mut 0);
        self.check()?;
        // Records must be sent in the order in which they were encrypted.
        output.append(&mut self.held.output);
        let from = output.len();
        output.resize(from + piece.len() + OVERHEAD, 0);
        let place = &mut output[from..];
        let held = &mut self.held;
        let written = loop {
            let rest = &mut input[used..];
            let (discard, step) = match &mut self.side {
                Side::Server(c) => {
                    let status = c.process_tls_records(rest);
                    let (discard, step) = held.advance(status, &mut [], &mut 0);
                    (discard, encrypted(step, piece, place))
                }
                Side::Client(c) => {
                    let status = c.process_tls_records(rest);
                    let (discard, step) = held.advance(status, &mut [], &mut 0);
                    (discard, encrypted(step, piece, place))
                }
            };
            used += discard;
            if let Some(written) = step {
                break written;
            }
        };
        input.drain(..used);
        held.input = input;
        output.truncate(from + *written.as_ref().unwrap_or(&0));
        written.map(|_| ())
    }

    /// Reads from the socket once, and decrypts. Plain bytes go to `place[*filled..]`; bytes that
    /// do not fit are held. Returns true if the socket is empty.
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        place: &mut [u8],
        filled: &mut usize,
    ) -> io::Result<bool> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.held.input.len();
            let max = place.len().clamp(*READ.start(), *READ.end());
            if scratch.input.len() < kept + max {
                scratch.input.resize(kept + max, 0);
            }
            scratch.input[..kept].copy_from_slice(&self.held.input);
            let target = &mut scratch.input[kept..kept + max];
            let (count, _) = net::recv(socket, target, RecvFlags::empty())?;
            if count == 0 {
                self.held.ended = true;
                return Ok(true);
            }
            // Frees the buffer, because an idle session must hold no buffer.
            self.held.input = Vec::new();
            let input = &mut scratch.input[..kept + count];
            let used = self.step(input, place, filled);
            if used < input.len() && self.held.failure.is_none() {
                self.held.input = input[used..].to_vec();
            }
            Ok(count < max)
        })
    }

    /// Processes records. Returns the number of bytes of `input` that were used up.
    fn step(&mut self, input: &mut [u8], place: &mut [u8], filled: &mut usize) -> usize {
        let mut used = 0;
        loop {
            let failed = self.held.failure.is_some();
            if failed && !self.has_records() {
                return used;
            }
            // After a failure the session must not process the same input again. It still has an
            // alert to send.
            let rest = match failed {
                false => &mut input[used..],
                true => &mut [],
            };
            let (discard, again) = match &mut self.side {
                Side::Server(c) => {
                    let status = c.process_tls_records(rest);
                    let (discard, step) = self.held.advance(status, place, filled);
                    (discard, again(step))
                }
                Side::Client(c) => {
                    let status = c.process_tls_records(rest);
                    let (discard, step) = self.held.advance(status, place, filled);
                    (discard, again(step))
                }
            };
            used += discard;
            match again {
                Ok(true) => {}
                Ok(false) => return used,
                Err(error) => self.held.failure = Some(error),
            }
        }
    }

    /// Returns true if rustls has records to send.
    fn has_records(&self) -> bool {
        match &self.side {
            Side::Server(connection) => connection.wants_write(),
            Side::Client(connection) => connection.wants_write(),
        }
    }

    /// Returns the error that has ended the session, if there is one.
    fn check(&self) -> io::Result<()> {
        match &self.held.failure {
            None => Ok(()),
            Some(error) => Err(failed(error.clone())),
        }
    }

    fn take_plain(&mut self, place: &mut [u8]) -> usize {
        let count = self.held.plain.len().min(place.len());
        if count > 0 {
            place[..count].copy_from_slice(&self.held.plain[..count]);
            self.held.plain.drain(..count);
            if self.held.plain.is_empty() {
                self.held.plain = Vec::new();
            }
        }
        count
    }

    fn send_held(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let held = &mut self.held;
        while held.sent < held.output.len() {
            match net::send(socket, &held.output[held.sent..], NO_SIGNAL) {
                Ok(count) => held.sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        held.output = Vec::new();
        held.sent = 0;
        Ok(())
    }
}

impl Held {
    /// Handles one state of the session. Returns the number of bytes of the input that were used
    /// up.
    fn advance<'c, D>(
        &mut self,
        status: UnbufferedStatus<'c, '_, D>,
        place: &mut [u8],
        filled: &mut usize,
    ) -> (usize, Step<'c, D>) {
        let mut discard = status.discard;
        let step = match status.state {
            Err(error) => Step::Failed(error),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                match traffic.next_record() {
                    None => break Step::Again,
                    Some(Err(error)) => break Step::Failed(error),
                    Some(Ok(record)) => {
                        discard += record.discard;
                        let count = record.payload.len().min(place.len() - *filled);
                        place[*filled..*filled + count].copy_from_slice(&record.payload[..count]);
                        *filled += count;
                        self.plain.extend_from_slice(&record.payload[count..]);
                    }
                }
            },
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let from = self.output.len();
                if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                    self.output.resize(from + size.required_size, 0);
                    // The buffer has the size that `encode` requested.
                    let _ = data.encode(&mut self.output[from..]);
                }
                Step::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                // The caller sends `output` before anything else.
                data.done();
                Step::Again
            }
            Ok(ConnectionState::PeerClosed) => {
                self.ended = true;
                Step::Again
            }
            Ok(ConnectionState::WriteTraffic(traffic)) => Step::Ready(traffic),
            Ok(ConnectionState::Closed) => {
                self.ended = true;
                Step::Input
            }
            // The handshake needs more input. (Other states belong to early data, which is off.)
            Ok(_) => Step::Input,
        };
        (discard, step)
    }
}

/// Returns true if the step must be repeated.
fn again<D>(step: Step<'_, D>) -> Result<bool, rustls::Error> {
    match step {
        Step::Again => Ok(true),
        Step::Input | Step::Ready(_) => Ok(false),
        Step::Failed(error) => Err(error),
    }
}

/// Encrypts `piece` if the session is ready. Returns `None` if the step must be repeated.
fn encrypted<D>(step: Step<'_, D>, piece: &[u8], place: &mut [u8]) -> Option<io::Result<usize>> {
    match step {
        Step::Again => None,
        Step::Input => Some(Err(io::ErrorKind::BrokenPipe.into())),
        Step::Failed(error) => Some(Err(failed(error))),
        Step::Ready(mut traffic) => Some(
            traffic
                .encrypt(piece, place)
                .map_err(|error| io::Error::other(error.to_string())),
        ),
    }
}

fn close_notify<D>(step: Step<'_, D>, place: &mut [u8]) -> usize {
    match step {
        Step::Ready(mut traffic) => traffic.queue_close_notify(place).unwrap_or(0),
        _ => 0,
    }
}

fn failed(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
