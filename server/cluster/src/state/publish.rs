//! Messages of PUBLISH and SPUBLISH.
//!
//! Valkey since 8.0 announces in its flags that it reads light headers: 16 bytes instead of 2,256,
//! without a sender. Such a packet is understood only on a connection whose other side knows the
//! sender already, so the first packet on a connection has a whole header: a light one follows an
//! answered ping.

use super::{LinkId, Machine};
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::{Body, Packet};

impl Machine {
    /// PUBLISH and SPUBLISH: sends a message to all nodes, or to the nodes of the own shard.
    /// O(nodes).
    pub fn publish(&mut self, channel: &[u8], message: &[u8], sharded: bool) {
        let light = Packet {
            header: None,
            body: Body::Publish {
                channel: channel.to_vec(),
                message: message.to_vec(),
                sharded,
            },
        };
        let own = self.nodes.own();
        let root = own.primary.unwrap_or(own.id);
        let is_reader = |node: &Node| {
            let in_shard = node.id == root || node.primary == Some(root);
            (in_shard || !sharded) && !node.flags.has(Flags::HANDSHAKE)
        };
        let mut readers = self.links.all_open();
        readers.retain(|(id, _)| self.nodes.get(*id).is_some_and(is_reader));
        let mut whole = None;
        for (node, link) in readers {
            if self.reads_light(node, link) {
                self.send(link, &light);
            } else {
                let whole = whole.get_or_insert_with(|| self.packet(light.body.clone()));
                self.send(link, whole);
            }
        }
    }

    fn reads_light(&self, node: NodeId, link: LinkId) -> bool {
        let node = self.nodes.get(node);
        let link = self.links.get(link);
        node.is_some_and(|node| node.flags.has(Flags::LIGHT))
            && link.is_some_and(|link| link.answered)
    }
}
