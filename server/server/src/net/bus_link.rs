//! A connection of the cluster's bus, as a conversation.

use punctual_cluster::state::LinkId;

use crate::net::dial::Conversation;

/// Bytes of one connection of the bus, on their way between the socket and the state machine.
pub(crate) struct BusLink {
    pub(crate) id: LinkId,
    /// Whether the state machine knows that the connection is established.
    is_known: bool,
    /// Bytes to send.
    pub(crate) output: Vec<u8>,
    input: Vec<u8>,
    /// Maximum number of bytes of the next read.
    room: usize,
    /// Unsent bytes after the last step of the connection.
    unsent: usize,
}

/// Smallest room for a read. A heartbeat in a cluster of 100 nodes has 3.4 KB. The room grows with
/// longer input. It is small because the buffer of a read is cleared and kept.
const ROOM_MIN: usize = 8 << 10;

/// Events of a connection of the bus, for the state machine.
pub(crate) struct BusEvents {
    pub(crate) link: LinkId,
    pub(crate) connected: bool,
    pub(crate) input: Vec<u8>,
}

impl BusLink {
    pub(crate) fn new(id: LinkId, is_known: bool) -> Self {
        Self {
            id,
            is_known,
            output: Vec::new(),
            input: Vec::new(),
            room: ROOM_MIN,
            unsent: 0,
        }
    }

    /// Sets the number of unsent bytes of the connection, `output` included. Returns the number if
    /// it has changed.
    pub(crate) fn set_unsent(&mut self, of_dial: usize) -> Option<usize> {
        let unsent = of_dial + self.output.len();
        let changed = std::mem::replace(&mut self.unsent, unsent) != unsent;
        changed.then_some(unsent)
    }

    /// Returns the number of unsent bytes.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Takes the events since the last call.
    pub(crate) fn take_events(&mut self, established: bool) -> BusEvents {
        BusEvents {
            link: self.id,
            connected: established && !std::mem::replace(&mut self.is_known, established),
            input: std::mem::take(&mut self.input),
        }
    }
}

impl Conversation for BusLink {
    fn write_output(&mut self, _: u64, output: &mut Vec<u8>) {
        output.append(&mut self.output);
    }

    fn read_input(&mut self, input: &mut Vec<u8>) -> bool {
        self.room = (2 * input.len()).max(ROOM_MIN);
        self.input.append(input);
        false
    }

    fn room(&self) -> usize {
        self.room
    }
}
