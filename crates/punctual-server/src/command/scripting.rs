//! FUNCTION on a server without functions.
//!
//! Clients and test harnesses list and flush scripts at their start. Subcommands that need an interpreter are unknown.

use punctual_rdb::dump;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::call::{Call, ServerCommand, ServerHandler};

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] =
    &[
        ServerCommand::container("function", Group::Scripting, FUNCTIONS).doc(
            "7.0.0",
            "Depends on subcommand.",
            "A container for function commands.",
        ),
    ];

const FUNCTIONS: &[ServerCommand] = &[
    row(
        "delete",
        3,
        Flags::WRITE.or(Flags::NOSCRIPT),
        function_delete,
    )
    .tips(EVERYWHERE)
    .doc("7.0.0", "O(1)", "Deletes a library and its functions."),
    row("dump", 2, Flags::NOSCRIPT, function_dump).doc(
        "7.0.0",
        "O(1)",
        "Dumps all libraries into a serialized binary payload.",
    ),
    row(
        "flush",
        -2,
        Flags::WRITE.or(Flags::NOSCRIPT),
        function_flush,
    )
    .tips(EVERYWHERE)
    .doc("7.0.0", "O(1)", "Deletes all libraries and functions."),
    row("help", 2, HELP, function_help).doc(
        "7.0.0",
        "O(1)",
        "Returns helpful text about the different subcommands.",
    ),
    row("kill", 2, Flags::NOSCRIPT.or(Flags::ALLOW_BUSY), kill)
        .tips(ONE_OF_ALL)
        .doc("7.0.0", "O(1)", "Terminates a function during execution."),
    row("list", -2, Flags::NOSCRIPT, function_list)
        .tips(&["nondeterministic_output_order"])
        .doc("7.0.0", "O(1)", "Returns information about all libraries."),
    row(
        "stats",
        2,
        Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
        function_stats,
    )
    .tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ])
    .doc(
        "7.0.0",
        "O(1)",
        "Returns information about a function during execution.",
    ),
];

pub(super) const HELP: Flags = Flags::LOADING.or(Flags::STALE);

const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(super) const ONE_OF_ALL: &[&str] =
    &["request_policy:all_shards", "response_policy:one_succeeded"];

pub(super) const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Scripting, handler)
}

/// Parses the optional SYNC or ASYNC.
pub(super) fn flush_option(args: Args<'_>, refusal: &'static str) -> Result<(), Error> {
    match args.get(2) {
        None => Ok(()),
        Some(mode) if args.len() == 3 && is_flush_mode(mode) => Ok(()),
        Some(_) => Err(Error::fixed(refusal)),
    }
}

fn is_flush_mode(mode: &[u8]) -> bool {
    mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async")
}

fn function_flush(
    _: &mut Call<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    flush_option(args, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    reply.ok();
    Ok(())
}

fn function_list(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let mut at = 2;
    let (mut named, mut with_code) = (false, false);
    while let Some(option) = args.get(at) {
        if !with_code && option.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if !named && option.eq_ignore_ascii_case(b"libraryname") {
            named = true;
            at += 1;
            args.get(at)
                .ok_or(Error::fixed("ERR library name argument was not given"))?;
        } else {
            return Err(Error::repeating("ERR Unknown argument ", option, ""));
        }
        at += 1;
    }
    reply.array(0);
    Ok(())
}

fn function_stats(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for count in ["libraries_count", "functions_count"] {
        reply.bulk(count.as_bytes());
        reply.int(0);
    }
    Ok(())
}

fn function_delete(_: &mut Call<'_, '_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), Error> {
    Err(Error::fixed("ERR Library not found"))
}

/// Returns a payload without libraries: a version and a checksum.
fn function_dump(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let mut payload = Vec::new();
    dump::seal(&mut payload);
    reply.bulk(&payload);
    Ok(())
}

fn kill(call: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    call.shared.running.kill(true)?;
    reply.ok();
    Ok(())
}

fn function_help(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    super::help(
        reply,
        "FUNCTION",
        &[
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
        ],
    );
    Ok(())
}
