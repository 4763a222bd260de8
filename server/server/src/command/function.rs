//! FUNCTION, FCALL and FCALL_RO.

use punctual_lua::ScriptFlags;
use punctual_rdb::{Encoder, dump, functions};
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, glob};

use crate::command::script::{ONE_OF_ALL, RUNS, flush_option, may_write, row};
use crate::node::call::{Call, ServerCommand};
use crate::script::functions::loaded::{Loader, taken};
use crate::script::functions::registry::{Libraries, Library, Taken};
use crate::session::{Executing, Runnable, ScriptRequest};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("fcall", -3, RUNS.or(Flags::CALLS_FUNCTION), fcall)
        .counted_keys(2)
        .access(&["RW access update"])
        .doc("7.0.0", DEPENDS, "Invokes a function.")
        .syntax("function numkeys [key ...] [arg ...]"),
    row(
        "fcall_ro",
        -3,
        RUNS.or(Flags::CALLS_FUNCTION).or(Flags::READONLY),
        fcall_ro,
    )
    .counted_keys(2)
    .access(&["RO access"])
    .doc("7.0.0", DEPENDS, "Invokes a read-only function.")
    .syntax("function numkeys [key ...] [arg ...]"),
    ServerCommand::container("function", Group::Scripting, FUNCTIONS)
        .since("7.0.0")
        .summary("A container for function commands."),
];

const DEPENDS: &str = "Depends on the function that is executed.";

const FUNCTIONS: &[ServerCommand] = &[
    row("delete", 3, CHANGES, delete)
        .tips(EVERYWHERE)
        .since("7.0.0")
        .complexity("O(N) where N is the number of libraries.")
        .summary("Deletes a library and its functions.")
        .syntax("library-name"),
    row("dump", 2, Flags::NOSCRIPT, dump)
        .since("7.0.0")
        .complexity("O(N) where N is the number of libraries.")
        .summary("Dumps all libraries into a serialized binary payload."),
    row("flush", -2, CHANGES, flush)
        .tips(EVERYWHERE)
        .since("7.0.0")
        .complexity("O(N) where N is the number of functions deleted.")
        .summary("Deletes all libraries and functions.")
        .syntax("[flush-type: ASYNC | SYNC]"),
    ServerCommand::help(Group::Scripting, "7.0.0", |_, _, reply| {
        help(reply, "FUNCTION", HELP)
    }),
    row("kill", 2, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY), kill)
        .tips(ONE_OF_ALL)
        .doc("7.0.0", "O(1)", "Terminates a function during execution."),
    row("list", -2, Flags::NOSCRIPT, list)
        .tips(&["nondeterministic_output_order"])
        .since("7.0.0")
        .complexity("O(N) where N is the number of functions.")
        .summary("Returns information about all libraries.")
        .syntax("[LIBRARYNAME library-name-pattern] [WITHCODE]"),
    row("load", -3, CHANGES.or(Flags::DENYOOM), load)
        .tips(EVERYWHERE)
        .since("7.0.0")
        .complexity("O(N) where N is the number of libraries, besides the run of the library.")
        .summary("Creates a library.")
        .syntax("[REPLACE] function-code"),
    row("restore", -3, CHANGES.or(Flags::DENYOOM), restore)
        .tips(EVERYWHERE)
        .since("7.0.0")
        .complexity("O(N) where N is the number of functions on the payload.")
        .summary("Restores all libraries from a payload.")
        .syntax("serialized-value [policy: FLUSH | APPEND | REPLACE]"),
    row("stats", 2, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY), stats)
        .tips(&[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ])
        .since("7.0.0")
        .summary("Returns information about a function during execution."),
];

const CHANGES: Flags = Flags::WRITE.or(Flags::NOSCRIPT);

const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

fn fcall(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare(call, args, false)
}

fn fcall_ro(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    prepare(call, args, true)
}

