//! Comparison with a transcript of redis-server, and tests that move the clock.

use crate::command::testing::Fixture;
use crate::time::Now;

#[test]
fn replies_and_events_match_redis() {
    for shards in [1, 16] {
        Fixture::sharded(shards).replay(include_str!("transcript.txt"));
    }
}

#[test]
fn missing_strings_are_null_in_resp3() {
    let mut fixture = Fixture::resp3();
    assert_eq!(fixture.run("GET k"), "_");
    assert_eq!(fixture.run("SET k v XX"), "_");
    assert_eq!(fixture.run("SET k v GET"), "_");
    assert_eq!(fixture.run("GETDEL nokey"), "_");
    assert_eq!(fixture.run("GETEX nokey"), "_");
    assert_eq!(fixture.run("MGET k nokey"), "*2 $1 v _");
    assert_eq!(
        fixture.run("LCS k k IDX"),
        "%2 $7 matches *1 *2 *2 :0 :0 *2 :0 :0 $3 len :1"
    );
}

#[test]
fn a_relative_time_does_not_expire_early() {
    let mut fixture = Fixture::new();
    fixture.now = Now::from_micros(1_000_000_400);
    assert_eq!(fixture.run("SET k v PX 100"), "+OK");
    fixture.now = Now::from_micros(1_000_100_999);
    assert_eq!(
        fixture.run("GET k"),
        "$1 v",
        "fewer than 100 whole milliseconds have passed"
    );
    fixture.now = Now::from_micros(1_000_101_000);
    fixture.events();
    assert_eq!(fixture.run("GET k"), "$-1");
    assert_eq!(fixture.events(), "expired k, keymiss k");
    assert_eq!(fixture.last_values(), ["k=v at 1000101"]);
    assert_eq!(fixture.stats.expired_on_touch, 1);
}

#[test]
fn set_with_a_deadline_in_the_past_expires_at_once() {
    let mut fixture = Fixture::new();
    for line in ["SET k v PXAT 999999", "SET k v EXAT 1000"] {
        assert_eq!(fixture.run(line), "+OK");
        assert_eq!(fixture.events(), "new k, set k, expire k");
        fixture.expire();
        assert_eq!(fixture.events(), "expired k");
        assert_eq!(fixture.run("GET k"), "$-1");
        fixture.events();
    }
}

#[test]
fn getex_with_a_deadline_in_the_past_deletes() {
    let mut fixture = Fixture::new();
    for (line, event) in [
        ("GETEX k PXAT 1000000", "del k"),
        ("GETEX k EXAT 1000", "del k"),
        ("GETEX k PXAT 1000001", "expire k"),
        ("GETEX k PX 1", "expire k"),
    ] {
        fixture.run("SET k v");
        fixture.events();
        assert_eq!(fixture.run(line), "$1 v");
        assert_eq!(fixture.events(), event, "{line}");
    }
    assert_eq!(fixture.run("PTTL k"), ":1");
    fixture.advance(1);
    fixture.expire();
    assert_eq!(fixture.events(), "expired k");
}

/// Every command treats a due key as missing, even if the wheel has not expired it yet.
#[test]
fn due_keys_are_missing_for_every_command() {
    for (line, reply, events) in [
        ("GET k", "$-1", "expired k, keymiss k"),
        ("MGET k", "*1 $-1", "expired k, keymiss k"),
        ("STRLEN k", ":0", "expired k, keymiss k"),
        ("GETRANGE k 0 -1", "$0", "expired k, keymiss k"),
        ("GETDEL k", "$-1", "expired k, keymiss k"),
        ("GETEX k PERSIST", "$-1", "expired k, keymiss k"),
        ("GETSET k w", "$-1", "expired k, keymiss k, new k, set k"),
        ("SET k w", "+OK", "expired k, new k, set k"),
        ("SET k w KEEPTTL", "+OK", "expired k, new k, set k"),
        ("SET k w XX", "$-1", "expired k"),
        ("SET k w NX", "+OK", "expired k, new k, set k"),
        ("SETNX k w", ":1", "expired k, new k, set k"),
        (
            "MSETNX k w l w",
            ":1",
            "expired k, new k, set k, new l, set l",
        ),
        ("APPEND k w", ":1", "expired k, new k, append k"),
        ("SETRANGE k 1 w", ":2", "expired k, new k, setrange k"),
        ("INCR k", ":1", "expired k, new k, incrby k"),
        ("INCRBYFLOAT k 2", "$1 2", "expired k, new k, incrbyfloat k"),
        ("LCS k k LEN", ":0", "expired k, keymiss k, keymiss k"),
    ] {
        let mut fixture = Fixture::new();
        fixture.run("SET k 7 PX 10");
        fixture.advance(10);
        fixture.events();
        assert_eq!(fixture.run(line).trim_end(), reply, "{line}");
        assert_eq!(fixture.events(), events, "{line}");
        // The deadline is removed with the old key.
        assert!(matches!(&*fixture.run("PTTL k"), ":-1" | ":-2"), "{line}");
        fixture.advance(1_000_000);
        fixture.expire();
        assert_eq!(fixture.stats.expired, 1, "{line}");
    }
}

