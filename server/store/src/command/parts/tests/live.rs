//! Commands see only live members: due members that the wheel has not expired yet, and a frozen
//! turn, in which nothing expires.

use std::collections::BTreeSet;

use super::TYPES;
use crate::command::testing::Fixture;

/// Readers of a set `s` of due, x and y, and of a sorted set `z` of 1 x, 2 due and 3 y. The member
/// `due` is due.
const READERS: &[(&str, &str)] = &[
    ("SMEMBERS s", "x y"),
    ("SCARD s", ":2"),
    ("SISMEMBER s due", ":0"),
    ("SISMEMBER s x", ":1"),
    ("SMISMEMBER s due x", "*2 :0 :1"),
    ("SSCAN s 0", "0 x y"),
    ("SRANDMEMBER s 5", "x y"),
    ("SINTER s all", "x y"),
    ("SINTERCARD 2 s all", ":2"),
    ("SUNION s none", "x y"),
    ("SUNIONCARD 2 s none", ":2"),
    ("SDIFF all s", "due"),
    ("SDIFFCARD 2 all s", ":1"),
    ("SORT s ALPHA", "x y"),
    ("STTL s MEMBERS 2 due x", "*2 :-2 :-1"),
    ("ZCARD z", ":2"),
    ("ZSCORE z due", "$-1"),
    ("ZMSCORE z x due y", "*3 $1 1 $-1 $1 3"),
    ("ZRANGE z 0 -1", "x y"),
    ("ZRANGE z 1 1", "y"),
    ("ZRANGE z 2 2 BYSCORE", ""),
    ("ZREVRANGE z 0 0", "y"),
    ("ZRANGEBYLEX z - +", "x y"),
    ("ZRANK z y", ":1"),
    ("ZRANK z due", "$-1"),
    ("ZREVRANK z x", ":1"),
    ("ZCOUNT z 2 3", ":1"),
    ("ZLEXCOUNT z - +", ":2"),
    ("ZSCAN z 0", "0 1 3 x y"),
    ("ZRANDMEMBER z 5", "x y"),
    ("ZUNION 2 z none", "x y"),
    ("ZINTER 2 z all", "x y"),
    ("ZINTERCARD 2 z all", ":2"),
    ("ZDIFF 2 all z", "due"),
    ("SORT z BY none", "x y"),
    ("ZTTL z MEMBERS 2 due x", "*2 :-2 :-1"),
    ("GEOPOS z due", "*1 *-1"),
];

/// Returns the texts of an array in order, or the reply itself if it begins as `expected` does.
fn normalised(reply: &str, expected: &str) -> String {
    if expected.starts_with([':', '*', '$']) {
        return reply.to_owned();
    }
    let texts: BTreeSet<&str> = reply
        .split(' ')
        .filter(|word| !word.starts_with(['*', '$']))
        .collect();
    texts.into_iter().collect::<Vec<_>>().join(" ")
}

/// A keyspace with a due member, which the wheel has not expired.
fn with_due_members(encoding: &str) -> Fixture {
    let mut fixture = Fixture::new();
    if encoding == "large" {
        fixture.run("SADD s due x y");
        let limits = crate::limits::Limits {
            set_entries: 1,
            zset_entries: 1,
            ..Default::default()
        };
        fixture.store.set_limits(limits);
    }
    fixture.run("SADD s due x y");
    fixture.run("ZADD z 1 x 2 due 3 y");
    fixture.run("SADD all due x y");
    fixture.run("SPEXPIRE s 10 MEMBERS 1 due");
    fixture.run("ZPEXPIRE z 10 MEMBERS 1 due");
    fixture.store.set_active_expire(false);
    fixture.advance(10);
    fixture.events();
    fixture
}

#[test]
fn no_reader_sees_a_due_member() {
    for encoding in ["small", "large"] {
        for (line, expected) in READERS {
            let mut fixture = with_due_members(encoding);
            let reply = fixture.run(line);
            assert_eq!(normalised(&reply, expected), *expected, "{line}: {reply}");
            // A command that names another member leaves the due one to the wheel.
            let names_another = *line == "SISMEMBER s x";
            let expired = if names_another {
                ""
            } else if line.contains(" z") && !line.contains(" s") {
                "zexpired z"
            } else {
                "sexpired s"
            };
            let events = fixture.events();
            assert_eq!(events.trim_end_matches(", keymiss none"), expired, "{line}");
            assert_eq!(
                fixture.stats.expired_fields,
                u64::from(!names_another),
                "{line}"
            );
        }
    }
}

