//! SLOWLOG: the log of slow commands.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    let flags = Flags::ADMIN.or(ANY_TIME);
    ServerCommand::new(name, arity, flags, Group::Server, handler)
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "slowlog",
    Group::Server,
    &[
        row("get", -2, get)
            .tips(&["request_policy:all_nodes", "nondeterministic_output"])
            .since("2.2.12")
            .complexity("O(N) where N is the number of entries returned")
            .summary("Returns the slow log's latest entries.")
            .history(&[(
                "4.0.0",
                "Added client IP address, port and name to the reply.",
            )])
            .syntax("[count]"),
        ServerCommand::help(Group::Server, "6.2.0", |_, _, reply| {
            help(reply, "SLOWLOG", HELP)
        }),
        row("len", 2, len)
            .tips(&[
                "request_policy:all_nodes",
                "response_policy:agg_sum",
                "nondeterministic_output",
            ])
            .since("2.2.12")
            .summary("Returns the number of entries in the slow log."),
        row("reset", 2, reset)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .since("2.2.12")
            .complexity("O(N) where N is the number of entries in the slowlog")
            .summary("Clears all entries from the slow log."),
    ],
)
.since("2.2.12")
.summary("A container for slow log commands.")];

/// Default number of entries that GET returns.
const COUNT: usize = 10;

fn get(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(crate::command::replies::wrong_form("SLOWLOG", args)),
        None => COUNT,
        Some(count) => match parse_i64(count) {
            Some(-1) => usize::MAX,
            Some(count @ 0..) => count as usize,
            _ => {
                return Err(Error::fixed(
                    "ERR count should be greater than or equal to -1",
                ));
            }
        },
    };
    let entries = call.shared.observed.slowlog.newest(count);
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.int(entry.id as i64);
        reply.int(entry.at_s as i64);
        reply.int(entry.micros as i64);
        reply.array(entry.args.len());
        for arg in &entry.args {
            reply.bulk(arg);
        }
        reply.bulk(entry.addr.as_bytes());
        reply.bulk(&entry.name);
    }
    Ok(())
}

fn len(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.shared.observed.slowlog.len() as i64);
    Ok(())
}

fn reset(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    call.shared.observed.slowlog.reset();
    reply.ok();
    Ok(())
}

const HELP: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];
