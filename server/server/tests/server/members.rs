//! Members of sets and sorted sets that expire: over sockets, in files, on replicas, and beside a
//! redis-server, which has no such deadlines and must not lose them silently.

use std::path::Path;
use std::process::Command;

use punctual_harness::free_port;
use punctual_resp::Value;
use punctual_server::{Builder, Server};

use crate::replication::{caught_up, follow};
use crate::waiters::with_threads;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, run, server_with, show};

/// Commands that give deadlines to members of a small and of a large set and sorted set.
const DATASET: &[&str] = &[
    "SADD s a b c",
    "SPEXPIREAT s 32503680000000 MEMBERS 2 a b",
    "SADD ints 1 2 3",
    "SPEXPIREAT ints 32503680000001 MEMBERS 1 2",
    "ZADD z 1 a 2.5 b -inf c",
    "ZPEXPIREAT z 32503680000002 MEMBERS 2 a c",
    "SMOVE s moved b",
    "ZADD z 9 a",
    "SADDEX persisted EX 1000 MEMBERS 2 a b",
    "SADDEX persisted MEMBERS 1 a",
    "SADDEX persisted PXAT 1 MEMBERS 1 b",
    "SADDEX added PXAT 32503680000003 MEMBERS 1 a",
    "ZADDEX zadded PXAT 32503680000004 MEMBERS 2 1 a 2 b",
    "ZADDEX zadded KEEPTTL MEMBERS 1 3 a",
];

fn fill(c: &mut Wire) {
    run(c, DATASET);
    for n in 0..3000 {
        run(
            c,
            &[
                &format!("SADD large m{n}"),
                &format!(
                    "SPEXPIREAT large {} MEMBERS 1 m{n}",
                    32_503_680_000_000_u64 + n
                ),
                &format!("ZADD zlarge {n} m{n}"),
                &format!(
                    "ZPEXPIREAT zlarge {} MEMBERS 1 m{n}",
                    32_503_680_000_000_u64 + n
                ),
            ],
        );
    }
}

/// Returns the members and deadlines as text.
fn state(c: &mut Wire) -> String {
    [
        "SPEXPIRETIME s MEMBERS 3 a b c",
        "SPEXPIRETIME ints MEMBERS 3 1 2 3",
        "SPEXPIRETIME moved MEMBERS 1 b",
        "SPEXPIRETIME persisted MEMBERS 2 a b",
        "SPEXPIRETIME added MEMBERS 1 a",
        "ZPEXPIRETIME zadded MEMBERS 2 a b",
        "ZRANGE zadded 0 -1 WITHSCORES",
        "ZPEXPIRETIME z MEMBERS 3 a b c",
        "ZRANGE z 0 -1 WITHSCORES",
        "SPEXPIRETIME large MEMBERS 2 m0 m2999",
        "ZPEXPIRETIME zlarge MEMBERS 2 m0 m2999",
        "SCARD large",
        "ZCARD zlarge",
    ]
    .map(|line| show(c, line))
    .join("\n")
}

const STATE: &str = "[32503680000000 -2 -1]\n[-1 32503680000001 -1]\n[32503680000000]\n[-1 -2]\n\
                     [32503680000003]\n[32503680000004 32503680000004]\n[b 2 a 3]\n\
                     [32503680000002 -1 32503680000002]\n[c -inf b 2.5 a 9]\n\
                     [32503680000000 32503680002999]\n[32503680000000 32503680002999]\n3000\n3000";

fn kept(folder: &Path) -> Builder {
    configured("enable-debug-command yes").option("dir", folder.to_str().unwrap())
}

