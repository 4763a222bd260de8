//! Tests of ZADD, ZINCRBY, removals and pops.

use super::{NOT_FLOAT, NOT_INTEGER, NOT_NAMES, NOT_SCORES, SYNTAX, WRONG_TYPE, with};
use crate::command::testing::Fixture;

#[test]
fn zadd_adds_and_updates_scores() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("ZADD z 1 a 2 b", ":2"),
        ("ZADD z 3 a 4 c", ":1"),
        ("ZADD z 3 a", ":0"),
    ]);
    assert_eq!(fixture.events(), "new z, zadd z, zadd z");
    assert_eq!(fixture.stats.dirty, 4);
    fixture.expect(&[
        ("ZADD z CH 3 a 5 c 6 d", ":2"),
        ("ZADD z NX 9 a 7 e", ":1"),
        ("ZADD z XX 9 x", ":0"),
        ("ZADD z xx ch 8 e", ":1"),
        ("ZADD z GT CH 7 e 9 d", ":1"),
        ("ZADD z LT CH 9 e 5 d 1 f", ":2"),
        ("ZADD z GT XX INCR -1 e", "$-1"),
        ("ZADD z INCR 0.5 e", "$3 8.5"),
        ("ZADD z XX INCR 1 nobody", "$-1"),
        ("ZADD z NX INCR 1 e", "$-1"),
        ("ZADD z NX INCR 1 g", "$1 1"),
        (
            "ZRANGE z 0 -1 WITHSCORES",
            "*14 $1 f $1 1 $1 g $1 1 $1 b $1 2 $1 a $1 3 $1 c $1 5 $1 d $1 5 $1 e $3 8.5",
        ),
        ("ZADD none XX 1 a", ":0"),
        ("ZADD none XX INCR 1 a", "$-1"),
        ("EXISTS none", ":0"),
        ("ZADD z 1 twice 2 twice", ":1"),
        ("ZSCORE z twice", "$1 2"),
    ]);
    fixture.events();
    fixture.expect(&[("ZADD z XX GT 1 e", ":0"), ("ZADD z INCR 1 e", "$3 9.5")]);
    assert_eq!(fixture.events(), "zincr z");
}

#[test]
fn zadd_refuses_incompatible_options_and_bad_scores() {
    let mut fixture = with("1 a");
    fixture.run("SET s v");
    let incompatible = "-ERR XX and NX options at the same time are not compatible";
    let compares = "-ERR GT, LT, and/or NX options at the same time are not compatible";
    fixture.expect(&[
        ("ZADD z NX XX 1 a", incompatible),
        ("ZADD z NX XX GT 1 a", incompatible),
        ("ZADD z NX GT 1 a", compares),
        ("ZADD z LT NX 1 a", compares),
        ("ZADD z GT LT 1 a", compares),
        ("ZADD z NX XX 1", SYNTAX),
        ("ZADD z CH INCR", SYNTAX),
        ("ZADD z 1 a 2", SYNTAX),
        (
            "ZADD z INCR 1 a 2 b",
            "-ERR INCR option supports a single increment-element pair",
        ),
        ("ZADD z x a", NOT_FLOAT),
        ("ZADD z 1 b nan c", NOT_FLOAT),
        ("ZADD s x a", NOT_FLOAT),
        ("ZADD s 1 a", WRONG_TYPE),
        ("ZINCRBY s 1 a", WRONG_TYPE),
        ("ZINCRBY z x a", NOT_FLOAT),
        ("ZINCRBY z NX a", SYNTAX),
        ("ZADD z inf i", ":1"),
        (
            "ZINCRBY z -inf i",
            "-ERR resulting score is not a number (NaN)",
        ),
        ("ZSCORE z i", "$3 inf"),
        ("ZCARD z", ":2"),
        (
            "ZADD z",
            "-ERR wrong number of arguments for 'zadd' command",
        ),
    ]);
}

#[test]
fn zincrby_adds_to_the_score() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("ZINCRBY z 2.5 a", "$3 2.5"),
        ("ZINCRBY z -1 a", "$3 1.5"),
        ("ZINCRBY z 0 a", "$3 1.5"),
        ("ZINCRBY z 0x10 b", "$2 16"),
    ]);
    assert_eq!(fixture.events(), "new z, zincr z, zincr z, zincr z");
    let mut fixture = Fixture::resp3();
    fixture.expect(&[("ZINCRBY z 2.5 a", ",2.5"), ("ZADD z XX INCR 1 b", "_")]);
}

#[test]
fn zrem_removes_members() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.expect(&[
        ("ZREM z x a a b", ":2"),
        ("ZREM z x", ":0"),
        ("ZREM none x", ":0"),
        ("ZREM z c d", ":1"),
        ("EXISTS z", ":0"),
    ]);
    assert_eq!(fixture.events(), "zrem z, zrem z, del z, keymiss z");
    assert_eq!(fixture.stats.dirty, 3 + 3);
    fixture.run("SET s v");
    assert_eq!(fixture.run("ZREM s x"), WRONG_TYPE);
}

