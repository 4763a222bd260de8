//! REPLICAOF and SLAVEOF.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::call::{Call, ServerCommand};
use crate::log;
use crate::replication::apply;
use crate::replication::upstream::Address;

const FLAGS: Flags = Flags::ADMIN
    .or(Flags::NOSCRIPT)
    .or(Flags::STALE)
    .or(Flags::NO_ASYNC_LOADING);

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::new("replicaof", 3, FLAGS, Group::Server, replica_of).doc(
        "5.0.0",
        "O(1)",
        "Configures a server as replica of another, or promotes it to a master.",
    ),
    ServerCommand::new("slaveof", 3, FLAGS, Group::Server, replica_of)
        .doc(
            "1.0.0",
            "O(1)",
            "Sets a Redis server as a replica of another, or promotes it to being a master.",
        )
        .deprecated("5.0.0", "`REPLICAOF`"),
];

/// Handles `REPLCONF GETACK *` of the primary: the acknowledgement is sent although its stream gets no replies.
pub(crate) fn get_ack(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    if let Some(applied) = &call.session.upstream {
        let offset = applied.offset(call.shared);
        apply::acknowledge(reply.out(), offset);
        call.session.ignore_reply_mode = true;
    }
}

fn replica_of(call: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let (host, port) = (args.at(1), args.at(2));
    let shared = call.shared;
    let who = format!("id={} addr={}", call.session.id, call.session.info.addr);
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
    if shared.upstream.primary().as_ref() == Some(&primary) {
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
