//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::{Open as _, Wire, configured, eventually, field, server_with};
use punctual_resp::Value;
use punctual_server::{Builder, Server};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Turn};

fn start() -> Server {
    with_threads("1")
}

fn with_threads(threads: &str) -> Server {
    builder(threads).spawn().unwrap()
}

fn builder(threads: &str) -> Builder {
    configured("clock virtual|enable-debug-command yes").option("threads", threads)
}

/// Returns the number of watches in the keyspace.
fn watches(server: &Server) -> usize {
    let shared = server.shared();
    Turn::new(&shared.store, Now::from_ms(0), &mut Silent, Classes::none()).watches()
}

#[test]
fn queued_commands_run_at_exec() {
    for threads in ["1", "4"] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        a.expect(
            &["MULTI", "SET k 1", "INCR k", "GET l", "INCR k x", "PING"],
            "+OK|+QUEUED|+QUEUED|+QUEUED|-ERR wrong number of arguments for 'incr' command|+QUEUED|",
        );
        a.expect(
            &["EXEC"],
            "-EXECABORT Transaction discarded because of previous errors.|",
        );
        b.expect(&["EXISTS k"], ":0|");
        a.expect(
            &[
                "MULTI", "SET k 1", "INCR k", "GET l", "SET l x", "INCR l", "PING",
            ],
            "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|",
        );
        b.expect(&["EXISTS k"], ":0|");
        a.expect(
            &["EXEC"],
            "*6|+OK|:2|$-1|+OK|-ERR value is not an integer or out of range|+PONG|",
        );
        b.expect(&["MGET k l"], "*2|$1|2|$1|x|");
        a.expect(
            &["MULTI", "EXEC", "EXEC"],
            "+OK|*0|-ERR EXEC without MULTI|",
        );
        a.expect(
            &["MULTI", "SET k 9", "DISCARD", "DISCARD", "GET k"],
            "+OK|+QUEUED|+OK|-ERR DISCARD without MULTI|$1|2|",
        );
    }
}

#[test]
fn errors_while_queueing_abort_the_transaction() {
    let server = start();
    let mut c = Wire::open(&server);
    let lost = "-EXECABORT Transaction discarded because of previous errors.|";
    for (line, error) in [
        (
            "NOSUCH",
            "-ERR unknown command 'NOSUCH', with args beginning with: |",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command|"),
        (
            "CLIENT NOSUCH",
            "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.|",
        ),
        ("SHUTDOWN", "-ERR Command not allowed inside a transaction|"),
    ] {
        c.expect(
            &["MULTI", line, "SET k v", "EXEC", "EXISTS k"],
            &format!("+OK|{error}+QUEUED|{lost}:0|"),
        );
    }
    // These errors do not abort the transaction.
    c.expect(
        &["MULTI", "MULTI", "WATCH k", "PING", "EXEC"],
        "+OK|-ERR MULTI calls can not be nested|-ERR WATCH inside MULTI is not allowed|+QUEUED|*1|+PONG|",
    );
    // An error in EXEC itself aborts the transaction.
    let wrong = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command|";
    c.expect(
        &["MULTI", "SET k v", "EXEC x", "EXEC", "EXISTS k"],
        &format!("+OK|+QUEUED|{wrong}-ERR EXEC without MULTI|:0|"),
    );
    c.expect(&["EXEC x"], wrong);
}

#[test]
fn authentication_is_required_before_multi() {
    let server = server_with("requirepass x");
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "MULTI", "EXEC", "AUTH x", "MULTI", "AUTH y", "AUTH x", "EXEC",
        ],
        "-NOAUTH Authentication required.|\
         -EXECABORT Transaction discarded because of: NOAUTH Authentication required.|\
         +OK|+OK|+QUEUED|+QUEUED|\
         *2|-WRONGPASS invalid username-password pair or user is disabled.|+OK|",
    );
}

