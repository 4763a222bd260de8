//! COMMAND: metadata of commands for clients, proxies and redis-cli, derived from the rows of the
//! command table. The handler of COMMAND DOCS is in `command_docs`.

use punctual_resp::{Args, Reply};
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group, Keys, OptionKeys};
use punctual_store::{Error, glob};

use crate::acl::categories::NAMES as CATEGORIES;
use crate::command::command_docs::docs;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::table::Entry;
use crate::table::access::{NOT_KEYS, access_of};
use crate::table::names::CommandNames;

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, ANY_TIME, Group::Server, handler).categories(&["connection"])
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand {
    subcommands: SUBCOMMANDS,
    ..row("command", -1, command)
        .tips(ANY_ORDER)
        .since("2.8.13")
        .complexity("O(N) where N is the total number of Redis commands")
        .summary("Returns detailed information about all commands.")
}];

static SUBCOMMANDS: &[ServerCommand] = &[
    row("count", 2, count).doc("2.8.13", "O(1)", "Returns the number of commands."),
    row("docs", -2, docs)
        .tips(ANY_ORDER)
        .since("7.0.0")
        .complexity("O(N) where N is the number of commands to look up")
        .summary("Returns documentation of one, several or all commands.")
        .syntax("[command-name ...]"),
    row("getkeys", -3, get_keys)
        .since("2.8.13")
        .complexity("O(N) where N is the number of arguments to the command")
        .summary("Extracts the key names from a command.")
        .syntax("command [arg ...]"),
    row("getkeysandflags", -3, get_keys_and_flags)
        .since("7.0.0")
        .complexity("O(N) where N is the number of arguments to the command")
        .summary("Extracts the key names and their access flags from a command.")
        .syntax("command [arg ...]"),
    ServerCommand::help(Group::Server, "5.0.0", |_, _, reply| {
        help(reply, "COMMAND", HELP)
    })
    .categories(&["connection"]),
    row("info", -2, info)
        .tips(ANY_ORDER)
        .since("2.8.13")
        .complexity("O(N) where N is the number of commands to look up")
        .summary("Returns information about one, several or all commands.")
        .history(&[(
            "7.0.0",
            "Allowed to be called with no argument to get info on all commands.",
        )])
        .syntax("[command-name ...]"),
    row("list", -2, list)
        .tips(ANY_ORDER)
        .since("7.0.0")
        .complexity("O(N) where N is the total number of Redis commands")
        .summary("Returns the names of commands.")
        .syntax("[FILTERBY (MODULE module-name | ACLCAT category | PATTERN pattern)]"),
];

fn command(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    describe_all(&call.shared.commands, reply);
    Ok(())
}

fn count(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.int(call.shared.commands.commands().count() as i64);
    Ok(())
}

fn info(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let names = args.skip(2);
    if names.is_empty() {
        describe_all(&call.shared.commands, reply);
        return Ok(());
    }
    reply.array(names.len());
    for name in names {
        match call.shared.commands.get_full(name) {
            Some(entry) => describe(entry, reply),
            None => reply.null(),
        }
    }
    Ok(())
}

fn describe_all(names: &CommandNames, reply: &mut Reply) {
    reply.array(names.commands().count());
    for entry in names.commands() {
        describe(entry, reply);
    }
}

/// Writes the ten fields of COMMAND INFO for a command.
fn describe(entry: &Entry, reply: &mut Reply) {
    let row = &entry.row;
    let mut flags: Vec<&str> = row.flags.names().collect();
    let movable = matches!(
        row.keys,
        Keys::Counted { .. }
            | Keys::Options(_)
            | Keys::KeyOrOption(_)
            | Keys::Streams { .. }
            | Keys::Until { .. }
    );
    if movable && !flags.contains(&"movablekeys") {
        flags.push("movablekeys");
    }
    let (first, last, step) = match row.keys {
        Keys::Range { first, last, step } => (first as i64, i64::from(last), step as i64),
        Keys::Counted {
            destination: true, ..
        }
        | Keys::Options(OptionKeys { first: Some(1), .. }) => (1, 1, 1),
        Keys::Options(&OptionKeys {
            first: Some(first), ..
        })
        | Keys::Until { first, .. } => (first as i64, first as i64, 1),
        Keys::KeyOrOption(keys) => (keys.first as i64, keys.first as i64, 1),
        Keys::None | Keys::Options(_) | Keys::Streams { .. } | Keys::Counted { .. } => (0, 0, 0),
    };
    reply.array(10);
    reply.bulk(entry.name.as_bytes());
    reply.int(row.arity.into());
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    reply.int(first);
    reply.int(last);
    reply.int(step);
    let mut categories = row.all_categories();
    categories.sort_by_key(|category| CATEGORIES.iter().position(|known| known == category));
    reply.set(categories.len());
    for category in categories {
        reply.simple(format!("@{category}"));
    }
    reply.set(row.tips.len());
    for tip in row.tips {
        reply.bulk(tip.as_bytes());
    }
    key_specs(entry, reply);
    if entry.subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(entry.subcommands.len());
        for sub in &entry.subcommands {
            describe(sub, reply);
        }
    }
}

