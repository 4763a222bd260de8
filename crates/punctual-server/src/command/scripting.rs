//! FUNCTION and SCRIPT of a server that runs no scripts: there are none to list, and flushing them is done at once.
//!
//! Clients and test harnesses begin with a flush of everything; what would need an interpreter is unknown here, and
//! says so.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::call::Call;
use crate::table::{ServerCommand, ServerHandler};

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    ServerCommand::container("function", Group::Scripting, FUNCTIONS).doc(
        "7.0.0",
        "Depends on subcommand.",
        "A container for functions, of which there are none here.",
    ),
    ServerCommand::container("script", Group::Scripting, SCRIPTS).doc(
        "2.6.0",
        "Depends on subcommand.",
        "A container for scripts, of which there are none here.",
    ),
];

const FUNCTIONS: &[ServerCommand] = &[
    row(
        "flush",
        -2,
        Flags::WRITE.or(Flags::NOSCRIPT),
        function_flush,
    )
    .tips(EVERYWHERE)
    .doc("7.0.0", "O(1)", "Deletes all functions: there are none."),
    row("help", 2, HELP, function_help).doc("7.0.0", "O(1)", "Lists the subcommands."),
    row("list", -2, Flags::NOSCRIPT, function_list)
        .tips(&["nondeterministic_output_order"])
        .doc(
            "7.0.0",
            "O(1)",
            "Lists the libraries of functions: there are none.",
        ),
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
    .doc("7.0.0", "O(1)", "Tells which function runs: none does."),
];

const SCRIPTS: &[ServerCommand] = &[
    row("exists", -3, Flags::NOSCRIPT, script_exists)
        .tips(&[
            "request_policy:all_shards",
            "response_policy:agg_logical_and",
        ])
        .doc(
            "2.6.0",
            "O(N) with N being the number of scripts asked for.",
            "Tells which scripts are kept: none is.",
        ),
    row("flush", -2, Flags::NOSCRIPT, script_flush)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .doc("2.6.0", "O(1)", "Forgets all scripts: there are none.")
        .history(&[(
            "6.2.0",
            "Added the `ASYNC` and `SYNC` flushing mode modifiers.",
        )]),
    row("help", 2, HELP, script_help).doc("5.0.0", "O(1)", "Lists the subcommands."),
];

const HELP: Flags = Flags::LOADING.or(Flags::STALE);

const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Scripting, handler)
}

/// SYNC, ASYNC or nothing.
fn flush_option(args: Args<'_>, refusal: &'static str) -> Result<(), Error> {
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
    reply.map(0);
    Ok(())
}

fn script_flush(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    flush_option(args, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    reply.ok();
    Ok(())
}

fn script_exists(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.array(args.len() - 2);
    for _ in 2..args.len() {
        reply.int(0);
    }
    Ok(())
}

fn function_help(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    super::help(
        reply,
        "FUNCTION",
        &[
            (
                "FLUSH [ASYNC|SYNC]",
                "Delete all functions: there are none.",
            ),
            (
                "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
                "Return the libraries of functions: there are none.",
            ),
            ("STATS", "Return which function runs: none does."),
        ],
    );
    Ok(())
}

fn script_help(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    super::help(
        reply,
        "SCRIPT",
        &[
            (
                "EXISTS <sha1> [<sha1> ...]",
                "Return which scripts are kept: none is.",
            ),
            ("FLUSH [ASYNC|SYNC]", "Forget all scripts: there are none."),
        ],
    );
    Ok(())
}
