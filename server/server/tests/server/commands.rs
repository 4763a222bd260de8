//! Compares COMMAND and related replies with the replies of a real redis-server.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire};
use punctual_resp::Value;
use punctual_server::Server;

/// Commands and subcommands that Redis 7.0 lacks.
#[rustfmt::skip]
const NEW: &[&str] = &[
    // Punctual's own.
    "clock", "clock|advance", "clock|help", "clock|now", "clock|set", "job", "job|ack", "job|add",
    "job|count", "job|del", "job|due", "job|get", "job|help", "job|info", "job|leased", "job|nack",
    "job|pause", "job|put", "job|queues", "job|range", "job|resume", "job|revive", "job|take",
    "job|touch", "notify", "notify|del", "notify|get", "notify|help", "notify|list", "notify|set",
    "notify|streams", "timer", "timer|count", "timer|get", "timer|help", "timer|list", "timer|next",
    "timer|pause", "timer|range", "timer|resume", "timer|run", "timer|set", "timer|state",
    "xgroup|setlease", "zexpire", "zexpireat", "zexpiretime", "zpersist", "zpexpire", "zaddex",
    "zpexpireat", "zpexpiretime", "zpttl", "zttl", "xretain",
    // Redis 7.2.
    "client|no-touch", "client|setinfo", "cluster|myshardid", "waitaof",
    // Redis 7.4.
    "hexpire", "hexpireat", "hexpiretime", "hpersist", "hpexpire", "hpexpireat", "hpexpiretime",
    "hpttl", "httl",
    // Redis 8.0 to 8.10.
    "delex", "digest", "hgetdel", "hgetex", "hsetex", "increx", "msetex", "sdiffcard", "sunioncard",
    "blmovem", "cluster|migration", "cluster|slot-stats", "himport", "himport|discard",
    "himport|discardall", "himport|prepare", "himport|set", "lmovem", "xackdel", "xcfgset",
    "xdelex", "xidmprecord", "xnack",
    // Valkey 9.2.
    "acl|delrole", "acl|getrole", "acl|roles", "acl|setrole", "backup", "backup|abort",
    "backup|cleanup", "backup|help", "backup|list", "backup|seal", "backup|start", "backup|status",
    // Redis 8.12.
    "saddex", "sexpire", "sexpireat", "sexpiretime", "spersist", "spexpire", "spexpireat",
    "spexpiretime", "spttl", "sttl",
];

/// Facts that differ between Redis 7.2 and the 7.0 that we compare with: command, fact, our value,
/// reason.
const CHANGED: &[(&str, &str, &str, &str)] = &[
    // 7.2 also accepts GETKEYS for a command without arguments, and returns no keys.
    ("command|getkeys", "arity", "-3", "was -4"),
    ("command|getkeysandflags", "arity", "-3", "was -4"),
    // 7.2 added WITHSCORE.
    ("zrank", "arity", "-3", "was 3"),
    ("zrevrank", "arity", "-3", "was 3"),
    // 7.2 adds tips: the nodes to which a proxy sends the command, and how to combine the replies.
    (
        "randomkey",
        "tips",
        "nondeterministic_output request_policy:all_shards response_policy:special",
        "new in 7.2",
    ),
    (
        "scan",
        "tips",
        "nondeterministic_output request_policy:special response_policy:special",
        "new in 7.2",
    ),
    // 7.2 allows these commands in scripts.
    ("blmove", "flags", "blocking denyoom write", "noscript"),
    ("blpop", "flags", "blocking write", "noscript"),
    ("brpop", "flags", "blocking write", "noscript"),
    ("brpoplpush", "flags", "blocking denyoom write", "noscript"),
    ("bzpopmax", "flags", "blocking fast write", "noscript"),
    ("bzpopmin", "flags", "blocking fast write", "noscript"),
    ("wait", "flags", "blocking", "noscript"),
    (
        "wait",
        "categories",
        "@blocking @connection @slow",
        "no @blocking",
    ),
];

/// Facts of one command, each as text.
type Facts = BTreeMap<&'static str, String>;

pub fn text(value: &Value) -> String {
    match value.as_bytes() {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => value
            .as_int()
            .map_or(format!("{value:?}"), |n| n.to_string()),
    }
}

/// Returns the words of an array, sorted.
fn words(value: &Value) -> String {
    let all: BTreeSet<String> = value.as_slice().unwrap().iter().map(text).collect();
    all.into_iter().collect::<Vec<_>>().join(" ")
}

