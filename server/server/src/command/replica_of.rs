//! REPLICAOF, SLAVEOF and FAILOVER.

use std::sync::Arc;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::feed::failover::find;
use crate::follow::apply;
use crate::log;
use crate::node::call::{Call, ServerCommand};
use crate::replication::failover::Plan;
use crate::replication::upstream::Address;

const FLAGS: Flags = Flags::ADMIN
    .or(Flags::NOSCRIPT)
    .or(Flags::STALE)
    .or(Flags::NO_ASYNC_LOADING)
    .or(Flags::CHANGES_ROLE);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::new(
        "failover",
        -1,
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
        Group::Server,
        failover,
    )
    .since("6.2.0")
    .summary("Starts a coordinated failover from a server to one of its replicas.")
    .syntax("[target: TO (host port [FORCE])] [ABORT] [TIMEOUT milliseconds]"),
    ServerCommand::new("replicaof", 3, FLAGS, Group::Server, replica_of)
        .since("5.0.0")
        .summary("Configures a server as replica of another, or promotes it to a master.")
        .syntax("(args: (host-port: host port) | (no-one: NO ONE))"),
    ServerCommand::new("slaveof", 3, FLAGS, Group::Server, replica_of)
        .since("1.0.0")
        .summary("Sets a Redis server as a replica of another, or promotes it to being a master.")
        .deprecated("5.0.0", "`REPLICAOF`")
        .syntax("(args: (host-port: host port) | (no-one: NO ONE))"),
];

fn failover(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.shared.cluster.is_some() {
        return Err(Error::fixed(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    let shared = Arc::clone(call.shared);
    if args.len() == 2 && args.at(1).eq_ignore_ascii_case(b"abort") {
        if !shared.replication.failover.is_planned() {
            return Err(Error::fixed("ERR No failover in progress."));
        }
        shared.abort_failover(call.turn, "Failover manually aborted");
        reply.ok();
        return Ok(());
    }
    let (mut timeout_ms, mut target, mut force) = (0, None, false);
    let mut at = 1;
    while at < args.len() {
        let number = |at| parse_i64(args.at(at)).ok_or(Error::NotInteger);
        match args.at(at).to_ascii_lowercase().as_slice() {
            b"timeout" if at + 1 < args.len() && timeout_ms == 0 => {
                timeout_ms = number(at + 1)?;
                if timeout_ms <= 0 {
                    return Err(Error::fixed("ERR FAILOVER timeout must be greater than 0"));
                }
                at += 2;
            }
            b"to" if at + 2 < args.len() && target.is_none() => {
                let host = String::from_utf8_lossy(args.at(at + 1)).into_owned();
                target = Some((host, number(at + 2)?));
                at += 3;
            }
            b"force" if !force => {
                force = true;
                at += 1;
            }
            _ => return Err(Error::Syntax),
        }
    }
    if shared.replication.failover.is_planned() {
        return Err(Error::fixed("ERR FAILOVER already in progress."));
    }
    if shared.replication.is_replica() {
        return Err(Error::fixed(
            "ERR FAILOVER is not valid when server is a replica.",
        ));
    }
    if shared.replication.replicas.all().is_empty() {
        return Err(Error::fixed("ERR FAILOVER requires connected replicas."));
    }
    if force && (timeout_ms == 0 || target.is_none()) {
        return Err(Error::fixed(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    let unknown = Error::fixed("ERR FAILOVER target HOST and PORT is not a replica.");
    let target = match target {
        None => None,
        Some((host, port)) => {
            let port = u16::try_from(port).map_err(|_| unknown.clone())?;
            let address = Address { host, port };
            let replica = find(&shared, &address).ok_or(unknown)?;
            if !replica.is_online() {
                return Err(Error::fixed("ERR FAILOVER target replica is not online."));
            }
            Some(address)
        }
    };
    let end_ms = u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0);
    let plan = Plan {
        target,
        force,
        end_ms: end_ms.map(|ms| call.shared.world.stopwatch_ms().saturating_add(ms)),
        in_progress: false,
    };
    shared.plan_failover(call.turn, plan);
    reply.ok();
    Ok(())
}

/// Handles `REPLCONF GETACK *` from the primary. The acknowledgement is sent, although the commands
/// of the primary's stream get no replies.
pub(crate) fn get_ack(call: &mut Call, reply: &mut Reply) {
    if let Some(applied) = &mut call.session.upstream {
        let offset = applied.offset(call.shared);
        apply::acknowledge(call.shared, applied, offset, reply.out());
        call.session.ignore_reply_mode = true;
    }
}

fn replica_of(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.shared.cluster.is_some() {
        let error = "ERR REPLICAOF not allowed in cluster mode.";
        return Err(Error::fixed(error));
    }
    let (host, port) = (args.at(1), args.at(2));
    let shared = call.shared;
    let who = format!("id={} addr={}", call.session.id, call.session.info.addr);
    if shared.replication.failover.is_planned() {
        return Err(Error::fixed(
            "ERR REPLICAOF not allowed while failing over.",
        ));
    }
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        if shared.replication.is_replica() {
            shared.promote(call.turn);
            shared.remember_primary(None);
            log::notice!(
                shared.logger,
                "MASTER MODE enabled (user request from '{who}')"
            );
        }
        reply.ok();
        return Ok(());
    }
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Error::fixed("ERR Invalid master port"))?;
    let primary = Address {
        host: String::from_utf8_lossy(host).into_owned(),
        port,
    };
    if shared.replication.upstream.primary().as_ref() == Some(&primary) {
        log::notice!(
            shared.logger,
            "REPLICAOF would result into synchronization with the master we are already connected with. No operation performed."
        );
        reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    shared.follow(call.turn, primary.clone());
    shared.remember_primary(Some(&primary));
    log::notice!(
        shared.logger,
        "REPLICAOF {primary} enabled (user request from '{who}')"
    );
    reply.ok();
    Ok(())
}
