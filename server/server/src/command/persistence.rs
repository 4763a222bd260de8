//! SAVE, BGSAVE, LASTSAVE and BGREWRITEAOF.

use std::sync::atomic::Ordering;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::persist::aof::rewrite::{self, RewriteError};
use crate::persist::save::{self, SaveError};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("bgrewriteaof", 1, ADMIN, bgrewriteaof)
        .since("1.0.0")
        .complexity(
            "O(1) for the caller; the rewrite is O(N) on a separate thread, where N is the number of keys.",
        )
        .summary("Asynchronously rewrites the append-only file to disk."),
    row("bgsave", -1, ADMIN, bgsave)
        .since("1.0.0")
        .complexity(
            "O(1) for the caller; the save is O(N) on a separate thread, where N is the number of keys.",
        )
        .summary("Asynchronously saves the databases to disk.")
        .history(&[("3.2.2", "Added the `SCHEDULE` option.")])
        .syntax("[SCHEDULE@3.2.2]"),
    row(
        "lastsave",
        1,
        Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
        last_save,
    )
    .tips(&["nondeterministic_output"])
    .categories(&["admin", "dangerous"])
    .since("1.0.0")
    .summary("Returns the Unix timestamp of the last successful save to disk."),
    row("save", 1, ADMIN.or(Flags::NO_MULTI), save)
        .since("1.0.0")
        .complexity("O(N) where N is the number of keys; blocks all other commands.")
        .summary("Synchronously saves the databases to disk."),
];

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING);

const IN_PROGRESS: Error = Error::fixed("ERR Background save already in progress");

punctual_store::family!(ServerHandler, Group::Server, Flags::NONE);

fn save(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    match save::foreground(call.shared, call.turn) {
        Ok(()) => {
            reply.ok();
            Ok(())
        }
        Err(SaveError::Busy) => Err(IN_PROGRESS),
        // The reason is in the log.
        Err(_) => Err(Error::fixed("ERR")),
    }
}

fn bgsave(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args.get(1) {
        None => {}
        Some(word) if args.len() == 2 && word.eq_ignore_ascii_case(b"schedule") => {}
        Some(_) => return Err(Error::Syntax),
    }
    let state = &call.shared.durability;
    let rewrites = state.aof.rewrite.active.load(Ordering::Acquire);
    if state.is_saving() && !rewrites {
        return Err(IN_PROGRESS);
    }
    if rewrites && args.len() == 1 {
        return Err(Error::fixed(
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a \
             BGSAVE whenever possible.",
        ));
    }
    if call.turn.source().is_nested() || rewrites {
        state.scheduled.store(true, Ordering::Release);
        reply.simple("Background saving scheduled");
        return Ok(());
    }
    match save::begin_background(call.shared, call.turn) {
        Ok(()) => {
            reply.simple("Background saving started");
            Ok(())
        }
        Err(SaveError::Busy) => Err(IN_PROGRESS),
        Err(_) => Err(Error::fixed("ERR")),
    }
}

fn bgrewriteaof(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let state = &call.shared.durability;
    let active = &state.aof.rewrite.active;
    if active.load(Ordering::Acquire) {
        return Err(Error::fixed(
            "ERR Background append only file rewriting already in progress",
        ));
    }
    let begun = if call.turn.source().is_nested() {
        Err(RewriteError::Busy)
    } else {
        rewrite::begin(call.shared, call.turn)
    };
    match begun {
        Ok(()) => reply.simple("Background append only file rewriting started"),
        Err(RewriteError::Busy) => {
            state.aof.rewrite.scheduled.store(true, Ordering::Release);
            reply.simple("Background append only file rewriting scheduled");
        }
        Err(_) => {
            return Err(Error::fixed(
                "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
            ));
        }
    }
    Ok(())
}

fn last_save(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let at_ms = call.shared.durability.last_save_ms.load(Ordering::Acquire);
    reply.int((at_ms / 1000) as i64);
    Ok(())
}
