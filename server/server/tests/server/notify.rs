//! Punctual's command NOTIFY, whose rules append keyspace events to streams: permissions, restarts,
//! kills and replicas.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual_resp::Value;
use punctual_server::{Builder, Server};
use rustix::process::Signal;

use crate::process::{Process, Start as _};
use crate::replication::{builder, caught_up, follow, follow_with_redis, same_data};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually};

/// Returns the event and the key of each entry in the stream `s`.
fn entries(c: &mut Wire) -> Vec<String> {
    c.send(&["XRANGE s - +"]);
    let reply = c.value();
    let word = |value: &Value| String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    let entry = |value: &Value| {
        let fields = value.as_slice().unwrap()[1].as_slice().unwrap();
        format!("{} {}", word(&fields[1]), word(&fields[3]))
    };
    reply.as_slice().unwrap().iter().map(entry).collect()
}

#[test]
fn a_blocked_reader_gets_an_expiry_at_its_deadline() {
    for threads in [1, 2] {
        let server = builder().virtual_clock().threads(threads).spawn().unwrap();
        let (mut c, mut reader) = (Wire::open(&server), Wire::open(&server));
        assert_eq!(
            c.text("NOTIFY SET gone STREAM s EVENTS x VALUE string"),
            "OK"
        );
        assert_eq!(c.text("SET k last PX 1500"), "OK");
        reader.send(&["XREAD BLOCK 0 STREAMS s $"]);
        eventually(|| c.text("INFO clients").contains("blocked_clients:1"));
        let due = server.now() + Duration::from_millis(1500);
        server.advance(Duration::from_millis(1499)).unwrap();
        reader.expect_silence();
        server.advance(Duration::from_millis(1)).unwrap();
        let ms = due
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis();
        reader.receive(&format!(
            "*1|*2|$1|s|*1|*2|$15|{ms}-0|*6|$5|event|$7|expired|$3|key|$1|k|$5|value|$4|last|"
        ));
    }
}

#[test]
fn a_rule_needs_permission_to_read_what_it_copies() {
    const NO_KEY: &str =
        "-NOPERM this user has no permissions to access one of the keys used as arguments|";
    let server = builder().threads(1).spawn().unwrap();
    let (mut c, mut user) = (Wire::open(&server), Wire::open(&server));
    c.expect(&["ACL SETUSER u on nopass +@all %W~out"], "+OK|");
    user.expect(&["AUTH u x"], "+OK|");
    for (rules, match_, allowed) in [
        ("%R~x", "", false),
        ("%R~k*", "", false),
        ("%R~*", "", true),
        ("%R~*", "MATCH k*", true),
        ("~*", "MATCH *", true),
        ("%W~*", "MATCH k*", false),
        ("%W~*", "", false),
        ("%R~k*", "MATCH k*", true),
        ("%R~k*", "MATCH k1", true),
        ("%R~k*", "MATCH k1*", false),
        ("%R~k*", "MATCH k?", false),
        ("%R~k*", "MATCH k[1]", false),
        ("%R~k*", r"MATCH k\1", false),
        ("%R~k*", "MATCH *", false),
        ("%R~k*", "MATCH k* MATCH z*", false),
        ("%R~k*", "MATCH z* EVENTS x MATCH k*", true),
        ("%R~k1", "MATCH k*", false),
        ("%R~a %R~b", "MATCH b VALUE dump MAXBYTES 5", true),
        ("%R~a %R~b", "MATCH c VALUE dump MAXBYTES 5", false),
    ] {
        c.expect(
            &[&format!("ACL SETUSER u resetkeys %W~out {rules}")],
            "+OK|",
        );
        let wanted = if allowed { "+OK|" } else { NO_KEY };
        let set = format!("NOTIFY SET r STREAM out {match_}");
        user.send(&[&set]);
        let reply = user.value();
        assert_eq!(reply.is_error(), !allowed, "{rules}: {set}: {reply:?}");
        user.expect(&["MULTI"], "+OK|");
        let queued = if allowed { "+QUEUED|" } else { wanted };
        user.expect(&[&set, "DISCARD"], &format!("{queued}+OK|"));
    }
    // One selector must grant both permissions.
    c.expect(
        &[
            "ACL SETUSER u resetkeys %W~out (+@all %R~*)",
            "ACL LOG RESET",
        ],
        "+OK|+OK|",
    );
    user.expect(&["NOTIFY SET r STREAM out"], NO_KEY);
    // The denied object in ACL LOG is the missing glob.
    let log = c.ask(&["ACL", "LOG", "1"]);
    let entry = log.as_slice().unwrap()[0].as_slice().unwrap();
    assert_eq!(entry[7], Value::bulk("*"), "{entry:?}");
    c.expect(&["ACL SETUSER u clearselectors %R~* resetkeys ~in"], "+OK|");
    user.expect(&["NOTIFY SET r STREAM out MATCH in"], NO_KEY);
    c.expect(
        &[
            "COMMAND GETKEYSANDFLAGS NOTIFY SET r MATCH k* STREAM out",
            "NOTIFY DEL r",
        ],
        "*1|*2|$3|out|*2|+RW|+insert|:1|",
    );
}

