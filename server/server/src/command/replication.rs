//! ROLE, and the commands that replicas send to their primary: REPLCONF, PSYNC and SYNC.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_rdb::Dialect;
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::command::info::replication as fields;
use crate::command::replica_of::get_ack;
use crate::log;
use crate::node::call::{Call, ServerCommand};
use crate::replication::replica::{Filter, Phase, Replica};
use crate::replication::state::CannotContinue;
use crate::shutdown;

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::new("psync", -3, SYNC, Group::Server, psync)
        .since("2.8.0")
        .complexity("O(1) to continue, O(N) with a snapshot, where N is the number of keys.")
        .summary("An internal command used in replication.")
        .syntax("replicationid offset"),
    ServerCommand::new(
        "replconf",
        -1,
        Flags::ADMIN
            .or(Flags::NOSCRIPT)
            .or(Flags::LOADING)
            .or(Flags::STALE)
            .or(Flags::ALLOW_BUSY)
            .or(Flags::RESHAPES_REPLIES),
        Group::Server,
        replconf,
    )
    .since("3.0.0")
    .summary("An internal command for configuring the replication stream.")
    .internal(),
    ServerCommand::new(
        "role",
        1,
        Flags::NOSCRIPT
            .or(Flags::LOADING)
            .or(Flags::STALE)
            .or(Flags::FAST),
        Group::Server,
        role,
    )
    .categories(&["admin", "dangerous"])
    .doc("2.8.12", "O(1)", "Returns the replication role."),
    ServerCommand::new("sync", 1, SYNC, Group::Server, sync)
        .since("1.0.0")
        .complexity("O(N) where N is the number of keys.")
        .summary("An internal command used in replication."),
];

const SYNC: Flags = Flags::ADMIN
    .or(Flags::NO_ASYNC_LOADING)
    .or(Flags::NO_MULTI)
    .or(Flags::NOSCRIPT)
    .or(Flags::RESHAPES_REPLIES);

fn role(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if !fields::role_of_replica(call.shared, reply) {
        fields::role_of_primary(call.shared, reply);
    }
    Ok(())
}

fn replconf(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    for at in (1..args.len()).step_by(2) {
        let (option, value) = (args.at(at), args.at(at + 1));
        let number = || parse_i64(value).ok_or(Error::NotInteger);
        match option.to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                let port = u32::try_from(number()?);
                call.session.peer.port = port.map_err(|_| Error::NotInteger)?;
            }
            b"ip-address" => {
                const HOST_MAX: usize = 255;
                if value.len() > HOST_MAX {
                    let text = format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                        value.len()
                    );
                    return Err(Error::Text(text.into()));
                }
                let ip = String::from_utf8_lossy(value).into_owned();
                call.session.peer.ip = Some(ip).filter(|ip| !ip.is_empty());
            }
            b"capa" => {
                let peer = &mut call.session.peer;
                peer.eof |= value.eq_ignore_ascii_case(b"eof");
                peer.psync2 |= value.eq_ignore_ascii_case(b"psync2");
            }
            // As in Redis, an acknowledgement gets no reply, and options other than FACK after it
            // are ignored.
            b"ack" => {
                if let Ok(offset) = number() {
                    acknowledge(call, args, at, offset);
                }
                return Ok(());
            }
            b"getack" => {
                get_ack(call, reply);
                return Ok(());
            }
            b"rdb-only" => {
                call.session.peer.rdb_only = match number()? {
                    0 => false,
                    1 => true,
                    _ => {
                        return Err(Error::fixed(
                            "ERR value is out of range, value must between 0 and 1",
                        ));
                    }
                };
            }
            b"rdb-filter-only" => call.session.peer.filter = Some(filter(value)?),
            b"version" => call.session.peer.dialect = dialect(value),
            _ => {
                return Err(Error::repeating(
                    "ERR Unrecognized REPLCONF option: ",
                    option,
                    "",
                ));
            }
        }
    }
    reply.ok();
    Ok(())
}

