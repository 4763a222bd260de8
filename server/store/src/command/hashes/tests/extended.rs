//! Tests of HGETDEL, HGETEX and HSETEX.

use crate::command::testing::Fixture;

#[test]
fn values_are_returned_and_deleted() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HGETDEL h FIELDS 1 a", "*1 $-1"),
        ("HSET h a 1 b two c 3", ":3"),
        ("HPEXPIRE h 50 FIELDS 1 a", "*1 :1"),
        ("HGETDEL h FIELDS 3 a nope a", "*3 $1 1 $-1 $-1"),
        ("HGETALL h", "*4 $1 b $3 two $1 c $1 3"),
        ("HGETDEL h FIELDS 2 b c", "*2 $3 two $1 3"),
        ("EXISTS h", ":0"),
    ]);
    assert_eq!(
        fixture.events(),
        "new h, hset h, hexpire h, hdel h, hdel h, del h, keymiss h"
    );
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn deadlines_are_set_removed_and_past_while_values_are_read() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HGETEX h EX 10 FIELDS 2 a b", "*2 $-1 $-1"),
        ("HSET h a 1 b 2 c 3", ":3"),
        ("HGETEX h FIELDS 2 a nope", "*2 $1 1 $-1"),
        ("HGETEX h PX 1500 FIELDS 2 a nope", "*2 $1 1 $-1"),
        ("HGETEX h exat 1020 fields 1 b", "*1 $1 2"),
        ("HPTTL h FIELDS 3 a b c", "*3 :1500 :20000 :-1"),
        ("HGETEX h FIELDS 1 a", "*1 $1 1"),
        ("HGETEX h PERSIST FIELDS 2 a c", "*2 $1 1 $1 3"),
        ("HPTTL h FIELDS 2 a b", "*2 :-1 :20000"),
        ("HGETEX h PXAT 1 FIELDS 3 b b c", "*3 $1 2 $1 2 $1 3"),
        ("HGETALL h", "*2 $1 a $1 1"),
        ("HGETEX h EX 0 FIELDS 1 a", "*1 $1 1"),
        ("EXISTS h", ":0"),
    ]);
    assert_eq!(
        fixture.events(),
        "keymiss h, new h, hset h, hexpire h, hexpire h, hpersist h, hdel h, hdel h, del h, keymiss h"
    );
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn fields_are_set_with_a_deadline_or_none() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HSETEX h FXX EX 10 FIELDS 1 a 1", ":0"),
        ("EXISTS h", ":0"),
        ("HSETEX h FNX EX 10 FIELDS 2 a 1 b 2", ":1"),
        ("HSETEX h FNX FIELDS 2 c 3 a 9", ":0"),
        ("HSETEX h FXX FIELDS 2 c 3 a 9", ":0"),
        ("HSETEX h FXX KEEPTTL FIELDS 2 a 7 b 8", ":1"),
        ("HSETEX h KEEPTTL FIELDS 1 c 3", ":1"),
        ("HTTL h FIELDS 3 a b c", "*3 :10 :10 :-1"),
        ("HMGET h a b c", "*3 $1 7 $1 8 $1 3"),
        ("HSETEX h FIELDS 1 a 1", ":1"),
        ("HSETEX h PX 70 FIELDS 1 c 4", ":1"),
        ("HPTTL h FIELDS 3 a b c", "*3 :-1 :10000 :70"),
        ("HSETEX h PXAT 1 FIELDS 3 a 1 b 2 c 3", ":1"),
        ("EXISTS h", ":0"),
    ]);
    assert_eq!(
        fixture.events(),
        "keymiss h, new h, hset h, hexpire h, hset h, hset h, hset h, hset h, hexpire h, hset h, hdel h, del h, \
         keymiss h"
    );
    assert_eq!(fixture.parts_with_deadline(), 0);
}

#[test]
fn arguments_are_checked() {
    const ONE_OF: &str =
        "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    const ARITY: &str = "-ERR wrong number of arguments for 'hsetex' command";
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HSETEX h EX 10 KEEPTTL FIELDS 1 a 1", ONE_OF),
        ("HSETEX h KEEPTTL PX 10 FIELDS 1 a 1", ONE_OF),
        (
            "HSETEX h FNX FXX FIELDS 1 a 1",
            "-ERR Only one of FXX or FNX arguments can be specified",
        ),
        ("HSETEX h FNX FIELDS 1 a", ARITY),
        ("HSETEX h FNX FIELDS 1 a 1 b 2", ARITY),
        ("HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields"),
        (
            "HSETEX h PERSIST FIELDS 1 a 1",
            "-ERR unknown argument: PERSIST",
        ),
        (
            "HSETEX h EX -1 FIELDS 1 a 1",
            "-ERR invalid expire time, must be >= 0",
        ),
        ("HSETEX h FNX FXY FNX a EX", "-ERR unknown argument: FXY"),
        ("HSETEX h FNX KEEPTTL a EX FNX", "-ERR unknown argument: a"),
        (
            "HGETEX h EX 1 PERSIST FIELDS 1 a",
            "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
        ),
        (
            "HGETEX h KEEPTTL FIELDS 1 a",
            "-ERR unknown argument: KEEPTTL",
        ),
        (
            "HGETDEL h FIELD 1 a",
            "-ERR Mandatory argument FIELDS is missing or not at the right position",
        ),
        (
            "HGETDEL h FIELDS 0 a",
            "-ERR Number of fields must be a positive integer",
        ),
        ("SET s v", "+OK"),
        (
            "HGETDEL s FIELDS 1 a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "HSETEX s FIELDS 1 a 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ]);
    assert_eq!(fixture.run("EXISTS h"), ":0");
}