#[test]
fn writes_keep_clear_or_replace_the_deadline() {
    for (line, pttl) in [
        ("SET k 8", -1),
        ("SET k 8 KEEPTTL", 100),
        ("SET k 8 XX GET KEEPTTL", 100),
        ("SET k 8 NX", 100),
        ("SET k 8 PX 5", 5),
        ("SET k 8 PXAT 1000007", 7),
        ("GETSET k 8", -1),
        ("SETNX k 8", 100),
        ("MSET k 8", -1),
        ("MSETNX k 8 l 8", 100),
        ("SETEX k 1 8", 1000),
        ("PSETEX k 900 8", 900),
        ("APPEND k 8", 100),
        ("SETRANGE k 1 8", 100),
        ("INCR k", 100),
        ("DECRBY k 5", 100),
        ("INCRBYFLOAT k 0.5", 100),
        ("GETEX k", 100),
        ("GETEX k PERSIST", -1),
        ("GETEX k EX 3", 3000),
        ("GET k", 100),
    ] {
        let mut fixture = Fixture::new();
        fixture.run("SET k 7 PX 100");
        fixture.run(line);
        assert_eq!(fixture.run("PTTL k"), format!(":{pttl}"), "{line}");
        fixture.advance(1_000_000);
        fixture.expire();
        assert_eq!(
            fixture.run("EXISTS k"),
            format!(":{}", i32::from(pttl < 0)),
            "{line}"
        );
    }
}

#[test]
fn hits_misses_and_changes_are_counted() {
    let mut fixture = Fixture::new();
    for line in [
        "SET k 1",
        "INCR k",
        "APPEND k 1",
        "SETRANGE k 0 1",
        "MSET k 1 l 2",
        "SET k 1 NX",
        "GETEX k",
    ] {
        fixture.run(line);
    }
    let stats = fixture.stats;
    assert_eq!(
        (stats.hits, stats.misses, stats.dirty),
        (1, 0, 6),
        "of these commands only GETEX counts a hit"
    );
    for line in [
        "GET k",
        "MGET k x",
        "STRLEN x",
        "LCS k x",
        "SET k 1 GET",
        "GETSET k 2",
        "GETDEL k",
        "GETDEL k",
    ] {
        fixture.run(line);
    }
    let stats = fixture.stats;
    assert_eq!((stats.hits, stats.misses, stats.dirty), (7, 4, 9));
}

#[test]
fn strings_are_limited_by_proto_max_bulk_len() {
    let mut fixture = Fixture::new();
    fixture.store.set_string_max(10);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(fixture.run("SETRANGE k 10 x"), too_long);
    assert_eq!(fixture.run("SETRANGE k 9 x"), ":10");
    assert_eq!(fixture.run("APPEND k x"), too_long);
    assert_eq!(fixture.run("APPEND k \"\""), ":10");
    assert_eq!(fixture.run("SETRANGE k 5 123456"), too_long);
    assert_eq!(fixture.run("SETRANGE k 5 12345"), ":10");
    assert_eq!(fixture.run("STRLEN k"), ":10");
    let memory = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    assert_eq!(fixture.run("LCS k k LEN"), memory);
    fixture.store.set_string_max(11 * 11 * 4);
    assert_eq!(fixture.run("LCS k k LEN"), ":10");
    fixture.store.set_string_max(11 * 11 * 4 - 1);
    assert_eq!(fixture.run("LCS k k LEN"), memory);
}

#[test]
fn values_hold_any_bytes() {
    let mut fixture = Fixture::new();
    let every: Vec<u8> = (0..=255).collect();
    for len in [0, 1, 18, 19, 44, 45, 256] {
        let bytes = &every[..len];
        assert_eq!(fixture.run_words(&[b"SET".as_slice(), b"k", bytes]), "+OK");
        let args: punctual_resp::OwnedArgs = ["GET", "k"].into_iter().collect();
        let mut expected = format!("${len}\r\n").into_bytes();
        expected.extend_from_slice(bytes);
        expected.extend_from_slice(b"\r\n");
        assert_eq!(fixture.reply(args.as_args()), expected);
    }
}

