//! CLUSTER subcommands about nodes and their roles: MEET, FORGET, REPLICATE, FAILOVER, RESET.

use std::net::IpAddr;

use punctual_cluster::NodeId;
use punctual_cluster::nodes::Flags;
use punctual_cluster::state::Takeover;
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::arguments::{find, named, node, refused, unknown};
use super::keys::{has_keys, remove_all_keys};
use super::saved::reply_when_saved;
use crate::command::replies::wrong_form;
use crate::node::call::Call;

/// The port of the bus is the one for clients plus this number, unless it is given.
const BUS_PORT_OFFSET: i64 = 10_000;

pub(super) fn meet(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    if args.len() > 5 {
        return Err(wrong_form("CLUSTER", args));
    }
    let port = |at: usize, unreadable: &str| {
        parse_i64(args.at(at)).ok_or_else(|| Error::repeating(unreadable, args.at(at), ""))
    };
    let client_port = port(3, "ERR Invalid base port specified: ")?;
    let bus_port = match args.len() {
        5 => port(4, "ERR Invalid bus port specified: ")?,
        _ => client_port.saturating_add(BUS_PORT_OFFSET),
    };
    let ip = std::str::from_utf8(args.at(2)).ok();
    let ip: Option<IpAddr> = ip.and_then(|ip| ip.parse().ok());
    let valid = |port: i64| u16::try_from(port).ok().filter(|port| *port > 0);
    let address = ip.zip(valid(client_port)).zip(valid(bus_port));
    let Some(((ip, client_port), bus_port)) = address else {
        let address = [args.at(2), b":", args.at(3)].concat();
        let text = "ERR Invalid node address specified: ";
        return Err(Error::repeating(text, &address, ""));
    };
    call.turn.release();
    let ip = ip.to_string();
    call.shared
        .in_cluster(cluster, |machine, now_ms| {
            machine.meet(&ip, client_port, bus_port, now_ms)
        })
        .map_err(refused)?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn forget(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let own = table.own();
        let Some(node) = find(table, args.at(2)) else {
            let id = NodeId::from_digits(args.at(2)).ok();
            // Another node may have told already that the node is forgotten.
            let gone = id.is_some_and(|id| machine.is_forgotten(id, now_ms));
            return match gone {
                true => Ok(()),
                false => Err(unknown(args.at(2))),
            };
        };
        if node.id == own.id {
            return Err(Error::fixed(
                "ERR I tried hard but I can't forget myself...",
            ));
        }
        if own.primary == Some(node.id) {
            return Err(Error::fixed("ERR Can't forget my master!"));
        }
        let id = node.id;
        machine.forget(id, now_ms).map_err(refused)
    })?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn replicate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    // The shards stay locked, so that no key is added meanwhile.
    let has_keys = has_keys(call.turn);
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let (own, primary) = (table.own(), named(table, args.at(2))?);
        let flaw = if primary.id == own.id {
            "ERR Can't replicate myself"
        } else if !primary.is_primary() {
            "ERR I can only replicate a master, not a replica."
        } else if own.is_primary() && (own.is_voter() || has_keys) {
            "ERR To set a master the node must be empty and without assigned slots."
        } else {
            let id = primary.id;
            return machine.replicate(id, now_ms).map_err(refused);
        };
        Err(Error::fixed(flaw))
    })?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn fail_over(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let how = match args.len() {
        2 => Takeover::Agreed,
        3 if args.at(2).eq_ignore_ascii_case(b"force") => Takeover::Force,
        3 if args.at(2).eq_ignore_ascii_case(b"takeover") => Takeover::Takeover,
        3 => return Err(Error::Syntax),
        _ => return Err(wrong_form("CLUSTER", args)),
    };
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let own = table.own();
        let primary = own.primary.and_then(|id| table.get(id));
        let flaw = match primary {
            _ if own.is_primary() => "ERR You should send CLUSTER FAILOVER to a replica",
            None => "ERR I'm a replica but my master is unknown to me",
            Some(node) if how == Takeover::Agreed && node.flags.has(Flags::FAIL) => {
                "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE"
            }
            Some(_) => return machine.fail_over(how, now_ms).map_err(refused),
        };
        Err(Error::fixed(flaw))
    })?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn count_reports(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let count = cluster.read(|machine| {
        let node = named(machine.nodes(), args.at(2))?;
        Ok(machine.failure_reports(node.id, cluster.now_ms()))
    })?;
    reply.int(count as i64);
    Ok(())
}

pub(super) fn set_epoch(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let epoch = parse_i64(args.at(2)).ok_or(Error::NotInteger)?;
    let epoch = u64::try_from(epoch)
        .map_err(|_| Error::Text(format!("ERR Invalid config epoch specified: {epoch}").into()))?;
    call.turn.release();
    call.shared
        .in_cluster(cluster, |machine, now_ms| {
            machine.set_config_epoch(epoch, now_ms)
        })
        .map_err(refused)?;
    reply_when_saved(call, "OK", reply)
}

pub(super) fn bump_epoch(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    call.turn.release();
    let (epoch, is_new) = call
        .shared
        .in_cluster(cluster, |machine, now_ms| machine.bump_epoch(now_ms));
    let word = if is_new { "BUMPED" } else { "STILL" };
    reply_when_saved(call, &format!("{word} {epoch}"), reply)
}

pub(super) fn save(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, _| machine.save());
    cluster.saver.publish();
    reply_when_saved(call, "OK", reply)
}

pub(super) fn reset(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let hard = match args.len() {
        2 => false,
        3 if args.at(2).eq_ignore_ascii_case(b"hard") => true,
        3 if args.at(2).eq_ignore_ascii_case(b"soft") => false,
        3 => return Err(Error::Syntax),
        _ => return Err(wrong_form("CLUSTER", args)),
    };
    call.turn.lock_all();
    let is_primary = cluster.read(|machine| machine.nodes().own().is_primary());
    if is_primary && has_keys(call.turn) {
        return Err(Error::fixed(
            "ERR CLUSTER RESET can't be called with master nodes containing keys",
        ));
    }
    call.shared
        .in_cluster(cluster, |machine, now_ms| machine.reset(hard, now_ms));
    if call.shared.replication.is_replica() {
        call.shared.promote(call.turn);
        remove_all_keys(call)?;
    }
    reply_when_saved(call, "OK", reply)
}