#[test]
fn members_expire_with_the_virtual_clock() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        let mut events = Wire::open(&server);
        c.expect(&["CONFIG SET notify-keyspace-events Egszx"], "+OK|");
        for event in ["sexpired", "zexpired", "del"] {
            events.ask(&["SUBSCRIBE", &format!("__keyevent@0__:{event}")]);
        }
        let event = |name: &str, key: &str| {
            let channel = format!("__keyevent@0__:{name}");
            let (long, short) = (channel.len(), key.len());
            format!("*3|$7|message|${long}|{channel}|${short}|{key}|")
        };
        c.expect(
            &[
                "SADD online ann bob",
                "SPEXPIRE online 5000 MEMBERS 1 ann",
                "ZADD board 1 ann 2 bob",
                "ZEXPIRE board 10 MEMBERS 2 ann bob",
            ],
            ":2|*1|:1|:2|*2|:1|:1|",
        );
        let timers = c.text("INFO timers");
        assert!(timers.contains("timers_pending:3\r\n"), "{timers}");
        c.int("CLOCK ADVANCE 4999");
        c.expect(&["SPTTL online MEMBERS 2 ann bob"], "*2|:1|:-1|");
        c.int("CLOCK ADVANCE 1");
        events.receive(&event("sexpired", "online"));
        c.expect(&["SMEMBERS online", "SCARD online"], "*1|$3|bob|:1|");
        c.int("CLOCK ADVANCE 5000");
        events.receive(&[event("zexpired", "board"), event("del", "board")].concat());
        c.expect(&["EXISTS board", "DBSIZE"], ":0|:1|");
        let stats = c.text("INFO stats");
        assert!(stats.contains("\r\nexpired_subkeys:3\r\n"), "{stats}");
        assert!(stats.contains("\r\nexpired_keys:0\r\n"), "{stats}");
        let timers = c.text("INFO timers");
        assert!(timers.contains("timers_pending:0\r\n"), "{timers}");
        assert!(
            timers.contains("timers_lateness_usec_max:1\r\n"),
            "{timers}"
        );
    }
}

/// The commands are in the ACL categories of their types.
#[test]
fn acl_categories_follow_the_type() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    for (letter, category) in [("S", "set"), ("Z", "sortedset")] {
        let add = if letter == "S" {
            "SADD k a"
        } else {
            "ZADD k 1 a"
        };
        run(&mut c, &["FLUSHALL", add]);
        run(
            &mut c,
            &[&format!(
                "ACL SETUSER u reset on nopass ~* +@{category} -@write"
            )],
        );
        let mut user = Wire::open(&server);
        run(&mut user, &["AUTH u p"]);
        user.expect(&[&format!("{letter}TTL k MEMBERS 1 a")], "*1|:-1|");
        let refused = show(&mut user, &format!("{letter}EXPIRE k 9 MEMBERS 1 a"));
        assert!(refused.contains("NOPERM"), "{refused}");
        run(&mut c, &[&format!("ACL SETUSER u +@{category}")]);
        user.expect(&[&format!("{letter}EXPIRE k 9 MEMBERS 1 a")], "*1|:1|");
        let docs = show(&mut c, &format!("COMMAND DOCS {letter}PEXPIREAT"));
        assert!(
            docs.contains("members to a Unix timestamp in milliseconds."),
            "{docs}"
        );
    }
}

/// The loop wakes for a member's deadline without a command.
#[test]
fn members_expire_on_a_real_clock() {
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut c, mut events) = (Wire::open(&server), Wire::open(&server));
    c.expect(&["CONFIG SET notify-keyspace-events Esz"], "+OK|");
    events.ask(&["SUBSCRIBE", "__keyevent@0__:zexpired"]);
    c.expect(
        &["ZADD z 1 a 2 b", "ZPEXPIRE z 30 MEMBERS 1 a"],
        ":2|*1|:1|",
    );
    events.receive("*3|$7|message|$23|__keyevent@0__:zexpired|$1|z|");
    c.expect(&["ZRANGE z 0 -1"], "*1|$1|b|");
}