/// Returns the dialect for a replica of this version. Only Valkey and Punctual announce a version.
fn dialect(version: &[u8]) -> Dialect {
    let major = version.split(|b| *b == b'.').next().and_then(parse_i64);
    match major {
        Some(9..) => Dialect::Valkey,
        _ => Dialect::Redis,
    }
}

/// Parses the names of the parts of the dataset that a filtered snapshot contains.
fn filter(names: &[u8]) -> Result<Filter, Error> {
    let mut filter = Filter { functions: false };
    for name in names.split(|b| b.is_ascii_whitespace()) {
        match name {
            b"" => {}
            b"functions" => filter.functions = true,
            other => {
                return Err(Error::repeating(
                    "ERR Unsupported rdb-filter-only option: ",
                    other,
                    "",
                ));
            }
        }
    }
    Ok(filter)
}

/// Records `REPLCONF ACK offset [FACK offset]` of a replica.
fn acknowledge(call: &mut Call, args: Args, at: usize, offset: i64) {
    let Some(replica) = &call.session.replica else {
        return;
    };
    let file = args
        .get(at + 2)
        .filter(|word| word.eq_ignore_ascii_case(b"fack"))
        .and_then(|_| parse_i64(args.get(at + 3)?));
    let unsigned = |offset: i64| u64::try_from(offset).unwrap_or(0);
    replica.acknowledge(unsigned(offset), file.map(unsigned));
    call.shared.answer_acked(call.loop_number);
    if call.shared.replication.failover.is_planned() {
        call.shared.request_upkeep();
    }
    shutdown::check(call.shared);
}

fn sync(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.session.replica.is_some() {
        return Ok(());
    }
    check(call, reply)?;
    log::notice!(
        call.shared.logger,
        "Replica {} asks for synchronization",
        candidate(call, Phase::Waiting, u64::MAX)
    );
    full(call, true);
    Ok(())
}

fn psync(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.session.replica.is_some() {
        return Ok(());
    }
    if args
        .get(3)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"failover"))
    {
        take_over(call, args.at(1))?;
    }
    check(call, reply)?;
    let shared = Arc::clone(call.shared);
    let replica = candidate(call, Phase::Waiting, u64::MAX);
    log::notice!(shared.logger, "Replica {replica} asks for synchronization");
    let Some(offset) = parse_i64(&args[2]) else {
        log::warning!(
            shared.logger,
            "Replica {replica} asks for synchronization but with a wrong offset"
        );
        return Err(Error::NotInteger);
    };
    let id = args.at(1);
    if partial(call, id, offset, reply) {
        let counts = &shared.replication.replicas.counts;
        counts.partial_ok.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    // With the id `?` a replica requests a full synchronization: no partial one was refused.
    if id.first() != Some(&b'?') {
        let counts = &shared.replication.replicas.counts;
        counts.partial_err.fetch_add(1, Ordering::Relaxed);
    }
    full(call, false);
    Ok(())
}

/// Promotes this replica at the request of its primary. The primary runs FAILOVER, and becomes a
/// replica of this server.
fn take_over(call: &mut Call, id: &[u8]) -> Result<(), Error> {
    let shared = Arc::clone(call.shared);
    log::notice!(
        shared.logger,
        "Failover request received for replid {}.",
        id.escape_ascii()
    );
    if !shared.replication.is_replica() {
        return Err(Error::fixed(
            "ERR PSYNC FAILOVER can't be sent to a master.",
        ));
    }
    if !shared.replication.ids().current.is(id) {
        return Err(Error::fixed(
            "ERR PSYNC FAILOVER replid must match my replid.",
        ));
    }
    shared.promote(call.turn);
    shared.remember_primary(None);
    call.turn.release();
    log::notice!(
        shared.logger,
        "MASTER MODE enabled (failover request from 'id={} addr={}')",
        call.session.id,
        call.session.info.addr
    );
    Ok(())
}

