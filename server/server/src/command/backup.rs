//! BACKUP: online backups, as in Redis 8.10. `persist/backup.rs` describes how they work.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::persist::backup;

const ADMIN: Flags = Flags::ADMIN;
const NOSCRIPT: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);

const fn row(name: &'static str, flags: Flags, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, 2, flags, Group::Server, handler).since("8.10.0")
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "backup",
    Group::Server,
    &[
        row("abort", NOSCRIPT, abort).summary("Cancels a backup that is not sealed yet."),
        row("cleanup", NOSCRIPT, cleanup)
            .summary("Removes the files of a sealed or failed backup."),
        ServerCommand::help(Group::Server, "8.10.0", |_, _, reply| {
            help(reply, "BACKUP", HELP)
        }),
        row("list", ADMIN.or(Flags::STALE), list)
            .summary("Returns the paths of the backup's files that do not change any more."),
        row("seal", NOSCRIPT, seal)
            .summary("Completes a backup: its files do not change any more."),
        row("start", NOSCRIPT, start).summary("Starts a backup into the folder `backupdirname`."),
        row("status", ADMIN.or(Flags::STALE), status).summary("Returns the state of the backup."),
    ],
)
.since("8.10.0")
.summary("A container for commands of online backups.")];

fn done(result: Result<(), String>, reply: &mut Reply) -> Result<(), Error> {
    result.map_err(|error| Error::Text(format!("ERR {error}").into()))?;
    reply.ok();
    Ok(())
}

fn start(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    done(backup::start(call.shared, call.turn), reply)
}

fn seal(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    done(backup::seal(call.shared, call.turn), reply)
}

fn abort(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    done(backup::abort(call.shared, call.turn), reply)
}

fn cleanup(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    done(backup::cleanup(call.shared, call.turn), reply)
}

fn status(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let progress = call.shared.durability.backup.progress.lock();
    reply.map(4);
    reply.bulk(b"state");
    reply.bulk(progress.state.name().as_bytes());
    reply.bulk(b"error");
    reply.bulk(progress.error.as_bytes());
    reply.bulk(b"start_time");
    reply.int(progress.began_s as i64);
    reply.bulk(b"end_time");
    reply.int(progress.sealed_s as i64);
    Ok(())
}

fn list(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let progress = call.shared.durability.backup.progress.lock();
    reply.array(progress.listed.len());
    for path in &progress.listed {
        reply.bulk(path.as_os_str().as_encoded_bytes());
    }
    Ok(())
}

const HELP: &[&str] = &[
    "START",
    "    Start a new backup into the configured 'backupdirname'.",
    "SEAL",
    "    Freeze the current backup (BASE + INCR + manifest).",
    "ABORT",
    "    Cancel a backup that has not been sealed yet.",
    "CLEANUP",
    "    Remove a sealed backup's files and return to idle.",
    "STATUS",
    "    Report the current backup state.",
    "LIST",
    "    List the immutable files pinned so far.",
];