/// On a replica, or while clients are paused, nothing expires, and due members are hidden all the
/// same.
#[test]
fn readers_of_a_frozen_turn_see_no_due_member() {
    for encoding in ["small", "large"] {
        let mut fixture = with_due_members(encoding);
        fixture.frozen = true;
        for (line, expected) in READERS {
            let reply = fixture.run(line);
            assert_eq!(normalised(&reply, expected), *expected, "{line}: {reply}");
        }
        assert!(!fixture.events().contains("expired"));
        assert_eq!(fixture.parts_with_deadline(), 2);
        fixture.run("SPEXPIRE all 5 MEMBERS 3 due x y");
        fixture.advance(5);
        assert_eq!(fixture.run("SMEMBERS all"), "*0", "a set of due members");
        assert_eq!(fixture.run("SRANDMEMBER all"), "$-1");
        fixture.frozen = false;
        assert_eq!(fixture.run("SCARD s"), ":2");
        assert_eq!(fixture.run("ZCARD z"), ":2");
        assert_eq!(fixture.run("SCARD all"), ":0");
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}

#[test]
fn writers_expire_due_members_first() {
    for (line, reply, events) in [
        ("SADD s due", ":1", "sexpired s, sadd s"),
        ("SREM s due", ":0", "sexpired s"),
        ("SREM s due x", ":1", "sexpired s, srem s"),
        ("SMOVE s all due", ":0", "sexpired s"),
        ("SMOVE all s due", ":1", "sexpired s, srem all, sadd s"),
        ("SEXPIRE s 10 MEMBERS 1 due", "*1 :-2", "sexpired s"),
        ("SPERSIST s MEMBERS 1 due", "*1 :-2", "sexpired s"),
        (
            "SUNIONSTORE to s",
            ":2",
            "sexpired s, new to, sunionstore to",
        ),
        ("SDIFFSTORE s s all", ":0", "sexpired s, del s"),
        ("ZADD z 9 due", ":1", "zexpired z, zadd z"),
        ("ZADD z XX 9 due", ":0", "zexpired z"),
        ("ZINCRBY z 9 due", "$1 9", "zexpired z, zincr z"),
        ("ZREM z due", ":0", "zexpired z"),
        ("ZPOPMIN z 1", "*2 $1 x $1 1", "zexpired z, zpopmin z"),
        (
            "ZPOPMAX z 2",
            "*4 $1 y $1 3 $1 x $1 1",
            "zexpired z, zpopmax z, del z",
        ),
        (
            "ZMPOP 1 z MIN COUNT 9",
            "*2 $1 z *2 *2 $1 x $1 1 *2 $1 y $1 3",
            "zexpired z, zpopmin z, del z",
        ),
        (
            "ZREMRANGEBYRANK z 1 1",
            ":1",
            "zexpired z, zremrangebyrank z",
        ),
        ("ZREMRANGEBYSCORE z 2 2", ":0", "zexpired z"),
        (
            "ZRANGESTORE to z 0 -1",
            ":2",
            "zexpired z, new to, zrangestore to",
        ),
        ("GEOADD z 1 1 due", ":1", "zexpired z, zadd z"),
        ("BZPOPMIN z 0", "*3 $1 z $1 x $1 1", "zexpired z, zpopmin z"),
    ] {
        let mut fixture = with_due_members("small");
        assert_eq!(fixture.run(line), reply, "{line}");
        assert_eq!(fixture.events(), events, "{line}");
    }
    let mut fixture = with_due_members("small");
    let popped = fixture.run("SPOP s 9");
    assert_eq!(normalised(&popped, "x y"), "x y");
    assert_eq!(fixture.events(), "sexpired s, spop s, del s");
}

#[test]
fn a_command_that_expires_the_last_member_removes_the_key() {
    for (line, reply, more) in [
        ("SMEMBERS k", "*0", ""),
        ("SPOP k", "$-1", ""),
        ("SISMEMBER k a", ":0", ""),
        ("SADD k a", ":1", ", new k, sadd k"),
        ("SMOVE k to a", ":0", ""),
        ("ZRANGE k 0 -1", "*0", ""),
        ("ZPOPMIN k", "*0", ""),
        ("ZADD k 1 a", ":1", ", new k, zadd k"),
        ("ZSCORE k a", "$-1", ""),
    ] {
        let mut fixture = Fixture::new();
        fixture.store.set_active_expire(false);
        let (letter, add) = TYPES[usize::from(line.starts_with('Z'))];
        fixture.run(&add("k", &["a"]));
        fixture.run(&format!("{letter}PEXPIRE k 10 MEMBERS 1 a"));
        fixture.advance(10);
        fixture.events();
        assert_eq!(fixture.run(line), reply, "{line}");
        let small = letter.to_lowercase();
        assert_eq!(
            fixture.events(),
            format!("{small}expired k, del k{more}"),
            "{line}"
        );
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}
