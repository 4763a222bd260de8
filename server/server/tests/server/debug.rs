//! DEBUG and SHUTDOWN.

use crate::process::{Process, Start as _};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};
use punctual_server::{Builder, Server};

fn debuggable() -> Builder {
    configured("enable-debug-command local")
}

#[test]
fn debug_is_refused_unless_enabled() {
    const REFUSAL: &str = "DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    let server = Server::builder().port(0).spawn().unwrap();
    Wire::open(&server).expect_error("DEBUG SLEEP 0", REFUSAL);
    Wire::open(&server).expect_error("CONFIG SET enable-debug-command yes", "CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config");
    for permission in ["local", "yes"] {
        let server = Server::builder()
            .port(0)
            .option("enable-debug-command", permission)
            .spawn()
            .unwrap();
        Wire::open(&server).expect(&["DEBUG SLEEP 0"], "+OK|");
    }
}

/// Both servers give equal replies to the same lines, in RESP2 and RESP3.
#[test]
fn replies_and_errors_match_redis() {
    let redis = Redis::start(&["--enable-debug-command", "yes"]);
    let server = debuggable().spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    let types = [
        "string", "integer", "double", "bignum", "null", "array", "set", "map", "attrib", "push",
        "verbatim", "true", "false", "nosuch",
    ];
    for protocol in ["2", "3"] {
        for c in [&mut theirs, &mut ours] {
            c.ask(&["HELLO", protocol]);
        }
        let mut lines: Vec<String> = types
            .iter()
            .map(|t| format!("DEBUG PROTOCOL {t}"))
            .collect();
        lines.extend(
            [
                "DEBUG PROTOCOL",
                "DEBUG",
                "DEBUG NOSUCH",
                "DEBUG SLEEP",
                "DEBUG SLEEP x",
                "DEBUG SLEEP -1",
                "DEBUG SLEEP nan",
                "DEBUG SET-ACTIVE-EXPIRE",
                "DEBUG SET-ACTIVE-EXPIRE 0",
                "DEBUG SET-ACTIVE-EXPIRE 1",
                "DEBUG ERROR",
                "DEBUG ERROR word",
                "DEBUG ERROR \"TWO words\"",
                "DEBUG LOG x",
                "DEBUG OBJECT",
                "DEBUG OBJECT nosuch",
                "DEBUG RELOAD nosuch",
                "DEBUG HTSTATS 99",
                "DEBUG POPULATE 10 p 20",
                "DBSIZE",
                "STRLEN p:3",
                "GET p:9",
                "DEBUG POPULATE 3",
                "GET key:2",
                "FLUSHALL",
                "SLOWLOG GET x",
                "SLOWLOG GET -2",
                "SLOWLOG GET 1 2",
                "SLOWLOG LEN",
                "SLOWLOG NOSUCH",
                "SLOWLOG RESET",
                "LATENCY GRAPH",
                "LATENCY GRAPH x",
                "LATENCY HISTORY x",
                "LATENCY LATEST",
                "LATENCY RESET a b",
                "LATENCY HISTOGRAM nosuch",
                "MEMORY PURGE",
                "MEMORY NOSUCH",
                "MONITOR x",
                "SHUTDOWN NOSUCH",
                "SHUTDOWN SAVE NOSAVE",
                "SHUTDOWN ABORT",
                "SHUTDOWN ABORT NOW",
                "SHUTDOWN NOW ABORT",
            ]
            .map(str::to_owned),
        );
        for line in lines {
            ours.send(&[&line]);
            theirs.send(&[&line]);
            assert_eq!(ours.value(), theirs.value(), "RESP{protocol} {line}");
            if protocol == "3" && line.ends_with(" push") {
                // A reply follows the push.
                assert_eq!(ours.value(), theirs.value(), "RESP{protocol} {line}");
            }
        }
    }
    // The address and the clocks differ, so only the length and the range of the idle time are
    // checked.
    for (value, length) in [("7", 2), ("-30000", 3), ("100000", 5), ("abc", 4)] {
        for c in [&mut theirs, &mut ours] {
            assert_eq!(c.text(&format!("SET k {value}")), "OK");
            let line = c.text("DEBUG OBJECT k");
            assert!(
                line.starts_with("Value at:0x")
                    && line.contains(&format!(" serializedlength:{length} lru:")),
                "{line}"
            );
            let (_, idle) = line.rsplit_once(" lru_seconds_idle:").unwrap();
            assert!(idle.parse::<u64>().unwrap() < 60, "{line}");
        }
    }
}