/// Writes the key specifications: one range of keys for each kind of access.
fn key_specs(entry: &Entry, reply: &mut Reply) {
    let access = entry.row.access;
    match entry.row.keys {
        Keys::None => reply.set(0),
        Keys::KeyOrOption(keys) => {
            reply.set(2);
            let (first, last) = (access.first().unwrap_or(&""), access.last().unwrap_or(&""));
            key_range(first, &Begin::Index(keys.first), [0, 1, 0], reply);
            key_range(last, &Begin::Keyword(keys.option, -2), [-1, 1, 0], reply);
        }
        Keys::Range { first, last, step } => {
            reply.set(access.len());
            for (i, words) in access.iter().enumerate() {
                // The position of the last key counts from the first key or, if it is negative,
                // from the last argument.
                let (begin, last, step) = match (access.len(), last) {
                    (1, last @ ..0) => (first, i64::from(last), step),
                    (1, last) => (first, i64::from(last) - first as i64, step),
                    // The last range extends to the end (BITOP).
                    (kinds, last @ ..0) if i + 1 == kinds => {
                        (first + i * step, i64::from(last), step)
                    }
                    _ => (first + i * step, 0, 1),
                };
                let numbers = [last, step as i64, 0];
                key_range(words, &Begin::Index(begin), numbers, reply);
            }
        }
        Keys::Options(options) => option_specs(access, options, reply),
        Keys::Until { .. } => {
            reply.set(1);
            unknown_key_spec(access.first().unwrap_or(&""), reply);
        }
        Keys::Streams { from } => {
            reply.set(1);
            let begin = Begin::Keyword("STREAMS", from as i64);
            key_range(access.first().unwrap_or(&""), &begin, [-1, 1, 2], reply);
        }
        Keys::Counted {
            count,
            step,
            destination,
        } => {
            reply.set(1 + usize::from(destination));
            if destination {
                let first = access.first().unwrap_or(&"");
                key_range(first, &Begin::Index(1), [0, 1, 0], reply);
            }
            let (words, begin) = (access.last().unwrap_or(&""), Begin::Index(count));
            let numbers = [("keynumidx", 0), ("firstkey", 1), ("keystep", step as i64)];
            key_spec(words, &begin, "keynum", numbers, reply);
        }
    }
}

/// Writes the specifications of the first key and of the keys in options, one for each kind of
/// access.
fn option_specs(access: &[&str], options: &OptionKeys, reply: &mut Reply) {
    reply.set(access.len());
    let mut others = access;
    if let (Some(first), [words, rest @ ..]) = (options.first, access) {
        key_range(words, &Begin::Index(first), [0, 1, 0], reply);
        others = rest;
    }
    for (i, words) in others.iter().enumerate() {
        // Redis cannot specify the keys that patterns with `*` (SORT) produce.
        if !options.patterned.is_empty() {
            unknown_key_spec(words, reply);
            continue;
        }
        let keyword = options.keyed[i].to_ascii_uppercase();
        let begin = Begin::Keyword(&keyword, options.from as i64);
        key_range(words, &begin, [0, 1, 0], reply);
    }
}

/// Start of the keys in a specification.
enum Begin<'a> {
    Index(usize),
    /// After a keyword, which is searched from this argument on.
    Keyword(&'a str, i64),
}

