//! CLUSTER subcommands that show slots and nodes as arrays: SLOTS, SHARDS, LINKS.

use punctual_cluster::nodes::{Flags, Node, Nodes};
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::arguments::node;
use crate::config::{Endpoint, Shown};
use crate::node::call::Call;

/// What a client sees of nodes' addresses, and the own replication offset.
struct View {
    shown: Shown,
    /// The ports for encrypted connections come first on the bus (`tls-cluster`).
    tls_first: bool,
    own_offset: u64,
}

impl View {
    fn of(call: &Call) -> Self {
        let settings = call.shared.settings();
        Self {
            shown: Shown::to_client(&settings, call.session.info.tls),
            tls_first: settings.tls.cluster,
            own_offset: call.shared.replication.offset(),
        }
    }

    fn offset(&self, node: &Node) -> u64 {
        match node.flags.has(Flags::MYSELF) {
            true => self.own_offset,
            false => node.offset,
        }
    }

    /// Returns the port without TLS, and the one with TLS; 0 without one.
    fn ports(&self, node: &Node) -> (u16, u16) {
        let address = &node.address;
        match self.tls_first {
            true => (address.other_port, address.port),
            false => (address.port, address.other_port),
        }
    }

    /// A replica is shown by SLOTS once it has data.
    fn is_available(&self, replica: &Node) -> bool {
        !replica.flags.has(Flags::FAIL) && self.offset(replica) > 0
    }

    /// Writes the host that clients shall use.
    fn host(&self, node: &Node, reply: &mut Reply) {
        match self.shown.endpoint {
            Endpoint::Unknown => reply.null(),
            endpoint => reply.bulk(endpoint.of(&node.address).as_bytes()),
        }
    }

    /// Writes a node as in SLOTS.
    fn brief(&self, node: &Node, reply: &mut Reply) {
        let address = &node.address;
        reply.array(4);
        self.host(node, reply);
        reply.int(self.shown.port(address).into());
        reply.bulk(&node.id.digits());
        let mut more: Vec<(&str, &str)> = Vec::new();
        if self.shown.endpoint != Endpoint::Ip {
            more.push(("ip", &address.host));
        }
        if self.shown.endpoint != Endpoint::Hostname && !address.hostname.is_empty() {
            more.push(("hostname", &address.hostname));
        }
        reply.map(more.len());
        for (name, value) in more {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }

    /// Writes a node as in SHARDS.
    fn detailed(&self, node: &Node, reply: &mut Reply) {
        let (plain, encrypted) = self.ports(node);
        let address = &node.address;
        let offset = self.offset(node);
        let ports = [("port", plain), ("tls-port", encrypted)].map(|(name, port)| {
            let known = port > 0;
            known.then_some((name, port))
        });
        let hostname = !address.hostname.is_empty();
        reply.map(6 + ports.iter().flatten().count() + usize::from(hostname));
        reply.bulk(b"id");
        reply.bulk(&node.id.digits());
        for (name, port) in ports.into_iter().flatten() {
            reply.bulk(name.as_bytes());
            reply.int(port.into());
        }
        reply.bulk(b"ip");
        reply.bulk(address.host.as_bytes());
        reply.bulk(b"endpoint");
        self.host(node, reply);
        if hostname {
            reply.bulk(b"hostname");
            reply.bulk(address.hostname.as_bytes());
        }
        reply.bulk(b"role");
        reply.bulk(if node.is_primary() {
            b"master"
        } else {
            b"replica"
        });
        reply.bulk(b"replication-offset");
        reply.int(offset as i64);
        reply.bulk(b"health");
        reply.bulk(if node.flags.has(Flags::FAIL) {
            b"fail"
        } else if !node.is_primary() && offset == 0 {
            b"loading"
        } else {
            b"online"
        });
    }
}

pub(super) fn slots(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let view = View::of(call);
    node(call.shared)?.read(|machine| {
        let table = machine.nodes();
        let ranges = owned_ranges(table);
        reply.array(ranges.len());
        for (first, last, owner) in ranges {
            let replicas = table.replicas(owner.id);
            let replicas: Vec<&Node> = replicas.filter(|node| view.is_available(node)).collect();
            reply.array(3 + replicas.len());
            reply.int(first.into());
            reply.int(last.into());
            view.brief(owner, reply);
            replicas
                .iter()
                .for_each(|replica| view.brief(replica, reply));
        }
    });
    Ok(())
}

/// Returns all ranges of slots with the same owner, in ascending order.
fn owned_ranges(table: &Nodes) -> Vec<(u16, u16, &Node)> {
    let mut ranges: Vec<(u16, u16, &Node)> = Vec::new();
    for node in table.iter() {
        let of_node = node.slots.ranges().into_iter();
        ranges.extend(of_node.map(|(first, last)| (first, last, node)));
    }
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    ranges
}

pub(super) fn shards(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let view = View::of(call);
    node(call.shared)?.read(|machine| {
        let shards = shards_of(machine.nodes());
        reply.array(shards.len());
        for shard in shards {
            reply.map(2);
            reply.bulk(b"slots");
            let primary = shard.first().filter(|node| node.is_primary());
            let ranges = primary.map_or_else(Vec::new, |node| node.slots.ranges());
            reply.array(2 * ranges.len());
            for (first, last) in ranges {
                reply.int(first.into());
                reply.int(last.into());
            }
            reply.bulk(b"nodes");
            reply.array(shard.len());
            shard.iter().for_each(|node| view.detailed(node, reply));
        }
    });
    Ok(())
}

/// Returns the shards: each primary with its replicas, and replicas of unknown primaries alone.
fn shards_of(table: &Nodes) -> Vec<Vec<&Node>> {
    let known = |node: &&Node| !node.flags.has(Flags::HANDSHAKE);
    let leads = |node: &&Node| node.primary.is_none_or(|id| table.get(id).is_none());
    let shard = |leader| {
        let replicas = table.replicas(leader).filter(known);
        table.get(leader).into_iter().chain(replicas).collect()
    };
    let leaders = table.iter().filter(known).filter(leads);
    leaders.map(|leader| shard(leader.id)).collect()
}

pub(super) fn links(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let links = cluster.read(|machine| machine.links());
    reply.array(links.len());
    for link in links {
        reply.map(6);
        reply.bulk(b"direction");
        reply.bulk(if link.dialed { b"to" } else { b"from" });
        reply.bulk(b"node");
        reply.bulk(&link.node.digits());
        reply.bulk(b"create-time");
        reply.int(link.created_ms as i64);
        reply.bulk(b"events");
        let unsent = cluster.queues.unsent(link.id);
        reply.bulk(if unsent > 0 { b"rw" } else { b"r" });
        for name in ["send-buffer-allocated", "send-buffer-used"] {
            reply.bulk(name.as_bytes());
            reply.int(unsent as i64);
        }
    }
    Ok(())
}
