//! EVAL, EVALSHA and SCRIPT.

use punctual_lua::ScriptFlags;
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::node::Shared;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::node::scripts::{MISSING, Scripts};
use crate::script::cache::{Cache, SHA_DIGITS, parse_sha};
use crate::session::{Executing, Runnable, ScriptRequest};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    runs("eval", WRITES, &["RW access update"], eval)
        .since("2.6.0")
        .summary("Executes a server-side Lua script.")
        .syntax("script numkeys [key ...] [arg ...]"),
    runs("evalsha", WRITES, &["RW access update"], evalsha)
        .since("2.6.0")
        .summary("Executes a server-side Lua script by SHA1 digest.")
        .syntax("sha1 numkeys [key ...] [arg ...]"),
    runs("eval_ro", READS, &["RO access"], eval_ro)
        .since("7.0.0")
        .summary("Executes a read-only server-side Lua script.")
        .syntax("script numkeys [key ...] [arg ...]"),
    runs("evalsha_ro", READS, &["RO access"], evalsha_ro)
        .since("7.0.0")
        .summary("Executes a read-only server-side Lua script by SHA1 digest.")
        .syntax("sha1 numkeys [key ...] [arg ...]"),
    ServerCommand::container("script", Group::Scripting, SCRIPTS)
        .since("2.6.0")
        .summary("A container for Lua scripts management commands."),
];

pub(super) const RUNS: Flags = Flags::NOSCRIPT
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MOVABLE_KEYS)
    .or(Flags::RUNS_SCRIPTS);
const WRITES: Flags = RUNS.or(Flags::MAY_REPLICATE);
const READS: Flags = RUNS.or(Flags::READONLY);

pub(super) const ONE_OF_ALL: &[&str] =
    &["request_policy:all_shards", "response_policy:one_succeeded"];

/// Returns the row of a command for scripts or functions.
pub(super) const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Scripting, handler)
}

/// Returns the row of a command that runs a script.
const fn runs(
    name: &'static str,
    flags: Flags,
    access: &'static [&'static str],
    handler: ServerHandler,
) -> ServerCommand {
    row(name, -3, flags, handler)
        .counted_keys(2)
        .access(access)
        .complexity("Depends on the script that is executed.")
}

const SCRIPTS: &[ServerCommand] = &[
    row("debug", 3, Flags::NOSCRIPT, debug)
        .since("3.2.0")
        .summary("Sets the debug mode of server-side Lua scripts.")
        .syntax("(mode: YES | SYNC | NO)"),
    row("exists", -3, Flags::NOSCRIPT, exists)
        .tips(&[
            "request_policy:all_shards",
            "response_policy:agg_logical_and",
        ])
        .since("2.6.0")
        .complexity("O(N) with N being the number of scripts asked for.")
        .summary("Determines whether server-side Lua scripts exist in the script cache.")
        .syntax("sha1 ..."),
    row("flush", -2, Flags::NOSCRIPT, flush)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .since("2.6.0")
        .complexity("O(N) with N being the number of scripts in the cache.")
        .summary("Removes all server-side Lua scripts from the script cache.")
        .history(&[(
            "6.2.0",
            "Added the `ASYNC` and `SYNC` flushing mode modifiers.",
        )])
        .syntax("[flush-type: ASYNC | SYNC]@6.2.0"),
    ServerCommand::help(Group::Scripting, "5.0.0", |_, _, reply| {
        help(reply, "SCRIPT", HELP)
    }),
    row("load", 3, Flags::NOSCRIPT.or(Flags::STALE), load)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .since("2.6.0")
        .complexity("O(N) with N being the length in bytes of the script body.")
        .summary("Loads a server-side Lua script to the script cache.")
        .syntax("script"),
    row("kill", 2, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY), kill)
        .tips(ONE_OF_ALL)
        .since("2.6.0")
        .summary("Terminates a server-side Lua script during execution."),
];

fn eval(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare(call, args, Scripts::by_source, false)
}

fn eval_ro(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare(call, args, Scripts::by_source, true)
}

fn evalsha(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare_cached(call, args, false)
}

fn evalsha_ro(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare_cached(call, args, true)
}

/// Like [`prepare`], for EVALSHA, which checks the length of the digest before its other arguments.
fn prepare_cached(call: &mut Call, args: Args, read_only: bool) -> Result<(), Error> {
    if args.at(1).len() != SHA_DIGITS {
        return Err(MISSING);
    }
    prepare(call, args, Scripts::by_sha, read_only)
}

/// Finds the script, and requests that the dispatcher runs it after this handler has returned.
fn prepare(
    call: &mut Call,
    args: Args,
    find: fn(&mut Scripts, &Cache, &[u8]) -> Result<usize, Error>,
    read_only: bool,
) -> Result<(), Error> {
    let keys = parse_i64(args.at(2)).ok_or(Error::NotInteger)?;
    if keys > args.len() as i64 - 3 {
        return Err(Error::fixed(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let Ok(keys) = usize::try_from(keys) else {
        return Err(Error::fixed("ERR Number of keys can't be negative"));
    };
    let script = find(call.scripts, &call.shared.scripting.cache, args.at(1))?;
    let flags = call.scripts.flags(script);
    // For a script without a shebang, each write is checked when the script calls it.
    if flags.is_some_and(|flags| !flags.has(ScriptFlags::NO_WRITES)) {
        may_write(call.shared, read_only)?;
    }
    call.session.executing = Some(Executing::Script(ScriptRequest {
        script: Runnable::Script(script),
        keys,
        read_only,
    }));
    Ok(())
}

fn kill(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.shared.scripting.running.kill(false)?;
    reply.ok();
    Ok(())
}

/// Refuses a script or function that declares writes, if it is called by a read-only command or the
/// server cannot save.
pub(super) fn may_write(shared: &Shared, read_only: bool) -> Result<(), Error> {
    if shared.durability.refuses_writes(&shared.settings()) {
        return Err(Error::fixed(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
             Writable scripts are blocked. Use 'no-writes' flag for read only scripts.",
        ));
    }
    if read_only {
        return Err(Error::fixed(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    Ok(())
}

fn load(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let script = call
        .scripts
        .by_source(&call.shared.scripting.cache, args.at(2))?;
    reply.bulk(call.scripts.name(script).as_bytes());
    Ok(())
}

/// Checks the optional argument SYNC or ASYNC.
pub(super) fn flush_option(args: Args, refusal: &'static str) -> Result<(), Error> {
    match args.get(2) {
        None => Ok(()),
        Some(mode) if args.len() == 3 && is_flush_mode(mode) => Ok(()),
        Some(_) => Err(Error::fixed(refusal)),
    }
}

fn is_flush_mode(mode: &[u8]) -> bool {
    mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async")
}

fn debug(_: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"no" => {
            reply.ok();
            Ok(())
        }
        b"yes" | b"sync" => Err(Error::fixed("ERR The debugger of scripts is not available")),
        _ => Err(Error::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

fn flush(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    flush_option(args, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.shared.scripting.cache.flush();
    reply.ok();
    Ok(())
}

fn exists(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.array(args.len() - 2);
    for name in args.skip(2).iter() {
        let known =
            parse_sha(name).is_some_and(|sha| call.shared.scripting.cache.get(&sha).is_some());
        reply.int(known.into());
    }
    Ok(())
}

const HELP: &[&str] = &[
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
];