/// Adds the facts of COMMAND INFO on a command and its subcommands.
fn collect(info: &Value, all: &mut BTreeMap<String, Facts>) {
    let parts = info.as_slice().unwrap();
    assert_eq!(parts.len(), 10);
    let mut facts = Facts::new();
    facts.insert("arity", text(&parts[1]));
    facts.insert("flags", words(&parts[2]));
    facts.insert(
        "keys",
        format!(
            "{} {} {}",
            text(&parts[3]),
            text(&parts[4]),
            text(&parts[5])
        ),
    );
    facts.insert("categories", words(&parts[6]));
    facts.insert("tips", words(&parts[7]));
    // Notes are prose, so they are not compared.
    let specs = parts[8].as_slice().unwrap().iter().map(|spec| {
        let pairs = spec.as_slice().unwrap();
        let named: BTreeMap<String, &Value> =
            pairs.chunks(2).map(|p| (text(&p[0]), &p[1])).collect();
        format!(
            "{} {:?} {:?}",
            words(named["flags"]),
            named["begin_search"],
            named["find_keys"]
        )
    });
    facts.insert("key specifications", specs.collect::<Vec<_>>().join("; "));
    all.insert(text(&parts[0]), facts);
    for sub in parts[9].as_slice().unwrap() {
        collect(sub, all);
    }
}

fn all_commands(c: &mut Wire) -> BTreeMap<String, Facts> {
    let mut all = BTreeMap::new();
    for command in c.ask(&["COMMAND"]).as_slice().unwrap() {
        collect(command, &mut all);
    }
    all
}

