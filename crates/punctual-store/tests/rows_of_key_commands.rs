//! Rows of key commands compared with COMMAND INFO of Redis 7.2.

use std::collections::BTreeSet;

use punctual_store::command;
use punctual_store::spec::{Keys, Row};

/// Name, arity, flags, first key, last key, step, ACL categories.
type Facts = (
    &'static str,
    i32,
    &'static str,
    (usize, i32, usize),
    &'static str,
);

const NO_KEYS: (usize, i32, usize) = (0, 0, 0);

const FACTS: &[Facts] = &[
    ("del", -2, "write", (1, -1, 1), "keyspace write slow"),
    (
        "unlink",
        -2,
        "write fast",
        (1, -1, 1),
        "keyspace write fast",
    ),
    (
        "exists",
        -2,
        "readonly fast",
        (1, -1, 1),
        "keyspace read fast",
    ),
    ("type", 2, "readonly fast", (1, 1, 1), "keyspace read fast"),
    ("rename", 3, "write", (1, 2, 1), "keyspace write slow"),
    (
        "renamenx",
        3,
        "write fast",
        (1, 2, 1),
        "keyspace write fast",
    ),
    (
        "copy",
        -3,
        "write denyoom",
        (1, 2, 1),
        "keyspace write slow",
    ),
    ("move", 3, "write fast", (1, 1, 1), "keyspace write fast"),
    (
        "touch",
        -2,
        "readonly fast",
        (1, -1, 1),
        "keyspace read fast",
    ),
    ("randomkey", 1, "readonly", NO_KEYS, "keyspace read slow"),
    (
        "keys",
        2,
        "readonly",
        NO_KEYS,
        "keyspace read slow dangerous",
    ),
    ("scan", -2, "readonly", NO_KEYS, "keyspace read slow"),
    ("expire", -3, "write fast", (1, 1, 1), "keyspace write fast"),
    (
        "pexpire",
        -3,
        "write fast",
        (1, 1, 1),
        "keyspace write fast",
    ),
    (
        "expireat",
        -3,
        "write fast",
        (1, 1, 1),
        "keyspace write fast",
    ),
    (
        "pexpireat",
        -3,
        "write fast",
        (1, 1, 1),
        "keyspace write fast",
    ),
    ("ttl", 2, "readonly fast", (1, 1, 1), "keyspace read fast"),
    ("pttl", 2, "readonly fast", (1, 1, 1), "keyspace read fast"),
    (
        "expiretime",
        2,
        "readonly fast",
        (1, 1, 1),
        "keyspace read fast",
    ),
    (
        "pexpiretime",
        2,
        "readonly fast",
        (1, 1, 1),
        "keyspace read fast",
    ),
    ("persist", 2, "write fast", (1, 1, 1), "keyspace write fast"),
    ("object", -2, "", NO_KEYS, "slow"),
    (
        "object|encoding",
        3,
        "readonly",
        (2, 2, 1),
        "keyspace read slow",
    ),
    (
        "object|freq",
        3,
        "readonly",
        (2, 2, 1),
        "keyspace read slow",
    ),
    ("object|help", 2, "loading stale", NO_KEYS, "keyspace slow"),
    (
        "object|idletime",
        3,
        "readonly",
        (2, 2, 1),
        "keyspace read slow",
    ),
    (
        "object|refcount",
        3,
        "readonly",
        (2, 2, 1),
        "keyspace read slow",
    ),
    ("memory", -2, "", NO_KEYS, "slow"),
    ("memory|usage", -3, "readonly", (2, 2, 1), "read slow"),
    ("dbsize", 1, "readonly fast", NO_KEYS, "keyspace read fast"),
    (
        "flushdb",
        -1,
        "write",
        NO_KEYS,
        "keyspace write slow dangerous",
    ),
    (
        "flushall",
        -1,
        "write",
        NO_KEYS,
        "keyspace write slow dangerous",
    ),
    (
        "swapdb",
        3,
        "write fast",
        NO_KEYS,
        "keyspace write fast dangerous",
    ),
];

fn check<H>(row: &Row<H>, (name, arity, flags, keys, categories): Facts) {
    assert_eq!(row.arity, arity, "{name}");
    assert_eq!(
        row.flags.names().collect::<Vec<_>>().join(" "),
        flags,
        "{name}"
    );
    let positions = match row.keys {
        Keys::None => NO_KEYS,
        Keys::Range { first, last, step } => (first, last, step),
        Keys::Counted { .. } | Keys::Options(_) | Keys::KeyOrOption(_) | Keys::Streams { .. } => {
            panic!("{name}: keys are at fixed positions")
        }
    };
    assert_eq!(positions, keys, "{name}");
    let expected: BTreeSet<&str> = categories.split(' ').collect();
    assert_eq!(
        row.all_categories().into_iter().collect::<BTreeSet<_>>(),
        expected,
        "{name}"
    );
    assert!(
        !row.summary.is_empty() && !row.complexity.is_empty(),
        "{name}"
    );
}

#[test]
fn rows_match_command_info_of_redis() {
    for &facts in FACTS {
        let mut names = facts.0.split('|');
        let row = command::find(names.next().unwrap().as_bytes()).expect(facts.0);
        match names.next() {
            None => check(row, facts),
            Some(name) => {
                let sub = row.subcommands.iter().find(|sub| sub.name == name);
                check(sub.expect(facts.0), facts);
            }
        }
    }
}
