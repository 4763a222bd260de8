//! The shards of a cluster, for the web page.

use punctual_cluster::nodes::{Flags, Node};
use serde_json::{Value as Json, json};

use crate::node::Shared;

/// Returns the state of the cluster and its nodes, each primary before its replicas, in the order
/// of the slots; null without cluster mode. `keys` is the number of keys of this node.
pub(super) fn shards(shared: &Shared, keys: u64) -> Json {
    let Some(cluster) = &shared.cluster else {
        return Json::Null;
    };
    let offset = shared.replication.offset();
    cluster.read(|machine| {
        let table = machine.nodes();
        let known = table
            .iter()
            .filter(|node| !node.flags.has(Flags::HANDSHAKE));
        let mut nodes: Vec<&Node> = known.collect();
        nodes.sort_by_key(|node| {
            let primary = node.primary.and_then(|id| table.get(id)).unwrap_or(node);
            let first = primary.slots.iter().next().unwrap_or(u16::MAX);
            (first, primary.id, !node.is_primary(), node.id)
        });
        let nodes: Vec<Json> = nodes
            .into_iter()
            .map(|node| {
                let is_own = node.id == table.own().id;
                let primary = node.primary.and_then(|id| table.get(id));
                json!({
                    "id": node.id.to_string(),
                    "address": format!("{}:{}", node.address.host, node.address.port),
                    "primary": node.primary.map(|id| id.to_string()),
                    "own": is_own,
                    "state": state(node),
                    "slots": node.slots.ranges(),
                    "keys": is_own.then_some(keys),
                    "lag": primary.map(|primary| lag(shared, offset, primary, node)),
                })
            })
            .collect();
        json!({ "ok": machine.is_ok(), "nodes": nodes })
    })
}

fn state(node: &Node) -> &'static str {
    match () {
        () if node.flags.has(Flags::FAIL) => "failed",
        () if node.flags.has(Flags::PFAIL) => "no answer",
        () => "online",
    }
}

/// Returns the number of bytes of the primary's stream that a replica has not acknowledged. This
/// node knows it of its own replicas exactly, and of others from the last heartbeats.
fn lag(shared: &Shared, own_offset: u64, primary: &Node, replica: &Node) -> u64 {
    let of = |node: &Node| match node.flags.has(Flags::MYSELF) {
        true => own_offset,
        false => node.offset,
    };
    let acknowledged = if primary.flags.has(Flags::MYSELF) {
        let address = &replica.address;
        let ports = [address.port, address.other_port].map(u32::from);
        let replicas = shared.replication.replicas.all();
        let found = replicas
            .iter()
            .find(|one| one.ip() == address.host && ports.contains(&one.peer.port));
        found.map(|one| one.acked())
    } else {
        None
    };
    of(primary).saturating_sub(acknowledged.unwrap_or_else(|| of(replica)))
}
