//! Defaults and limits of TTL: CONFIG, all sources of commands, restarts, and replicas.

use std::fs;
use std::path::Path;

use punctual_server::{Builder, Server};

use crate::process::{Process, Start as _};
use crate::replication::{builder, follow, same_data};
use crate::wire::{Open as _, Wire, eventually, run};

/// Writes of every kind to keys without a TTL or with a long one.
const WRITES: [&str; 12] = [
    "SET session:1 v",
    "SET session:2 v EX 500000",
    "SET plain v",
    "RPUSH list a b",
    "HSET hash f v",
    "XADD stream * f v",
    "EVAL redis.call('set',KEYS[1],'v') 1 session:script",
    "COPY plain copied",
    "SET gone v EX 100",
    "PERSIST gone",
    "TIMER SET timer IN 90000000 DO SET late v",
    "JOB ADD queue payload",
];
const RULES: [(&str, &str); 3] = [
    ("default-ttl", "60"),
    ("max-ttl", "3600"),
    ("ttl-rule", "session:* default 1800 max 86400"),
];

fn with_rules(builder: Builder) -> Builder {
    let set = |builder: Builder, (name, value): &(&str, &str)| builder.option(name, value);
    RULES.iter().fold(builder, set)
}

fn assert_ttls(c: &mut Wire, expected: &[(&str, i64)]) {
    for (key, ttl) in expected {
        assert_eq!(c.int(&format!("PTTL {key}")), *ttl, "{key}");
    }
}

fn write(c: &mut Wire) {
    for line in WRITES {
        c.succeed(&line.split(' ').collect::<Vec<_>>());
    }
    run(c, &["MULTI", "SET session:exec v", "SADD set a", "EXEC"]);
}

const WRITTEN: [(&str, i64); 12] = [
    ("session:1", 1_800_000),
    ("session:2", 86_400_000),
    ("session:script", 1_800_000),
    ("session:exec", 1_800_000),
    ("plain", 60_000),
    ("list", 60_000),
    ("hash", 60_000),
    ("stream", 60_000),
    ("copied", 60_000),
    ("gone", 60_000),
    ("set", 60_000),
    ("timer", 90_000_000),
];

#[test]
fn rules_apply_to_all_sources_and_end_on_time() {
    for threads in [1, 2] {
        let server = with_rules(Server::builder().port(0).threads(threads)).virtual_clock();
        let server = server.spawn().unwrap();
        let mut c = Wire::open(&server);
        write(&mut c);
        assert_ttls(&mut c, &WRITTEN);
        assert_ttls(&mut c, &[("queue", -1)]);
        c.run("TIMER SET soon IN 10000 DO SET fired v");
        c.run("CLOCK ADVANCE 10000");
        assert_ttls(&mut c, &[("fired", 60_000), ("plain", 50_000)]);
        c.run("CLOCK ADVANCE 49999");
        assert_ttls(&mut c, &[("plain", 1)]);
        c.run("CLOCK ADVANCE 1");
        assert_eq!(c.int("EXISTS plain list hash stream copied gone set"), 0);
        assert_eq!(c.int("EXISTS session:1 timer queue"), 3);
        c.run("CLOCK ADVANCE 86400000");
        assert_eq!(c.int("DBSIZE"), 2, "the timer and the queue of jobs stay");
    }
}

/// A client that waits gets its element after the rules have applied to the key it writes to.
#[test]
fn a_served_client_obeys_the_rules() {
    let server = with_rules(Server::builder().port(0)).virtual_clock();
    let server = server.spawn().unwrap();
    let (mut waiting, mut c) = (Wire::open(&server), Wire::open(&server));
    waiting.send(&["BLMOVE from session:to LEFT LEFT 0"]);
    eventually(|| c.info("clients", "blocked_clients") == "1");
    c.run("RPUSH from a");
    waiting.receive("$1|a|");
    assert_ttls(&mut c, &[("session:to", 1_800_000)]);
}

