//! Connections: two ends, and the segments on their way to each of them.
//!
//! A stream keeps its order. The sender may have [`WINDOW`] bytes on their way or unread. An end
//! that is closed with unread bytes, or to which bytes are sent after it was closed, resets the
//! connection, as Linux does.

use std::collections::VecDeque;

use super::descriptors::ObjectId;
use super::events::Event;
use super::network::{Address, ConnectionId, LinkEvent};
use super::poll::{ERR, HUP, IN, OUT, RDHUP};
use super::{Kernel, Lie, Nanos, NodeId};

/// Maximum number of bytes that are sent and not yet read.
const WINDOW: usize = 64 << 10;

/// An end of a connection: side 0 has connected, side 1 has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndId {
    pub connection: ConnectionId,
    pub side: usize,
}

impl EndId {
    pub fn peer(self) -> Self {
        Self {
            side: 1 - self.side,
            ..self
        }
    }
}

#[derive(Debug)]
pub struct Connection {
    pub ends: [End; 2],
}

/// What is on its way to an end.
#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// State of an end.
#[derive(Debug)]
pub struct End {
    pub address: Address,
    pub object: Option<ObjectId>,
    pub connected: bool,
    /// The owner has closed this end.
    pub closed: bool,
    /// Time at which the owner has closed this end.
    pub closed_at: Nanos,
    /// The owner has ended its own stream.
    ended: bool,
    /// The peer's stream has ended.
    pub peer_ended: bool,
    /// The connection is broken.
    pub reset: bool,
    /// An error that was not yet reported.
    pub error: Option<i32>,
    unread: VecDeque<u8>,
    /// Segments on their way to this end, and the time at which each arrives.
    coming: VecDeque<(Nanos, Segment)>,
    coming_bytes: usize,
    /// Whether the last write found too little room.
    wants_room: bool,
}

impl End {
    pub fn new(address: Address) -> Self {
        Self {
            address,
            object: None,
            connected: false,
            closed: false,
            closed_at: 0,
            ended: false,
            peer_ended: false,
            reset: false,
            error: None,
            unread: VecDeque::new(),
            coming: VecDeque::new(),
            coming_bytes: 0,
            wants_room: false,
        }
    }

    /// Returns the events for which the end is ready, without the room to write.
    pub fn readiness(&self) -> u32 {
        let mut events = 0;
        if !self.unread.is_empty() || self.peer_ended {
            events |= IN;
        }
        if self.peer_ended {
            events |= RDHUP;
        }
        if self.reset {
            events |= IN | OUT | RDHUP | HUP;
        }
        if self.error.is_some() {
            events |= ERR;
        }
        events
    }
}

impl Kernel {
    pub fn end(&mut self, id: EndId) -> &mut End {
        &mut self.network.connections[id.connection].ends[id.side]
    }

    pub fn end_ref(&self, id: EndId) -> &End {
        &self.network.connections[id.connection].ends[id.side]
    }

    /// Returns the number of bytes that an end may send.
    pub fn room(&self, id: EndId) -> usize {
        let peer = self.end_ref(id.peer());
        WINDOW.saturating_sub(peer.unread.len() + peer.coming_bytes)
    }

    /// Sends bytes. Returns the number of bytes that were taken, or an error number.
    pub fn send(&mut self, id: EndId, bytes: &[u8]) -> Result<usize, i32> {
        let end = self.end(id);
        if let Some(error) = end.error.take() {
            return Err(error);
        }
        if end.reset || end.ended || end.closed {
            return Err(libc::EPIPE);
        }
        if !end.connected {
            return Err(libc::EAGAIN);
        }
        let mut len = self.room(id).min(bytes.len());
        if len > 1 && self.draws.chance(self.weather.short_writes) {
            len = self.draws.between(1, len as u64) as usize;
        }
        if len < bytes.len() {
            self.end(id).wants_room = true;
        }
        if len == 0 && !bytes.is_empty() {
            return Err(libc::EAGAIN);
        }
        self.trace.bytes(&bytes[..len]);
        self.copy_to_tap(id, &bytes[..len]);
        let lies = self.weather.lie == Some(Lie::Stream) && self.draws.chance(500);
        let segment = Segment::Bytes(bytes[usize::from(lies)..len].to_vec());
        self.dispatch(id.peer(), segment);
        Ok(len)
    }

    fn dispatch(&mut self, to: EndId, segment: Segment) {
        let at = self.now + self.delay();
        let end = self.end(to);
        // A stream keeps its order.
        let at = end.coming.back().map_or(at, |last| last.0.max(at));
        if let Segment::Bytes(bytes) = &segment {
            end.coming_bytes += bytes.len();
        }
        end.coming.push_back((at, segment));
        self.events.add(at, Event::Link(LinkEvent::Segment(to)));
    }