#[test]
fn exec_fails_if_a_watched_key_has_changed() {
    for threads in ["1", "4"] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        a.expect(&["WATCH k l", "WATCH k m"], "+OK|+OK|");
        assert_eq!(watches(&server), 3);
        b.expect(&["SET l v"], "+OK|");
        a.expect(
            &["MULTI", "SET k v", "EXEC", "EXISTS k"],
            "+OK|+QUEUED|*-1|:0|",
        );
        assert_eq!(watches(&server), 0);
        a.expect(&["HELLO 3"], "%7|");
        while a.value() != Value::bulk("modules") {}
        a.receive("*0|");
        a.expect(&["WATCH k", "SET k v", "MULTI", "EXEC"], "+OK|+OK|+OK|_|");
        for end in ["UNWATCH", "DISCARD", "RESET", "EXEC"] {
            if end == "UNWATCH" {
                a.expect(
                    &["WATCH k", "SET k v", "UNWATCH", "MULTI"],
                    "+OK|+OK|+OK|+OK|",
                );
            } else if end == "RESET" {
                a.expect(
                    &["WATCH k", "SET k v", "MULTI", "RESET", "MULTI"],
                    "+OK|+OK|+OK|+RESET|+OK|",
                );
            } else if end == "DISCARD" {
                a.expect(
                    &["WATCH k", "SET k v", "MULTI", "DISCARD", "MULTI"],
                    "+OK|+OK|+OK|+OK|+OK|",
                );
            } else {
                a.expect(&["WATCH k", "GET k", "MULTI"], "+OK|$1|v|+OK|");
                b.expect(&["GET k"], "$1|v|");
            }
            assert_eq!(watches(&server), usize::from(end == "EXEC"), "{end}");
            a.expect(&["SET k v", "EXEC"], "+QUEUED|*1|+OK|");
            assert_eq!(watches(&server), 0, "{end}");
        }
    }
}

#[test]
fn execabort_takes_precedence_over_a_changed_key() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "WATCH k", "SET k v", "MULTI", "NOSUCH", "EXEC", "MULTI", "EXEC",
        ],
        "+OK|+OK|+OK|-ERR unknown command 'NOSUCH', with args beginning with: |\
         -EXECABORT Transaction discarded because of previous errors.|+OK|*0|",
    );
    assert_eq!(watches(&server), 0);
}

#[test]
fn a_watched_key_that_expires_has_changed() {
    let server = with_threads("2");
    let (mut a, mut clock) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["SET k v PX 50", "WATCH k"], "+OK|+OK|");
    clock.int("CLOCK ADVANCE 49");
    a.expect(
        &["MULTI", "PING", "EXEC", "WATCH k"],
        "+OK|+QUEUED|*1|+PONG|+OK|",
    );
    clock.int("CLOCK ADVANCE 1");
    a.expect(&["MULTI", "PING", "EXEC"], "+OK|+QUEUED|*-1|");
    // The same applies to a key that is due but not yet removed.
    a.expect(
        &["DEBUG SET-ACTIVE-EXPIRE 0", "SET k v PX 50", "WATCH k"],
        "+OK|+OK|+OK|",
    );
    clock.int("CLOCK ADVANCE 50");
    a.expect(&["MULTI", "PING", "EXEC"], "+OK|+QUEUED|*-1|");
    // The key was due when the watch began, so its removal is no change.
    a.expect(
        &["WATCH k", "GET k", "MULTI", "PING", "EXEC"],
        "+OK|$-1|+OK|+QUEUED|*1|+PONG|",
    );
}

#[test]
fn a_disconnected_client_leaves_no_watch() {
    let server = with_threads("2");
    let mut others: Vec<Wire> = (0..20).map(|_| Wire::open(&server)).collect();
    for (n, c) in others.iter_mut().enumerate() {
        c.expect(
            &[&format!("WATCH k own:{n}"), "MULTI", "SET k v"],
            "+OK|+OK|+QUEUED|",
        );
    }
    assert_eq!(watches(&server), 40);
    let mut killer = Wire::open(&server);
    drop(others.split_off(10));
    eventually(|| watches(&server) == 20);
    assert_eq!(killer.int("CLIENT KILL TYPE normal"), 10);
    eventually(|| watches(&server) == 0);
    killer.expect(&["EXISTS k"], ":0|");
}

