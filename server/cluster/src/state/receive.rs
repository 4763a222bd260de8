//! Packets from other nodes.

use super::{LinkId, Machine, Output};
use crate::NodeId;
use crate::nodes::{Address, Flags, Node};
use crate::packet::{Beat, Body, EXTENDED, Header, Heartbeat, PAUSED, Packet};

impl Machine {
    /// Handles a packet.
    pub(super) fn handle(&mut self, link: LinkId, packet: Packet) {
        let Packet { header, body } = packet;
        self.traffic.received.count(body.number());
        let Some(header) = header else {
            // A published message with a light header has no sender. An earlier packet of the
            // connection has named a known node.
            if self
                .links
                .get(link)
                .is_some_and(|link| link.sender.is_some())
            {
                self.deliver(body);
            }
            return;
        };
        if header.sender == self.own_id() {
            self.meet_self(link);
            return;
        }
        if let Some(link) = self.links.get_mut(link) {
            link.extended = header.message_flags & EXTENDED != 0;
        }
        let known = self.nodes.get(header.sender);
        let sender = known
            .filter(|node| !node.flags.has(Flags::HANDSHAKE))
            .map(|node| node.id);
        if let Some(id) = sender {
            if let Some(link) = self.links.get_mut(link) {
                link.sender = Some(id);
            }
            self.learn(id, &header);
        }
        match body {
            Body::Heartbeat(beat, content) => self.heartbeat(link, sender, &header, beat, content),
            Body::Fail(id) if sender.is_some() => self.fail_by_message(id),
            Body::AuthRequest => self.vote(link, sender, &header),
            Body::AuthAck => self.count_vote(sender, &header),
            Body::ManualStart => self.pause_for(sender),
            Body::Update {
                config_epoch,
                owner,
                slots,
            } if sender.is_some() => self.update(config_epoch, owner, &slots),
            body if sender.is_some() => self.deliver(body),
            _ => {}
        }
    }

    fn deliver(&mut self, body: Body) {
        if let Body::Publish {
            channel,
            message,
            sharded,
        } = body
        {
            self.outputs.push_back(Output::Publish {
                channel,
                message,
                sharded,
            });
        }
    }

    /// Ends a handshake with the own node.
    fn meet_self(&mut self, link: LinkId) {
        let dialed = self.links.get(link).and_then(|link| link.dialed);
        self.close(link);
        if let Some(id) = dialed {
            self.drop_handshake(id);
        }
    }

    /// Takes epochs and offset from the header of a known node.
    fn learn(&mut self, sender: NodeId, header: &Header) {
        let now_ms = self.now_ms;
        if header.current_epoch > self.current_epoch {
            self.current_epoch = header.current_epoch;
            self.unsaved = true;
        }
        let mut changed = false;
        if let Some(node) = self.nodes.get_mut(sender) {
            node.data_received_ms = now_ms;
            node.offset = header.offset;
            if header.primary.is_none() && header.config_epoch > node.config_epoch {
                node.config_epoch = header.config_epoch;
                changed = true;
            }
        }
        if changed {
            self.changed();
        }
        let follows = self.nodes.own().primary == Some(sender);
        if follows && header.message_flags & PAUSED != 0 {
            self.manual.primary_paused(header.offset);
        }
    }

    fn heartbeat(
        &mut self,
        link: LinkId,
        sender: Option<NodeId>,
        header: &Header,
        beat: Beat,
        content: Heartbeat,
    ) {
        let peer = self
            .links
            .get(link)
            .map_or_else(String::new, |link| link.peer.clone());
        if beat == Beat::Meet && sender.is_none() {
            self.shake_back(header, &peer);
            // The sender was introduced by an operator, so its gossip is trusted.
            self.hear(header.sender, content.gossip.clone());
        }
        if beat != Beat::Pong {
            self.learn_own_host(link, beat);
            self.send_beat(link, sender, Beat::Pong);
        }
        let dialed = self.links.get(link).and_then(|link| link.dialed);
        if let Some(dialed) = dialed
            && !self.identify(link, dialed, header, &peer)
        {
            return;
        }
        // After a handshake, the sender is known.
        let known = self.nodes.get(header.sender);
        if known.is_none_or(|node| node.flags.has(Flags::HANDSHAKE)) {
            return;
        }
        let id = header.sender;
        if beat == Beat::Pong && dialed.is_some() {
            if let Some(link) = self.links.get_mut(link) {
                link.answered = link.pinged;
            }
            self.pong(id);
        }
        if beat != Beat::Pong {
            self.learn_address(id, header, &peer);
        }
        self.learn_role(id, header);
        self.claims(link, id, header);
        self.leave_replica(id);
        self.resolve_epochs(id);
        if sender.is_some() {
            self.hear(id, content.gossip);
        }
        if !content.extensions.is_empty() {
            self.extend(id, content.extensions);
        }
    }

