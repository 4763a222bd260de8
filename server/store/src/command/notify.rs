//! NOTIFY, which Redis does not have: rules that append keyspace events to streams.

use std::sync::atomic::Ordering;

use punctual_cluster::slot::SLOTS;
use punctual_resp::{Args, Reply};

use crate::command::replies::help;
use crate::error::Error;
use crate::keyspace::notify::{Rule, set};
use crate::keyspace::records::Id;
use crate::spec::{Flags, Group, OptionKeys};
use crate::turn::cx::Place;
use crate::turn::{Command, Cx, Handler};
use crate::value::stream::Stream;

/// The family's rows.
pub static COMMANDS: &[Command] = &[Command::container("notify", Group::Server, SUBCOMMANDS)
    .since(NOT_IN_REDIS)
    .summary("A container for rules that append keyspace events to streams.")];

/// Version that COMMAND DOCS shows for commands that Redis does not have.
const NOT_IN_REDIS: &str = "255.255.255";

static SUBCOMMANDS: &[Command] = &[
    change("del", -3, WRITE, del)
        .since(NOT_IN_REDIS)
        .complexity("O(N*M) where N is the number of rules and M is the number of names.")
        .summary("Deletes rules. Keeps their streams.")
        .syntax("name ..."),
    row("get", 3, READ, get)
        .since(NOT_IN_REDIS)
        .complexity("O(N) where N is the number of rules.")
        .summary("Returns the settings and the statistics of a rule.")
        .syntax("name"),
    row("help", 2, READ, |_, _, reply| help(reply, "NOTIFY", HELP))
        .since(NOT_IN_REDIS)
        .summary("Returns helpful text about the subcommands."),
    row("list", 2, READ, list)
        .since(NOT_IN_REDIS)
        .complexity("O(N) where N is the number of rules.")
        .summary("Returns the names of all rules."),
    change("set", -5, WRITE.or(Flags::DENYOOM), set_rule)
        .option_keys(&RULE_KEYS)
        .access(&["RW insert"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(N) where N is the number of rules. With MAXAGE also O(M) where M is the number of \
             entries that are removed from the stream.",
        )
        .summary("Creates or replaces a rule.")
        .syntax(
            "name STREAM key [EVENTS letters] [MATCH pattern] [VALUE (NONE | STRING | \
             DUMP)] [MAXBYTES bytes:integer] [MAXAGE milliseconds]",
        ),
    row("streams", 3, Flags::STALE.or(Flags::WHOLE), streams)
        .since(NOT_IN_REDIS)
        .complexity(
            "O(N) where N is the number of rules. In cluster mode also O(M) where M is the number \
             of slots.",
        )
        .summary("Returns the keys of a rule's streams on this server.")
        .syntax("name"),
];

const WRITE: Flags = Flags::WRITE.or(Flags::WHOLE).or(Flags::NOSCRIPT);
/// Keys that the options of NOTIFY SET name: the stream of the rule, and the pattern of the keys
/// whose events and values the rule copies.
const RULE_KEYS: OptionKeys = OptionKeys {
    from: 3,
    keyed: &["stream"],
    globbed: Some("match"),
    skipped: &[
        ("events", 1),
        ("value", 1),
        ("maxbytes", 1),
        ("maxage", 1),
        ("since", 1),
    ],
    ..OptionKeys::NONE
};

const READ: Flags = Flags::LOADING.or(Flags::STALE);

crate::family!(Handler, Group::Server, Flags::ADMIN);

/// Returns the row of a command that changes rules. The row lacks the flag ADMIN, because a load of
/// an append-only file refuses commands with this flag.
const fn change(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    let row = Command::new(name, arity, flags, Group::Server, handler);
    row.categories(&["admin", "dangerous"])
}

fn set_rule(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let replays = cx.turn.replays();
    let mut rule = Rule::parse(cx.db, args, replays)?;
    if cx.store().is_cluster() && !rule.allows_slots() {
        return Err(Error::fixed(
            "ERR in cluster mode the name of the stream must not contain '{'",
        ));
    }
    if !replays {
        rule.since_ms = cx.now().read_ms();
    }
    let max_age = rule.max_age;
    let streams = existing_streams(cx, &rule)?;
    let mut buffer = itoa::Buffer::new();
    let since = rule.since(&mut buffer).filter(|_| !replays);
    let words: Vec<&[u8]> = args.iter().chain(since.into_iter().flatten()).collect();
    cx.effect(&words);
    cx.change_notify_rules(|rules| set(rules, rule));
    if let Some(max_age) = max_age {
        for (key, place, id) in streams {
            cx.turn
                .set_age_retention(place.shard(), cx.db, &key, id, max_age);
        }
    }
    reply.ok();
    Ok(())
}

/// Returns the streams of a rule that exist: their keys, places and records.
fn existing_streams(cx: &mut Cx, rule: &Rule) -> Result<Vec<(Vec<u8>, Place, Id)>, Error> {
    let keys: Vec<Vec<u8>> = match cx.store().is_cluster() {
        true => (0..SLOTS)
            .filter(|slot| cx.turn.count_keys_in_slot(*slot) > 0)
            .filter_map(|slot| rule.stream_of_slot(slot))
            .collect(),
        false => vec![rule.stream.to_vec()],
    };
    let mut streams = Vec::new();
    for key in keys {
        let (place, found) = cx.seek_as::<Stream>(&key)?;
        streams.extend(found.map(|id| (key, place, id)));
    }
    Ok(streams)
}

/// NOTIFY STREAMS name: replies with the keys of a rule's streams.
fn streams(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let rules = cx.store().notify.rules();
    let Some(rule) = rules.find(&args[2]) else {
        reply.null();
        return Ok(());
    };
    cx.db = rule.db;
    let streams = existing_streams(cx, rule)?;
    reply.array(streams.len());
    for (key, ..) in streams {
        reply.bulk(&key);
    }
    Ok(())
}

fn del(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let names = args.skip(2);
    let is_deleted = |rule: &Rule| names.iter().any(|name| *rule.name == *name);
    let rules = cx.store().notify.rules();
    let count = rules.iter().filter(|rule| is_deleted(rule)).count();
    if count > 0 {
        cx.change_notify_rules(|rules| rules.retain(|rule| !is_deleted(rule)));
    }
    reply.int(count as i64);
    Ok(())
}

fn get(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let rules = cx.store().notify.rules();
    let Some(rule) = rules.find(&args[2]) else {
        reply.null();
        return Ok(());
    };
    let settings = rule.settings();
    let counts = [("appended", &rule.appended), ("failed", &rule.failed)];
    reply.map(1 + settings.len() + counts.len());
    reply.bulk(b"db");
    reply.int(rule.db as i64);
    for (name, value) in settings {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
    for (name, count) in counts {
        reply.bulk(name.as_bytes());
        reply.int(count.load(Ordering::Relaxed).cast_signed());
    }
    Ok(())
}

fn list(cx: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let rules = cx.store().notify.rules();
    reply.array(rules.iter().len());
    for rule in rules.iter() {
        reply.bulk(&rule.name);
    }
    Ok(())
}

const HELP: &[&str] = &[
    "DEL <name> [<name> ...]",
    "    Delete rules. Keep their streams.",
    "GET <name>",
    "    Return the settings and the statistics of a rule.",
    "LIST",
    "    Return the names of all rules.",
    "SET <name> STREAM <key> [EVENTS <letters>] [MATCH <pattern>]",
    "    [VALUE NONE|STRING|DUMP] [MAXBYTES <bytes>] [MAXAGE <milliseconds>]",
    "    Append events of this database's keys to a stream, in the same atomic step as",
    "    the changes themselves. EVENTS has the letters of notify-keyspace-events except",
    "    K, E and m; the default is A. Values longer than MAXBYTES are left out. Entries",
    "    older than MAXAGE are removed from the stream. In cluster mode each slot has its",
    "    own stream, <key>{<tag>}.",
    "STREAMS <name>",
    "    Return the keys of the rule's streams on this server.",
];

#[cfg(test)]
mod slot_tests;
#[cfg(test)]
mod tests;