/// Returns the error for a client that must not become a replica now.
fn check(call: &Call, reply: &Reply) -> Result<(), Error> {
    if !reply.is_empty() {
        return Err(Error::fixed(
            "ERR SYNC and PSYNC are invalid with pending output",
        ));
    }
    if call.shared.replication.is_replica() && !call.shared.replication.upstream.is_connected() {
        return Err(Error::fixed(
            "NOMASTERLINK Can't SYNC while not connected with my master",
        ));
    }
    let peer = &call.session.peer;
    if peer.filter.is_some() && !peer.eof {
        return Err(Error::fixed("ERR Filtered replica requires EOF capability"));
    }
    Ok(())
}

/// Creates the replica that the client becomes when it is attached. `next` is the offset of the
/// first byte to send, or `u64::MAX` if it is not known yet.
fn candidate(call: &Call, phase: Phase, next: u64) -> Replica {
    Replica::new(
        call.shared.world,
        Arc::clone(&call.session.info),
        call.session.peer.clone(),
        phase,
        next,
    )
}

/// Continues the stream at `offset`, if the replica has the same history and the backlog has all
/// bytes from this offset on. Returns false if that is not possible.
fn partial(call: &mut Call, id: &[u8], offset: i64, reply: &mut Reply) -> bool {
    let shared = Arc::clone(call.shared);
    let name = candidate(call, Phase::Waiting, u64::MAX);
    let mut stream = shared.replication.replicas.stream();
    let ids = shared.replication.ids();
    if let Err(foreign) = ids.accept(id, offset) {
        drop(stream);
        match foreign {
            CannotContinue::Asked => {
                log::notice!(shared.logger, "Full resync requested by replica {name}");
            }
            CannotContinue::Unknown => log::notice!(
                shared.logger,
                "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{}', my replication IDs are '{}' and '{}')",
                id.escape_ascii(),
                ids.current,
                ids.second
            ),
            CannotContinue::BeyondSecond => log::notice!(
                shared.logger,
                "Partial resynchronization not accepted: Requested offset for second ID was {offset}, but I can reply up to {}",
                ids.second_end
            ),
        }
        return false;
    }
    let next = u64::try_from(offset).unwrap_or(0);
    let rest = match &stream.backlog {
        Some(backlog) if backlog.reaches(next) => backlog.end() - next,
        _ => {
            drop(stream);
            log::notice!(
                shared.logger,
                "Unable to partial resync with replica {name} for lack of backlog (Replica request was: {offset})."
            );
            if next > shared.replication.offset() {
                log::warning!(
                    shared.logger,
                    "Warning: replica {name} tried to PSYNC with an offset that is greater than the master replication offset."
                );
            }
            return false;
        }
    };
    let replica = Arc::new(candidate(call, Phase::Online, next));
    shared.attach(&mut stream, &replica);
    drop(stream);
    log::notice!(
        shared.logger,
        "Partial resynchronization request from {replica} accepted. Sending {rest} bytes of backlog starting from offset {offset}."
    );
    if replica.peer.psync2 {
        reply.simple(format!("CONTINUE {}", ids.current));
    } else {
        reply.simple("CONTINUE");
    }
    call.session.replica = Some(replica);
    shared.count_good_replicas();
    true
}

/// Attaches the client as a replica that waits for a snapshot.
fn full(call: &mut Call, old_protocol: bool) {
    let shared = Arc::clone(call.shared);
    let counts = &shared.replication.replicas.counts;
    counts.full.fetch_add(1, Ordering::Relaxed);
    let mut replica = candidate(call, Phase::Waiting, u64::MAX);
    replica.old_protocol = old_protocol;
    let replica = Arc::new(replica);
    if shared.replication.replicas.stream().backlog.is_none() {
        shared.begin_stream(call.turn);
    }
    shared.attach(&mut shared.replication.replicas.stream(), &replica);
    call.session.replica = Some(replica);
}
