//! A client's connection: its socket, its input and its output.
//!
//! Commands are parsed in the loop's read buffer. Only commands that are incomplete or must wait
//! are copied into the connection's own buffers, so an idle connection holds no buffer. Replies are
//! collected in `out` and written once a turn. Output that a slow peer has not read is moved to
//! chunks: one growing buffer would be copied each time its capacity doubles, and leave its old
//! memory unused.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;

use punctual_resp::{CHUNK, Chunks, Parser};

use crate::config::{OutputLimit, Settings};
use crate::net::socket::Socket;
use crate::session::Session;

/// State of a client's connection. Only its event loop uses it.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) parser: Parser,
    pub(crate) session: Session,
    /// Bytes of an incomplete command, or of commands that must wait.
    pub(crate) input: Vec<u8>,
    /// Bytes after `input` that were read while a command waited.
    pub(crate) held_input: Chunks,
    /// Output that precedes `out`.
    pub(crate) chunks: Chunks,
    /// Output after `chunks`.
    pub(crate) out: Vec<u8>,
    /// Parts of the output that wait until the log of changes is released. Each entry has the
    /// part's start, counted from the start of the first chunk, and the position of the log that
    /// must be released before the part is sent. Both ascend.
    pub(crate) holds: VecDeque<(usize, u64)>,
    /// Whether the connection is in the loop's list of held output.
    pub(crate) held: bool,
    /// Number of bytes of the first chunk, or of `out` if there is no chunk, that are sent.
    written: usize,
    /// Whether the connection is in the loop's list of connections to flush.
    pub(crate) dirty: bool,
    /// Whether the next turn reads this connection again, because more input may be readable.
    pub(crate) readable: bool,
    /// Whether the next command waits for the end of a pause of clients.
    pub(crate) paused: bool,
    /// Whether the peer has closed its end. Unread bytes from it may remain.
    pub(crate) hung_up: bool,
    /// Whether all bytes from the peer have been read.
    pub(crate) ended: bool,
    /// Unix time in milliseconds since which the output has been above the soft limit.
    pub(crate) over_soft_since: Option<u64>,
    /// Memory of this client in bytes, as last added to the sum of all clients; 0 without
    /// `maxmemory-clients`.
    pub(crate) counted: i64,
    /// Fires when the client has been idle for too long.
    pub(crate) idle_timer: Option<punctual::queue::TimerKey>,
    /// Fires at the timeout of the command that waits.
    pub(crate) wait_timer: Option<punctual::queue::TimerKey>,
    /// Fires when the output has been above the soft limit for too long.
    pub(crate) soft_timer: Option<punctual::queue::TimerKey>,
}

/// Returns whether `left` unwritten bytes of output have reached the hard limit, or whether the
/// output has been at or above the soft limit for too long. Updates `over_soft_since`.
pub(crate) fn is_exceeded(
    limit: OutputLimit,
    left: u64,
    now_ms: u64,
    over_soft_since: &mut Option<u64>,
) -> bool {
    if limit.hard_bytes > 0 && left >= limit.hard_bytes {
        return true;
    }
    if limit.soft_bytes == 0 || left < limit.soft_bytes {
        *over_soft_since = None;
        return false;
    }
    let since = *over_soft_since.get_or_insert(now_ms);
    now_ms.saturating_sub(since) > limit.soft_seconds.saturating_mul(1000)
}

/// Result of a flush.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All output is written.
    All,
    /// The rest of the output must wait: for the append-only file, or for further blocks of a
    /// replica's snapshot.
    Held,
    /// The socket's buffer is full.
    Blocked,
    /// The connection is broken.
    Broken,
}

impl From<io::Error> for Flushed {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Blocked,
            _ => Self::Broken,
        }
    }
}

impl Connection {
    pub(crate) fn new(socket: Socket, session: Session) -> Self {
        Self {
            socket,
            parser: Parser::new(),
            session,
            input: Vec::new(),
            held_input: Chunks::default(),
            chunks: Chunks::default(),
            out: Vec::new(),
            holds: VecDeque::new(),
            held: false,
            written: 0,
            dirty: false,
            readable: false,
            paused: false,
            hung_up: false,
            ended: false,
            over_soft_since: None,
            counted: 0,
            idle_timer: None,
            wait_timer: None,
            soft_timer: None,
        }
    }

    /// Returns the index of the connection's limit in [`Settings::output_limits`].
    pub(crate) fn output_class(&self) -> usize {
        if self.session.replica.is_some() {
            Settings::OUTPUT_REPLICA
        } else if self.session.subscriptions() > 0 {
            Settings::OUTPUT_PUBSUB
        } else {
            Settings::OUTPUT_NORMAL
        }
    }

    /// Returns whether the next command must wait: for the end of a pause of clients, or for the
    /// reply of the command before it.
    pub(crate) fn waits(&self) -> bool {
        self.paused || self.session.waiter.is_some()
    }

