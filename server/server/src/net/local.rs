//! The connection of a client in the server's own process: two byte queues instead of a socket.
//!
//! Ground rules: the event loop reads and writes the server's end, as if it were a socket that does
//! not block. The client's end blocks. The queues have one mutex, under which no other lock is
//! taken. After the client has added input or has made room for output, it sends an order to the
//! loop's mailbox.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Number of bytes of unread output at which the server's end accepts no more.
const OUTPUT_MAX: usize = 256 << 10;

/// A pair of byte queues between a client and its event loop.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Slot of the connection in the loop, and ID of the client, once the loop serves it.
    pub(crate) client: OnceLock<(usize, u64)>,
    queues: Mutex<Queues>,
    /// Signals new output, or the end of the server's side.
    output: Condvar,
}

#[derive(Debug, Default)]
struct Queues {
    input: Vec<u8>,
    output: Vec<u8>,
    /// The server's end has refused output.
    refused: bool,
    client_closed: bool,
    server_closed: bool,
}

/// The server's end of a pipe. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct ServerEnd(pub(crate) Arc<Pipe>);

impl Deref for ServerEnd {
    type Target = Pipe;

    fn deref(&self) -> &Pipe {
        &self.0
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.close();
    }
}

/// Result of [`Pipe::take_output`].
pub(crate) struct Taken {
    /// The server's end has refused output earlier, and can now write it.
    pub(crate) made_room: bool,
    /// The server has closed its end, and all output is taken.
    pub(crate) ended: bool,
}

impl Pipe {
    /// Server: moves input to `buf`. Returns 0 at the end of the client's stream.
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut queues = self.queues.lock();
        let len = queues.input.len().min(buf.len());
        if len == 0 && !queues.client_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buf[..len].copy_from_slice(&queues.input[..len]);
        if len == queues.input.len() {
            queues.input = Vec::new();
        } else {
            queues.input.drain(..len);
        }
        Ok(len)
    }

    /// Server: adds output, all of it or none. Returns `WouldBlock` if there is no room.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut queues = self.queues.lock();
        if queues.client_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if queues.output.len() >= OUTPUT_MAX {
            queues.refused = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        queues.output.extend_from_slice(bytes);
        drop(queues);
        self.output.notify_one();
        Ok(bytes.len())
    }

    /// Server: ends the connection.
    pub(crate) fn close(&self) {
        self.queues.lock().server_closed = true;
        self.output.notify_one();
    }

    /// Client: adds input.
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.queues.lock().input.extend_from_slice(bytes);
    }

    /// Client: ends the connection.
    pub(crate) fn hang_up(&self) {
        self.queues.lock().client_closed = true;
    }

    /// Client: returns true if the server has closed its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.queues.lock().server_closed
    }

    /// Client: moves all output to `into`, which must be empty. If there is no output, waits at
    /// most `wait` for output; `None` waits without a limit.
    pub(crate) fn take_output(&self, into: &mut Vec<u8>, wait: Option<Duration>) -> Taken {
        let mut queues = self.queues.lock();
        let is_idle = |q: &mut Queues| q.output.is_empty() && !q.server_closed;
        match wait {
            Some(Duration::ZERO) => {}
            Some(time) => drop(self.output.wait_while_for(&mut queues, is_idle, time)),
            None => self.output.wait_while(&mut queues, is_idle),
        }
        std::mem::swap(&mut queues.output, into);
        Taken {
            made_room: std::mem::take(&mut queues.refused),
            ended: queues.server_closed && into.is_empty(),
        }
    }
}