#[test]
fn zremrangeby_removes_ranges() {
    let mut fixture = with("1 a 2 b 3 c 4 d 5 e 5 f");
    fixture.expect(&[
        ("ZREMRANGEBYRANK z 1 2", ":2"),
        ("ZREMRANGEBYRANK z 7 9", ":0"),
        ("ZREMRANGEBYSCORE z (1 (5", ":1"),
        ("ZREMRANGEBYLEX z (e +", ":1"),
        ("ZRANGE z 0 -1", "*2 $1 a $1 e"),
        ("ZREMRANGEBYRANK z -1 -2", ":0"),
        ("ZREMRANGEBYRANK z x 1", NOT_INTEGER),
        ("ZREMRANGEBYSCORE z x 1", NOT_SCORES),
        ("ZREMRANGEBYLEX z x [a", NOT_NAMES),
        ("ZREMRANGEBYSCORE none 0 1", ":0"),
        ("ZREMRANGEBYRANK z 0 -1", ":2"),
    ]);
    assert_eq!(
        fixture.events(),
        "zremrangebyrank z, zremrangebyscore z, zremrangebylex z, zremrangebyrank z, del z"
    );
    fixture.run("SET s v");
    for line in [
        "ZREMRANGEBYRANK s 0 1",
        "ZREMRANGEBYSCORE s 0 1",
        "ZREMRANGEBYLEX s - +",
    ] {
        assert_eq!(fixture.run(line), WRONG_TYPE);
    }
}

#[test]
fn zpopmin_and_zpopmax_pop_from_the_ends() {
    let mut fixture = with("1 a 2 b 3 c 4 d 5 e");
    fixture.expect(&[
        ("ZPOPMIN z", "*2 $1 a $1 1"),
        ("ZPOPMAX z 2", "*4 $1 e $1 5 $1 d $1 4"),
        ("ZPOPMIN z 0", "*0"),
        ("ZPOPMIN none", "*0"),
        (
            "ZPOPMIN z -1",
            "-ERR value is out of range, must be positive",
        ),
        (
            "ZPOPMAX z x",
            "-ERR value is out of range, must be positive",
        ),
        ("ZPOPMAX z 1 2", SYNTAX),
        ("ZPOPMIN z 100", "*4 $1 b $1 2 $1 c $1 3"),
    ]);
    assert_eq!(fixture.events(), "zpopmin z, zpopmax z, zpopmin z, del z");
    assert_eq!(fixture.stats.dirty, 5 + 5);
    fixture.run("SET s v");
    fixture.expect(&[("ZPOPMIN s", WRONG_TYPE), ("ZPOPMIN s 0", WRONG_TYPE)]);
    let mut fixture = Fixture::resp3();
    fixture.expect(&[
        ("ZADD z 1 a 2 b 3 c", ":3"),
        ("ZPOPMIN z", "*2 $1 a ,1"),
        ("ZPOPMIN z 1", "*1 *2 $1 b ,2"),
    ]);
}

#[test]
fn zmpop_pops_from_the_first_existing_key() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.run("SET s v");
    fixture.run("ZADD y 7 x");
    fixture.events();
    const FEW: &str = "-ERR numkeys should be greater than 0";
    const COUNT: &str = "-ERR count should be greater than 0";
    fixture.expect(&[
        ("ZMPOP 2 none z MIN", "*2 $1 z *1 *2 $1 a $1 1"),
        (
            "ZMPOP 2 z y MAX COUNT 5",
            "*2 $1 z *2 *2 $1 c $1 3 *2 $1 b $1 2",
        ),
        ("ZMPOP 2 z y max count 1", "*2 $1 y *1 *2 $1 x $1 7"),
        ("ZMPOP 1 z MIN", "*-1"),
        ("ZMPOP 2 none s MIN", WRONG_TYPE),
        ("ZMPOP 0 z MIN", FEW),
        ("ZMPOP x z MIN", FEW),
        ("ZMPOP 2 z MIN", SYNTAX),
        ("ZMPOP 9223372036854775807 z MIN", SYNTAX),
        ("ZMPOP 1 z LOW", SYNTAX),
        ("ZMPOP 1 z MIN COUNT 0", COUNT),
        ("ZMPOP 1 z MIN COUNT x", COUNT),
        ("ZMPOP 1 z MIN COUNT 1 COUNT 1", SYNTAX),
        ("ZMPOP 1 z MIN COUNT", SYNTAX),
    ]);
    assert_eq!(
        fixture.events(),
        "zpopmin z, zpopmax z, del z, zpopmax y, del y"
    );
}

#[test]
fn commands_accept_many_entries_of_a_large_sorted_set() {
    let mut fixture = Fixture::new();
    let mut run = |command: &str, range: std::ops::Range<u32>, score: &str| {
        let words: Vec<String> = range.map(|n| format!("{score}e{n}")).collect();
        fixture.run(&format!("{command} z {}", words.join(" ")))
    };
    assert_eq!(run("ZADD", 0..10_000, "1 "), ":10000");
    assert_eq!(run("ZADD", 9_980..10_020, "-inf "), ":20");
    let found = run("ZMSCORE", 9_970..10_030, "");
    let expected = [" $1 1".repeat(10), " $4 -inf".repeat(40), " $-1".repeat(10)];
    assert_eq!(found, format!("*60{}", expected.concat()));
    assert_eq!(run("ZRANK", 0..1, ""), ":40");
    assert_eq!(run("ZREM", 0..2_000, ""), ":2000");
    assert_eq!(run("ZCARD", 0..0, ""), ":8020");
}
