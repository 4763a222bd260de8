//! CLUSTER subcommands that show the state of this node and its table of nodes: MYID, MYSHARDID,
//! INFO, NODES, REPLICAS.

use std::borrow::Cow;
use std::fmt::Write as _;

use punctual_cluster::config::Style;
use punctual_cluster::nodes::{Flags, Node};
use punctual_cluster::state::Machine;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::arguments::{named, node};
use crate::config::Shown;
use crate::node::call::Call;

pub(super) fn my_id(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let id = node(call.shared)?.read(|machine| machine.nodes().own().id);
    reply.bulk(&id.digits());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let shard = node(call.shared)?.read(|machine| {
        let own = machine.nodes().own();
        // A file of Redis 7.0 has no shards. Such a node's shard has the primary's name.
        own.shard.or(own.primary).unwrap_or(own.id)
    });
    reply.bulk(&shard.digits());
    Ok(())
}

pub(super) fn info(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let mut text = cluster.read(info_text);
    let closed = cluster.queues.closed();
    let _ = write!(
        text,
        "total_cluster_links_buffer_limit_exceeded:{closed}\r\n"
    );
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
    let served = table.own_primary();
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
    ];
    let mut text = format!("cluster_state:{state}\r\n");
    for (name, value) in figures {
        let _ = write!(text, "cluster_{name}:{value}\r\n");
    }
    packets(&mut text, "sent", machine.packets_sent());
    packets(&mut text, "received", machine.packets_received());
    text
}

/// Appends the number of packets of each type, and of all.
fn packets(text: &mut String, direction: &str, counts: impl Iterator<Item = (&'static str, u64)>) {
    let mut all = 0;
    for (kind, count) in counts {
        let _ = write!(
            text,
            "cluster_stats_messages_{kind}_{direction}:{count}\r\n"
        );
        all += count;
    }
    let _ = write!(text, "cluster_stats_messages_{direction}:{all}\r\n");
}

pub(super) fn nodes(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let text = node(call.shared)?.read(|machine| {
        let lines = lines(call, machine, machine.nodes().iter());
        lines.concat()
    });
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn replicas(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let lines = node(call.shared)?.read(|machine| {
        let table = machine.nodes();
        let primary = named(table, args.at(2))?;
        if !primary.is_primary() {
            return Err(Error::fixed("ERR The specified node is not a master"));
        }
        Ok(lines(call, machine, table.replicas(primary.id)))
    })?;
    reply.array(lines.len());
    for line in lines {
        reply.bulk(line.trim_end().as_bytes());
    }
    Ok(())
}

/// Returns the lines of nodes. A client sees the ports of its own kind of connection.
fn lines<'a>(call: &Call, machine: &Machine, nodes: impl Iterator<Item = &'a Node>) -> Vec<String> {
    let config = machine.config();
    let shown = Shown::to_client(&call.shared.settings(), call.session.info.tls);
    let line = |node: &'a Node| {
        let mut node = Cow::Borrowed(node);
        let port = shown.port(&node.address);
        if node.address.port != port {
            node.to_mut().address.port = port;
        }
        let mut line = String::new();
        config.line(
            &node,
            Style::Plain,
            machine.is_connected(node.id),
            &mut line,
        );
        line
    };
    nodes.map(line).collect()
}
