//! One client's connection: bytes in, commands out, replies back.
//!
//! Commands are parsed where they were read; only an incomplete one is copied into the connection's own buffer, so
//! an idle connection holds no buffer at all. Replies gather in `out` and are written once a turn.

use std::io;
use std::sync::atomic::Ordering;

use punctual_resp::Parser;

use crate::client::session::Session;
use crate::config::{OutputLimit, Settings};
use crate::net::socket::Socket;

/// Output buffers up to this size are kept for the next client.
pub(crate) const KEPT_OUTPUT: usize = 256 << 10;

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) parser: Parser,
    pub(crate) session: Session,
    /// Bytes of a command that is not complete, or must wait.
    pub(crate) input: Vec<u8>,
    /// Replies; `written` bytes of it have gone.
    pub(crate) out: Vec<u8>,
    written: usize,
    /// The loop has it on its list of connections to flush.
    pub(crate) dirty: bool,
    /// More may be readable: the last read filled the buffer.
    pub(crate) readable: bool,
    /// Its next command waits for CLIENT UNPAUSE.
    pub(crate) paused: bool,
    /// The peer has closed its end; what it has sent may still be unread.
    pub(crate) hung_up: bool,
    /// The peer sends no more.
    pub(crate) ended: bool,
    /// Since when (unix ms) its output has been above the soft limit.
    pub(crate) over_soft_since: Option<u64>,
    /// Its idle timer.
    pub(crate) idle_timer: Option<punctual::queue::TimerKey>,
    /// Fires when its command has waited for long enough.
    pub(crate) wait_timer: Option<punctual::queue::TimerKey>,
    /// Fires when its output has been above the soft limit for too long.
    pub(crate) soft_timer: Option<punctual::queue::TimerKey>,
}

/// Whether `left` unread bytes are too many, now or for too long; keeps when that began.
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

/// How a flush ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything has gone.
    All,
    /// The socket takes no more now.
    Blocked,
    /// The peer is gone.
    Broken,
}

impl Connection {
    pub(crate) fn new(socket: Socket, session: Session) -> Self {
        Self {
            socket,
            parser: Parser::new(),
            session,
            input: Vec::new(),
            out: Vec::new(),
            written: 0,
            dirty: false,
            readable: false,
            paused: false,
            hung_up: false,
            ended: false,
            over_soft_since: None,
            idle_timer: None,
            wait_timer: None,
            soft_timer: None,
        }
    }

    /// Which of the limits of unread output holds for it.
    pub(crate) fn output_class(&self) -> usize {
        if self.session.subscriptions() > 0 {
            Settings::OUTPUT_PUBSUB
        } else {
            Settings::OUTPUT_NORMAL
        }
    }

    /// Whether its next command must wait: for CLIENT UNPAUSE, or for the end of the last one.
    pub(crate) fn waits(&self) -> bool {
        self.paused || self.session.waiter.is_some()
    }

    /// Bytes of output that have not been written.
    pub(crate) fn unwritten(&self) -> usize {
        self.out.len() - self.written
    }

    /// Writes what the socket takes; counts it.
    pub(crate) fn flush(&mut self, count: &mut u64) -> Flushed {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(0) => return Flushed::Broken,
                Ok(n) => {
                    self.written += n;
                    *count += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.forget_written();
                    return Flushed::Blocked;
                }
                Err(_) => return Flushed::Broken,
            }
        }
        self.out.clear();
        self.written = 0;
        Flushed::All
    }

    /// Frees what has been written, when that is most of the buffer.
    fn forget_written(&mut self) {
        if self.written > KEPT_OUTPUT && self.written * 2 > self.out.len() {
            self.out.drain(..self.written);
            self.out.shrink_to(self.out.len() * 2);
            self.written = 0;
        }
    }

    /// Keeps the incomplete rest of what was read.
    pub(crate) fn keep_input(&mut self, rest: &[u8]) {
        self.input.extend_from_slice(rest);
    }

    /// Publishes how much of its input is kept, for CLIENT LIST.
    pub(crate) fn show_input(&self) {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let info = &self.session.info;
        info.query_bytes.store(len as u64, Ordering::Relaxed);
        info.query_free
            .store((capacity - len) as u64, Ordering::Relaxed);
    }

    /// Lets go of the first `count` bytes of kept input.
    pub(crate) fn consume_input(&mut self, count: usize) {
        if count == self.input.len() {
            // A big command's buffer is not kept for an idle client.
            self.input = Vec::new();
        } else {
            self.input.drain(..count);
            self.input.shrink_to(self.input.len().max(1 << 10) * 2);
        }
    }
}
