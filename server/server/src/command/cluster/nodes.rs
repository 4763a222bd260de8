//! CLUSTER subcommands about nodes and their roles: MEET, REPLICATE, FAILOVER.

use std::net::IpAddr;

use punctual_cluster::nodes::Flags;
use punctual_cluster::state::{OperatorError, Takeover};
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::{named, node, refused};
use crate::node::call::Call;

/// The port of the bus is the one for clients plus this number, unless it is given.
const BUS_PORT_OFFSET: i64 = 10_000;

pub(super) fn meet(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let port = |at: usize, text: &str| {
        parse_i64(args.at(at)).ok_or_else(|| Error::repeating(text, args.at(at), ""))
    };
    let client_port = port(3, "ERR Invalid TCP base port specified: ")?;
    let bus_port = match args.len() {
        5 => port(4, "ERR Invalid TCP bus port specified: ")?,
        4 => client_port.saturating_add(BUS_PORT_OFFSET),
        _ => return Err(crate::command::replies::wrong_form("CLUSTER", args)),
    };
    let ip: Option<IpAddr> = std::str::from_utf8(args.at(2))
        .ok()
        .and_then(|ip| ip.parse().ok());
    let valid = |port: i64| u16::try_from(port).ok().filter(|port| *port > 0);
    let (Some(ip), Some(client_port), Some(bus_port)) = (ip, valid(client_port), valid(bus_port))
    else {
        let address = [args.at(2), b":", args.at(3)].concat();
        return Err(Error::repeating(
            "ERR Invalid node address specified: ",
            &address,
            "",
        ));
    };
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        machine
            .meet(&ip.to_string(), client_port, bus_port, now_ms)
            .map_err(refused)
    })?;
    reply.ok();
    Ok(())
}

pub(super) fn replicate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    call.turn.lock_all();
    let has_keys = call.turn.held_dbs(0).any(|(_, part)| !part.is_empty());
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let primary = named(table, args.at(2))?;
        let flaw = if primary.id == table.own().id {
            "ERR Can't replicate myself"
        } else if !primary.is_primary() {
            "ERR I can only replicate a master, not a replica."
        } else if table.own().is_primary() && (table.own().is_voter() || has_keys) {
            "ERR To set a master the node must be empty and without assigned slots."
        } else {
            let id = primary.id;
            return machine.replicate(id, now_ms).map_err(refused);
        };
        Err(Error::fixed(flaw))
    })?;
    reply.ok();
    Ok(())
}

pub(super) fn fail_over(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let cluster = node(call.shared)?;
    let how = match args.len() {
        2 => Takeover::Agreed,
        3 if args.at(2).eq_ignore_ascii_case(b"force") => Takeover::Force,
        3 if args.at(2).eq_ignore_ascii_case(b"takeover") => Takeover::Takeover,
        3 => return Err(Error::Syntax),
        _ => return Err(crate::command::replies::wrong_form("CLUSTER", args)),
    };
    call.turn.release();
    call.shared.in_cluster(cluster, |machine, now_ms| {
        let table = machine.nodes();
        let primary = table.own().primary;
        let failed = primary
            .and_then(|id| table.get(id))
            .is_some_and(|node| node.flags.has(Flags::FAIL));
        if failed && how == Takeover::Agreed {
            return Err(refused(OperatorError::NotConnected));
        }
        machine.fail_over(how, now_ms).map_err(refused)
    })?;
    reply.ok();
    Ok(())
}