#[test]
fn transactions_and_scripts_append_with_their_changes() {
    let server = builder().threads(2).spawn().unwrap();
    let mut c = Wire::open(&server);
    assert_eq!(c.text("NOTIFY SET all STREAM s"), "OK");
    c.send(&["MULTI", "SET a 1", "DEL a", "XLEN s", "EXEC"]);
    c.receive("+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|:1|:2|");
    let script = "redis.call('SET', KEYS[1], 'x') return redis.call('XLEN', 's')";
    assert_eq!(c.ask(&["EVAL", script, "1", "b"]), Value::Int(3));
    c.ask(&["RPUSH", "l", "x"]);
    c.ask(&["BLPOP", "l", "0"]);
    assert_eq!(
        entries(&mut c),
        ["set a", "del a", "set b", "rpush l", "lpop l", "del l"]
    );
}

/// While a script runs on one loop, the other loop runs writes whose locks are free.
#[test]
fn writes_beside_a_running_script_append_their_events() {
    const WRITES: usize = 300;
    const SCRIPT: &str =
        "local t = 0 for n = 1, 20000 do t = t + n end return redis.call('SET', KEYS[1], t)";
    let server = builder().threads(2).spawn().unwrap();
    let mut c = Wire::open(&server);
    assert_eq!(c.text("NOTIFY SET all STREAM s EVENTS $"), "OK");
    let writers_left = AtomicUsize::new(4);
    let scripts = std::thread::scope(|scope| {
        for writer in 0..4 {
            let (server, writers_left) = (&server, &writers_left);
            scope.spawn(move || {
                let mut c = Wire::open(server);
                for n in 0..WRITES {
                    assert_eq!(c.text(&format!("SET k{writer}:{n} v")), "OK");
                }
                writers_left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        (1..)
            .inspect(|n: &i64| {
                let key = format!("script:{n}");
                assert_eq!(
                    c.ask(&["EVAL", SCRIPT, "1", &key]),
                    Value::Simple(b"OK".to_vec())
                );
            })
            .find(|_| writers_left.load(Ordering::SeqCst) == 0)
    });
    let entries = scripts.unwrap() + 4 * WRITES as i64;
    assert_eq!(c.ask(&["XLEN", "s"]), Value::Int(entries));
}

fn keeping(folder: &Path, append_only: &str) -> Builder {
    builder()
        .option("dir", folder.to_str().unwrap())
        .option("appendonly", append_only)
}

#[test]
fn rules_outlive_restarts() {
    for append_only in ["no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let start = || -> (Server, Wire) {
            let server = keeping(folder.path(), append_only).spawn().unwrap();
            let mut c = Wire::open(&server);
            eventually(|| c.text("PING") == "PONG");
            (server, c)
        };
        let (server, mut c) = start();
        c.text("SELECT 3");
        assert_eq!(c.text("NOTIFY SET a STREAM s MATCH k* MAXAGE 100000"), "OK");
        c.text("SET k 1");
        // The snapshot of an empty keyspace also has the rules.
        c.text("FLUSHALL");
        c.text("SET k 1");
        c.send(&["SHUTDOWN SAVE"]);
        c.ends();
        drop(server);
        let (server, mut c) = start();
        c.text("SELECT 3");
        assert_eq!(entries(&mut c), ["set k"]);
        c.text("SET k 2");
        assert_eq!(entries(&mut c), ["set k", "set k"]);
        if append_only == "yes" {
            c.text("BGREWRITEAOF");
            eventually(|| {
                c.text("INFO persistence")
                    .contains("aof_rewrite_in_progress:0")
            });
            c.send(&["SHUTDOWN"]);
            c.ends();
            drop(server);
            let (_server, mut c) = start();
            c.text("SELECT 3");
            c.int("DEL k");
            assert_eq!(entries(&mut c), ["set k", "set k", "del k"]);
        }
    }
}

/// Redis ignores the rules of a snapshot and loads the stream.
#[test]
fn redis_loads_a_snapshot_with_rules() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping(folder.path(), "no").spawn().unwrap();
    let mut c = Wire::open(&server);
    c.text("NOTIFY SET all STREAM s");
    c.text("SET k 1");
    assert_eq!(c.text("SAVE"), "OK");
    let redis = Redis::start(&["--dir", folder.path().to_str().unwrap()]);
    let mut theirs = Wire::to(redis.port);
    eventually(|| theirs.text("PING") == "PONG");
    assert_eq!(entries(&mut theirs), ["set k"]);
}

#[test]
fn a_replica_gets_each_entry_once_and_continues_when_promoted() {
    let server = builder()
        .option("repl-diskless-sync-delay", "0")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.text("NOTIFY SET before STREAM s EVENTS $");
    c.text("SET a 1");
    let replica = follow(server.port(), builder().threads(2));
    let redis = follow_with_redis(server.port());
    let mut second = Wire::open(&replica);
    c.text("SET b 1 PX 20");
    eventually(|| c.int("EXISTS b") == 0);
    c.text("NOTIFY SET after STREAM s EVENTS g");
    c.int("DEL a");
    same_data(&mut c, &mut second);
    assert_eq!(entries(&mut second), ["set a", "set b", "del a"]);
    let mut theirs = Wire::to(redis.port);
    caught_up(&mut c, &mut theirs);
    assert_eq!(entries(&mut theirs), ["set a", "set b", "del a"]);
    assert_eq!(
        second.text("NOTIFY SET x STREAM s"),
        "READONLY You can't write against a read only replica."
    );
    assert_eq!(second.text("REPLICAOF NO ONE"), "OK");
    second.text("SET c 1");
    second.int("DEL c");
    assert_eq!(entries(&mut second)[3..], ["set c", "del c"]);
}

/// After a kill, either a key exists, or its entry in the stream: never both, and never neither.
#[test]
fn a_kill_separates_no_change_from_its_entry() {
    const KEYS: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap().to_owned();
    let options = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--dir",
        &dir,
    ];
    for _ in 0..4 {
        let mut process = Process::start(&options);
        let mut c = Wire::to(process.port);
        eventually(|| c.text("PING") == "PONG");
        c.text("FLUSHALL");
        c.text("NOTIFY SET gone STREAM s EVENTS x");
        let lines: Vec<String> = (0..KEYS)
            .map(|n| format!("SET k{n} v PX {}", 200 + n))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        c.expect(&lines, &"+OK|".repeat(KEYS));
        // The server is killed in the middle of the expiries.
        eventually(|| c.int("XLEN s") > 100);
        process.signal(Signal::KILL);
        process.wait_for_exit();
        let process = Process::start(&[&options[..], &["--clock", "virtual"]].concat());
        let mut c = Wire::to(process.port);
        eventually(|| c.text("PING") == "PONG");
        let gone = entries(&mut c).len();
        assert!(gone > 100);
        // Keys that became due meanwhile expire after the start, each with its entry.
        eventually(|| c.int("XLEN s") + c.int("DBSIZE") - 1 == KEYS as i64);
        let mut all = entries(&mut c);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len() as i64, c.int("XLEN s"), "none twice");
    }
}

