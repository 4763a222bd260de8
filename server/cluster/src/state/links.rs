//! Connections of the bus: two for each pair of nodes, one from each side. A node pings on the
//! connections that it has opened, and answers on the others.

use std::collections::BTreeMap;

use super::{Machine, Output};
use crate::NodeId;
use crate::nodes::Flags;
use crate::packet::{Beat, Packet, PacketError, frame};

/// ID of a connection, unique in its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// State of one connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The node that this machine has dialed; `None` for a connection from another node.
    pub(super) dialed: Option<NodeId>,
    pub(super) connected: bool,
    pub(super) created_ms: u64,
    /// IP address of the other side.
    pub(super) peer: String,
    /// This node's IP address on the connection; empty if unknown.
    pub(super) local: String,
    /// Whether the other side knows extensions.
    pub(super) extended: bool,
    /// Whether this node has sent a ping here.
    pub(super) pinged: bool,
    /// Whether the other side has answered a ping here, so that it knows whose packets these are.
    pub(super) answered: bool,
    /// The known node that has sent a packet here.
    pub(super) sender: Option<NodeId>,
    input: Vec<u8>,
}

/// An open connection, for CLUSTER LINKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLink {
    /// ID of the connection.
    pub id: LinkId,
    /// The node at the other side.
    pub node: NodeId,
    /// Whether this node has opened the connection.
    pub dialed: bool,
    /// Unix time of the first packet or of the dial, in ms.
    pub created_ms: u64,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_id: BTreeMap<LinkId, Link>,
    by_node: BTreeMap<NodeId, LinkId>,
    /// Earliest times of the next dials.
    retry_ms: BTreeMap<NodeId, u64>,
    last: u64,
}

/// Time between the end of a connection and the next dial.
const REDIAL_MS: u64 = 100;

impl Links {
    fn add(&mut self, link: Link) -> LinkId {
        self.last += 1;
        let id = LinkId(self.last);
        if let Some(node) = link.dialed {
            self.by_node.insert(node, id);
        }
        self.by_id.insert(id, link);
        id
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.by_id.get_mut(&id)
    }

    /// Returns the connection that this machine has opened, or is opening, to a node.
    pub(super) fn to(&self, node: NodeId) -> Option<(LinkId, &Link)> {
        let id = *self.by_node.get(&node)?;
        Some((id, self.by_id.get(&id)?))
    }

    /// Returns the open connection to a node.
    pub(super) fn open(&self, node: NodeId) -> Option<LinkId> {
        let (id, link) = self.to(node)?;
        link.connected.then_some(id)
    }

    /// Returns the time from which on a node may be dialed.
    pub(super) fn redial_ms(&self, node: NodeId) -> u64 {
        self.retry_ms.get(&node).copied().unwrap_or(0)
    }

    fn remove(&mut self, id: LinkId, now_ms: u64) -> Option<Link> {
        let link = self.by_id.remove(&id)?;
        if let Some(node) = link.dialed {
            self.by_node.remove(&node);
            self.retry_ms.insert(node, now_ms + REDIAL_MS);
        }
        Some(link)
    }

    /// Notes the ID that a node has announced at the end of its handshake.
    pub(super) fn rename(&mut self, id: LinkId, node: NodeId) {
        if let Some(link) = self.by_id.get_mut(&id)
            && let Some(old) = link.dialed.replace(node)
        {
            self.by_node.remove(&old);
            self.retry_ms.remove(&old);
            self.by_node.insert(node, id);
        }
    }

    /// Returns the connections between which bytes flow, of known nodes.
    fn of_nodes(&self) -> Vec<OpenLink> {
        let open = |(id, link): (&LinkId, &Link)| {
            Some(OpenLink {
                id: *id,
                node: link.dialed.or(link.sender).filter(|_| link.connected)?,
                dialed: link.dialed.is_some(),
                created_ms: link.created_ms,
            })
        };
        self.by_id.iter().filter_map(open).collect()
    }

    /// Returns the open connections to other nodes.
    pub(super) fn all_open(&self) -> Vec<(NodeId, LinkId)> {
        let open = |(node, id): (&NodeId, &LinkId)| {
            let link = self.by_id.get(id)?;
            link.connected.then_some((*node, *id))
        };
        self.by_node.iter().filter_map(open).collect()
    }
}

impl Machine {
    /// Notes a connection from another node, whose IP address is `peer`, to this node's IP address
    /// `local`, which is empty if it is unknown.
    pub fn accepted(&mut self, peer: &str, local: &str, now_ms: u64) -> LinkId {
        self.now_ms = now_ms;
        self.links.add(Link {
            dialed: None,
            connected: true,
            created_ms: now_ms,
            peer: peer.into(),
            local: local.into(),
            extended: false,
            pinged: false,
            answered: false,
            sender: None,
            input: Vec::new(),
        })
    }