/// Finds the function, and requests that the dispatcher runs it after this handler has returned.
fn prepare(call: &mut Call, args: Args, read_only: bool) -> Result<(), Error> {
    let shared = call.shared;
    // Libraries change only in a turn that holds every shard, so the function stays the same until
    // it has run.
    call.turn.lock_all();
    let loaded = &mut call.scripts.functions;
    let found = loaded.find(&shared.scripting.functions, args.at(1))?;
    let keys = parse_i64(args.at(2)).ok_or(Error::fixed("ERR Bad number of keys provided"))?;
    if keys > args.len() as i64 - 3 {
        return Err(Error::fixed(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let Ok(keys) = usize::try_from(keys) else {
        return Err(Error::fixed("ERR Number of keys can't be negative"));
    };
    if !found.declaration().flags.has(ScriptFlags::NO_WRITES) {
        may_write(shared, read_only)?;
    }
    call.session.executing = Some(Executing::Script(ScriptRequest {
        script: Runnable::Function(found),
        keys,
        read_only,
    }));
    Ok(())
}

/// Changes the libraries, and counts a change of the dataset. `load` runs the code of new libraries
/// before the shards are locked.
fn change<L, T>(
    call: &mut Call,
    args: Args,
    load: impl FnOnce(&mut Loader<'_>) -> Result<L, Error>,
    change: impl FnOnce(&mut Libraries, L) -> Result<T, Error>,
) -> Result<T, Error> {
    let registry = &call.shared.scripting.functions;
    let loaded = &mut call.scripts.functions;
    let result = load(&mut Loader {
        loaded,
        registry,
        logger: &call.shared.logger,
    })
    .and_then(|new| {
        // While all shards are locked, no function runs, and no snapshot begins or loads.
        call.turn.lock_all();
        registry.change(|libraries| change(libraries, new))
    });
    loaded.refresh(registry);
    match result {
        Ok(_) => {
            call.turn.stats.dirty += 1;
            call.turn.effect(call.session.db, args.iter());
            call.session.has_written = true;
        }
        Err(_) => loaded.free_removed(),
    }
    call.shared.observed.stats[call.loop_number].count_functions(loaded.memory());
    result
}

fn load(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let source = args.at(args.len() - 1);
    let options = args.skip(2).take(args.len() - 3);
    for option in options.iter() {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(Error::repeating("ERR Unknown option given: ", option, ""));
        }
    }
    let replace = !options.is_empty();
    let all = call.shared.scripting.functions.libraries();
    let exists = |name: &str| !replace && all.contains(name);
    let name = change(
        call,
        args,
        |loader| loader.load(source, exists, true),
        |libraries, new| {
            if !replace && libraries.contains(&new.name) {
                return Err(taken(Taken::Library(new.name.clone())));
            }
            libraries.replace(&new).map_err(taken)?;
            Ok(new.name.clone())
        },
    )?;
    reply.bulk(name.as_bytes());
    Ok(())
}

fn delete(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    change(
        call,
        args,
        |_| Ok(()),
        |libraries, ()| {
            let name = std::str::from_utf8(args.at(2)).unwrap_or_default();
            let removed = libraries.remove(name);
            removed
                .then_some(())
                .ok_or(Error::fixed("ERR Library not found"))
        },
    )?;
    reply.ok();
    Ok(())
}

fn flush(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(crate::command::replies::wrong_form("FUNCTION", args));
    }
    flush_option(args, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    change(
        call,
        args,
        |_| Ok(()),
        |libraries, ()| {
            *libraries = Libraries::default();
            Ok(())
        },
    )?;
    reply.ok();
    Ok(())
}

fn dump(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new(call.shared.settings().rdb_compression);
    for library in call.shared.scripting.functions.libraries().iter() {
        encoder.library(&mut payload, &library.code);
    }
    dump::seal(&mut payload);
    reply.bulk(&payload);
    Ok(())
}

fn restore(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    enum Policy {
        Flush,
        Append,
        Replace,
    }
    if args.len() > 4 {
        return Err(crate::command::replies::wrong_form("FUNCTION", args));
    }
    let policy = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => Policy::Append,
        Some(b"replace") => Policy::Replace,
        Some(b"flush") => Policy::Flush,
        Some(_) => {
            return Err(Error::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let mut payload = functions::Restore::new(args.at(2))
        .map_err(|_| Error::fixed("ERR DUMP payload version or checksum are wrong"))?;
    let load = |loader: &mut Loader<'_>| {
        let mut restored = Libraries::default();
        let unreadable = |error| Error::Text(format!("ERR {error}").into());
        while let Some(source) = payload.next().map_err(unreadable)? {
            let new = loader.load(source, |name| restored.contains(name), true)?;
            restored.replace(&new).map_err(taken)?;
        }
        Ok(restored)
    };
    change(call, args, load, |libraries, restored| {
        match policy {
            Policy::Flush => *libraries = restored,
            Policy::Append => libraries.join(&restored, false).map_err(taken)?,
            Policy::Replace => libraries.join(&restored, true).map_err(taken)?,
        }
        Ok(())
    })?;
    reply.ok();
    Ok(())
}

fn list(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut at = 2;
    let (mut pattern, mut with_code) = (None, false);
    while let Some(option) = args.get(at) {
        if !with_code && option.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && option.eq_ignore_ascii_case(b"libraryname") {
            at += 1;
            pattern = args.get(at);
            if pattern.is_none() {
                return Err(Error::fixed("ERR library name argument was not given"));
            }
        } else {
            return Err(Error::repeating("ERR Unknown argument ", option, ""));
        }
        at += 1;
    }
    let libraries = call.shared.scripting.functions.libraries();
    let listed: Vec<_> = libraries
        .iter()
        .filter(|library| {
            pattern.is_none_or(|pattern| glob::matches_nocase(pattern, library.name.as_bytes()))
        })
        .collect();
    reply.array(listed.len());
    for library in listed {
        write_library(library, with_code, reply);
    }
    Ok(())
}

fn write_library(library: &Library, with_code: bool, reply: &mut Reply) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        for flag in function.flags.names() {
            reply.simple(flag);
        }
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn kill(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.shared.scripting.running.kill(true)?;
    reply.ok();
    Ok(())
}

fn stats(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let libraries = call.shared.scripting.functions.libraries();
    // As in Redis, names that differ only in case count separately.
    let functions: usize = libraries
        .iter()
        .map(|library| library.functions.len())
        .sum();
    let running = call.shared.scripting.running.busy_script();
    if running
        .as_ref()
        .is_some_and(|about| about.function.is_none())
    {
        return Err(call.shared.scripting.running.refusal());
    }
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(about) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(about.function.unwrap_or_default().as_bytes());
            reply.bulk(b"command");
            reply.array(about.command.len());
            for word in &about.command {
                reply.bulk(word);
            }
            reply.bulk(b"duration_ms");
            let now = call.shared.clock.now().read_ms();
            reply.int(now.saturating_sub(about.began_ms) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (name, count) in [
        ("libraries_count", libraries.iter().len()),
        ("functions_count", functions),
    ] {
        reply.bulk(name.as_bytes());
        reply.int(count as i64);
    }
    Ok(())
}

const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];