/// The end of a lease changes the queue at its time. Its entry appears once, also if a server has
/// the queue's state from a log of changes.
#[test]
fn the_end_of_a_lease_has_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = keeping(folder.path(), "yes").virtual_clock();
        builder
            .option("repl-diskless-sync-delay", "0")
            .spawn()
            .unwrap()
    };
    let server = start();
    let mut c = Wire::open(&server);
    let replica = follow(server.port(), builder().virtual_clock());
    let mut second = Wire::open(&replica);
    c.text("NOTIFY SET r STREAM s EVENTS g MATCH q");
    c.text("JOB ADD q payload ID a LEASE 1000 RETRY 9 BACKOFF 500000 500000");
    c.text("JOB ADD q payload ID b DELAY 2000");
    c.run("JOB TAKE q");
    server.advance(Duration::from_secs(3)).unwrap();
    let all = ["jobadd q", "jobadd q", "jobready q", "jobready q"];
    assert_eq!(entries(&mut c), all);
    let state = |c: &mut Wire| ["a", "b"].map(|id| c.run(&format!("JOB GET q {id}")));
    let before = state(&mut c);
    same_data(&mut c, &mut second);
    second.text("REPLICAOF NO ONE");
    replica.advance(Duration::from_secs(3)).unwrap();
    assert_eq!(entries(&mut second), all);
    assert_eq!(state(&mut second), before);

    c.send(&["SHUTDOWN NOSAVE"]);
    c.ends();
    drop(server);
    let server = start();
    let mut c = Wire::open(&server);
    eventually(|| c.text("PING") == "PONG");
    server.advance(Duration::from_secs(3)).unwrap();
    assert_eq!(entries(&mut c), all);
    assert_eq!(state(&mut c), before);
    server.advance(Duration::from_secs(500)).unwrap();
    assert_eq!(entries(&mut c).len(), 5, "a is ready for its next attempt");
}