#[test]
fn databases_and_flushes() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["SELECT 1", "WATCH k", "SELECT 2"], "+OK|+OK|+OK|");
    b.expect(
        &["SET k v", "FLUSHALL", "SELECT 2", "SET k v"],
        "+OK|+OK|+OK|+OK|",
    );
    a.expect(
        &["MULTI", "SELECT 3", "SET k v", "DBSIZE", "EXEC", "DBSIZE"],
        "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|:1|:1|",
    );
    a.expect(&["WATCH k"], "+OK|");
    b.expect(&["SWAPDB 3 4"], "+OK|");
    a.expect(&["MULTI", "EXEC"], "+OK|*-1|");
    a.expect(&["SELECT 4", "WATCH k"], "+OK|+OK|");
    b.expect(&["FLUSHALL"], "+OK|");
    a.expect(&["MULTI", "EXEC"], "+OK|*-1|");
}

#[test]
fn every_kind_of_command_can_be_queued() {
    for threads in ["1", "4"] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(threads)
            .option("dir", folder.path().to_str().unwrap())
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        c.expect(&["SET a 1", "SET b 2 PX 100"], "+OK|+OK|");
        let lines = [
            "MULTI",
            "DBSIZE",
            "INFO keyspace",
            "SCAN 0",
            "RANDOMKEY",
            "KEYS *",
            "DEBUG SLEEP 0",
            "DEBUG RELOAD",
            "MEMORY STATS",
            "MEMORY USAGE a",
            "CONFIG SET maxclients 100",
            "CLOCK ADVANCE 100",
            "DBSIZE",
            "RENAME a c",
            "SWAPDB 0 1",
            "MGET a b c",
            "SELECT 1",
            "MGET a b c",
            "OBJECT ENCODING c",
            "CLIENT LIST",
            "COMMAND COUNT",
            "FLUSHALL",
            "SUBSCRIBE ch",
            "PUBLISH ch m",
            "UNSUBSCRIBE ch",
            "DBSIZE",
            "RPUSH l 3 1 2",
            "SORT l BY w:* GET v:* STORE sorted",
            "SORT_RO l BY nosort GET #",
            "DEL l sorted",
        ];
        c.send(&lines);
        c.receive("+OK|");
        for _ in 1..lines.len() {
            c.receive("+QUEUED|");
        }
        c.send(&["EXEC"]);
        let reply = c.value();
        let replies = reply.as_slice().unwrap_or_else(|| panic!("{reply:?}"));
        // The reply of SUBSCRIBE is a separate push in RESP3, and an element of the array in RESP2.
        assert_eq!(replies.len(), lines.len() - 1);
        assert_eq!(replies[0].as_int(), Some(2));
        assert_eq!(
            replies[2].as_slice().unwrap()[1].as_slice().unwrap().len(),
            2
        );
        assert_eq!(
            replies[11].as_int(),
            Some(1),
            "CLOCK ADVANCE expires one key"
        );
        assert_eq!(replies[16].as_slice().unwrap()[2], Value::bulk("1"));
        assert!(replies[..21].iter().all(|r| !r.is_error()), "{replies:?}");
        drop(c);
        Wire::open(&server).expect(&["DBSIZE"], ":0|");
    }
}

#[test]
fn reply_modes() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "MULTI",
            "CLIENT REPLY OFF",
            "PING",
            "CLIENT REPLY ON",
            "EXEC",
            "PING",
        ],
        "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+PONG|",
    );
    c.expect(
        &[
            "CLIENT REPLY OFF",
            "MULTI",
            "SET k v",
            "EXEC",
            "CLIENT REPLY ON",
            "GET k",
        ],
        "+OK|$1|v|",
    );
    c.expect(
        &[
            "MULTI",
            "CLIENT REPLY SKIP",
            "PING",
            "EXEC",
            "PING",
            "ECHO b",
        ],
        "+OK|+QUEUED|+QUEUED|*2|+PONG|$1|b|",
    );
    c.expect(
        &["MULTI", "PING", "CLIENT REPLY SKIP"],
        "+OK|+QUEUED|+QUEUED|",
    );
    c.send(&["DISCARD", "CLIENT REPLY SKIP", "MULTI", "PING", "EXEC"]);
    c.receive("+OK|+QUEUED|*1|+PONG|");
}

