//! ROLE, WAIT and WAITAOF on a server without replicas.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::call::{Call, ServerCommand};

/// The family's rows. As in Redis, WAIT and WAITAOF have the ACL category `connection`, which their group sets.
pub(crate) static COMMANDS: &[ServerCommand] = &[
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
    ServerCommand::new("wait", 3, Flags::NOSCRIPT, Group::Connection, wait)
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .doc(
            "3.0.0",
            "O(1)",
            "Blocks until a number of replicas have acknowledged the connection's writes.",
        ),
    ServerCommand::new("waitaof", 4, Flags::NOSCRIPT, Group::Connection, wait_aof)
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .doc(
            "7.2.0",
            "O(1)",
            "Blocks until the connection's writes are in a number of append-only files.",
        ),
];

fn role(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.array(3);
    reply.bulk(b"master");
    reply.int(0);
    reply.array(0);
    Ok(())
}

fn timeout(arg: &[u8]) -> Result<(), Error> {
    match parse_i64(arg) {
        None => Err(Error::fixed(
            "ERR timeout is not an integer or out of range",
        )),
        Some(..0) => Err(Error::fixed("ERR timeout is negative")),
        Some(_) => Ok(()),
    }
}

/// Replies at once, where Redis waits for the timeout: no replica can connect meanwhile.
fn wait(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    timeout(&args[2])?;
    parse_i64(&args[1]).ok_or(Error::NotInteger)?;
    reply.int(0);
    Ok(())
}

fn wait_aof(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let local = parse_i64(&args[1]).filter(|n| (0..=1).contains(n));
    let local = local.ok_or(Error::fixed(
        "ERR value is out of range, must be between 0 and 1",
    ))?;
    let replicas = parse_i64(&args[2]).filter(|n| *n >= 0);
    replicas.ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    timeout(&args[3])?;
    if local > 0 {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    reply.array(2);
    reply.int(0);
    reply.int(0);
    Ok(())
}