#[test]
fn values_and_digests_are_compared() {
    const HELLO: &str = "b6acb9d84a38ff74";
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("DIGEST k", "$-1"),
        ("SET k 1 IFEQ 1", "$-1"),
        ("SET k 1 ifne 1", "+OK"),
        ("SET k 2 IFEQ 1 PX 1000", "+OK"),
        ("SET k 3 IFEQ 1", "$-1"),
        ("SET k 3 IFNE 2 GET", "$1 2"),
        ("SET k 3 IFEQ 2 KEEPTTL GET", "$1 2"),
        ("PTTL k", ":1000"),
        ("SET k 4 NX IFEQ 3", "-ERR syntax error"),
        ("SET k 4 IFEQ 3 XX", "-ERR syntax error"),
        ("SET k 4 IFEQ 3 IFNE 3", "-ERR syntax error"),
        ("SET k 4 IFEQ", "-ERR syntax error"),
        (
            "SET k 4 IFDEQ 12",
            "-ERR must be exactly 16 hexadecimal characters",
        ),
        ("DELEX k IFEQ 4", ":0"),
        ("DELEX k IFNE 3", ":0"),
        ("DELEX k IFEQ 3", ":1"),
        ("DELEX k IFNE 3", ":0"),
        ("DELEX k", ":0"),
        (
            "DELEX k IFEQ",
            "-ERR wrong number of arguments for 'delex' command",
        ),
        (
            "DELEX k EQ 1",
            "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
        ),
        ("RPUSH l a", ":1"),
        (
            "DELEX l IFNE a",
            "-ERR Key should be of string type if conditions are specified",
        ),
        (
            "SET l a IFNE a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "DIGEST l",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("DELEX l", ":1"),
    ]);
    fixture.run_words(&["SET", "k", "Hello world"]);
    assert_eq!(fixture.run("DIGEST k"), format!("$16 {HELLO}"));
    assert_eq!(fixture.run(&format!("SET k 1 IFDNE {HELLO}")), "$-1");
    let upper = HELLO.to_uppercase();
    assert_eq!(fixture.run(&format!("SET k 1 IFDEQ {upper}")), "+OK");
    assert_eq!(fixture.run(&format!("DELEX k IFDEQ {HELLO}")), ":0");
    assert_eq!(fixture.run(&format!("DELEX k IFDNE {HELLO}")), ":1");
}

#[test]
fn msetex_sets_all_keys_or_none() {
    for shards in [1, 4] {
        let mut fixture = Fixture::sharded(shards);
        fixture.expect(&[
            ("MSETEX 2 a 1 b 2", ":1"),
            ("MSETEX 2 a 3 c 3 NX", ":0"),
            ("MSETEX 2 a 3 c 3 XX PX 10", ":0"),
            ("MSETEX 2 c 3 d 4 nx PX 1000", ":1"),
            ("MGET a b c d", "*4 $1 1 $1 2 $1 3 $1 4"),
            ("PTTL a", ":-1"),
            ("PTTL d", ":1000"),
            ("MSETEX 2 c 5 b 5 KEEPTTL XX", ":1"),
            ("PTTL c", ":1000"),
            ("PTTL b", ":-1"),
            ("MSETEX 2 c 5 c 6", ":1"),
            ("PTTL c", ":-1"),
            ("GET c", "$1 6"),
            ("MSETEX 0 a 1", "-ERR invalid numkeys value"),
            ("MSETEX a a 1", "-ERR invalid numkeys value"),
            ("MSETEX 2147483648 a 1", "-ERR invalid numkeys value"),
            ("MSETEX 2 a 1 b", "-ERR wrong number of key-value pairs"),
            (
                "MSETEX 1 a 1 EX 0",
                "-ERR invalid expire time in 'msetex' command",
            ),
            ("MSETEX 1 a 1 NX XX", "-ERR syntax error"),
            ("MSETEX 1 a 1 GET", "-ERR syntax error"),
            ("MSETEX 1 a 1 IFEQ 1", "-ERR syntax error"),
            ("MSETEX 1 a 1 b", "-ERR syntax error"),
        ]);
    }
}