    /// Adds the sender of a meet, with a random ID until it has answered a ping.
    fn shake_back(&mut self, header: &Header, peer: &str) {
        let host = if header.host.is_empty() {
            peer
        } else {
            &header.host
        };
        let address = Address {
            host: host.into(),
            port: header.port,
            other_port: header.other_port,
            bus_port: header.bus_port,
            ..Address::default()
        };
        self.shake(address, Flags::HANDSHAKE);
    }

    /// Adds a node with a random ID, unless there is a handshake with its address already.
    pub(super) fn shake(&mut self, address: Address, flags: Flags) {
        let shaking = self.nodes.others().any(|node| {
            node.flags.has(Flags::HANDSHAKE)
                && node.address.host == address.host
                && node.address.bus_port == address.bus_port
        });
        if !shaking {
            let id = NodeId::random(&mut self.random);
            let mut node = Node::new(id, flags, self.now_ms);
            node.address = address;
            self.nodes.insert(node);
            self.next_due = None;
        }
    }

    pub(super) fn drop_handshake(&mut self, id: NodeId) {
        let node = self.nodes.get(id);
        if node.is_some_and(|node| node.flags.has(Flags::HANDSHAKE)) {
            self.nodes.remove(id);
        }
    }

    /// Compares the sender with the node that was dialed. Returns false if the connection is
    /// closed.
    fn identify(&mut self, link: LinkId, dialed: NodeId, header: &Header, peer: &str) -> bool {
        let Some(node) = self.nodes.get(dialed) else {
            self.close(link);
            return false;
        };
        if node.flags.has(Flags::HANDSHAKE) {
            if self.nodes.get(header.sender).is_some() {
                // The node is known under its ID: only its address is news.
                self.close(link);
                self.drop_handshake(dialed);
                self.learn_address(header.sender, header, peer);
                return false;
            }
            let Some(mut node) = self.nodes.remove(dialed) else {
                return false;
            };
            node.id = header.sender;
            node.flags.set(Flags::HANDSHAKE.and(Flags::MEET), false);
            let role = Flags(header.flags.0 & Flags::PRIMARY.and(Flags::REPLICA).0);
            node.flags.set(role, true);
            node.primary = header.primary;
            if header.primary.is_none() {
                node.config_epoch = header.config_epoch;
            }
            self.nodes.insert(node);
            self.links.rename(link, header.sender);
            self.changed();
            return true;
        }
        if dialed != header.sender {
            // Another node has this address now.
            if let Some(node) = self.nodes.get_mut(dialed) {
                node.flags.set(Flags::NOADDR, true);
                node.address.host = String::new();
                node.address.port = 0;
                node.address.bus_port = 0;
            }
            self.close(link);
            self.changed();
            return false;
        }
        true
    }

    /// Handles an answer to a ping.
    fn pong(&mut self, id: NodeId) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        node.pong_received_ms = now_ms;
        node.data_received_ms = now_ms;
        node.ping_sent_ms = 0;
        if node.flags.has(Flags::PFAIL) {
            node.flags.set(Flags::PFAIL, false);
            self.changed();
        } else if node.flags.has(Flags::FAIL) {
            self.revive(id);
        }
    }

    /// Takes the role of a node from its packet.
    fn learn_role(&mut self, id: NodeId, header: &Header) {
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        let kept = Flags::NOFAILOVER.and(Flags::EXTENSIONS).and(Flags::LIGHT);
        node.flags.set(kept, false);
        node.flags.set(Flags(header.flags.0 & kept.0), true);
        node.flags
            .set(Flags::EXTENSIONS, header.message_flags & EXTENDED != 0);
        match header.primary {
            None if !node.is_primary() => {
                node.become_primary();
                // It was a replica, so its shard had replicas.
                node.flags.set(Flags::MIGRATE_TO, true);
                node.config_epoch = node.config_epoch.max(header.config_epoch);
                self.changed();
            }
            Some(primary) if node.is_primary() || node.primary != Some(primary) => {
                self.nodes.make_replica(id, primary);
                self.changed();
            }
            _ => {}
        }
    }
}
