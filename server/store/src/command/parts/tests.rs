//! Deadlines of the members of sets and sorted sets. The commands of both are the same, so most
//! tests run for both. A stock server has no such commands, so nothing here is compared with one.
//! `hashes/tests/deadlines.rs` has the tests for fields, which share the handlers.

mod add;
mod live;
mod model;

use punctual_resp::OwnedArgs;

use crate::command::testing::Fixture;

/// Returns a command that adds members to a key.
type Add = fn(&str, &[&str]) -> String;

/// The first letter of each type's commands, and a command that adds members to a key.
const TYPES: [(&str, Add); 2] = [("S", sadd), ("Z", zadd)];

fn sadd(key: &str, members: &[&str]) -> String {
    format!("SADD {key} {}", members.join(" "))
}

/// The scores are 0, 1, 2 and so on.
fn zadd(key: &str, members: &[&str]) -> String {
    let pairs = members.iter().enumerate();
    let pairs: Vec<String> = pairs.map(|(n, member)| format!("{n} {member}")).collect();
    format!("ZADD {key} {}", pairs.join(" "))
}

/// Runs lines for each type: `?` stands for the letter, and the key `k` has the members a, b, c.
#[track_caller]
fn check_both(lines: &[(&str, &str)]) {
    for (letter, add) in TYPES {
        let mut fixture = Fixture::new();
        fixture.run(&add("k", &["a", "b", "c"]));
        for (line, reply) in lines {
            let line = line.replace('?', letter);
            let small = reply.replace('?', &letter.to_lowercase());
            assert_eq!(fixture.run(&line), small, "{line}");
        }
    }
}

/// Runs a command of any bytes.
fn words(fixture: &mut Fixture, words: &[&[u8]]) -> Vec<u8> {
    let words: OwnedArgs = words.iter().collect();
    fixture.reply(words.as_args())
}

#[test]
fn deadlines_are_set_read_and_removed() {
    check_both(&[
        ("?EXPIRE k 10 MEMBERS 2 a none", "*2 :1 :-2"),
        ("?PEXPIRE k 2500 MEMBERS 1 b", "*1 :1"),
        ("?TTL k MEMBERS 4 a b c none", "*4 :10 :3 :-1 :-2"),
        ("?PTTL k MEMBERS 2 a b", "*2 :10000 :2500"),
        ("?EXPIRETIME k MEMBERS 2 a b", "*2 :1010 :1003"),
        ("?PEXPIRETIME k MEMBERS 2 a b", "*2 :1010000 :1002500"),
        ("?PERSIST k MEMBERS 3 a c none", "*3 :1 :-1 :-2"),
        ("?TTL k MEMBERS 1 a", "*1 :-1"),
        ("?EXPIREAT k 2000 MEMBERS 1 a", "*1 :1"),
        ("?PEXPIREAT k 3000000 MEMBERS 1 b", "*1 :1"),
        ("?PEXPIRETIME k MEMBERS 2 a b", "*2 :2000000 :3000000"),
        ("?EXPIRE none 10 MEMBERS 2 a b", "*2 :-2 :-2"),
        ("?TTL none MEMBERS 1 a", "*1 :-2"),
        ("?PERSIST none MEMBERS 1 a", "*1 :-2"),
        ("EXISTS none", ":0"),
    ]);
}

#[test]
fn conditions_hold_per_member() {
    check_both(&[
        ("?EXPIRE k 10 NX MEMBERS 1 a", "*1 :1"),
        ("?EXPIRE k 20 NX MEMBERS 2 a b", "*2 :0 :1"),
        ("?EXPIRE k 30 xx MEMBERS 2 a c", "*2 :1 :0"),
        ("?EXPIRE k 30 GT MEMBERS 3 a b c", "*3 :0 :1 :0"),
        ("?EXPIRE k 5 LT MEMBERS 3 a b c", "*3 :1 :1 :1"),
        ("?EXPIRE k 5 LT MEMBERS 1 a", "*1 :0"),
        // A refused deadline in the past deletes nothing.
        ("?PEXPIREAT k 1 NX MEMBERS 1 a", "*1 :0"),
        ("?TTL k MEMBERS 3 a b c", "*3 :5 :5 :5"),
        ("?EXPIRE k 9 MEMBERS 2 a a", "*2 :1 :1"),
    ]);
}

