//! A client's connection to its node, and the replies that arrive on it.

use punctual_resp::{Decoder, Value};

use crate::clients::PORT;
use crate::kernel::network::ConnectionId;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId};
use crate::{recording, verdict, world};

/// Whether a client can send commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Yes. `settled`: since the last call, the server has closed the lost connection.
    Ready { settled: bool },
    /// No: the connection is not established yet.
    Connecting { settled: bool },
    /// Commands of the lost connection may still run, so ask again after this time.
    Later(Nanos),
}

/// What has arrived.
pub struct Arrived {
    pub replies: Vec<Value>,
    pub connected: bool,
    /// The connection was lost.
    pub lost: bool,
}

/// A connection that is opened again after it was lost.
pub struct Link {
    pub node: NodeId,
    /// Number of nodes, one of which is the primary.
    nodes: usize,
    /// Whether the node has shown that it is not the primary.
    is_misplaced: bool,
    end: Option<EndId>,
    pub ready: bool,
    /// The lost connection, on which commands may still run.
    old: Option<EndId>,
    /// Time since which no command of the last lost connection could run.
    pub settled_at: Nanos,
    /// Bytes that the connection has not taken.
    pub unsent: Vec<u8>,
    decoder: Decoder,
}

impl Link {
    pub fn new(nodes: usize) -> Self {
        Self {
            node: 1,
            nodes,
            is_misplaced: false,
            end: None,
            ready: false,
            old: None,
            settled_at: 0,
            unsent: Vec::new(),
            decoder: Decoder::new(),
        }
    }

    /// Returns whether this is the connection.
    pub fn owns(&self, end: EndId) -> bool {
        self.end == Some(end)
    }

    /// Returns the number of the connection.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.end.map(|end| end.connection)
    }

    /// Connects if there is no connection.
    pub fn prepare(&mut self) -> Prepared {
        if let Some(old) = self.old {
            let Some(since) = world::gone_since(old) else {
                return Prepared::Later(5 * MILLI);
            };
            self.settled_at = since;
        }
        let settled = self.old.take().is_some();
        if self.end.is_none() {
            self.end = Some(world::connect(self.node, PORT));
        }
        match self.ready {
            true => Prepared::Ready { settled },
            false => Prepared::Connecting { settled },
        }
    }

    /// Adds a command to the output.
    pub fn push(&mut self, arguments: &[impl AsRef<[u8]>]) {
        recording::note(arguments);
        punctual_resp::encode_command(&mut self.unsent, arguments);
    }

    /// Sends output.
    pub fn flush(&mut self) {
        if let Some(end) = self.end
            && !self.unsent.is_empty()
        {
            let taken = world::send(end, &self.unsent);
            self.unsent.drain(..taken);
        }
    }

    /// Reads the replies that have arrived.
    pub fn read(&mut self) -> Arrived {
        let Some(end) = self.end else {
            return Arrived {
                replies: Vec::new(),
                connected: false,
                lost: true,
            };
        };
        let found = world::read(end);
        let connected = found.connected && !self.ready;
        self.ready |= found.connected;
        self.decoder.feed(&found.bytes);
        let mut replies = Vec::new();
        loop {
            match self.decoder.next_value() {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => {
                    let last = found.bytes.escape_ascii();
                    verdict::stop(&format!("a reply cannot be read: {error}: {last:.300}"))
                }
            }
        }
        if !found.ended {
            self.flush();
        }
        Arrived {
            replies,
            connected,
            lost: found.ended,
        }
    }

    /// Gives up the connection.
    pub fn lose(&mut self) {
        if let Some(end) = self.end.take() {
            world::close(end);
            self.old = Some(end);
        }
        self.ready = false;
        self.unsent.clear();
        self.decoder = Decoder::new();
    }

    /// Returns whether a command was refused without an effect. Any other error fails the run.
    pub fn is_refused(&mut self, reply: &Value, command: &dyn std::fmt::Debug) -> bool {
        let Value::Error(text) = reply else {
            return false;
        };
        match text.split(|byte| *byte == b' ').next().unwrap_or_default() {
            b"LOADING" | b"MISCONF" | b"EXECABORT" | b"NOREPLICAS" | b"OOM" => {}
            b"READONLY" | b"UNBLOCKED" if self.nodes > 1 => self.is_misplaced = true,
            _ => {
                let text = String::from_utf8_lossy(text);
                verdict::stop(&format!("{command:?}: {text}"));
            }
        }
        true
    }

    /// Notes whether a reply shows that the node is not the primary.
    pub fn note_place(&mut self, reply: &Value) {
        let is_error = matches!(reply, Value::Error(text) if text.starts_with(b"READONLY"));
        self.is_misplaced |= is_error && self.nodes > 1;
    }

    /// Turns to the next node, because this one is dead.
    pub fn turn_away(&mut self) {
        self.node = self.node % self.nodes + 1;
    }

    /// Turns to the next node if the node is not the primary. Returns whether it does, so that the
    /// connection must be given up.
    pub fn moves(&mut self) -> bool {
        let moves = std::mem::take(&mut self.is_misplaced);
        if moves {
            self.node = self.node % self.nodes + 1;
        }
        moves
    }
}