    /// Notes that the connection of an [`Output::Connect`] is established. Sends the first packet.
    pub fn connected(&mut self, id: LinkId, now_ms: u64) {
        self.now_ms = now_ms;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.connected = true;
        let Some(node) = link.dialed.and_then(|node| self.nodes.get_mut(node)) else {
            return;
        };
        let beat = if node.flags.has(Flags::MEET) {
            Beat::Meet
        } else {
            Beat::Ping
        };
        // The first ping without a pong counts, over all connections.
        let (target, pending) = (node.id, node.ping_sent_ms);
        self.send_beat(id, Some(target), beat);
        if let Some(node) = self.nodes.get_mut(target) {
            if pending > 0 {
                node.ping_sent_ms = pending;
            }
            node.flags.set(Flags::MEET, false);
        }
        self.plan_for(target);
        self.finish();
    }

    /// Notes the end of a connection, or a failed dial.
    pub fn closed(&mut self, id: LinkId, now_ms: u64) {
        self.now_ms = now_ms;
        let link = self.links.remove(id, now_ms);
        self.next_due = None;
        // A failed dial counts as a ping, so that the failure is detected.
        if let Some(node) = link.and_then(|link| link.dialed)
            && let Some(node) = self.nodes.get_mut(node)
            && node.ping_sent_ms == 0
        {
            node.ping_sent_ms = now_ms;
        }
    }

    /// Returns the open connections to and from known nodes, in the order in which they were
    /// opened.
    pub fn links(&self) -> Vec<OpenLink> {
        self.links.of_nodes()
    }

    /// Closes all connections, in both directions.
    pub(super) fn close_all(&mut self) {
        let all: Vec<LinkId> = self.links.by_id.keys().copied().collect();
        all.into_iter().for_each(|link| self.close(link));
        self.links.retry_ms.clear();
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, id: LinkId) {
        if self.links.remove(id, self.now_ms).is_some() {
            self.next_due = None;
            self.outputs.push_back(Output::Close(id));
        }
    }

    /// Opens a connection to a node.
    pub(super) fn dial(&mut self, node: NodeId) {
        let Some(node) = self.nodes.get(node) else {
            return;
        };
        let (host, port) = (node.address.host.clone(), node.address.bus_port);
        let link = self.links.add(Link {
            dialed: Some(node.id),
            connected: false,
            created_ms: self.now_ms,
            peer: host.clone(),
            local: String::new(),
            extended: node.flags.has(Flags::EXTENSIONS),
            pinged: false,
            answered: false,
            sender: None,
            input: Vec::new(),
        });
        self.next_due = None;
        self.outputs.push_back(Output::Connect { link, host, port });
    }

    /// Handles received bytes. A connection with bytes of another protocol is closed; packets of
    /// other versions and damaged ones are skipped.
    pub fn received(&mut self, id: LinkId, bytes: &[u8], now_ms: u64) {
        self.now_ms = now_ms;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut link.input);
        let mut used = 0;
        loop {
            match frame(&input[used..]) {
                Ok(Some(length)) if input.len() - used >= length => {
                    let packet = Packet::decode(&input[used..used + length]);
                    used += length;
                    match packet {
                        Ok(packet) => self.handle(id, packet),
                        Err(PacketError::Stream) => self.close(id),
                        Err(_) => {}
                    }
                }
                Ok(_) => break,
                Err(_) => {
                    self.close(id);
                    break;
                }
            }
        }
        input.drain(..used);
        // The connection may have been closed by a packet.
        if let Some(link) = self.links.get_mut(id) {
            link.input = input;
            if let Some(node) = link.dialed.or(link.sender) {
                self.plan_for(node);
            }
        }
        self.finish();
    }

    pub(super) fn send(&mut self, link: LinkId, packet: &Packet) {
        if self.links.get(link).is_some_and(|link| link.connected) {
            let mut bytes = Vec::new();
            packet.encode(&mut bytes);
            self.traffic.sent.count(packet.body.number());
            self.outputs.push_back(Output::Send { link, bytes });
        }
    }

    /// Sends a packet to all nodes whose ID is known.
    pub(super) fn broadcast(&mut self, packet: &Packet) {
        for (node, link) in self.links.all_open() {
            let node = self.nodes.get(node);
            if node.is_some_and(|node| !node.flags.has(Flags::HANDSHAKE)) {
                self.send(link, packet);
            }
        }
    }
}