#[test]
fn arguments_are_checked_as_for_fields() {
    check_both(&[
        (
            "?EXPIRE k 10 FIELDS 1 a",
            "-ERR Mandatory argument MEMBERS is missing or not at the right position",
        ),
        (
            "?TTL k members 2 a",
            "-ERR The `nummembers` parameter must match the number of arguments",
        ),
        (
            "?EXPIRE k 10 MEMBERS 0 a",
            "-ERR Parameter `numMembers` should be greater than 0",
        ),
        (
            "?PERSIST k MEMBERS -1 a",
            "-ERR Number of members must be a positive integer",
        ),
        (
            "?EXPIRE k -1 MEMBERS 1 a",
            "-ERR invalid expire time, must be >= 0",
        ),
        (
            "?PEXPIREAT k 99999999999999 MEMBERS 1 a",
            "-ERR invalid expire time in '?pexpireat' command",
        ),
        (
            "?EXPIRE k x MEMBERS 1 a",
            "-ERR value is not an integer or out of range",
        ),
        ("SET string v", "+OK"),
        (
            "?EXPIRE string 10 MEMBERS 1 a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "?TTL string MEMBERS 1 a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ]);
}

#[test]
fn a_deadline_in_the_past_deletes() {
    for (letter, add) in TYPES {
        let small = letter.to_lowercase();
        let mut fixture = Fixture::new();
        fixture.run(&add("k", &["a", "b", "c"]));
        fixture.events();
        let dirty = fixture.stats.dirty;
        let line = format!("{letter}PEXPIREAT k 1000000 MEMBERS 3 a a b");
        assert_eq!(fixture.run(&line), "*3 :2 :-2 :2");
        assert_eq!(fixture.events(), format!("{small}rem k"));
        assert_eq!(
            fixture.run(&format!("{letter}EXPIRE k 0 MEMBERS 1 c")),
            "*1 :2"
        );
        assert_eq!(fixture.events(), format!("{small}rem k, del k"));
        assert_eq!(fixture.run("EXISTS k"), ":0");
        assert_eq!(fixture.stats.expired_fields, 3);
        assert_eq!(fixture.stats.dirty - dirty, 3);
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}

/// No member expires early, and each expires in the millisecond of its deadline.
#[test]
fn members_expire_at_their_deadlines() {
    for (letter, add) in TYPES {
        let small = letter.to_lowercase();
        let mut fixture = Fixture::new();
        fixture.run(&add("k", &["a", "b", "c", "d"]));
        fixture.run(&format!("{letter}PEXPIRE k 100 MEMBERS 2 a b"));
        fixture.run(&format!("{letter}PEXPIRE k 200 MEMBERS 1 c"));
        fixture.run(&add("other", &["x"]));
        fixture.run(&format!("{letter}PEXPIRE other 100 MEMBERS 1 x"));
        fixture.events();
        fixture.advance(99);
        fixture.expire();
        assert_eq!(fixture.events(), "");
        assert_eq!(fixture.run(&format!("{letter}CARD k")), ":4");
        fixture.advance(1);
        fixture.expire();
        let events = fixture.events();
        let k = format!("{small}expired k");
        assert_eq!(
            events.matches(&k).count(),
            1,
            "one event for one instant: {events}"
        );
        assert!(
            events.contains(&format!("{small}expired other, del other")),
            "{events}"
        );
        let mut expired = fixture.last_values();
        expired.sort();
        assert_eq!(
            expired,
            ["k.a at 1000100", "k.b at 1000100", "other.x at 1000100"]
        );
        fixture.advance(100);
        fixture.expire();
        assert_eq!(fixture.events(), k);
        assert_eq!(fixture.run(&format!("{letter}CARD k")), ":1");
        assert_eq!(fixture.stats.expired_fields, 4);
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}

/// A jump of the clock handles each deadline at its own instant, in order over all keys.
#[test]
fn a_jump_expires_members_in_the_order_of_their_deadlines() {
    let mut fixture = Fixture::sharded(4);
    for n in 0..400u64 {
        let at = 1_000_001 + n * 7919 % 1000;
        let (letter, key) = (["S", "Z"][n as usize % 2], n % 16);
        let add = if letter == "S" { "SADD" } else { "ZADD" };
        let score = if letter == "S" { "" } else { "1 " };
        fixture.run(&format!("{add} {letter}{key} {score}m{n}"));
        fixture.run(&format!(
            "{letter}PEXPIREAT {letter}{key} {at} MEMBERS 1 m{n}"
        ));
    }
    assert_eq!(fixture.parts_with_deadline(), 400);
    fixture.last_values();
    fixture.jump(1_002_000);
    let expired = fixture.last_values();
    assert_eq!(expired.len(), 400);
    let deadlines: Vec<u64> = expired
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(deadlines.is_sorted());
    assert_eq!(fixture.parts_with_deadline(), 0);
    assert_eq!(fixture.run("DBSIZE"), ":0");
}

/// SADD ignores a member that the set has, as in Redis 8.12, and so do ZADD and ZINCRBY with its
/// deadline. Results of commands that store have no deadlines.
#[test]
fn adding_keeps_deadlines_and_storing_drops_them() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s a b");
    fixture.run("ZADD z 1 a 2 b");
    fixture.run("SEXPIRE s 10 MEMBERS 1 a");
    fixture.run("ZEXPIRE z 10 MEMBERS 1 a");
    fixture.expect(&[
        ("SADD s a c", ":1"),
        ("STTL s MEMBERS 3 a b c", "*3 :10 :-1 :-1"),
        ("ZADD z 5 a", ":0"),
        ("ZINCRBY z 1 a", "$1 6"),
        ("ZTTL z MEMBERS 2 a b", "*2 :10 :-1"),
        ("SUNIONSTORE su s", ":3"),
        ("STTL su MEMBERS 1 a", "*1 :-1"),
        ("ZRANGESTORE zr z 0 -1", ":2"),
        ("ZTTL zr MEMBERS 1 a", "*1 :-1"),
        ("ZUNIONSTORE zu 1 z", ":2"),
        ("ZTTL zu MEMBERS 1 a", "*1 :-1"),
        ("SREM s a", ":1"),
        ("SADD s a", ":1"),
        ("STTL s MEMBERS 1 a", "*1 :-1"),
        ("ZREM z a", ":1"),
        ("ZADD z 1 a", ":1"),
        ("ZTTL z MEMBERS 1 a", "*1 :-1"),
    ]);
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn smove_moves_the_deadline() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s a b c 7");
    fixture.run("SADD ints 1 2");
    fixture.run("SADD has c");
    fixture.run("SEXPIRE s 10 MEMBERS 3 a c 7");
    fixture.expect(&[
        ("SMOVE s new a", ":1"),
        ("STTL new MEMBERS 1 a", "*1 :10"),
        ("SMOVE s ints 7", ":1"),
        ("STTL ints MEMBERS 3 7 1 2", "*3 :10 :-1 :-1"),
        ("SMOVE s ints b", ":1"),
        ("STTL ints MEMBERS 1 b", "*1 :-1"),
        // The member that the target has stays as it is.
        ("SMOVE s has c", ":1"),
        ("STTL has MEMBERS 1 c", "*1 :-1"),
        ("SMOVE ints ints 7", ":1"),
        ("STTL ints MEMBERS 1 7", "*1 :10"),
        ("EXISTS s", ":0"),
    ]);
    assert_eq!(fixture.parts_with_deadline(), 2);
    fixture.advance(10_000);
    fixture.expire();
    assert_eq!(fixture.run("EXISTS new"), ":0");
    assert_eq!(fixture.run("SCARD ints"), ":3");
}

#[test]
fn copied_and_moved_keys_keep_the_deadlines_of_their_members() {
    for (letter, add) in TYPES {
        for shards in [1, 8] {
            let mut fixture = Fixture::sharded(shards);
            fixture.run(&add("k", &["a", "b"]));
            fixture.run(&format!("{letter}PEXPIRE k 100 MEMBERS 1 a"));
            let ttl = |key: &str| format!("{letter}PTTL {key} MEMBERS 2 a b");
            for line in [
                "COPY k copy",
                "COPY k k DB 2",
                "COPY k other",
                "RENAME other renamed",
                "RENAMENX renamed again",
            ] {
                fixture.run(line);
                assert_eq!(fixture.run(&ttl("k")), "*2 :100 :-1", "{line}");
            }
            assert_eq!(fixture.run("MOVE copy 3"), ":1");
            assert_eq!(fixture.run("SWAPDB 3 4"), "+OK");
            assert_eq!(fixture.parts_with_deadline(), 4, "k, again, k @2, copy @4");
            fixture.reload();
            assert_eq!(fixture.parts_with_deadline(), 4);
            assert_eq!(fixture.run(&ttl("again")), "*2 :100 :-1");
            fixture.advance(100);
            fixture.expire();
            assert_eq!(fixture.parts_with_deadline(), 0);
            assert_eq!(fixture.run(&format!("{letter}CARD again")), ":1");
        }
    }
}

#[test]
fn a_dump_has_the_deadlines() {
    for (letter, add) in TYPES {
        let mut fixture = Fixture::new();
        fixture.run(&add("k", &["a", "1", "a-long-name-that-is-boxed"]));
        fixture.run(&format!("{letter}PEXPIRE k 100 MEMBERS 2 a 1"));
        let payload = words(&mut fixture, &[b"DUMP", b"k"]);
        let start = payload.iter().position(|b| *b == b'\n').unwrap() + 1;
        let payload = &payload[start..payload.len() - 2];
        assert_eq!(payload[0], 7, "the type of a module's value");
        assert_eq!(
            words(&mut fixture, &[b"RESTORE", b"copy", b"0", payload]),
            b"+OK\r\n"
        );
        let ttl = format!("{letter}PTTL copy MEMBERS 3 a 1 a-long-name-that-is-boxed");
        assert_eq!(fixture.run(&ttl), "*3 :100 :100 :-1");
        assert_eq!(
            fixture.run(&format!("{letter}CARD copy")),
            fixture.run(&format!("{letter}CARD k"))
        );
        // Without deadlines, the payload is one that Redis reads.
        fixture.run(&format!("{letter}PERSIST k MEMBERS 2 a 1"));
        let payload = words(&mut fixture, &[b"DUMP", b"k"]);
        let start = payload.iter().position(|b| *b == b'\n').unwrap() + 1;
        assert_ne!(payload[start], 7);
    }
}

#[test]
fn removed_keys_leave_no_timers() {
    for (letter, add) in TYPES {
        for line in [
            "DEL k",
            "UNLINK k",
            "SET k v",
            "RENAME s k",
            "COPY s k REPLACE",
            "PEXPIREAT k 1",
            "FLUSHDB",
            "FLUSHALL",
            "?REM k a b",
            "SUNIONSTORE k none",
            "ZRANGESTORE k none 0 -1",
            "SPOP k 9",
            "ZPOPMIN k 9",
            "ZREMRANGEBYRANK k 0 -1",
        ] {
            let line = line.replace('?', letter);
            if line.starts_with(if letter == "S" { "ZPOP" } else { "SPOP" })
                || (letter == "S" && line.starts_with("ZREM"))
            {
                continue;
            }
            let mut fixture = Fixture::new();
            fixture.run("SET s v");
            fixture.run(&add("k", &["a", "b"]));
            fixture.run(&format!("{letter}EXPIRE k 10 MEMBERS 2 a b"));
            assert_eq!(fixture.parts_with_deadline(), 2);
            let reply = fixture.run(&line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
            assert_eq!(fixture.parts_with_deadline(), 0, "{line}");
            fixture.jump(1_020_000);
        }
    }
}

#[test]
fn encodings_are_those_of_hashes_with_deadlines() {
    for (letter, add) in TYPES {
        let large = if letter == "S" {
            "$9 hashtable"
        } else {
            "$8 skiplist"
        };
        let mut fixture = Fixture::new();
        fixture.run(&add("k", &["1", "2"]));
        fixture.run(&format!("{letter}EXPIRE k 10 MEMBERS 1 1"));
        assert_eq!(fixture.run("OBJECT ENCODING k"), "$10 listpackex");
        fixture.run(&format!("{letter}PERSIST k MEMBERS 1 1"));
        assert_eq!(fixture.run("OBJECT ENCODING k"), "$10 listpackex");
        let long = "x".repeat(65);
        fixture.run(&add("k", &[&long]));
        assert_eq!(fixture.run("OBJECT ENCODING k"), large);
        let many: Vec<String> = (0..129).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        fixture.run(&add("many", &many));
        fixture.run(&format!("{letter}EXPIRE many 10 MEMBERS 1 1"));
        assert_eq!(fixture.run("OBJECT ENCODING many"), large);
        // A reload without deadlines gives the plain form.
        fixture.run(&format!("{letter}EXPIRE k 10 MEMBERS 1 1"));
        fixture.run(&format!("{letter}REM k {long}"));
        fixture.reload();
        assert_eq!(fixture.run("OBJECT ENCODING k"), "$10 listpackex");
    }
}

/// A deadline costs a member at most half of its memory more. `--nocapture` prints the bytes.
#[test]
fn a_deadline_costs_less_than_half_a_member() {
    for (letter, add) in TYPES {
        for members in [5, 20, 100, 20_000] {
            let mut fixture = Fixture::new();
            // With few keys, the key's share of the keyspace's table would hide its own memory.
            (0..1000).for_each(|n| drop(fixture.run(&format!("SET {n} v"))));
            let mut bytes = |timed: bool| {
                for n in 0..members {
                    let member = format!("member:{n:09}");
                    fixture.run(&add("k", &[&member]));
                    if timed {
                        let at = 2_000_000 + n * 7919 % members;
                        fixture.run(&format!("{letter}PEXPIREAT k {at} MEMBERS 1 {member}"));
                    }
                }
                let usage = fixture.run("MEMORY USAGE k");
                fixture.run("DEL k");
                usage[1..].parse::<f64>().unwrap() / members as f64
            };
            let (plain, timed) = (bytes(false), bytes(true));
            let ratio = timed / plain;
            println!(
                "{letter} of {members}: {plain:.1} bytes a member, with a deadline {timed:.1}, \
                 {ratio:.2}x"
            );
            // The first deadline of a compact collection costs some 200 bytes once.
            let bar = match members {
                5 => 2.6,
                20 => 2.0,
                100 => 1.6,
                _ => 1.5,
            };
            assert!(ratio <= bar, "{letter} of {members}: {ratio}");
        }
    }
}
