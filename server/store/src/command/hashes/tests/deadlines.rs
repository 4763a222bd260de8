//! Tests of fields' deadlines: setting, reading, expiry, and hashes that are copied, moved or
//! removed.

use crate::command::testing::Fixture;

/// Time at which a fixture's clock begins, in unix ms.
const AT: u64 = 1_000_000;

#[test]
fn deadlines_are_set_read_and_removed() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HSET h a 1 b 2 c 3", ":3"),
        ("HEXPIRE h 10 FIELDS 2 a nope", "*2 :1 :-2"),
        ("HPEXPIRE h 1500 FIELDS 1 b", "*1 :1"),
        ("HTTL h FIELDS 4 a b c nope", "*4 :10 :2 :-1 :-2"),
        ("HPTTL h FIELDS 2 a b", "*2 :10000 :1500"),
        ("HEXPIRETIME h FIELDS 2 a b", "*2 :1010 :1002"),
        ("HPEXPIRETIME h FIELDS 2 a b", "*2 :1010000 :1001500"),
        ("HEXPIREAT h 1020 FIELDS 1 c", "*1 :1"),
        ("HPEXPIREAT h 1020001 FIELDS 1 c", "*1 :1"),
        ("HPTTL h FIELDS 1 c", "*1 :20001"),
        ("OBJECT ENCODING h", "$10 listpackex"),
        ("HPERSIST h FIELDS 3 a a nope", "*3 :1 :-1 :-2"),
        ("HTTL h FIELDS 1 a", "*1 :-1"),
        ("PTTL h", ":-1"),
    ]);
    assert_eq!(
        fixture.events(),
        "new h, hset h, hexpire h, hexpire h, hexpire h, hexpire h, hpersist h"
    );
    assert_eq!(fixture.stats.dirty, 3 + 1 + 1 + 1 + 1 + 1);
    assert_eq!(fixture.parts_with_deadline(), 2);
}

#[test]
fn arguments_are_checked() {
    const MISSING: &str = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    const MATCH: &str = "-ERR The `numfields` parameter must match the number of arguments";
    const GREATER: &str = "-ERR Parameter `numFields` should be greater than 0";
    const POSITIVE: &str = "-ERR Number of fields must be a positive integer";
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1");
    fixture.expect(&[
        (
            "HEXPIRE h 10 FIELDS 1",
            "-ERR wrong number of arguments for 'hexpire' command",
        ),
        ("HEXPIRE h 10 FIELDS 2 a", MATCH),
        ("HEXPIRE h 10 FIELDS 1 a b", MATCH),
        ("HEXPIRE h 10 FIELDS 0 a", GREATER),
        ("HEXPIRE h 10 FIELDS x a", GREATER),
        ("HEXPIRE h 10 FIELD 1 a", MISSING),
        ("HEXPIRE h 10 NX XX FIELDS 1 a", MISSING),
        ("HEXPIRE h 10 NX FIELDS 1", MATCH),
        (
            "HEXPIRE h x FIELDS 1 a",
            "-ERR value is not an integer or out of range",
        ),
        (
            "HEXPIRE h -1 FIELDS 1 a",
            "-ERR invalid expire time, must be >= 0",
        ),
        (
            "HEXPIRE h 70368744178 FIELDS 1 a",
            "-ERR invalid expire time in 'hexpire' command",
        ),
        (
            "HPEXPIRE h 70368744177663 FIELDS 1 a",
            "-ERR invalid expire time in 'hpexpire' command",
        ),
        (
            "HPEXPIREAT h 70368744177664 FIELDS 1 a",
            "-ERR invalid expire time in 'hpexpireat' command",
        ),
        (
            "HEXPIREAT h 9223372036854775807 FIELDS 1 a",
            "-ERR invalid expire time in 'hexpireat' command",
        ),
        (
            "HTTL h FIELDS 1",
            "-ERR wrong number of arguments for 'httl' command",
        ),
        ("HTTL h FIELD 1 a", MISSING),
        ("HTTL h FIELDS 0 a", POSITIVE),
        ("HTTL h FIELDS x a", POSITIVE),
        ("HPTTL h FIELDS 2 a", MATCH),
        ("HPERSIST h FIELDS -1 a", POSITIVE),
        ("HPERSIST h FIELDS 1 a b", MATCH),
        ("HTTL nope FIELDS 2 a", MATCH),
    ]);
    assert_eq!(
        fixture.run("HPEXPIREAT h 70368744177663 FIELDS 1 a"),
        "*1 :1"
    );
    assert_eq!(
        fixture.run("HPEXPIRETIME h FIELDS 1 a"),
        "*1 :70368744177663"
    );
}

