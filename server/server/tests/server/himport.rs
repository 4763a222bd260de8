//! HIMPORT: fieldsets of a connection, and the hashes that are created from them.

use crate::waiters::with_threads;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually, show};
use punctual_server::Server;

/// Runs lines and compares their replies.
#[track_caller]
fn check(c: &mut Wire, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(show(c, line), *reply, "{line}");
    }
}

#[test]
fn hashes_are_created_from_values() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        check(
            &mut c,
            &[
                ("HIMPORT PREPARE u name email", "OK"),
                ("HIMPORT SET h u ann ann@example", "OK"),
                ("HGETALL h", "[name ann email ann@example]"),
                ("EXPIRE h 100", "1"),
                ("HEXPIRE h 100 FIELDS 1 name", "[1]"),
                ("HSET h more 1", "1"),
                // The hash is replaced, with its deadlines.
                ("HIMPORT SET h u bob bob@example", "OK"),
                ("HGETALL h", "[name bob email bob@example]"),
                ("TTL h", "-1"),
                ("HTTL h FIELDS 1 name", "[-1]"),
                ("HIMPORT PREPARE u a", "OK"),
                ("HIMPORT SET h u 1", "OK"),
                ("HGETALL h", "[a 1]"),
                (
                    "HIMPORT SET h u 1 2",
                    "ERR value count does not match the number of fields in the fieldset",
                ),
                ("HIMPORT PREPARE two a b a", "ERR duplicate field name"),
                ("HIMPORT SET h two 1 2 3", "ERR no such fieldset"),
                ("SET string v", "OK"),
                (
                    "HIMPORT SET string u 1",
                    "WRONGTYPE Operation against a key holding the wrong kind of value",
                ),
                ("HIMPORT PREPARE \"\" \"\" b", "OK"),
                ("HIMPORT SET h \"\" 1 2", "OK"),
                ("HGET h \"\"", "1"),
                ("HIMPORT DISCARD u", "1"),
                ("HIMPORT DISCARD u", "0"),
                ("HIMPORT SET h u 1", "ERR no such fieldset"),
                ("HIMPORT PREPARE v a", "OK"),
                ("HIMPORT DISCARDALL", "2"),
                ("HIMPORT DISCARDALL", "0"),
                (
                    "HIMPORT PREPARE v",
                    "ERR wrong number of arguments for 'himport|prepare' command",
                ),
                ("HIMPORT PREPARE v a", "OK"),
                ("RESET", "RESET"),
                ("HIMPORT SET h v 1", "ERR no such fieldset"),
            ],
        );
        let mut other = Wire::open(&server);
        c.run("HIMPORT PREPARE v a");
        assert_eq!(
            show(&mut other, "HIMPORT SET h v 1"),
            "ERR no such fieldset"
        );
    }
}

/// A script has no fieldsets but its own, and transactions use the client's.
#[test]
fn scripts_and_transactions_have_fieldsets() {
    let server = with_threads(3);
    let mut c = Wire::open(&server);
    let prepare = "redis.call('HIMPORT', 'PREPARE', 'f', 'a')";
    let set = "redis.call('HIMPORT', 'SET', KEYS[1], 'f', '1')";
    c.run("HIMPORT PREPARE f x y");
    c.ask(&["EVAL", prepare, "0"]);
    let reply = c.ask(&["EVAL", set, "1", "k"]);
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
    assert!(text.contains("no such fieldset"), "{text}");
    c.succeed(&["EVAL", &format!("{prepare} {set}"), "1", "k"]);
    check(
        &mut c,
        &[
            ("HGETALL k", "[a 1]"),
            ("MULTI", "OK"),
            ("HIMPORT PREPARE g a b", "QUEUED"),
            ("HIMPORT SET k f 1 2", "QUEUED"),
            ("HIMPORT SET l g 3 4", "QUEUED"),
            ("EXEC", "[OK OK OK]"),
            ("HGETALL k", "[x 1 y 2]"),
            ("HGETALL l", "[a 3 b 4]"),
        ],
    );
}

/// A client's memory contains its fieldsets, and its user needs permissions for commands and keys.
#[test]
fn clients_account_for_their_fieldsets() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    let memory = |c: &mut Wire| -> u64 {
        let line = c.text("CLIENT INFO");
        crate::wire::field(&line, "tot-mem").parse().unwrap()
    };
    let before = memory(&mut c);
    let field = "f".repeat(100_000);
    c.succeed(&["HIMPORT", "PREPARE", "big", &field]);
    assert!(memory(&mut c) >= before + 100_000);
    c.run("HIMPORT DISCARD big");
    assert!(memory(&mut c) < before + 100_000);
    c.run("ACL SETUSER ann on nopass ~a* resetchannels -@all +himport");
    check(
        &mut c,
        &[
            ("AUTH ann any", "OK"),
            ("HIMPORT PREPARE f x", "OK"),
            ("HIMPORT SET a f 1", "OK"),
            (
                "HIMPORT SET b f 1",
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
        ],
    );
}

/// The log has commands that every redis-server knows.
#[test]
fn a_stock_replica_gets_the_hashes() {
    let server = Server::builder().port(0).spawn().unwrap();
    let redis = Redis::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let (mut c, mut replica) = (Wire::open(&server), Wire::to(redis.port));
    eventually(|| {
        replica
            .text("INFO replication")
            .contains("master_link_status:up")
    });
    for line in [
        "HSET h old 1",
        "EXPIRE h 1000",
        "HIMPORT PREPARE f a b",
        "HIMPORT SET h f 1 2",
        "HIMPORT SET new f 3 4",
        "SET end 1",
    ] {
        c.run(line);
    }
    eventually(|| show(&mut replica, "GET end") == "1");
    check(
        &mut replica,
        &[
            ("HGETALL h", "[a 1 b 2]"),
            ("TTL h", "-1"),
            ("HGETALL new", "[a 3 b 4]"),
        ],
    );
}
