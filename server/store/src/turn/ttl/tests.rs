//! Tests of the rules for TTLs: which commands they apply to, and what the log contains.

use crate::command::testing::Fixture;
use crate::command::timers;
use crate::keyspace::shard::Writers;
use crate::ttl_rules::{TtlLimit, TtlRule, TtlRules};

const fn limit(default_s: u64, max_s: u64) -> TtlLimit {
    TtlLimit {
        default_ms: default_s * 1000,
        max_ms: max_s * 1000,
    }
}

/// Returns a fixture with these limits by pattern; the last one is for other keys.
fn with(shards: usize, rules: &[(&str, TtlLimit)], others: TtlLimit) -> Fixture {
    let fixture = Fixture::sharded(shards);
    let rule = |(pattern, limit): &(&str, TtlLimit)| TtlRule {
        pattern: pattern.as_bytes().into(),
        limit: *limit,
    };
    fixture.store.set_ttl_rules(TtlRules {
        rules: rules.iter().map(rule).collect(),
        others,
    });
    fixture
}

/// Asserts the TTL of `k` after each script: lines, separated by `;`.
fn assert_ttls(shards: usize, limit: TtlLimit, cases: &[(&str, i64)]) {
    for (script, ttl) in cases {
        let mut fixture = with(shards, &[], limit);
        for line in script.split("; ") {
            let reply = fixture.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        assert_eq!(fixture.run("TTL k"), format!(":{ttl}"), "{script}");
    }
}

#[test]
fn a_default_applies_to_writes_without_a_ttl() {
    for shards in [1, 8] {
        assert_ttls(
            shards,
            limit(30, 0),
            &[
                ("SET k v", 30),
                ("MSET a 1 k 2", 30),
                ("SET k v EX 100", 100),
                ("SET k v EX 10; SET k v", 30),
                ("SET k v EX 10; SET k v KEEPTTL", 10),
                ("SET k v EX 10; GETSET k w", 30),
                ("SET k v EX 10; PERSIST k", 30),
                ("SET k v EX 10; GETEX k PERSIST", 30),
                ("SET k v; EXPIRE k 1000", 1000),
                ("INCR k", 30),
                ("SET k 1 EX 10; INCR k", 10),
                ("SET k 1 EX 10; APPEND k 1", 10),
                ("INCREX k", 30),
                ("INCREX k EX 5", 5),
                ("SETBIT k 7 1", 30),
                ("PFADD k a", 30),
                ("RPUSH k a", 30),
                ("RPUSH k a; EXPIRE k 10; RPUSH k b", 10),
                ("RPUSH l a; LMOVE l k LEFT LEFT", 30),
                ("HSET k f v", 30),
                ("SADD k a", 30),
                ("SADD s a; SUNIONSTORE k s", 30),
                ("SADD s a; SADD k a; EXPIRE k 10; SUNIONSTORE k s", 30),
                ("ZADD k 1 a", 30),
                ("GEOADD k 1 1 a", 30),
                ("XADD k * f v", 30),
                ("XGROUP CREATE k g $ MKSTREAM", 30),
                ("RPUSH l a; SORT l ALPHA STORE k", 30),
                ("SET a v EX 10; RENAME a k", 10),
                ("SET a v EX 10; COPY a k", 10),
                ("SET k v EX 10; COPY k k DB 1", 10),
            ],
        );
    }
}

#[test]
fn a_maximum_lowers_deadlines_and_sets_them() {
    for shards in [1, 8] {
        assert_ttls(
            shards,
            limit(0, 50),
            &[
                ("SET k v", 50),
                ("SET k v EX 20", 20),
                ("SET k v EX 51", 50),
                ("SETEX k 9000 v", 50),
                ("SET k v; EXPIRE k 9000", 50),
                ("SET k v; EXPIRE k 20; EXPIRE k 9000 GT", 50),
                ("SET k v; EXPIREAT k 99999999999", 50),
                ("SET k v; PEXPIREAT k 9223372036854775807", 50),
                ("SET k v; GETEX k EX 9000", 50),
                ("SET k v EX 20; PERSIST k", 50),
                ("INCREX k EX 9000", 50),
                ("HSET k f v; HEXPIRE k 9000 FIELDS 1 f", 50),
            ],
        );
    }
    // A default above the maximum is lowered too.
    assert_ttls(1, limit(70, 50), &[("SET k v", 50)]);
}

/// Keys from the time before a rule keep their deadlines until a command decides them.
#[test]
fn existing_keys_change_when_a_command_decides_their_deadline() {
    let mut fixture = Fixture::new();
    fixture.run("MSET a 1 b 1 c 1 d 1");
    fixture.run("SET far 1 EX 9000");
    fixture.store.set_ttl_rules(TtlRules {
        others: limit(30, 50),
        ..TtlRules::default()
    });
    fixture.run("INCR a");
    fixture.run("SET b 2 KEEPTTL");
    fixture.run("INCR far");
    fixture.run("RENAME c e");
    fixture.run("SET d 2");
    for (key, ttl) in [("a", -1), ("b", -1), ("far", 9000), ("e", 30), ("d", 30)] {
        assert_eq!(
            fixture.run(&format!("TTL {key}")),
            format!(":{ttl}"),
            "{key}"
        );
    }
    fixture.store.set_ttl_rules(TtlRules::default());
    fixture.run("SET d 3");
    assert_eq!(fixture.run("TTL d"), ":-1");
}

#[test]
fn the_first_matching_rule_decides_alone() {
    let rules = [
        ("session:admin:*", limit(0, 0)),
        ("session:*", limit(1800, 86_400)),
        ("session:x*", limit(1, 1)),
        ("*:y", limit(7, 0)),
    ];
    let mut fixture = with(8, &rules, limit(60, 90));
    for (key, set, most) in [
        ("session:1", 1800, 86_400),
        ("session:x1", 1800, 86_400),
        ("session:admin:1", -1, 1_000_000),
        ("a:y", 7, 1_000_000),
        ("other", 60, 90),
    ] {
        fixture.run(&format!("SET {key} v"));
        assert_eq!(
            fixture.run(&format!("TTL {key}")),
            format!(":{set}"),
            "{key}"
        );
        fixture.run(&format!("EXPIRE {key} 1000000"));
        assert_eq!(
            fixture.run(&format!("TTL {key}")),
            format!(":{most}"),
            "{key}"
        );
    }
    // The new name's rule decides.
    fixture.run("RENAME session:1 other");
    assert_eq!(fixture.run("TTL other"), ":90");
    fixture.run("MOVE other 3");
    fixture.db = 3;
    assert_eq!(fixture.run("TTL other"), ":90");
    // `*` matches the empty name too.
    let mut fixture = with(1, &[("*", limit(5, 0))], limit(0, 0));
    fixture.run("SET \"\" v");
    assert_eq!(fixture.run("TTL \"\""), ":5");
}

#[test]
fn restore_names_its_ttl() {
    let mut source = Fixture::new();
    source.run("SET k v");
    let payload = source.reply(punctual_resp::OwnedArgs::from_iter(["DUMP", "k"]).as_args());
    let start = payload.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &payload[start..payload.len() - 2];
    for (given, with_default, with_max) in [("0", ":-1", ":50"), ("20000", ":20", ":20")] {
        for (limit, ttl) in [(limit(30, 0), with_default), (limit(30, 50), with_max)] {
            let mut fixture = with(1, &[], limit);
            let words: [&[u8]; 4] = [b"RESTORE", b"k", given.as_bytes(), payload];
            assert_eq!(fixture.run_words(&words), "+OK");
            assert_eq!(fixture.run("TTL k"), ttl);
        }
    }
}

#[test]
fn timers_and_queues_of_jobs_have_no_limits() {
    let mut fixture = with(1, &[], limit(30, 50));
    fixture.run_row(&timers::SET, "TIMER SET t IN 9000000 DO PING");
    assert_eq!(fixture.run("TTL t"), ":9000");
    assert_eq!(fixture.run("EXPIRE t 8000"), ":1");
    assert_eq!(fixture.run("TTL t"), ":8000");
    fixture.run("PERSIST t");
    assert_eq!(fixture.run("TTL t"), ":-1");
    fixture.run("JOB ADD q payload");
    assert_eq!(fixture.run("EXISTS q"), ":1");
    assert_eq!(fixture.run("TTL q"), ":-1");
}

#[test]
fn a_rule_publishes_expire_and_counts_no_change() {
    let mut fixture = with(1, &[], limit(30, 50));
    fixture.events();
    fixture.run("SET k v");
    assert_eq!(fixture.events(), "new k, set k, expire k");
    fixture.run("SET k v KEEPTTL");
    fixture.run("EXPIRE k 20");
    assert_eq!(fixture.events(), "set k, expire k");
    assert_eq!(fixture.stats.dirty, 3);
}

/// The log has absolute times, so a replay with other rules, later, leads to the same keyspace.
#[test]
fn a_replay_needs_no_rules() {
    let mut fixture = with(4, &[("l*", limit(0, 7))], limit(30, 50));
    fixture.set_logged(true);
    let lines = [
        "SET k v",
        "SET e v EX 9000",
        "MSET a 1 b 2",
        "RPUSH l 1",
        "INCR a",
        "PERSIST b",
        "COPY l other",
        "RENAME e f",
        "EXPIRE k 10",
        "SPOP nothing",
    ];
    for line in lines {
        fixture.run(line);
        fixture.advance(1);
    }
    let log = fixture.take_log();
    let text = String::from_utf8_lossy(&log);
    let first = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n\
                 *3\r\n$9\r\nPEXPIREAT\r\n$1\r\nk\r\n$7\r\n1030000\r\n*1\r\n$4\r\nEXEC\r\n";
    assert!(text.contains(first), "{text}");
    for others in [limit(0, 0), limit(3, 4)] {
        let mut replica = with(2, &[], others);
        replica.advance(5_000);
        replica.apply(&log);
        for key in ["k", "a", "b", "f", "l", "other"] {
            let line = format!("PEXPIRETIME {key}");
            assert_eq!(replica.run(&line), fixture.run(&line), "{key}");
        }
    }
}

#[test]
fn replicas_apply_no_rules() {
    let mut fixture = with(1, &[], limit(30, 50));
    fixture.store.set_writers(Writers::Both);
    fixture.run("SET local v");
    assert_eq!(fixture.run("TTL local"), ":-1");
    fixture.store.set_writers(Writers::Clients);
    fixture.run("SET k v");
    assert_eq!(fixture.run("TTL k"), ":30");
}