#[test]
fn expired_members_reach_watchers_caches_scripts_and_waiting_clients() {
    let server = with_threads(2);
    let (mut c, mut other) = (Wire::open(&server), Wire::open(&server));
    c.ask(&[
        "EVAL",
        "redis.call('SADD', KEYS[1], 'a', 'b') return redis.call('SEXPIRE', KEYS[1], 1, 'MEMBERS', 1, 'a')",
        "1",
        "s",
    ]);
    c.expect(&["STTL s MEMBERS 2 a b", "WATCH s"], "*2|:1|:-1|+OK|");
    let mut cache = Wire::open(&server);
    run(&mut cache, &["HELLO 3", "CLIENT TRACKING ON"]);
    cache.ask(&["SMEMBERS", "s"]);
    other.int("CLOCK ADVANCE 1000");
    c.expect(&["MULTI", "SCARD s", "EXEC"], "+OK|+QUEUED|*-1|");
    cache.receive(">2|$10|invalidate|*1|$1|s|");
    // A member that is due does not serve a client that waits for the key.
    run(&mut c, &["ZADD z 1 a", "ZPEXPIRE z 10 MEMBERS 1 a"]);
    other.int("CLOCK ADVANCE 10");
    other.send(&["BZPOPMIN z 0"]);
    eventually(|| crate::waiters::waiting(&server) == 1);
    c.expect(&["ZADD z 2 b"], ":1|");
    other.receive("*3|$1|z|$1|b|$1|2|");
}

#[test]
fn deadlines_of_members_survive_restarts() {
    for option in ["appendonly", "save"] {
        let folder = tempfile::tempdir().unwrap();
        let start = || match option {
            "appendonly" => kept(folder.path()).option("appendonly", "yes"),
            _ => kept(folder.path()),
        };
        let server = start().spawn().unwrap();
        let mut c = Wire::open(&server);
        fill(&mut c);
        assert_eq!(state(&mut c), STATE, "{option}");
        let digest = c.text("DEBUG DIGEST");
        if option == "save" {
            run(&mut c, &["SAVE"]);
        }
        server.shutdown();
        let server = start().spawn().unwrap();
        let mut c = Wire::open(&server);
        assert_eq!(state(&mut c), STATE, "{option}");
        assert_eq!(c.text("DEBUG DIGEST"), digest);
        if option == "appendonly" {
            run(&mut c, &["BGREWRITEAOF"]);
            eventually(|| {
                let info = c.text("INFO persistence");
                info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrites:1")
            });
            server.shutdown();
            let server = start().spawn().unwrap();
            assert_eq!(state(&mut Wire::open(&server)), STATE);
        }
    }
}

/// A replica gets the deadlines in the full synchronization and in the stream, as absolute times.
/// It expires nothing itself, and shows no due member.
#[test]
fn a_replica_has_the_same_deadlines() {
    let server = server_with("enable-debug-command yes|repl-diskless-sync-delay 0");
    let mut primary = Wire::open(&server);
    fill(&mut primary);
    let replica = follow(server.port(), configured("enable-debug-command yes"));
    let mut c = Wire::open(&replica);
    assert_eq!(state(&mut c), STATE);
    run(
        &mut primary,
        &[
            "SADD later a b",
            "SEXPIRE later 1000 MEMBERS 2 a b",
            "SPERSIST later MEMBERS 1 b",
            "ZADD zlater 1 a 2 b",
            "ZEXPIRE zlater 1000 XX MEMBERS 1 a",
            "ZEXPIRE zlater 1000 MEMBERS 1 a",
            "SADD soon a b",
            "SPEXPIRE soon 50 MEMBERS 1 a",
            "SPOP s",
        ],
    );
    eventually(|| primary.int("SCARD soon") == 1);
    caught_up(&mut primary, &mut c);
    for line in [
        "SPEXPIRETIME later MEMBERS 2 a b",
        "ZPEXPIRETIME zlater MEMBERS 2 a b",
        "SMEMBERS soon",
        "SMEMBERS s",
    ] {
        assert_eq!(show(&mut c, line), show(&mut primary, line), "{line}");
    }
    assert_eq!(primary.text("DEBUG DIGEST"), c.text("DEBUG DIGEST"));
    // Without its primary, the replica hides the member at its deadline, and keeps it.
    run(
        &mut primary,
        &["SADD gone a b", "SPEXPIRE gone 400 MEMBERS 1 a"],
    );
    caught_up(&mut primary, &mut c);
    server.shutdown();
    eventually(|| show(&mut c, "SMEMBERS gone") == "[b]");
    assert_eq!(c.int("SISMEMBER gone a"), 0);
    assert_eq!(c.int("SCARD gone"), 1);
    assert!(c.text("INFO stats").contains("\r\nexpired_subkeys:0\r\n"));
    run(&mut c, &["REPLICAOF NO ONE"]);
    eventually(|| c.text("INFO stats").contains("\r\nexpired_subkeys:1\r\n"));
    assert_eq!(show(&mut c, "SMEMBERS gone"), "[b]");
}