    /// Returns whether bytes that are read now must not run yet, because a command waits or earlier
    /// held input has not run.
    pub(crate) fn holds_input(&self) -> bool {
        self.waits() || !self.held_input.is_empty()
    }

    /// Returns the number of bytes of input that are read and have not run.
    pub(crate) fn input_len(&self) -> usize {
        self.input.len() + self.held_input.len()
    }

    /// Returns the number of output bytes, including written bytes that are still in a buffer.
    pub(crate) fn output_len(&self) -> usize {
        self.chunks.len() + self.out.len()
    }

    /// Returns the number of output bytes that are not written.
    pub(crate) fn unwritten(&self) -> usize {
        self.output_len() - self.written
    }

    /// Returns the capacity of the output's buffers in bytes.
    pub(crate) fn output_capacity(&self) -> usize {
        self.chunks.capacity() + self.out.capacity()
    }

    /// Returns the maximum length of the output if at most `unwritten_max` bytes may be unwritten.
    pub(crate) fn output_max(&self, unwritten_max: usize) -> usize {
        unwritten_max.saturating_add(self.written)
    }

    /// Holds the output from `from` on until the log is released up to `until`.
    pub(crate) fn hold(&mut self, from: usize, until: u64) {
        // If the last held part waits for the same position, this output belongs to that part.
        if self.holds.back().is_none_or(|last| last.1 != until) {
            self.holds.push_back((from, until));
        }
    }

    /// Swaps the output with the empty buffer `to`. Changes nothing and returns false if the output
    /// is so long that it has chunks, or if some of it was written or is held.
    pub(crate) fn take_output(&mut self, to: &mut Vec<u8>) -> bool {
        let whole = self.chunks.is_empty() && self.holds.is_empty() && self.written == 0;
        if whole {
            std::mem::swap(&mut self.out, to);
        }
        whole
    }

    /// Writes the first `len` bytes of the output, as far as the socket accepts them, and adds the
    /// number of written bytes to `count`.
    pub(crate) fn flush(&mut self, mut len: usize, count: &mut u64) -> Flushed {
        loop {
            let buffer = self.chunks.first().unwrap_or(&self.out);
            let end = len.min(buffer.len());
            if self.written >= end {
                if self.written < buffer.len() || self.chunks.is_empty() {
                    break;
                }
                let freed = self.chunks.pop().map_or(0, |chunk| chunk.len());
                len -= freed;
                self.move_start(freed);
                continue;
            }
            match self.socket.write(&buffer[self.written..end]) {
                Ok(0) => return Flushed::Broken,
                Ok(n) => {
                    self.written += n;
                    *count += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.drop_written();
                    return e.into();
                }
            }
        }
        if len < self.output_len() {
            self.drop_written();
            return Flushed::Held;
        }
        self.out.clear();
        self.written = 0;
        match self.socket.flush() {
            Ok(()) => Flushed::All,
            Err(e) => e.into(),
        }
    }

    /// Frees the written part of `out` if no chunk precedes `out` and most of `out` is written.
    fn drop_written(&mut self) {
        let is_first = self.chunks.is_empty();
        if is_first && self.written > CHUNK && self.written * 2 > self.out.len() {
            self.out.drain(..self.written);
            self.out.shrink_to(self.out.len() * 2);
            self.move_start(self.written);
        }
    }

    /// Adjusts positions in the output after `freed` bytes, all of them written, were freed at its
    /// start.
    fn move_start(&mut self, freed: usize) {
        self.written -= freed;
        for (from, _) in &mut self.holds {
            *from = from.saturating_sub(freed);
        }
    }

    /// Keeps bytes that have not run: of an incomplete command, or of commands that must wait.
    pub(crate) fn keep_input(&mut self, rest: &[u8]) {
        self.input.extend_from_slice(rest);
    }

    /// Publishes the size of the kept input, for CLIENT LIST.
    pub(crate) fn publish_input_size(&self) {
        let len = self.input_len();
        let capacity = self.input.capacity() + self.held_input.capacity();
        let info = &self.session.info;
        // As in Redis, parsed arguments of an incomplete command do not count as buffered.
        let parsed = self.parser.parsed().min(len);
        info.parsed_bytes.store(parsed as u64, Ordering::Relaxed);
        info.query_bytes
            .store((len - parsed) as u64, Ordering::Relaxed);
        info.query_free
            .store((capacity - len) as u64, Ordering::Relaxed);
    }

    /// Removes the first `count` bytes of the kept input.
    pub(crate) fn consume_input(&mut self, count: usize) {
        if count == self.input.len() {
            // An idle client must not keep the buffer of a large command.
            self.input = Vec::new();
        } else {
            self.input.drain(..count);
            self.input.shrink_to(self.input.len().max(1 << 10) * 2);
        }
    }
}