#[test]
fn every_command_has_the_facts_of_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (ours, theirs) = (
        all_commands(&mut Wire::open(&server)),
        all_commands(&mut Wire::to(redis.port)),
    );
    let mut differences = Vec::new();
    for (name, facts) in &ours {
        let Some(known) = theirs.get(name) else {
            assert!(NEW.contains(&name.as_str()), "{name} is not in Redis 7.0");
            continue;
        };
        for (fact, value) in facts {
            let changed = CHANGED.iter().find(|(n, f, ..)| n == name && f == fact);
            let expected = changed.map_or(known[fact].as_str(), |(_, _, value, _)| value);
            if value != expected {
                differences.push(format!(
                    "{name}, {fact}: {value:?}, but {expected:?} in Redis"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    for name in NEW {
        assert!(
            ours.contains_key(*name) && !theirs.contains_key(*name),
            "{name}"
        );
    }
}

/// Lines for which both servers reply with the same bytes.
const COMPARED: &[&str] = &[
    "COMMAND INFO get",
    "COMMAND INFO GET nosuch mget",
    "COMMAND INFO object|encoding object|nosuch nosuch|x",
    "COMMAND INFO rename copy lcs mset del ttl ssubscribe client|list",
    "COMMAND DOCS nosuch",
    "COMMAND COUNT x",
    "COMMAND NOSUCH",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS SET a b",
    "COMMAND GETKEYS MSET a 1 b 2 c 3",
    "COMMAND GETKEYS MSET a",
    "COMMAND GETKEYS NOSUCH a b",
    "COMMAND GETKEYS PING a",
    "COMMAND GETKEYS GET a b",
    "COMMAND GETKEYS OBJECT ENCODING k",
    "COMMAND GETKEYS CONFIG GET k",
    "COMMAND GETKEYS MEMORY USAGE k",
    "COMMAND GETKEYS LCS a b",
    "COMMAND GETKEYSANDFLAGS SET a b",
    "COMMAND GETKEYSANDFLAGS SET a b GET",
    "COMMAND GETKEYSANDFLAGS SET a b NX GET EX 10",
    "COMMAND GETKEYSANDFLAGS MSET a 1 b 2",
    "COMMAND GETKEYSANDFLAGS COPY a b",
    "COMMAND GETKEYSANDFLAGS RENAMENX a b",
    "COMMAND GETKEYSANDFLAGS DEL a b c",
    "COMMAND GETKEYSANDFLAGS BITFIELD k",
    "COMMAND GETKEYSANDFLAGS BITFIELD k GET u8 0 OVERFLOW SAT GET u8 8",
    "COMMAND GETKEYSANDFLAGS BITFIELD k GET u8 0 SET u8 0 1",
    "COMMAND GETKEYSANDFLAGS BITFIELD k GET u8",
    "COMMAND GETKEYSANDFLAGS BITOP OR to a b c",
    "COMMAND GETKEYSANDFLAGS PFMERGE to a b",
    "COMMAND GETKEYSANDFLAGS PFCOUNT a b",
    "COMMAND GETKEYSANDFLAGS GEORADIUS k 1 1 1 m",
    "COMMAND GETKEYSANDFLAGS GEORADIUS k 1 1 1 m COUNT 1 STORE to",
    "COMMAND GETKEYSANDFLAGS GEORADIUSBYMEMBER k m 1 m STORE a STOREDIST b ASC",
    "COMMAND GETKEYSANDFLAGS GEOSEARCHSTORE to from FROMMEMBER m BYRADIUS 1 m",
    "COMMAND GETKEYSANDFLAGS SORT k",
    "COMMAND GETKEYSANDFLAGS SORT k BY store GET x LIMIT store 1 STORE to DESC",
    "COMMAND GETKEYSANDFLAGS SORT k STORE",
    "COMMAND GETKEYSANDFLAGS SORT_RO k BY w_* GET #",
    "COMMAND GETKEYSANDFLAGS PING x",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY x y",
    "COMMAND LIST FILTERBY MODULE",
    "COMMAND LIST FILTERBY MODULE x",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY PATTERN nosuch*",
    "COMMAND LIST FILTERBY PATTERN DBSIZ?",
    "COMMAND LIST FILTERBY PATTERN a b",
    "ACL CAT",
    "ACL CAT nosuch",
    "ACL CAT a b",
    "ACL WHOAMI",
    "ACL NOSUCH",
    "ROLE",
    "ROLE x",
    "WAIT 0 0",
    "WAIT 0 -1",
    "WAIT x 0",
    "WAIT 0 x",
    "LOLWUT VERSION x",
    "MODULE",
    "MODULE LIST",
    "MODULE LIST x",
    "MODULE LOAD x",
    "MODULE LOADEX x",
    "MODULE UNLOAD x",
    "MODULE NOSUCH",
    "READONLY",
    "READONLY x",
    "READWRITE",
    "ASKING",
    "CLUSTER",
    "CLUSTER HELP",
    "CLUSTER INFO",
    "CLUSTER ADDSLOTS",
    "CLUSTER KEYSLOT k",
    "CLUSTER NOSUCH",
    "FUNCTION DELETE x",
    "FUNCTION DUMP",
    "FUNCTION FLUSH",
    "FUNCTION KILL",
    "FUNCTION LIST",
    "FUNCTION LIST LIBRARYNAME x WITHCODE",
    "FUNCTION STATS",
    "SCRIPT KILL",
];

#[test]
fn replies_and_errors_match_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    for protocol in ["", "HELLO 3"] {
        if !protocol.is_empty() {
            for c in [&mut theirs, &mut ours] {
                c.send(&[protocol]);
                c.value();
            }
        }
        for line in COMPARED {
            ours.send(&[line]);
            theirs.send(&[line]);
            assert_eq!(ours.value(), theirs.value(), "{protocol} {line}");
        }
    }
}

#[test]
fn lists_and_categories_match_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    let names = |c: &mut Wire, line: &str| -> BTreeSet<String> {
        let parts: Vec<&str> = line.split(' ').collect();
        c.ask(&parts).as_slice().unwrap().iter().map(text).collect()
    };
    let all = names(&mut ours, "COMMAND LIST");
    let top = all.iter().filter(|name| !name.contains('|')).count();
    assert_eq!(ours.int("COMMAND COUNT"), top as i64);
    for line in [
        "COMMAND LIST FILTERBY ACLCAT DANGEROUS",
        "COMMAND LIST FILTERBY ACLCAT fast",
        "COMMAND LIST FILTERBY ACLCAT string",
        "COMMAND LIST FILTERBY ACLCAT bitmap",
        "COMMAND LIST FILTERBY ACLCAT hyperloglog",
        "COMMAND LIST FILTERBY ACLCAT geo",
        "COMMAND LIST FILTERBY PATTERN m*",
        "COMMAND LIST FILTERBY PATTERN CONFIG|*",
        "ACL CAT keyspace",
        "ACL CAT Connection",
        "ACL CAT pubsub",
        "ACL CAT geo",
    ] {
        let (ours, theirs) = (names(&mut ours, line), names(&mut theirs, line));
        let expected: BTreeSet<String> = theirs.intersection(&all).cloned().collect();
        let known: BTreeSet<String> = ours
            .iter()
            .filter(|n| !NEW.contains(&n.as_str()))
            .cloned()
            .collect();
        assert_eq!(known, expected, "{line}");
    }
}

/// go-redis's test suite starts its servers this way.
#[test]
fn a_server_that_may_load_modules_finds_none() {
    for (setting, allowed) in [("yes", true), ("local", true), ("no", false)] {
        let server = Server::builder()
            .port(0)
            .option("enable-module-command", setting)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        let load = "ERR Error loading the extension. Please check the server logs.";
        let unload = "ERR Error unloading module: no such module with that name";
        for (line, error) in [
            ("MODULE LOAD x", load),
            ("MODULE LOADEX x", load),
            ("MODULE LOADEX /path/x.so CONFIG a 1 ARGS b", load),
            ("MODULE UNLOAD x", unload),
        ] {
            let reply = c.text(line);
            match allowed {
                true => assert_eq!(reply, error, "{line}"),
                false => assert!(
                    reply.starts_with("ERR MODULE command not allowed"),
                    "{reply}"
                ),
            }
        }
        c.expect(&["MODULE LIST"], "*0|");
    }
}
