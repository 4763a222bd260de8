//! WAIT and WAITAOF.

use std::sync::Arc;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::keyspace::waiters::{Wait, WaitCondition};
use punctual_store::spec::{Flags, Group};

use crate::durability::aof::Phase;
use crate::node::call::{Call, ServerCommand};
use crate::replication::acks::{Goal, LocalFile};
use crate::session::Executing;

/// Rows of the commands in this file. As in Redis, they have the ACL category `connection`, which
/// their group sets.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::new("wait", 3, Flags::BLOCKING, Group::Connection, wait)
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .since("3.0.0")
        .summary("Blocks until a number of replicas have acknowledged the connection's writes.")
        .syntax("numreplicas:integer timeout:integer"),
    ServerCommand::new("waitaof", 4, Flags::BLOCKING, Group::Connection, wait_aof)
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .since("7.2.0")
        .summary("Blocks until the connection's writes are in a number of append-only files.")
        .syntax("numlocal:integer numreplicas:integer timeout:integer"),
];

/// Parses a timeout in milliseconds into a deadline in Unix milliseconds. Returns `None` for 0,
/// which means no timeout.
fn deadline(call: &Call, arg: &[u8]) -> Result<Option<u64>, Error> {
    match parse_i64(arg) {
        None => Err(Error::fixed(
            "ERR timeout is not an integer or out of range",
        )),
        Some(..0) => Err(Error::fixed("ERR timeout is negative")),
        Some(0) => Ok(None),
        Some(ms) => {
            let base = call.turn.now.base_ms();
            let at = base
                .checked_add(ms as u64)
                .filter(|at| *at <= i64::MAX as u64);
            at.map(Some)
                .ok_or(Error::fixed("ERR timeout is out of range"))
        }
    }
}

/// Replies if enough replicas have acknowledged, or makes the client wait.
fn wait_for(
    call: &mut Call,
    replicas: i64,
    file: Option<LocalFile>,
    deadline_ms: Option<u64>,
    reply: &mut Reply,
) {
    // Appends the client's writes to the log of changes, so that the offsets below include them.
    call.turn.release();
    let (shared, session) = (call.shared, &call.session);
    let (offset, position) = match call.has_written() {
        true => (
            shared.replication.offset(),
            shared.durability.changelog.file_end(),
        ),
        false => (session.last_write, session.last_write_in_file),
    };
    let goal = Goal {
        offset,
        replicas: usize::try_from(replicas).unwrap_or(0),
        file: file.map(|file| LocalFile { position, ..file }),
    };
    let reached = shared.reached(&goal);
    if goal.is_met(reached) || !call.turn.may_wait() {
        return goal.reply(reached, reply);
    }
    // The wait has no keys (`0..0`), so its condition is never checked. Acknowledgements or the
    // deadline end it.
    call.turn.wait = Some(Wait::new(WaitCondition::List(1), 0..0, deadline_ms));
    let (shared, loop_number) = (Arc::clone(call.shared), call.loop_number);
    let begin = move |waiter: Arc<_>| shared.wait_for_acks(loop_number, &waiter, goal);
    call.session.executing = Some(Executing::Wait(Box::new(begin)));
}

fn wait(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if call.shared.replication.is_replica() {
        return Err(Error::fixed(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let replicas = parse_i64(&args[1]).ok_or(Error::NotInteger)?;
    let deadline_ms = deadline(call, &args[2])?;
    wait_for(call, replicas, None, deadline_ms, reply);
    Ok(())
}

fn wait_aof(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let local = parse_i64(&args[1]).filter(|n| (0..=1).contains(n));
    let local = local.ok_or(Error::fixed(
        "ERR value is out of range, value must between 0 and 1",
    ))?;
    let replicas = parse_i64(&args[2]).filter(|n| *n >= 0);
    let replicas = replicas.ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    let deadline_ms = deadline(call, &args[3])?;
    if call.shared.replication.is_replica() {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
        ));
    }
    let required = local > 0;
    if required && call.shared.durability.aof.phase() == Phase::Off {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    // `wait_for` replaces the position.
    let file = LocalFile {
        required,
        position: 0,
    };
    wait_for(call, replicas, Some(file), deadline_ms, reply);
    Ok(())
}
