//! Nodes' addresses, listeners, links, and how connections are established.
//!
//! Node n has the address 10.0.0.n. A link leads from one node to another; a link that is down
//! delivers nothing until it is up again, as if each packet were sent again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::descriptors::{Object, ObjectId};
use super::events::Event;
use super::poll::{IN, OUT};
use super::streams::{Connection, End, EndId};
use super::tap::Tap;
use super::{DRIVER, Kernel, Nanos, NodeId, SECOND};

/// Number of a listener.
pub type ListenerId = usize;
/// Number of a connection.
pub type ConnectionId = usize;

/// An address: a node and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub node: NodeId,
    pub port: u16,
}

/// Something that reaches the end of a connection.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkEvent {
    /// A request to connect.
    Request {
        connection: ConnectionId,
        to: Address,
    },
    /// The answer: whether the request is accepted.
    Answer {
        connection: ConnectionId,
        accepted: bool,
    },
    /// The next segment of a stream.
    Segment(EndId),
    /// The end's peer has read, so that the end has room to write.
    Room(EndId),
}

#[derive(Debug)]
pub struct Listener {
    address: Address,
    object: Option<ObjectId>,
    /// Ends that wait for `accept`.
    pending: VecDeque<EndId>,
}

/// The network of all nodes.
#[derive(Debug, Default)]
pub struct Network {
    listeners: Vec<Listener>,
    /// Listeners that accept connections.
    open: BTreeMap<Address, ListenerId>,
    pub connections: Vec<Connection>,
    /// Links that are down: from a node to another node.
    pub down: BTreeSet<(NodeId, NodeId)>,
    next_port: u16,
    /// The thread that waits for the ends of the driver.
    pub driver: Option<super::threads::Tid>,
    /// Ends of the driver that have changed since it last looked.
    pub changed: BTreeSet<EndId>,
    pub tap: Tap,
}

impl Kernel {
    /// Reserves an address.
    pub fn bind(&mut self, address: Address) -> Result<ListenerId, i32> {
        if self.network.open.contains_key(&address) {
            return Err(libc::EADDRINUSE);
        }
        self.network.listeners.push(Listener {
            address,
            object: None,
            pending: VecDeque::new(),
        });
        Ok(self.network.listeners.len() - 1)
    }

    /// Begins to accept connections.
    pub fn listen(&mut self, id: ListenerId, object: ObjectId) {
        self.network.listeners[id].object = Some(object);
        let address = self.network.listeners[id].address;
        self.network.open.insert(address, id);
    }

    pub fn listener_address(&self, id: ListenerId) -> Address {
        self.network.listeners[id].address
    }

    pub fn listener_readiness(&self, id: ListenerId) -> u32 {
        match self.network.listeners[id].pending.is_empty() {
            true => 0,
            false => IN,
        }
    }

    /// Returns the next connection of a listener.
    pub fn accept(&mut self, id: ListenerId) -> Option<EndId> {
        self.network.listeners[id].pending.pop_front()
    }

    pub fn close_listener(&mut self, id: ListenerId) {
        let listener = &mut self.network.listeners[id];
        listener.object = None;
        let (address, pending) = (listener.address, std::mem::take(&mut listener.pending));
        if self.network.open.get(&address) == Some(&id) {
            self.network.open.remove(&address);
        }
        for end in pending {
            self.close_end(end);
        }
    }

    /// Returns whether bytes of a closed connection may still reach an address, so that commands of
    /// the node may still run at the address.
    pub fn has_remains(&self, from: NodeId, to: Address) -> bool {
        self.network.connections.iter().any(|connection| {
            let [client, server] = &connection.ends;
            client.address.node == from
                && server.address == to
                && client.closed
                && server.connected
                && !server.closed
        })
    }

    /// Returns the connections between nodes that are open on both sides.
    pub fn open_between_nodes(&self) -> Vec<ConnectionId> {
        let is_open = |connection: &Connection| {
            let [client, server] = &connection.ends;
            client.address.node != DRIVER && client.connected && !client.closed && !server.closed
        };
        let all = self.network.connections.iter().enumerate();
        all.filter(|(_, connection)| is_open(connection))
            .map(|(id, _)| id)
            .collect()
    }