#[test]
fn a_pause_of_writes_delays_an_exec_that_writes() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["MULTI", "SET k v"], "+OK|+QUEUED|");
    let mut reader = Wire::open(&server);
    reader.expect(&["MULTI", "GET k"], "+OK|+QUEUED|");
    b.expect(&["CLIENT PAUSE 100000 WRITE"], "+OK|");
    reader.expect(&["EXEC"], "*1|$-1|");
    a.send(&["EXEC"]);
    a.expect_silence();
    b.expect(&["CLIENT UNPAUSE"], "+OK|");
    a.receive("*1|+OK|");
}

#[test]
fn monitors_see_queued_commands_at_exec() {
    let server = start();
    let (mut a, mut m) = (Wire::open(&server), Wire::open(&server));
    m.expect(&["MONITOR"], "+OK|");
    let mut shown = |count: usize| -> Vec<String> {
        let lines = (0..count).map(|_| m.value());
        lines
            .map(|line| {
                let line = String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned();
                line.split_once("] ").unwrap().1.to_owned()
            })
            .collect()
    };
    a.expect(&["MULTI", "SET k v", "PING"], "+OK|+QUEUED|+QUEUED|");
    assert_eq!(shown(1), ["\"MULTI\""]);
    a.expect(&["EXEC"], "*2|+OK|+PONG|");
    assert_eq!(shown(3), ["\"SET\" \"k\" \"v\"", "\"PING\"", "\"EXEC\""]);
    a.send(&["MULTI", "EXEC x", "WATCH k", "MULTI", "MONITOR", "EXEC"]);
    assert_eq!(
        shown(5),
        [
            "\"MULTI\"",
            "\"EXEC\" \"x\"",
            "\"WATCH\" \"k\"",
            "\"MULTI\"",
            "\"EXEC\""
        ]
    );
}

#[test]
fn monitor_is_refused_in_transactions() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &["MULTI", "MONITOR", "EXEC"],
        "+OK|+QUEUED|*1|-ERR MONITOR isn't allowed for DENY BLOCKING client|",
    );
}

#[test]
fn client_list_shows_transactions() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    let id = a.int("CLIENT ID");
    let mut line = move || b.text(&format!("CLIENT LIST ID {id}"));
    a.expect(
        &["WATCH k l", "MULTI", "SET k v", "GET k"],
        "+OK|+OK|+QUEUED|+QUEUED|",
    );
    let seen = line();
    assert_eq!((field(&seen, "multi"), field(&seen, "flags")), ("2", "x"));
    assert_eq!(field(&seen, "multi-mem"), "49");
    let mut other = Wire::open(&server);
    other.expect(&["SET l v"], "+OK|");
    assert_eq!(field(&line(), "flags"), "xd");
    a.expect(&["EXEC"], "*-1|");
    let seen = line();
    assert_eq!((field(&seen, "multi"), field(&seen, "flags")), ("-1", "N"));
    assert_eq!(field(&seen, "multi-mem"), "0");
    // During EXEC, CLIENT INFO still shows the transaction.
    a.expect(&["MULTI", "CLIENT INFO"], "+OK|+QUEUED|");
    a.send(&["EXEC"]);
    let reply = a.value();
    let text =
        String::from_utf8_lossy(reply.as_slice().unwrap()[0].as_bytes().unwrap()).into_owned();
    assert_eq!((field(&text, "multi"), field(&text, "flags")), ("1", "x"));
    let stats = a.text("INFO commandstats");
    assert!(stats.contains("cmdstat_exec:calls=2,"), "{stats}");
    assert!(stats.contains("cmdstat_client|info:calls=1,"), "{stats}");
    assert!(!stats.contains("cmdstat_get"), "{stats}");
}