#[test]
fn conditions() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HSET h a 1 b 2", ":2"),
        ("HEXPIRE h 10 XX FIELDS 1 a", "*1 :0"),
        ("HEXPIRE h 10 GT FIELDS 1 a", "*1 :0"),
        ("HEXPIRE h 10 NX FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 10 NX FIELDS 2 a b", "*2 :0 :1"),
        ("HEXPIRE h 10 GT FIELDS 1 a", "*1 :0"),
        ("HEXPIRE h 11 gt FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 11 LT FIELDS 1 a", "*1 :0"),
        ("HEXPIRE h 5 LT FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 50 xx FIELDS 1 a", "*1 :1"),
        ("HPERSIST h FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 5 LT FIELDS 1 a", "*1 :1"),
        // A refused deadline in the past does not delete the field.
        ("HPEXPIREAT h 1 NX FIELDS 1 a", "*1 :0"),
        ("HTTL h FIELDS 2 a b", "*2 :5 :10"),
    ]);
}

#[test]
fn a_deadline_in_the_past_deletes() {
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1 b 2 c 3 d 4");
    fixture.run("HEXPIRE h 10 FIELDS 1 a");
    fixture.events();
    let dirty = fixture.stats.dirty;
    fixture.expect(&[
        ("HPEXPIREAT h 1000000 FIELDS 3 a a b", "*3 :2 :-2 :2"),
        ("HLEN h", ":2"),
        ("HEXPIRE h 0 FIELDS 1 c", "*1 :2"),
    ]);
    assert_eq!(fixture.events(), "hdel h, hdel h");
    assert_eq!(fixture.run("HEXPIREAT h 0 FIELDS 1 d"), "*1 :2");
    assert_eq!(fixture.events(), "hdel h, del h");
    assert_eq!(fixture.run("EXISTS h"), ":0");
    assert_eq!(fixture.stats.expired_fields, 4);
    assert_eq!(fixture.stats.dirty - dirty, 4);
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn fields_expire_at_their_deadlines() {
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1 b 2 c 3 d 4");
    fixture.run("HPEXPIRE h 100 FIELDS 2 a b");
    fixture.run("HPEXPIRE h 200 FIELDS 1 c");
    fixture.run("HSET g x 1");
    fixture.run("HPEXPIRE g 100 FIELDS 1 x");
    fixture.run("SET s v PX 100");
    fixture.events();
    fixture.advance(99);
    fixture.expire();
    assert_eq!(fixture.events(), "");
    fixture.advance(1);
    fixture.expire();
    let events = fixture.events();
    assert_eq!(events.matches("hexpired h").count(), 1, "{events}");
    assert!(
        events.contains("hexpired g, del g") && events.contains("expired s"),
        "{events}"
    );
    assert_eq!(fixture.run("HKEYS h"), "*2 $1 c $1 d");
    let mut expired = fixture.last_values();
    expired.sort();
    assert_eq!(
        expired,
        [
            "g.x at 1000100",
            "h.a at 1000100",
            "h.b at 1000100",
            "s=v at 1000100"
        ]
    );
    fixture.advance(100);
    fixture.expire();
    assert_eq!(fixture.events(), "hexpired h");
    assert_eq!(fixture.run("HGETALL h"), "*2 $1 d $1 4");
    assert_eq!(
        (fixture.stats.expired, fixture.stats.expired_fields),
        (1, 4)
    );
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn due_fields_are_skipped_or_expired_by_commands() {
    let mut fixture = Fixture::new();
    for n in 0..8 {
        fixture.run(&format!("HSET h{n} due 1 stays 2"));
        fixture.run(&format!("HPEXPIRE h{n} 10 FIELDS 1 due"));
    }
    fixture.advance(10);
    fixture.store.set_active_expire(false);
    fixture.events();
    fixture.expect(&[
        // Commands that return all fields skip the due field.
        ("HGETALL h0", "*2 $5 stays $1 2"),
        ("HKEYS h0", "*1 $5 stays"),
        ("HVALS h0", "*1 $1 2"),
        ("HSCAN h0 0", "*2 $1 0 *2 $5 stays $1 2"),
        ("HRANDFIELD h0", "$5 stays"),
        ("HRANDFIELD h0 5", "*1 $5 stays"),
        ("HRANDFIELD h0 -2", "*2 $5 stays $5 stays"),
    ]);
    assert_eq!(fixture.events(), "");
    for (n, (line, reply)) in [
        ("HGET # due", "$-1"),
        ("HMGET # due due stays", "*3 $-1 $-1 $1 2"),
        ("HEXISTS # due", ":0"),
        ("HSTRLEN # due", ":0"),
        ("HTTL # FIELDS 1 due", "*1 :-2"),
        ("HPERSIST # FIELDS 1 due", "*1 :-2"),
        ("HEXPIRE # 10 FIELDS 1 due", "*1 :-2"),
        ("HDEL # due", ":0"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            fixture.run(&line.replace('#', &format!("h{n}"))),
            reply,
            "{line}"
        );
        assert_eq!(fixture.events(), format!("hexpired h{n}"), "{line}");
        assert_eq!(fixture.run(&format!("HLEN h{n}")), ":1");
    }
    assert_eq!(fixture.stats.expired_fields, 8);
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn a_command_that_expires_the_last_field_removes_the_hash() {
    let mut fixture = Fixture::new();
    fixture.store.set_active_expire(false);
    for (line, reply, events) in [
        ("HSET h a 2", ":1", "new h, hset h"),
        ("HSETNX h a 2", ":1", "new h, hset h"),
        ("HINCRBY h a 2", ":2", "new h, hincrby h"),
        ("HINCRBYFLOAT h a 2", "$1 2", "new h, hincrbyfloat h"),
        ("HGET h a", "$-1", ""),
        ("HMGET h a a", "*2 $-1 $-1", ""),
        ("HRANDFIELD h", "$-1", "(stays)"),
        ("HGETALL h", "*0", "(stays)"),
    ] {
        fixture.run("DEL h");
        fixture.run("HSET h a 1");
        fixture.run("HPEXPIRE h 10 FIELDS 1 a");
        fixture.advance(10);
        fixture.events();
        assert_eq!(fixture.run(line), reply, "{line}");
        let expected = match events {
            "(stays)" => String::new(),
            "" => "hexpired h, del h".to_owned(),
            more => format!("hexpired h, del h, {more}"),
        };
        assert_eq!(fixture.events(), expected, "{line}");
    }
}

#[test]
fn writing_a_field_clears_its_deadline_and_incrementing_keeps_it() {
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1 b 2 c 3 d 4 e 5");
    fixture.run("HEXPIRE h 10 FIELDS 5 a b c d e");
    fixture.expect(&[
        ("HSET h a 9", ":0"),
        ("HINCRBY h b 1", ":3"),
        ("HINCRBYFLOAT h c 1", "$1 4"),
        ("HSETNX h d 9", ":0"),
        ("HDEL h e", ":1"),
        ("HTTL h FIELDS 5 a b c d e", "*5 :-1 :10 :10 :10 :-2"),
        ("HMSET h b 1", "+OK"),
        ("HTTL h FIELDS 1 b", "*1 :-1"),
    ]);
    assert_eq!(fixture.parts_with_deadline(), 2);
    fixture.advance(10_000);
    fixture.expire();
    assert_eq!(fixture.run("HGETALL h"), "*4 $1 a $1 9 $1 b $1 1");
}

#[test]
fn copied_and_moved_hashes_keep_the_deadlines_of_their_fields() {
    for shards in [1, 8] {
        let mut fixture = Fixture::sharded(shards);
        fixture.run("HSET h a 1 b 2");
        fixture.run("HPEXPIRE h 100 FIELDS 1 a");
        for line in [
            "COPY h copy",
            "COPY h h DB 2",
            "COPY h other",
            "RENAME other renamed",
            "RENAMENX renamed again",
        ] {
            fixture.run(line);
            assert_eq!(fixture.run("HPTTL h FIELDS 2 a b"), "*2 :100 :-1", "{line}");
        }
        assert_eq!(fixture.run("MOVE copy 3"), ":1");
        assert_eq!(fixture.run("SWAPDB 3 4"), "+OK");
        assert_eq!(fixture.parts_with_deadline(), 4, "h, again, h @2, copy @4");
        fixture.reload();
        assert_eq!(fixture.parts_with_deadline(), 4);
        assert_eq!(fixture.run("HPTTL again FIELDS 2 a b"), "*2 :100 :-1");
        fixture.events();
        fixture.advance(100);
        fixture.expire();
        let events = fixture.events();
        let mut events: Vec<&str> = events.split(", ").collect();
        events.sort_unstable();
        assert_eq!(
            events,
            [
                "hexpired again",
                "hexpired copy @4",
                "hexpired h",
                "hexpired h @2"
            ]
        );
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}

#[test]
fn removed_hashes_leave_no_timers() {
    let mut fixture = Fixture::new();
    for line in [
        "DEL h",
        "UNLINK h",
        "SET h v",
        "GETSET x v",
        "RENAME s h",
        "COPY s h REPLACE",
        "PEXPIREAT h 1",
        "FLUSHDB",
        "FLUSHALL",
        "HDEL h a b",
    ] {
        fixture.run("DEL h");
        fixture.run("SET s v");
        fixture.run("HSET h a 1 b 2");
        fixture.run("HEXPIRE h 10 FIELDS 2 a b");
        assert_eq!(fixture.parts_with_deadline(), 2);
        if line == "GETSET x v" {
            fixture.run("PEXPIRE h 5");
            fixture.advance(5);
            fixture.expire();
        }
        let reply = fixture.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(fixture.parts_with_deadline(), 0, "{line}");
    }
}

#[test]
fn an_advance_expires_keys_and_fields_in_order() {
    let mut fixture = Fixture::sharded(4);
    for n in 0..200u64 {
        let at = AT + 1 + n * 7919 % 1000;
        fixture.run(&format!("SET k{n} v PXAT {at}"));
        fixture.run(&format!("HSET h{} f{n} v", n % 20));
        fixture.run(&format!(
            "HPEXPIREAT h{} {} FIELDS 1 f{n}",
            n % 20,
            at + n % 3
        ));
    }
    fixture.events();
    fixture.last_values();
    fixture.jump(AT + 2000);
    let expired = fixture.last_values();
    assert_eq!(expired.len(), 400);
    let deadlines: Vec<u64> = expired
        .iter()
        .map(|t| t.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(deadlines.is_sorted());
    assert_eq!(fixture.parts_with_deadline(), 0);
    assert_eq!(fixture.run("DBSIZE"), ":0");
}

#[test]
fn a_large_hash_expires_its_fields() {
    let mut fixture = Fixture::new();
    for n in 0..2000 {
        fixture.run(&format!("HSET h f{n} {n}"));
        fixture.run(&format!("HPEXPIRE h {} FIELDS 1 f{n}", 1000 + n));
    }
    assert_eq!(fixture.run("OBJECT ENCODING h"), "$9 hashtable");
    fixture.advance(1999);
    fixture.expire();
    assert_eq!(fixture.run("HLEN h"), ":1000");
    assert_eq!(fixture.parts_with_deadline(), 1000);
    assert_eq!(fixture.run("HRANDFIELD h 3").split(' ').next(), Some("*3"));
    fixture.advance(999);
    fixture.store.set_active_expire(false);
    assert_eq!(fixture.run("HRANDFIELD h 3"), "*1 $5 f1999");
    assert_eq!(fixture.run("HRANDFIELD h"), "$5 f1999");
}

#[test]
fn random_fields_are_never_due() {
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1 b 2 c 3");
    fixture.run("HPEXPIRE h 10 FIELDS 2 a b");
    fixture.run("HSET all a 1");
    fixture.run("HPEXPIRE all 10 FIELDS 1 a");
    fixture.store.set_active_expire(false);
    fixture.advance(10);
    fixture.expect(&[
        ("OBJECT ENCODING h", "$10 listpackex"),
        ("HRANDFIELD h", "$1 c"),
        ("HRANDFIELD h 3", "*1 $1 c"),
        ("HRANDFIELD h -2 WITHVALUES", "*4 $1 c $1 3 $1 c $1 3"),
        ("HRANDFIELD all", "$-1"),
        ("HRANDFIELD all 2", "*0"),
        ("HRANDFIELD all -2", "*0"),
    ]);
}
