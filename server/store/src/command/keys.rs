//! Commands on keys of any type: DEL, EXISTS, RENAME, COPY and others.

use punctual_resp::{Args, Reply};
use rand::RngExt as _;

use crate::arguments::is;
use crate::command::database::database_index;
use crate::error::Error;
use crate::events::Classes;
use crate::glob;
use crate::keyspace::records::Record;
use crate::random::below;
use crate::spec::{Flags, Group};
use crate::time::NEVER;
use crate::turn::{Command, Cx, Handler};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("copy", -3, Flags::WRITE.or(Flags::DENYOOM), copy)
        .keys(1, 2, 1)
        .access(&["RO access", "OW update"])
        .since("6.2.0")
        .complexity(
            "O(N) worst case for collections, where N is the number of nested items; O(1) for \
             strings.",
        )
        .summary("Copies the value and the expiration time of a key to another key.")
        .databases(databases_of_copy)
        .syntax("source:key destination:key1 [DB destination-db:integer] [REPLACE]"),
    row("del", -2, Flags::WRITE, del)
        .keys(1, -1, 1)
        .access(&["RM delete"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .since("1.0.0")
        .complexity(
            "O(N) where N is the number of keys. For a list, a set, a sorted set or a hash, O(M) \
             where M is its number of elements.",
        )
        .summary("Deletes keys.")
        .syntax("key ..."),
    row("exists", -2, READ_FAST, exists)
        .keys(1, -1, 1)
        .access(&["RO"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .since("1.0.0")
        .complexity("O(N) where N is the number of keys.")
        .summary("Returns the number of given keys that exist.")
        .history(&[("3.0.3", "Accepts multiple `key` arguments.")])
        .syntax("key ..."),
    row("keys", 2, Flags::READONLY.or(Flags::WHOLE), keys)
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .categories(&["dangerous"])
        .since("1.0.0")
        .complexity(
            "O(N) where N is the number of keys in the database, if key names and pattern have \
             limited length.",
        )
        .summary("Returns all key names that match a pattern.")
        .syntax("pattern"),
    row("move", 3, WRITE_FAST.or(Flags::NO_CLUSTER), move_key)
        .keys(1, 1, 1)
        .access(&["RW access update"])
        .doc("1.0.0", "O(1)", "Moves a key to another database.")
        .databases(|_| vec![2])
        .syntax("key db:integer"),
    row("randomkey", 1, Flags::READONLY.or(Flags::WHOLE), random_key)
        .tips(&[
            "request_policy:all_shards",
            "response_policy:special",
            "nondeterministic_output",
        ])
        .since("1.0.0")
        .summary("Returns a random key name from the database."),
    row("rename", 3, Flags::WRITE, rename)
        .keys(1, 2, 1)
        .access(&["RW access delete", "OW update"])
        .since("1.0.0")
        .summary("Renames a key and overwrites the destination.")
        .syntax("key newkey:key1"),
    row("renamenx", 3, WRITE_FAST, rename_nx)
        .keys(1, 2, 1)
        .access(&["RW access delete", "OW insert"])
        .since("1.0.0")
        .summary("Renames a key, only if the new name doesn't exist.")
        .history(&[(
            "3.2.0",
            "No longer returns an error if both names are the same.",
        )])
        .syntax("key newkey:key1"),
    row("touch", -2, READ_FAST, touch)
        .keys(1, -1, 1)
        .access(&["RO"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .since("3.2.1")
        .complexity("O(N) where N is the number of keys.")
        .summary("Updates the last access time of keys and returns the number of keys that exist.")
        .syntax("key ..."),
    row("type", 2, READ_FAST, type_of)
        .keys(1, 1, 1)
        .access(&["RO"])
        .doc("1.0.0", "O(1)", "Returns the type of the value of a key.")
        .syntax("key"),
    row("unlink", -2, WRITE_FAST, del)
        .keys(1, -1, 1)
        .access(&["RM delete"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .since("4.0.0")
        .complexity(
            "O(1) for each key; another thread frees the memory in O(N), where N is the number of \
             allocations of the values.",
        )
        .summary("Deletes keys and frees their memory asynchronously.")
        .syntax("key ..."),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);

/// Number of random picks of RANDOMKEY before it searches all keys for one that is not due.
const PICKS_MAX: usize = 100;

pub(crate) const SAME_OBJECT: Error =
    Error::fixed("ERR source and destination objects are the same");

crate::family!(Handler, Group::Generic, Flags::NONE);

fn del(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut deleted = 0;
    for key in args.skip(1) {
        if let Some(record) = cx.remove(key) {
            cx.turn.discarded.value(record.value);
            cx.commit(key, Classes::GENERIC, "del", 1);
            deleted += 1;
        }
    }
    reply.int(deleted as i64);
    Ok(())
}

fn exists(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let found = args
        .skip(1)
        .iter()
        .filter(|key| cx.peek(key).is_some())
        .count();
    reply.int(found as i64);
    Ok(())
}

fn type_of(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.simple(match cx.peek(&args[1]) {
        Some(id) => cx.db_of(&args[1]).get(id).value.facts().name,
        None => "none",
    });
    Ok(())
}

fn touch(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // TOUCH also updates the last access for clients with NO-TOUCH.
    cx.touch = true;
    let found = args
        .skip(1)
        .iter()
        .filter(|key| cx.read(key).is_some())
        .count();
    reply.int(found as i64);
    Ok(())
}

fn rename(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    rename_key(cx, &args[1], &args[2], false)?;
    reply.ok();
    Ok(())
}

fn rename_nx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let renamed = rename_key(cx, &args[1], &args[2], true)?;
    reply.int(i64::from(renamed));
    Ok(())
}

/// Renames a key. Returns false if the names are equal, or if `to` exists and `only_new` is set.
fn rename_key(cx: &mut Cx, from: &[u8], to: &[u8], only_new: bool) -> Result<bool, Error> {
    let id = cx.find_to_write(from).ok_or(Error::NoSuchKey)?;
    if from == to {
        return Ok(false);
    }
    if let Some(taken) = cx.find(to) {
        if only_new {
            return Ok(false);
        }
        let replaced = cx.db_of(to).remove(taken);
        cx.turn.discarded.value(replaced.value);
    }
    if cx.turn.shard_of(from) == cx.turn.shard_of(to) {
        // The record and its timers stay in place.
        cx.db_of(from).rename(id, to);
        cx.note_decided_in(cx.db, to, id);
        cx.announce(Classes::NEW, "new", to);
    } else {
        let record = cx.db_of(from).take_away(id);
        add_record(cx, cx.db, to, record);
    }
    cx.commit(from, Classes::GENERIC, "rename_from", 1);
    cx.commit(to, Classes::GENERIC, "rename_to", 0);
    Ok(true)
}

/// Adds a removed record under another key, with its value, deadline and usage. `key` must not
/// exist.
fn add_record(cx: &mut Cx, db: usize, key: &[u8], record: Record) {
    let uses = record.key.uses();
    let id = cx.add_in(db, key, record.value);
    cx.db_of_in(db, key).touch(id, uses);
    if record.deadline != NEVER {
        cx.set_deadline_in(db, key, id, Some(record.deadline));
    }
}

fn move_key(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let target = database_index(cx, &args[2])?;
    if target == cx.db {
        return Err(SAME_OBJECT);
    }
    let Some(id) = cx.find_to_write(key) else {
        reply.int(0);
        return Ok(());
    };
    if cx.find_in(target, key).is_some() {
        reply.int(0);
        return Ok(());
    }
    let record = cx.db_of(key).take_away(id);
    add_record(cx, target, key, record);
    cx.commit(key, Classes::GENERIC, "move_from", 1);
    cx.commit_in(target, key, Classes::GENERIC, "move_to", 0);
    reply.int(1);
    Ok(())
}

/// Returns the positions of the arguments after DB.
fn databases_of_copy(args: Args) -> Vec<usize> {
    (4..args.len())
        .filter(|at| is(&args[*at - 1], "DB"))
        .collect()
}

fn copy(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (&args[1], &args[2]);
    let (mut target, mut replace, mut at) = (cx.db, false, 3);
    while let Some(option) = args.get(at) {
        if is(option, "REPLACE") {
            replace = true;
        } else if is(option, "DB") && at + 1 < args.len() {
            at += 1;
            target = database_index(cx, &args[at])?;
        } else {
            return Err(Error::Syntax);
        }
        at += 1;
    }
    if target == cx.db && from == to {
        return Err(SAME_OBJECT);
    }
    if cx.read(from).is_none() {
        reply.int(0);
        return Ok(());
    }
    let taken = cx.find_in(target, to);
    if taken.is_some() && !replace {
        reply.int(0);
        return Ok(());
    }
    let source = cx.db_of(from);
    // The look-up of the target can expire only the target.
    let id = source.find(from).expect("read above");
    let (value, deadline) = (source.get(id).value.clone(), source.deadline(id));
    if let Some(taken) = taken {
        let replaced = cx.db_of_in(target, to).remove(taken);
        cx.turn.discarded.value(replaced.value);
    }
    let id = cx.add_in(target, to, value);
    if deadline.is_some() {
        cx.set_deadline_in(target, to, id, deadline);
    }
    cx.commit_in(target, to, Classes::GENERIC, "copy_to", 1);
    reply.int(1);
    Ok(())
}

fn keys(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let pattern = &args[1];
    let now = cx.now();
    let mut found = 0;
    // The array's header is replaced when the number of names is known.
    let start = reply.len();
    reply.array(found);
    let end = reply.len();
    let mut show = |record: &Record| {
        if !record.has_expired(now) {
            found += 1;
            reply.bulk(record.key.as_bytes());
        }
    };
    if !pattern.iter().any(|byte| br"*?[\".contains(byte)) {
        let part = cx.db_of(pattern);
        if let Some(id) = part.find(pattern) {
            show(part.get(id));
        }
    } else {
        // For `glob::matches`, `*` does not match the empty name; for KEYS it does.
        let all = pattern == b"*";
        let db = cx.db;
        for (_, part) in cx.turn.held_dbs(db) {
            part.iter()
                .map(|(_, record)| record)
                .filter(|record| all || glob::matches(pattern, record.key.as_bytes()))
                .for_each(&mut show);
        }
    }
    let mut head = Vec::new();
    Reply::new(&mut head, reply.protocol()).array(found);
    reply.replace_head(start..end, &head);
    Ok(())
}

fn random_key(cx: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let (db, now) = (cx.db, cx.now());
    for _ in 0..PICKS_MAX {
        let Some((number, id)) = pick(cx) else {
            reply.null();
            return Ok(());
        };
        let record = cx.turn.shard_db(number, db).get(id);
        if !record.has_expired(now) {
            reply.bulk(record.key.as_bytes());
            return Ok(());
        }
        cx.turn.expire_due(number, db, id);
    }
    // Nearly all keys are due; more random picks would take long.
    let found = cx
        .turn
        .held_dbs(db)
        .flat_map(|(_, part)| part.iter())
        .find(|(_, record)| !record.has_expired(now));
    match found {
        Some((_, record)) => reply.bulk(record.key.as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

/// Picks a random key of all shards, with the same probability for each key. Returns its shard and
/// its record. The key may be due.
fn pick(cx: &mut Cx) -> Option<(usize, u32)> {
    let db = cx.db;
    let total: usize = cx.turn.held_dbs(db).map(|(_, part)| part.len()).sum();
    if total == 0 {
        return None;
    }
    let mut random = cx.store().draws.generator();
    let mut nth = random.random_range(0..total);
    cx.turn.held_dbs(db).find_map(|(number, part)| {
        if nth < part.len() {
            let id = part.at_random(below(&mut random));
            return id.map(|id| (number, id));
        }
        nth -= part.len();
        None
    })
}

#[cfg(test)]
mod tests {
    use crate::command::testing::Fixture;

    #[test]
    fn deleted_keys_are_counted_and_have_events() {
        let mut fixture = Fixture::sharded(8);
        fixture.run("MSET a 1 b 2 c 3");
        fixture.events();
        assert_eq!(fixture.run("EXISTS a b a nope"), ":3");
        assert_eq!(fixture.run("DEL a nope a"), ":1");
        assert_eq!(fixture.run("UNLINK b c"), ":2");
        assert_eq!(fixture.events(), "keymiss nope, del a, del b, del c");
        assert_eq!(fixture.run("DEL a"), ":0");
        assert_eq!(
            (
                fixture.stats.hits,
                fixture.stats.misses,
                fixture.stats.dirty
            ),
            (3, 1, 6)
        );
    }

    #[test]
    fn type_of_string_and_missing_key() {
        let mut fixture = Fixture::new();
        fixture.run("SET s v");
        assert_eq!(fixture.run("TYPE s"), "+string");
        assert_eq!(fixture.run("TYPE nope"), "+none");
        assert_eq!(fixture.events(), "new s, set s, keymiss nope");
    }

    #[test]
    fn a_renamed_key_keeps_value_and_deadline() {
        let mut fixture = Fixture::sharded(8);
        fixture.run("SET a foo PX 500");
        fixture.run("SET b 1");
        fixture.events();
        assert_eq!(fixture.run("RENAME a b"), "+OK");
        assert_eq!(fixture.events(), "new b, rename_from a, rename_to b");
        assert_eq!(fixture.run("PTTL b"), ":500");
        assert_eq!(fixture.run("GET b"), "$3 foo");
        assert_eq!(fixture.run("RENAME a b"), "-ERR no such key");
        assert_eq!(fixture.run("RENAME b b"), "+OK");
        assert_eq!(fixture.run("RENAMENX b b"), ":0");
        assert_eq!(fixture.run("RENAMENX nope nope"), "-ERR no such key");
        fixture.run("SET c 1");
        assert_eq!(fixture.run("RENAMENX b c"), ":0");
        assert_eq!(fixture.run("RENAMENX b d"), ":1");
        // The deadline moved with the old record, so the new `b` has no deadline.
        fixture.run("SET b stays");
        fixture.advance(500);
        fixture.events();
        fixture.expire();
        assert_eq!(fixture.events(), "expired d");
        assert_eq!(fixture.run("EXISTS a b c d"), ":2");
    }

    #[test]
    fn a_due_target_expires_before_a_rename() {
        let mut fixture = Fixture::new();
        fixture.run("SET from 1");
        fixture.run("SET to 2 PX 10");
        fixture.advance(10);
        fixture.events();
        assert_eq!(fixture.run("RENAMENX from to"), ":1");
        assert_eq!(
            fixture.events(),
            "expired to, new to, rename_from from, rename_to to"
        );
        assert_eq!(fixture.run("PTTL to"), ":-1");
    }

    #[test]
    fn a_copy_has_the_value_and_the_deadline() {
        let mut fixture = Fixture::sharded(4);
        fixture.run("SET a foo PX 500");
        fixture.events();
        assert_eq!(fixture.run("COPY a b"), ":1");
        assert_eq!(fixture.run("COPY a b"), ":0");
        assert_eq!(fixture.run("COPY a b replace"), ":1");
        assert_eq!(fixture.run("COPY a a DB 3 REPLACE"), ":1");
        assert_eq!(fixture.run("COPY nope b"), ":0");
        assert_eq!(
            fixture.events(),
            "new b, copy_to b, new b, copy_to b, new a @3, copy_to a @3, keymiss nope"
        );
        assert_eq!(fixture.run("APPEND b d"), ":4");
        assert_eq!(fixture.run("GET a"), "$3 foo");
        fixture.db = 3;
        assert_eq!(fixture.run("PTTL a"), ":500");
        fixture.db = 0;
        fixture.expect(&[
            (
                "COPY a a",
                "-ERR source and destination objects are the same",
            ),
            (
                "COPY a a DB 0",
                "-ERR source and destination objects are the same",
            ),
            ("COPY a b DB 16", "-ERR DB index is out of range"),
            ("COPY a b DB -1", "-ERR DB index is out of range"),
            (
                "COPY a b DB x",
                "-ERR value is not an integer or out of range",
            ),
            (
                "COPY a b DB 3000000000",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
            ("COPY a b DB", "-ERR syntax error"),
            ("COPY a b WITH", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn a_key_moves_with_its_deadline() {
        let mut fixture = Fixture::sharded(4);
        fixture.run("SET a foo PX 500");
        fixture.events();
        assert_eq!(fixture.run("MOVE a 2"), ":1");
        assert_eq!(fixture.events(), "new a @2, move_from a, move_to a @2");
        assert_eq!(fixture.run("MOVE a 2"), ":0");
        fixture.run("SET a bar");
        assert_eq!(fixture.run("MOVE a 2"), ":0");
        assert_eq!(
            fixture.run("MOVE a 0"),
            "-ERR source and destination objects are the same"
        );
        assert_eq!(fixture.run("MOVE a 99"), "-ERR DB index is out of range");
        fixture.events();
        fixture.advance(500);
        assert_eq!(fixture.run("MOVE a 2"), ":1", "a due target expires first");
        assert_eq!(
            fixture.events(),
            "expired a @2, new a @2, move_from a, move_to a @2"
        );
    }

    #[test]
    fn touch_resets_the_idle_time() {
        let mut fixture = Fixture::new();
        fixture.run("SET a 1");
        fixture.advance(7_000);
        assert_eq!(fixture.run("OBJECT IDLETIME a"), ":7");
        assert_eq!(fixture.run("TOUCH a nope a"), ":2");
        assert_eq!(fixture.run("OBJECT IDLETIME a"), ":0");
    }

    #[test]
    fn patterns_list_keys_that_are_not_due() {
        let mut fixture = Fixture::sharded(8);
        fixture.run("MSET one 1 two 2 three 3 \"\" 4");
        fixture.run("SET tired 1 PX 10");
        assert_eq!(fixture.run("KEYS o*"), "*1 $3 one");
        assert_eq!(fixture.run("KEYS two"), "*1 $3 two");
        assert_eq!(fixture.run("KEYS twos"), "*0");
        fixture.advance(10);
        assert_eq!(fixture.run("KEYS ti*"), "*0");
        assert_eq!(fixture.run("KEYS tired"), "*0");
        assert_eq!(fixture.run("KEYS *").split(' ').next(), Some("*4"));
        assert_eq!(fixture.run("KEYS \"\""), "*1 $0 ");
        assert_eq!(fixture.stats.expired, 0, "KEYS does not expire keys");
    }

    #[test]
    fn a_random_key_is_never_due() {
        assert_eq!(Fixture::resp3().run("RANDOMKEY"), "_");
        for shards in [1, 8] {
            let mut fixture = Fixture::sharded(shards);
            assert_eq!(fixture.run("RANDOMKEY"), "$-1");
            for n in 0..2000 {
                fixture.run(&format!("SET due{n} v PX 10"));
            }
            fixture.run("SET stays v");
            fixture.advance(10);
            for _ in 0..5 {
                assert_eq!(fixture.run("RANDOMKEY"), "$5 stays");
            }
            fixture.run("DEL stays");
            assert_eq!(fixture.run("RANDOMKEY"), "$-1");
        }
    }

    #[test]
    fn random_keys_come_from_every_shard() {
        let mut fixture = Fixture::sharded(8);
        for n in 0..64 {
            fixture.run(&format!("SET {n} v"));
        }
        let seen: std::collections::HashSet<String> =
            (0..4000).map(|_| fixture.run("RANDOMKEY")).collect();
        // A fair draw misses a given key with probability (63/64)^4000 < 10^-27.
        assert_eq!(seen.len(), 64);
    }
}