/// Writes the specification of keys at unknown positions.
fn unknown_key_spec(words: &str, reply: &mut Reply) {
    reply.map(3);
    reply.bulk(b"flags");
    flag_set(words, reply);
    for part in ["begin_search", "find_keys"] {
        reply.bulk(part.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(b"unknown");
        reply.bulk(b"spec");
        reply.map(0);
    }
}

/// Writes the specification of a range of keys. `numbers` are the last key, the step and the limit.
fn key_range(words: &str, begin: &Begin<'_>, numbers: [i64; 3], reply: &mut Reply) {
    let [last, step, limit] = numbers;
    let numbers = [("lastkey", last), ("keystep", step), ("limit", limit)];
    key_spec(words, begin, "range", numbers, reply);
}

/// Writes a specification of keys. `words` are its flags, such as `RO access`. `find` and `numbers`
/// describe how the keys after the first one are found.
fn key_spec(
    words: &str,
    begin: &Begin<'_>,
    find: &str,
    numbers: [(&str, i64); 3],
    reply: &mut Reply,
) {
    reply.map(3);
    reply.bulk(b"flags");
    flag_set(words, reply);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    match begin {
        Begin::Index(index) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            reply.map(1);
            reply.bulk(b"index");
            reply.int(*index as i64);
        }
        Begin::Keyword(keyword, from) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(keyword.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(*from);
        }
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(find.as_bytes());
    reply.bulk(b"spec");
    reply.map(3);
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(number);
    }
}

pub(super) fn flag_set(words: &str, reply: &mut Reply) {
    reply.set(words.split(' ').count());
    for word in words.split(' ') {
        reply.simple(word);
    }
}

fn list(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let is = |i: usize, word: &str| {
        args.get(i)
            .is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    };
    let wanted: Box<dyn Fn(&Entry) -> bool> = if args.len() == 2 {
        Box::new(|_| true)
    } else if args.len() != 5 || !is(2, "filterby") {
        return Err(Error::Syntax);
    } else if is(3, "module") {
        // The server has no modules.
        Box::new(|_| false)
    } else if is(3, "aclcat") {
        let category = String::from_utf8_lossy(&args[4]).to_ascii_lowercase();
        Box::new(move |entry| entry.row.all_categories().contains(&category.as_str()))
    } else if is(3, "pattern") {
        let pattern = args[4].to_vec();
        Box::new(move |entry| glob::matches_nocase(&pattern, entry.name.as_bytes()))
    } else {
        return Err(Error::Syntax);
    };
    let names: Vec<&str> = call
        .shared
        .commands
        .all()
        .filter(|e| wanted(e))
        .map(|e| e.name.as_str())
        .collect();
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// Returns the command in `args` and the positions of its keys.
fn keys_of(names: &CommandNames, args: Args<'_>) -> Result<(&'static Entry, Vec<usize>), Error> {
    const UNKNOWN: Error = Error::fixed("ERR Invalid command specified");
    let container = names.get(args.at(0)).ok_or(UNKNOWN)?;
    let entry = match args.get(1) {
        Some(name) if !container.subcommands.is_empty() => {
            container.subcommand(name).ok_or(UNKNOWN)?
        }
        _ => container,
    };
    if matches!(entry.row.keys, Keys::None) || entry.row.access == NOT_KEYS {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !entry.row.takes(args.len()) {
        return Err(Error::fixed(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let mut positions = Vec::new();
    entry.row.keys.each(args, &mut |at| positions.push(at));
    if positions.is_empty() && !entry.row.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(Error::fixed("ERR Invalid arguments specified for command"));
    }
    Ok((entry, positions))
}

fn get_keys(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let args = args.skip(2);
    let (_, positions) = keys_of(&call.shared.commands, args)?;
    reply.array(positions.len());
    for at in positions {
        reply.bulk(args.at(at));
    }
    Ok(())
}

fn get_keys_and_flags(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let args = args.skip(2);
    let (entry, positions) = keys_of(&call.shared.commands, args)?;
    reply.array(positions.len());
    for (i, at) in positions.into_iter().enumerate() {
        reply.array(2);
        reply.bulk(args.at(at));
        flag_set(access_of(entry.row, args, i), reply);
    }
    Ok(())
}

const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
];
