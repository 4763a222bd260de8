//! What other nodes say about third nodes.

use super::{LinkId, Machine};
use crate::NodeId;
use crate::nodes::{Address, Flags, Node};
use crate::packet::{Beat, Extension, Gossip, Header};

/// Maximum time by which gossip about a pong may lie in the future.
const SKEW_MS: u64 = 500;

impl Machine {
    /// Handles the gossip of a known node.
    pub(super) fn hear(&mut self, sender: NodeId, all: Vec<Gossip>) {
        let is_voter = self.nodes.get(sender).is_some_and(Node::is_voter);
        for gossip in all {
            if gossip.id == self.own_id() {
                continue;
            }
            if self.nodes.get(gossip.id).is_none() {
                self.discover(gossip);
                continue;
            }
            if is_voter {
                self.hear_failure(sender, &gossip);
            }
            self.hear_liveness(&gossip);
        }
    }

    fn hear_failure(&mut self, sender: NodeId, gossip: &Gossip) {
        let (now_ms, id) = (self.now_ms, gossip.id);
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        if gossip.flags.has(Flags::FAILING) {
            node.reports.insert(sender, now_ms);
            self.fail_by_majority(id);
        } else {
            node.reports.remove(&sender);
        }
    }

    fn hear_liveness(&mut self, gossip: &Gossip) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(gossip.id) else {
            return;
        };
        let says_alive = !gossip.flags.has(Flags::FAILING.and(Flags::NOADDR));
        if !says_alive {
            return;
        }
        // Another node's pong saves a ping of our own.
        let pong_ms = u64::from(gossip.pong_received_s) * 1_000;
        if !node.flags.has(Flags::FAILING)
            && node.ping_sent_ms == 0
            && node.reports.is_empty()
            && pong_ms <= now_ms + SKEW_MS
            && pong_ms > node.pong_received_ms
        {
            node.pong_received_ms = pong_ms;
        }
        let address = &node.address;
        let differs = address.host != gossip.host
            || address.port != gossip.port
            || address.bus_port != gossip.bus_port;
        if node.flags.has(Flags::FAILING) && differs {
            node.address.host.clone_from(&gossip.host);
            node.address.port = gossip.port;
            node.address.other_port = gossip.other_port;
            node.address.bus_port = gossip.bus_port;
            node.flags.set(Flags::NOADDR, false);
            if let Some((link, _)) = self.links.to(gossip.id) {
                self.close(link);
            }
            self.changed();
        }
    }

    /// Adds an unknown node, unless it is forgotten.
    fn discover(&mut self, gossip: Gossip) {
        let banned = self.forgotten.get(&gossip.id);
        if banned.is_some_and(|until| *until > self.now_ms)
            || gossip.flags.has(Flags::NOADDR.and(Flags::HANDSHAKE))
            || gossip.host.is_empty()
        {
            return;
        }
        let role = if gossip.flags.has(Flags::REPLICA) {
            Flags::REPLICA
        } else {
            Flags::PRIMARY
        };
        let mut node = Node::new(gossip.id, role, self.now_ms);
        node.address = Address {
            host: gossip.host,
            port: gossip.port,
            other_port: gossip.other_port,
            bus_port: gossip.bus_port,
            ..Address::default()
        };
        self.nodes.insert(node);
        self.changed();
    }

    /// Handles the extensions of a known node.
    pub(super) fn extend(&mut self, sender: NodeId, extensions: Vec<Extension>) {
        let (mut hostname, mut name, mut shard) = (String::new(), String::new(), None);
        for extension in extensions {
            match extension {
                Extension::Hostname(text) => hostname = text,
                Extension::Name(text) => name = text,
                Extension::Shard(id) => shard = Some(id),
                Extension::Forgotten { id, ttl_s } => {
                    let is_needed = id == self.own_id() || self.nodes.own().primary == Some(id);
                    if !is_needed && self.nodes.get(id).is_some() {
                        self.ban(id, ttl_s.min(60) * 1_000);
                    }
                }
            }
        }
        let Some(node) = self.nodes.get_mut(sender) else {
            return;
        };
        let old = (&node.address.hostname, &node.address.name, node.shard);
        let shard = shard.or(node.shard);
        if old != (&hostname, &name, shard) {
            node.address.hostname = hostname;
            node.address.name = name;
            node.shard = shard;
            if self.nodes.own().primary == Some(sender) && shard.is_some() {
                self.nodes.own_mut().shard = shard;
            }
            self.changed();
        }
    }

    /// Takes this node's own IP address from a connection that another node has opened, unless the
    /// operator announces one. A meet replaces an earlier address.
    pub(super) fn learn_own_host(&mut self, link: LinkId, beat: Beat) {
        let local = self.links.get(link).map(|link| link.local.clone());
        let Some(local) = local.filter(|local| !local.is_empty() && !self.announces_host) else {
            return;
        };
        let host = &mut self.nodes.own_mut().address.host;
        if (beat == Beat::Meet || host.is_empty()) && *host != local {
            *host = local;
            self.changed();
        }
    }

    /// Takes a node's address from its packet. `peer` is the IP address of the connection.
    pub(super) fn learn_address(&mut self, sender: NodeId, header: &Header, peer: &str) {
        let Some(node) = self.nodes.get_mut(sender) else {
            return;
        };
        let host = if header.host.is_empty() {
            peer
        } else {
            &header.host
        };
        let address = &mut node.address;
        let moved = address.host != host || address.bus_port != header.bus_port;
        let differs = address.port != header.port || address.other_port != header.other_port;
        if !(moved || differs) {
            return;
        }
        address.host = host.into();
        address.port = header.port;
        address.other_port = header.other_port;
        address.bus_port = header.bus_port;
        node.flags.set(Flags::NOADDR, false);
        if moved && let Some((link, _)) = self.links.to(sender) {
            self.close(link);
        }
        self.changed();
        if self.nodes.own().primary == Some(sender) {
            self.outputs.push_back(super::Output::Follow(sender));
        }
    }
}