#[test]
fn config_sets_shows_and_rewrites_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.conf");
    fs::write(
        &path,
        "ttl-rule a:* default 5\nclock virtual\nttl-rule \"b:* max 9\"\nsave \"\"\n",
    )
    .unwrap();
    let dir = folder.path().to_str().unwrap();
    let start = || Process::with_file(Some(&path), &["--dir", dir]);
    let server = start();
    let mut c = Wire::to(server.port);
    let rules = |c: &mut Wire| c.ask(&["CONFIG", "GET", "ttl-rule"]);
    let shown = |rules: &str| {
        let words = ["ttl-rule", rules].map(|word| punctual_resp::Value::Bulk(word.into()));
        punctual_resp::Value::Array(words.into())
    };
    assert_eq!(rules(&mut c), shown("a:* default 5 b:* max 9"));
    run(&mut c, &["SET a:1 v", "SET b:1 v", "SET c v"]);
    assert_ttls(&mut c, &[("a:1", 5_000), ("b:1", 9_000), ("c", -1)]);
    let new = "b:* default 3 max 7 *:x max 2";
    c.succeed(&["CONFIG", "SET", "ttl-rule", new, "default-ttl", "4"]);
    assert_eq!(rules(&mut c), shown(new));
    run(
        &mut c,
        &["SET a:1 v", "SET b:1 v", "SET b:x v", "SET d:x v"],
    );
    let expected = [
        ("a:1", 4_000),
        ("b:1", 3_000),
        ("b:x", 3_000),
        ("d:x", 2_000),
        ("c", -1),
    ];
    assert_ttls(&mut c, &expected);
    let wrong = c.ask(&["CONFIG", "SET", "ttl-rule", "a:* default"]);
    let wrong = String::from_utf8_lossy(wrong.as_bytes().unwrap()).into_owned();
    assert!(wrong.contains("A rule is: pattern"), "{wrong}");
    c.run("CONFIG REWRITE");
    drop(server);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("ttl-rule b:* default 3 max 7\n"), "{text}");
    let server = start();
    let mut c = Wire::to(server.port);
    assert_eq!(rules(&mut c), shown(new));
    c.succeed(&["CONFIG", "SET", "ttl-rule", "", "default-ttl", "0"]);
    c.run("SET d:x v");
    assert_ttls(&mut c, &[("d:x", -1)]);
}

fn durable(folder: &Path) -> Builder {
    let folder = folder.to_str().unwrap();
    let builder = Server::builder().port(0).option("dir", folder);
    builder
        .option("save", "")
        .option("appendonly", "yes")
        .virtual_clock()
}

/// The log has absolute times, so a server with other rules loads the same deadlines.
#[test]
fn a_restart_with_other_rules_keeps_deadlines() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_rules(durable(folder.path())).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.run("CLOCK SET 3000000000000");
    write(&mut c);
    server.shutdown();
    for (default, max) in [("0", "0"), ("7", "9")] {
        let other = durable(folder.path()).option("default-ttl", default);
        let server = other.option("max-ttl", max).spawn().unwrap();
        let mut c = Wire::open(&server);
        c.run("CLOCK SET 3000000000000");
        assert_ttls(&mut c, &WRITTEN);
        assert_ttls(&mut c, &[("queue", -1)]);
        server.shutdown();
    }
}

/// A replica applies no rules, neither in the full synchronization nor to the stream. After its
/// promotion, its own rules apply.
#[test]
fn a_replica_with_other_rules_has_its_primarys_deadlines() {
    let fast = builder().option("repl-diskless-sync-delay", "0");
    let primary = with_rules(fast).spawn().unwrap();
    let mut c = Wire::open(&primary);
    run(&mut c, &["SET session:full v", "SET full v EX 500"]);
    let other = builder().option("default-ttl", "7").option("max-ttl", "9");
    let replica = follow(primary.port(), other);
    let mut second = Wire::open(&replica);
    write(&mut c);
    same_data(&mut c, &mut second);
    for (key, _) in WRITTEN {
        let line = format!("PEXPIRETIME {key}");
        assert_eq!(second.int(&line), c.int(&line), "{key}");
    }
    second.run("REPLICAOF NO ONE");
    second.run("SET session:1 v");
    let ttl = second.int("PTTL session:1");
    assert!((1..=7_000).contains(&ttl), "{ttl}");
}