#[test]
fn migrate_takes_the_deadlines_along() {
    let (from, to) = (with_threads(1), with_threads(2));
    let (mut a, mut b) = (Wire::open(&from), Wire::open(&to));
    run(&mut a, DATASET);
    let line = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS s z ints", to.port());
    a.expect(&[&line, "EXISTS s z ints"], "+OK|:0|");
    b.expect(
        &[
            "SPEXPIRETIME s MEMBERS 2 a c",
            "ZPEXPIRETIME z MEMBERS 2 a b",
        ],
        "*2|:32503680000000|:-1|*2|:32503680000002|:-1|",
    );
    let redis = Redis::start(&[]);
    let line = format!("MIGRATE 127.0.0.1 {} moved 0 5000", redis.port);
    a.send(&[&line]);
    let reply = a.value();
    assert!(reply.is_error(), "{reply:?}");
    assert_eq!(a.int("EXISTS moved"), 1, "the key stays");
}

/// redis-server refuses a snapshot and a payload in which members have deadlines, with a message
/// that names the type. It also refuses an append-only file with the commands. Its tools can read
/// the snapshot.
#[test]
fn redis_server_does_not_lose_deadlines_silently() {
    for (line, name) in [
        ("SEXPIRE s 1000 MEMBERS 1 a", "punctsets"),
        ("ZEXPIRE z 1000 MEMBERS 1 a", "punctzset"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = kept(folder.path()).spawn().unwrap();
        let mut c = Wire::open(&server);
        run(&mut c, &["SADD s a b", "ZADD z 1 a 2 b", line, "SAVE"]);
        let file = folder.path().join("dump.rdb");
        let checked = Command::new("redis-check-rdb").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(text.contains("RDB looks OK"), "{text}");
        let refuse = |options: &[&str]| {
            let port = free_port().to_string();
            let refused = Command::new("redis-server")
                .args(["--port", &port, "--save", "", "--dir"])
                .arg(folder.path())
                .args(options)
                .output()
                .unwrap();
            String::from_utf8_lossy(&refused.stdout).into_owned()
        };
        // redis-server has exited.
        let text = refuse(&[]);
        assert!(text.contains(&format!("module type '{name}'")), "{text}");
        let redis = Redis::start(&[]);
        let key = &name[5..6];
        let payload = c.ask(&["DUMP", key]);
        let mut theirs = Wire::to(redis.port);
        let words = [&b"RESTORE"[..], b"k", b"0", payload.as_bytes().unwrap()];
        let reply = theirs.ask(&words);
        assert!(matches!(reply, Value::Error(_)), "{reply:?}");
        // Without deadlines, redis-server loads the file.
        let persist = line.replace("EXPIRE", "PERSIST").replace(" 1000", "");
        run(&mut c, &[&persist, "SAVE"]);
        let redis = Redis::start(&["--dir", folder.path().to_str().unwrap()]);
        assert_eq!(Wire::to(redis.port).int("EXISTS s z"), 2);
    }
    let folder = tempfile::tempdir().unwrap();
    let server = kept(folder.path())
        .option("appendonly", "yes")
        .spawn()
        .unwrap();
    run(
        &mut Wire::open(&server),
        &["SADD s a b", "SEXPIRE s 1000 MEMBERS 1 a"],
    );
    server.shutdown();
    let port = free_port().to_string();
    let refused = Command::new("redis-server")
        .args(["--port", &port, "--appendonly", "yes", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(text.contains("Unknown command 'SPEXPIREAT'"), "{text}");
}