#[test]
fn increx_adds_within_bounds() {
    const MAX: &str = "9223372036854775807";
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("INCREX k", "*2 :1 :1"),
        ("INCREX k BYINT -3", "*2 :-2 :-3"),
        ("INCREX k BYINT 5 UBOUND 2", "*2 :-2 :0"),
        ("INCREX k UBOUND 2 SATURATE BYINT 5", "*2 :2 :4"),
        ("INCREX k LBOUND 0 BYINT -9 SATURATE", "*2 :0 :-2"),
        ("INCREX k BYINT 1 LBOUND 5 SATURATE", "*2 :5 :5"),
        ("INCREX none BYINT 5 LBOUND 10", "*2 :0 :0"),
        ("EXISTS none", ":0"),
        ("SET k 9223372036854775800", "+OK"),
        ("INCREX k BYINT 8", "*2 :9223372036854775800 :0"),
        ("INCREX k BYINT 8 SATURATE", "*2 :9223372036854775807 :7"),
        (
            "INCREX k SATURATE UBOUND -2",
            "-ERR applied increment would overflow",
        ),
        ("GET k", &format!("$19 {MAX}")),
        ("OBJECT ENCODING k", "$3 int"),
        ("SET k 1.5", "+OK"),
        ("INCREX k", "-ERR value is not an integer or out of range"),
        ("INCREX k BYFLOAT 0.25", "*2 $4 1.75 $4 0.25"),
        ("INCREX k BYFLOAT 9 UBOUND 2.5", "*2 $4 1.75 $1 0"),
        (
            "INCREX k BYFLOAT 9 UBOUND 2.5 SATURATE",
            "*2 $3 2.5 $4 0.75",
        ),
        ("INCREX k BYFLOAT -9 LBOUND -2", "*2 $3 2.5 $1 0"),
        ("INCREX k BYFLOAT -4.5 LBOUND -2", "*2 $2 -2 $4 -4.5"),
        (
            "INCREX k BYFLOAT inf",
            "-ERR BYFLOAT increment cannot be Infinity",
        ),
        ("SET k inf", "+OK"),
        ("INCREX k BYFLOAT 1", "-ERR value cannot be Infinity"),
        ("INCREX k BYFLOAT x", "-ERR Increment is not a valid float"),
        (
            "INCREX k BYFLOAT 1 UBOUND x",
            "-ERR UBOUND is not a valid float",
        ),
        (
            "INCREX k BYINT 1.5",
            "-ERR Increment is not an integer or out of range",
        ),
        (
            "INCREX k LBOUND 1.5",
            "-ERR LBOUND is not an integer or out of range",
        ),
        (
            "INCREX k LBOUND 2 UBOUND 1",
            "-ERR LBOUND can't be greater than UBOUND",
        ),
        ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
        (
            "INCREX k EX 0",
            "-ERR invalid expire time in 'increx' command",
        ),
        ("INCREX k BYINT 1 BYFLOAT 1", "-ERR syntax error"),
        ("INCREX k EX 1 PX 1", "-ERR syntax error"),
        ("INCREX k EX 1 PERSIST", "-ERR syntax error"),
        ("INCREX k PERSIST ENX", "-ERR syntax error"),
        ("INCREX k SATURATE SATURATE", "-ERR syntax error"),
        ("INCREX k UBOUND", "-ERR syntax error"),
        ("RPUSH l a", ":1"),
        (
            "INCREX l",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ]);
}

#[test]
fn increx_sets_deadlines() {
    let mut fixture = Fixture::new();
    for (line, reply, ttl) in [
        ("INCREX k PX 1000", "*2 :1 :1", ":1000"),
        ("INCREX k", "*2 :2 :1", ":1000"),
        ("INCREX k PX 5 ENX", "*2 :3 :1", ":1000"),
        ("INCREX k PXAT 1 ENX", "*2 :4 :1", ":1000"),
        ("INCREX k UBOUND 4 PX 7", "*2 :4 :0", ":1000"),
        ("INCREX k PERSIST", "*2 :5 :1", ":-1"),
        ("INCREX k EX 2 ENX", "*2 :6 :1", ":2000"),
        ("INCREX k PXAT 1", "*2 :7 :1", ":-2"),
        ("INCREX k PXAT 1", "*2 :1 :1", ":-2"),
    ] {
        assert_eq!(fixture.run(line), reply, "{line}");
        assert_eq!(fixture.run("PTTL k"), ttl, "{line}");
    }
}

#[test]
fn options_are_case_insensitive() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("set k v eX 10 nX gEt"), "$-1");
    assert_eq!(fixture.run("ttl k"), ":10");
    assert_eq!(fixture.run("getex k pErSiSt"), "$1 v");
    assert_eq!(
        fixture.run("lcs k k iDx WiThMaTcHlEn mInMaTcHlEn 2"),
        "*4 $7 matches *0 $3 len :1"
    );
}