    /// Tells an end's peer that the connection is broken.
    pub fn reset_peer(&mut self, id: EndId) {
        self.end(id).reset = true;
        self.dispatch(id.peer(), Segment::Reset);
    }

    fn link_to(&self, id: EndId) -> (NodeId, NodeId) {
        let (from, to) = (self.end_ref(id.peer()), self.end_ref(id));
        (from.address.node, to.address.node)
    }

    /// Delivers the segments that have arrived at an end, unless the link is down.
    pub fn segment_arrives(&mut self, id: EndId) {
        let (from, to) = self.link_to(id);
        if self.is_down(from, to) {
            return;
        }
        let now = self.now;
        let mut changed = false;
        while let Some((_, segment)) = self.end(id).coming.pop_front_if(|next| next.0 <= now) {
            let end = self.end(id);
            match segment {
                Segment::Bytes(bytes) => {
                    end.coming_bytes -= bytes.len();
                    // After a reset, nothing more is read.
                    if end.closed || end.reset {
                        if !end.reset {
                            end.reset = true;
                            self.dispatch(id.peer(), Segment::Reset);
                        }
                        continue;
                    }
                    if end.unread.is_empty() {
                        end.unread = bytes.into();
                    } else {
                        end.unread.extend(bytes);
                    }
                }
                Segment::End => end.peer_ended = true,
                Segment::Reset => {
                    end.reset = true;
                    end.error = Some(libc::ECONNRESET);
                }
            }
            changed = true;
        }
        if changed && !self.end(id).closed {
            self.changed(id);
        }
    }

    /// Delivers what a link has held back while it was down.
    pub fn deliver_held(&mut self, from: NodeId, to: NodeId) {
        for connection in 0..self.network.connections.len() {
            for side in [0, 1] {
                let id = EndId { connection, side };
                if self.link_to(id) == (from, to) && !self.end(id).coming.is_empty() {
                    let at = self.now + self.delay();
                    self.events.add(at, Event::Link(LinkEvent::Segment(id)));
                }
            }
        }
    }

    /// Reads bytes. Returns 0 at the end of the stream.
    pub fn receive(&mut self, id: EndId, max: usize) -> Result<Vec<u8>, i32> {
        let end = self.end(id);
        if end.unread.is_empty() && max > 0 {
            if let Some(error) = end.error.take() {
                return Err(error);
            }
            return match end.peer_ended || end.reset {
                true => Ok(Vec::new()),
                false => Err(libc::EAGAIN),
            };
        }
        let count = max.min(end.unread.len());
        let bytes: Vec<u8> = match count == end.unread.len() {
            true => std::mem::take(&mut end.unread).into(),
            false => end.unread.drain(..count).collect(),
        };
        self.trace.bytes(&bytes);
        let peer = id.peer();
        if std::mem::take(&mut self.end(peer).wants_room) {
            let at = self.now + self.delay();
            self.events.add(at, Event::Link(LinkEvent::Room(peer)));
        }
        Ok(bytes)
    }

    /// Ends the own stream, and with `both` refuses to read more.
    pub fn shut_down(&mut self, id: EndId, both: bool) {
        let end = self.end(id);
        if !std::mem::replace(&mut end.ended, true) && end.connected && !end.reset {
            self.dispatch(id.peer(), Segment::End);
        }
        if both {
            self.end(id).peer_ended = true;
            self.changed(id);
        }
    }

    /// Closes an end.
    pub fn close_end(&mut self, id: EndId) {
        let now = self.now;
        let end = self.end(id);
        if std::mem::replace(&mut end.closed, true) {
            return;
        }
        end.closed_at = now;
        end.object = None;
        let lost = !end.unread.is_empty();
        end.unread.clear();
        if !end.connected || end.reset {
            return;
        }
        if lost {
            end.reset = true;
            self.dispatch(id.peer(), Segment::Reset);
        } else if !std::mem::replace(&mut end.ended, true) {
            self.dispatch(id.peer(), Segment::End);
        }
    }

    /// Breaks a connection: of the bytes on their way to each end, a random first part arrives.
    pub fn cut(&mut self, connection: ConnectionId) {
        self.trace.note("cut", [connection as u64, self.now, 0]);
        for side in [0, 1] {
            let id = EndId { connection, side };
            let mut left = self.end_ref(id).coming_bytes as u64;
            left = self.draws.between(0, left);
            let end = self.end(id);
            for (_, segment) in &mut end.coming {
                if let Segment::Bytes(bytes) = segment {
                    let kept = (left as usize).min(bytes.len());
                    end.coming_bytes -= bytes.len() - kept;
                    bytes.truncate(kept);
                    left -= kept as u64;
                }
            }
            end.coming
                .retain(|(_, segment)| matches!(segment, Segment::Bytes(_)));
            if !end.closed {
                self.dispatch(id, Segment::Reset);
            }
        }
    }
}