/// CHECK replies OK while clients wait, watch, track, subscribe and use collections with deadlines.
#[test]
fn the_data_agree_with_indexes_and_counters() {
    for threads in [1, 3] {
        let server = debuggable().threads(threads).spawn().unwrap();
        let (mut waits, mut c) = (Wire::open(&server), Wire::open(&server));
        waits.send(&["BLPOP list other 0"]);
        c.run("HELLO 3");
        for line in [
            "CLIENT TRACKING ON",
            "SET k v PX 100000",
            "GET k",
            "WATCH k list",
            "HSET h f 1 g 2",
            "HPEXPIRE h 50000 FIELDS 1 f",
            "ZADD z 1 a 2 b",
            "XADD s * f 1",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "JOB ADD q p DELAY 1000",
            "TIMER SET t IN 100000 DO INCR n",
        ] {
            c.run(line);
        }
        let mut other = Wire::open(&server);
        let mut subscriber = Wire::open(&server);
        subscriber.run("SUBSCRIBE channel");
        other.expect(&["DEBUG CHECK"], "+OK|");
        other.expect(&["DEL k h z s t", "DEBUG CHECK"], ":5|+OK|");
        other.expect(&["RPUSH list 1", "FLUSHALL", "DEBUG CHECK"], ":1|+OK|+OK|");
        assert_eq!(server.shared().clients.registry.connected(), 4);
    }
}

#[test]
fn a_sleeping_loop_does_not_block_other_loops() {
    // A child process, which can be killed while it sleeps.
    let server = Process::start(&["--threads", "2", "--enable-debug-command", "local"]);
    let mut clients: Vec<Wire> = (0..2).map(|_| Wire::to(server.port)).collect();
    // One client on each loop.
    clients[1].expect(&["PING"], "+PONG|");
    clients[0].expect(&["SET k v"], "+OK|");
    clients[0].send(&["SET k w", "DEBUG SLEEP 3600"]);
    eventually(|| clients[1].text("GET k") == "w");
    clients[1].expect(&["SET k x", "DBSIZE"], "+OK|:1|");
    clients[0].expect_silence();
}

#[test]
fn keys_expire_during_a_sleep() {
    let server = debuggable().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["SET k v PX 20", "DEBUG SLEEP 0.03", "GET k"],
        "+OK|+OK|$-1|",
    );
}

#[test]
fn a_reload_keeps_keys_that_are_not_due() {
    let folder = tempfile::tempdir().unwrap();
    let server = debuggable()
        .virtual_clock()
        .threads(2)
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["DEBUG SET-ACTIVE-EXPIRE 0"], "+OK|");
    for n in 0..200 {
        c.expect(&[&format!("SET {n} {n} PX {}", 1 + n)], "+OK|");
    }
    c.int("CLOCK ADVANCE 100");
    c.expect(
        &["DEBUG RELOAD", "DBSIZE", "GET 100", "PTTL 100", "GET 99"],
        "+OK|:100|$3|100|:1|$-1|",
    );
    c.expect(&["DEBUG SET-ACTIVE-EXPIRE 1"], "+OK|");
    c.int("CLOCK ADVANCE 50");
    c.expect(&["DBSIZE"], ":50|");
    let stats = c.text("DEBUG HTSTATS 0");
    let (table, wheel) = stats.split_once("[Wheel]\n").unwrap();
    let sum = |text: &str, name: &str| -> usize {
        text.split_whitespace()
            .filter_map(|w| w.strip_prefix(name)?.parse::<usize>().ok())
            .sum()
    };
    assert_eq!((sum(table, "keys:"), sum(wheel, "deadlines:")), (50, 50));
}

#[test]
fn shutdown_closes_every_connection() {
    for line in [
        "SHUTDOWN",
        "SHUTDOWN NOSAVE",
        "shutdown nosave now force",
        "SHUTDOWN SAVE FORCE",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = configured("threads 2")
            .option("dir", folder.path().to_str().unwrap())
            .spawn()
            .unwrap();
        let mut others: Vec<Wire> = (0..3).map(|_| Wire::open(&server)).collect();
        others[0].expect(&["SET k v"], "+OK|");
        let mut c = Wire::open(&server);
        c.expect(&["PING", line, "PING"], "+PONG|");
        assert_eq!(c.ends(), 0, "no reply, and no later command runs");
        for other in &mut others {
            assert_eq!(other.ends(), 0);
        }
        let port = server.port();
        server.join();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder()
        .port(0)
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    drop(folder);
    let mut c = Wire::open(&server);
    c.expect(
        &["SHUTDOWN SAVE", "PING"],
        "-ERR Errors trying to SHUTDOWN. Check logs.|+PONG|",
    );
}
