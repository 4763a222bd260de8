//! ACL on a server with one user: WHOAMI, and CAT for the categories of commands.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::error::brief;
use punctual_store::spec::{Flags, Group};

use super::table;
use crate::dispatch::call::{Call, ServerCommand};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "acl",
    Group::Server,
    &[
        ServerCommand::new("cat", -2, Flags::NOSCRIPT.or(ANY_TIME), Group::Server, cat).doc(
            "6.0.0",
            "O(1) since the categories and commands are a fixed set.",
            "Lists the ACL categories or the commands of a category.",
        ),
        ServerCommand::new("help", 2, ANY_TIME, Group::Server, help).doc(
            "6.0.0",
            "O(1)",
            "Returns helpful text about the different subcommands.",
        ),
        ServerCommand::new(
            "whoami",
            2,
            Flags::NOSCRIPT.or(ANY_TIME),
            Group::Server,
            who_am_i,
        )
        .doc("6.0.0", "O(1)", "Returns the user of the connection."),
    ],
)
.doc(
    "6.0.0",
    "Depends on subcommand.",
    "A container for access control commands.",
)];

/// Redis's categories, in Redis's order.
pub(super) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

fn cat(_: &mut Call<'_, '_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let Some(asked) = args.get(2) else {
        reply.array(CATEGORIES.len());
        for category in CATEGORIES {
            reply.bulk(category.as_bytes());
        }
        return Ok(());
    };
    if args.len() > 3 {
        return Err(super::wrong_form("ACL", args));
    }
    let known = CATEGORIES
        .into_iter()
        .find(|c| asked.eq_ignore_ascii_case(c.as_bytes()));
    let category =
        known.ok_or_else(|| Error::repeating("ERR Unknown category '", brief(asked), "'"))?;
    let names: Vec<&str> = table()
        .all()
        .filter(|e| e.row.all_categories().contains(&category))
        .map(|e| e.name.as_str())
        .collect();
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn who_am_i(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    reply.bulk(b"default");
    Ok(())
}

fn help(_: &mut Call<'_, '_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
    super::help(
        reply,
        "ACL",
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    );
    Ok(())
}
