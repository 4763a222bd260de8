//! Heartbeats that this node sends: header, gossip, extensions.

use super::{LinkId, Machine};
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::{Beat, Body, EXTENDED, Extension, Gossip, Header, Heartbeat, PAUSED, Packet};
use crate::slot::SlotSet;

impl Machine {
    /// Returns the header of a packet. A replica announces the slots and the epoch of its primary.
    pub(super) fn header(&self) -> Header {
        let own = self.nodes.own();
        let primary = own.primary.and_then(|id| self.nodes.get(id));
        let owner = if own.is_primary() { Some(own) } else { primary };
        Header {
            sender: own.id,
            port: own.address.port,
            other_port: own.address.other_port,
            bus_port: own.address.bus_port,
            host: own.address.host.clone(),
            current_epoch: self.current_epoch,
            config_epoch: owner.map_or(0, |node| node.config_epoch),
            offset: self.replication.offset,
            slots: owner.map_or_else(SlotSet::default, |node| node.slots.clone()),
            primary: own.primary,
            flags: own.flags,
            failed: !self.health.ok,
            message_flags: if own.is_primary() && self.manual.is_pausing() {
                PAUSED
            } else {
                0
            },
        }
    }

    /// Returns a packet without gossip.
    pub(super) fn packet(&self, body: Body) -> Packet {
        Packet {
            header: Some(Box::new(self.header())),
            body,
        }
    }

    /// Sends a heartbeat. `target` is the node at the other side, if known.
    pub(super) fn send_beat(&mut self, link: LinkId, target: Option<NodeId>, beat: Beat) {
        let extended = self.links.get_mut(link).is_some_and(|link| {
            link.pinged |= beat == Beat::Ping;
            link.extended
        });
        let content = Heartbeat {
            gossip: self.gossip_for(target),
            extensions: if extended {
                self.extensions()
            } else {
                Vec::new()
            },
        };
        let mut header = self.header();
        header.message_flags |= EXTENDED;
        let packet = Packet {
            header: Some(Box::new(header)),
            body: Body::Heartbeat(beat, content),
        };
        let now_ms = self.now_ms;
        if beat != Beat::Pong
            && let Some(node) = target.and_then(|id| self.nodes.get_mut(id))
        {
            node.ping_sent_ms = now_ms;
        }
        self.send(link, &packet);
    }

    /// Announces the own state to all nodes.
    pub(super) fn announce(&mut self) {
        for (node, link) in self.links.all_open() {
            let known = self.nodes.get(node);
            if known.is_some_and(|node| !node.flags.has(Flags::HANDSHAKE)) {
                self.send_beat(link, Some(node), Beat::Pong);
            }
        }
    }

    /// Chooses nodes for gossip: at least three or a tenth of all nodes at random, and all nodes
    /// that seem to fail, so that the majority agrees on a failure within the node timeout.
    fn gossip_for(&mut self, target: Option<NodeId>) -> Vec<Gossip> {
        let hidden = Flags::HANDSHAKE.and(Flags::NOADDR);
        let may = |node: &&Node| Some(node.id) != target && !node.flags.has(hidden);
        let candidates = self.nodes.others().filter(may);
        let (failing, mut others): (Vec<&Node>, Vec<&Node>) =
            candidates.partition(|node| node.flags.has(Flags::PFAIL));
        others.retain(|node| !node.slots.is_empty() || self.links.to(node.id).is_some());
        let wanted = (self.nodes.len() / 10).max(3).min(others.len());
        let mut chosen: Vec<Gossip> = failing.into_iter().map(gossip).collect();
        for _ in 0..wanted {
            let bits = (self.random)();
            let at = ((u128::from(bits) * others.len() as u128) >> 64) as usize;
            chosen.push(gossip(others.swap_remove(at)));
        }
        chosen
    }

    fn extensions(&self) -> Vec<Extension> {
        let own = self.nodes.own();
        let mut extensions = Vec::new();
        if !own.address.hostname.is_empty() {
            extensions.push(Extension::Hostname(own.address.hostname.clone()));
        }
        if !own.address.name.is_empty() {
            extensions.push(Extension::Name(own.address.name.clone()));
        }
        for (id, until_ms) in &self.forgotten {
            let ttl_s = until_ms.saturating_sub(self.now_ms) / 1_000;
            if ttl_s > 0 {
                extensions.push(Extension::Forgotten { id: *id, ttl_s });
            }
        }
        extensions.extend(own.shard.map(Extension::Shard));
        extensions
    }
}

fn gossip(node: &Node) -> Gossip {
    Gossip {
        id: node.id,
        ping_sent_s: (node.ping_sent_ms / 1_000) as u32,
        pong_received_s: (node.pong_received_ms / 1_000) as u32,
        host: node.address.host.clone(),
        port: node.address.port,
        bus_port: node.address.bus_port,
        flags: node.flags,
        other_port: node.address.other_port,
    }
}
