//! CLUSTER subcommands that show the state: INFO, NODES, SLOTS, MYID.

use std::fmt::Write as _;

use punctual_cluster::config::Style;
use punctual_cluster::nodes::{Flags, Node, Nodes};
use punctual_cluster::slot::SLOTS;
use punctual_cluster::state::Machine;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::node;
use crate::config::Endpoint;
use crate::node::call::Call;

pub(super) fn my_id(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let id = node(call.shared)?.read(|machine| machine.nodes().own().id);
    reply.bulk(&id.digits());
    Ok(())
}

pub(super) fn info(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let text = node(call.shared)?.read(info_text);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn info_text(machine: &Machine) -> String {
    let table = machine.nodes();
    let (mut assigned, mut failing, mut failed) = (0, 0, 0);
    for node in table.iter() {
        let slots = node.slots.len();
        assigned += slots;
        if node.flags.has(Flags::FAIL) {
            failed += slots;
        } else if node.flags.has(Flags::PFAIL) {
            failing += slots;
        }
    }
    let own = table.own();
    let served = own.primary.and_then(|id| table.get(id)).unwrap_or(own);
    let state = if machine.is_ok() { "ok" } else { "fail" };
    let figures = [
        ("slots_assigned", assigned as u64),
        ("slots_ok", (assigned - failing - failed) as u64),
        ("slots_pfail", failing as u64),
        ("slots_fail", failed as u64),
        ("known_nodes", table.len() as u64),
        ("size", table.voters() as u64),
        ("current_epoch", machine.current_epoch()),
        ("my_epoch", served.config_epoch),
        ("stats_messages_sent", 0),
        ("stats_messages_received", 0),
    ];
    let mut text = format!("cluster_state:{state}\r\n");
    for (name, value) in figures {
        let _ = write!(text, "cluster_{name}:{value}\r\n");
    }
    text.push_str("total_cluster_links_buffer_limit_exceeded:0\r\n");
    text
}

pub(super) fn nodes(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let text = node(call.shared)?.read(|machine| {
        let config = machine.config();
        let mut text = String::new();
        for node in machine.nodes().iter() {
            config.line(node, Style::Plain, machine.is_connected(node.id), &mut text);
        }
        text
    });
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn slots(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let endpoint = call.shared.settings().cluster.endpoint;
    node(call.shared)?.read(|machine| {
        let table = machine.nodes();
        let ranges = owned_ranges(table);
        reply.array(ranges.len());
        for (first, last, owner) in ranges {
            let replicas: Vec<&Node> = table.replicas(owner.id).filter(is_available).collect();
            reply.array(3 + replicas.len());
            reply.int(first.into());
            reply.int(last.into());
            show_node(owner, endpoint, reply);
            replicas
                .into_iter()
                .for_each(|replica| show_node(replica, endpoint, reply));
        }
    });
    Ok(())
}

/// Returns all ranges of slots with the same owner, in ascending order.
fn owned_ranges(table: &Nodes) -> Vec<(u16, u16, &Node)> {
    let of_node = |node: &'_ Node| node.slots.ranges();
    let mut ranges: Vec<(u16, u16, &Node)> = table
        .iter()
        .flat_map(|node| of_node(node).into_iter().map(move |(a, b)| (a, b, node)))
        .collect();
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    debug_assert!(ranges.iter().all(|(_, last, _)| *last < SLOTS));
    ranges
}

/// A replica is shown once it has data.
fn is_available(node: &&Node) -> bool {
    !node.flags.has(Flags::FAIL) && node.offset > 0
}

fn show_node(node: &Node, endpoint: Endpoint, reply: &mut Reply) {
    let address = &node.address;
    reply.array(4);
    match endpoint {
        Endpoint::Unknown => reply.null(),
        _ => reply.bulk(endpoint.of(address).as_bytes()),
    }
    reply.int(address.port.into());
    reply.bulk(&node.id.digits());
    let mut more: Vec<(&str, &str)> = Vec::new();
    if endpoint != Endpoint::Ip {
        more.push(("ip", &address.host));
    }
    if endpoint != Endpoint::Hostname && !address.hostname.is_empty() {
        more.push(("hostname", &address.hostname));
    }
    reply.map(more.len());
    for (name, value) in more {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