    /// Begins to connect a node to an address. Returns the node's end.
    pub fn connect(&mut self, node: NodeId, to: Address) -> EndId {
        let network = &mut self.network;
        network.next_port = network.next_port.wrapping_add(1) % 20_000;
        let from = Address {
            node,
            port: 40_000 + network.next_port,
        };
        let connection = network.connections.len();
        network.connections.push(Connection {
            ends: [End::new(from), End::new(to)],
        });
        let at = self.now + self.delay();
        let request = LinkEvent::Request { connection, to };
        self.events.add(at, Event::Link(request));
        EndId {
            connection,
            side: 0,
        }
    }

    /// Draws the time that a packet takes.
    pub fn delay(&mut self) -> Nanos {
        let jitter = self.weather.jitter;
        self.weather.latency + self.draws.between(0, jitter)
    }

    /// Returns whether a link delivers nothing now.
    pub fn is_down(&self, from: NodeId, to: NodeId) -> bool {
        let dark = !self.nodes[from].has_power || !self.nodes[to].has_power;
        dark || self.network.down.contains(&(from, to))
    }

    /// Takes the link from a node to another one down or up.
    pub fn set_link(&mut self, from: NodeId, to: NodeId, up: bool) {
        self.trace
            .note("link", [from as u64, to as u64, u64::from(up)]);
        if !up {
            self.network.down.insert((from, to));
            return;
        }
        if self.network.down.remove(&(from, to)) {
            self.deliver_held(from, to);
        }
    }

    /// Handles what reaches the end of a connection.
    pub fn arrive(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Request { connection, to } => self.request_arrives(connection, to),
            LinkEvent::Answer {
                connection,
                accepted,
            } => self.answer_arrives(connection, accepted),
            LinkEvent::Segment(end) => self.segment_arrives(end),
            LinkEvent::Room(end) => self.changed(end),
        }
    }

    fn request_arrives(&mut self, connection: ConnectionId, to: Address) {
        let [from, _] = &self.network.connections[connection].ends;
        let node = from.address.node;
        if from.closed {
            return;
        }
        if self.is_down(node, to.node) || self.is_down(to.node, node) {
            let again = LinkEvent::Request { connection, to };
            self.events.add(self.now + SECOND, Event::Link(again));
            return;
        }
        let listener = self.network.open.get(&to).copied();
        let accepted = listener.is_some();
        if let Some(id) = listener {
            let end = EndId {
                connection,
                side: 1,
            };
            self.end(end).connected = true;
            self.network.listeners[id].pending.push_back(end);
            if let Some(object) = self.network.listeners[id].object {
                self.edge(object);
            }
        }
        let at = self.now + self.delay();
        let answer = LinkEvent::Answer {
            connection,
            accepted,
        };
        self.events.add(at, Event::Link(answer));
    }

    fn answer_arrives(&mut self, connection: ConnectionId, accepted: bool) {
        let id = EndId {
            connection,
            side: 0,
        };
        let end = self.end(id);
        if accepted && end.closed {
            // The owner has given up meanwhile, so the accepting end must go too.
            self.reset_peer(id);
        } else if accepted {
            end.connected = true;
        } else {
            end.error = Some(libc::ECONNREFUSED);
            end.reset = true;
        }
        self.changed(id);
    }

    /// Notes that an end has become ready for something.
    pub fn changed(&mut self, id: EndId) {
        let end = self.end(id);
        if let Some(object) = end.object {
            self.edge(object);
        } else if end.address.node == DRIVER && !end.closed {
            self.network.changed.insert(id);
            self.wake_driver();
        }
    }

    /// Returns the events for which an end is ready.
    pub fn stream_readiness(&self, id: EndId) -> u32 {
        let end = self.end_ref(id);
        let mut events = end.readiness();
        if end.connected && !end.reset && self.room(id) > 0 {
            events |= OUT;
        }
        events
    }

    /// Connects an object to the end that it is the descriptor of.
    pub fn attach(&mut self, id: EndId, object: ObjectId) {
        self.end(id).object = Some(object);
        debug_assert!(matches!(
            self.descriptors.get(object),
            Some(Object::Stream(_))
        ));
    }
}