#[test]
fn queued_commands_have_a_size_limit() {
    let server = server_with("client-query-buffer-limit 1mb");
    let mut c = Wire::open(&server);
    c.expect(&["MULTI"], "+OK|");
    let value = "v".repeat(60_000);
    for _ in 0..17 {
        c.expect(&[&format!("SET k {value}")], "+QUEUED|");
    }
    c.send(&[&format!("SET k {value}")]);
    c.ends();
    Wire::open(&server).expect(&["EXISTS k"], ":0|");
}

/// Transactions move amounts between keys of many shards. A read of all keys always returns the
/// same sum.
#[test]
fn transactions_are_isolated() {
    const KEYS: usize = 12;
    let server = with_threads("4");
    let keys: Vec<String> = (0..KEYS).map(|n| format!("account:{n}")).collect();
    let mut setup = Wire::open(&server);
    for key in &keys {
        setup.expect(&[&format!("SET {key} 1000")], "+OK|");
    }
    let read_all = format!("MGET {}", keys.join(" "));
    let sum = |value: &Value| -> i64 {
        let amounts = value.as_slice().unwrap().iter();
        amounts
            .map(|v| {
                std::str::from_utf8(v.as_bytes().unwrap())
                    .unwrap()
                    .parse::<i64>()
                    .unwrap()
            })
            .sum()
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..8_usize)
            .map(|mover| {
                let (keys, server) = (&keys, &server);
                scope.spawn(move || {
                    let mut c = Wire::open(server);
                    let mut failed = 0;
                    for round in 0..150_usize {
                        let from = &keys[(mover * 5 + round * 7) % KEYS];
                        let to = &keys[(mover * 3 + round * 11 + 1) % KEYS];
                        let amount = round % 13;
                        if mover % 2 == 0 {
                            // WATCH protects the value that was read.
                            c.expect(&[&format!("WATCH {from}")], "+OK|");
                            let has: i64 = c.text(&format!("GET {from}")).parse().unwrap();
                            c.send(&[
                                "MULTI",
                                &format!("SET {from} {}", has - amount as i64),
                                &format!("INCRBY {to} {amount}"),
                                "EXEC",
                            ]);
                            c.receive("+OK|+QUEUED|+QUEUED|");
                            let reply = c.value();
                            if from == to && reply.as_slice().is_some() {
                                // SET and INCRBY of the same key cancel out, so the sum does not
                                // change.
                                continue;
                            }
                            failed += usize::from(reply.as_slice().is_none());
                        } else {
                            c.send(&[
                                "MULTI",
                                &format!("DECRBY {from} {amount}"),
                                &format!("INCRBY {to} {amount}"),
                                "EXEC",
                            ]);
                            c.receive("+OK|+QUEUED|+QUEUED|*2|");
                            c.value();
                            c.value();
                        }
                    }
                    failed
                })
            })
            .collect();
        for way in 0..2 {
            let (done, read_all, server) = (&done, &read_all, &server);
            scope.spawn(move || {
                let mut c = Wire::open(server);
                while !done.load(Ordering::Relaxed) {
                    let value = if way == 0 {
                        c.send(&[read_all]);
                        c.value()
                    } else {
                        c.send(&["MULTI", "SCAN 0", read_all, "EXEC"]);
                        c.receive("+OK|+QUEUED|+QUEUED|");
                        c.value().as_slice().unwrap()[1].clone()
                    };
                    assert_eq!(sum(&value), 1000 * KEYS as i64);
                }
            });
        }
        let failed: Vec<usize> = movers.into_iter().map(|m| m.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(
            failed.iter().all(|f| *f < 150),
            "a mover never succeeded: {failed:?}"
        );
    });
    assert_eq!(watches(&server), 0);
}
