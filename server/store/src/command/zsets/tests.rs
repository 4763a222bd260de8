//! Tests of each command with its options, errors and events. The expected replies are from
//! redis-server 7.0.15, except for ZRANK's WITHSCORE (Redis 7.2) and AGGREGATE COUNT (8.8).

mod change;
mod part;

use proptest::prelude::*;

use crate::command::testing::Fixture;

const SYNTAX: &str = "-ERR syntax error";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_FLOAT: &str = "-ERR value is not a valid float";
const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOT_SCORES: &str = "-ERR min or max is not a float";
const NOT_NAMES: &str = "-ERR min or max not valid string range item";

/// Returns a fixture in which `z` holds these entries.
fn with(entries: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.run(&format!("ZADD z {entries}"));
    fixture.events();
    fixture
}

#[test]
fn unions_intersections_differences() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.run("ZADD y 10 b 20 c 30 d");
    fixture.run("SADD s c d 5");
    fixture.run("SET t v");
    fixture.events();
    fixture.expect(&[
        ("ZUNION 2 z y", "*4 $1 a $1 b $1 c $1 d"),
        (
            "ZUNION 2 z y WITHSCORES",
            "*8 $1 a $1 1 $1 b $2 12 $1 c $2 23 $1 d $2 30",
        ),
        (
            "ZUNION 3 z y s WITHSCORES",
            "*10 $1 5 $1 1 $1 a $1 1 $1 b $2 12 $1 c $2 24 $1 d $2 31",
        ),
        (
            "ZUNION 2 z y WEIGHTS 2 -1 AGGREGATE MIN WITHSCORES",
            "*8 $1 d $3 -30 $1 c $3 -20 $1 b $3 -10 $1 a $1 2",
        ),
        ("ZINTER 2 z y WITHSCORES", "*4 $1 b $2 12 $1 c $2 23"),
        (
            "ZINTER 2 z y WITHSCORES AGGREGATE MAX",
            "*4 $1 b $2 10 $1 c $2 20",
        ),
        ("ZINTER 2 z s WITHSCORES WEIGHTS 1 0.5", "*2 $1 c $3 3.5"),
        (
            "ZUNION 2 z y AGGREGATE COUNT WITHSCORES",
            "*8 $1 a $1 1 $1 d $1 1 $1 b $1 2 $1 c $1 2",
        ),
        (
            "ZINTER 2 z y WEIGHTS 3 0.5 AGGREGATE COUNT WITHSCORES",
            "*4 $1 b $3 3.5 $1 c $3 3.5",
        ),
        ("ZINTER 2 z none", "*0"),
        (
            "ZINTER 2 z z WITHSCORES",
            "*6 $1 a $1 2 $1 b $1 4 $1 c $1 6",
        ),
        ("ZDIFF 2 z y WITHSCORES", "*2 $1 a $1 1"),
        ("ZDIFF 2 s z WITHSCORES", "*4 $1 5 $1 1 $1 d $1 1"),
        ("ZDIFF 2 z z", "*0"),
        ("ZDIFF 2 none z", "*0"),
        ("ZINTERCARD 2 z y", ":2"),
        ("ZINTERCARD 2 z y LIMIT 1", ":1"),
        ("ZINTERCARD 2 z y LIMIT 0", ":2"),
    ]);
    assert_eq!(fixture.events(), "keymiss none, keymiss none");
    fixture.expect(&[
        ("ZUNIONSTORE d 2 z y", ":4"),
        ("ZINTERSTORE d 2 z y WEIGHTS 0 inf", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 b $3 inf $1 c $3 inf"),
        ("ZDIFFSTORE d 2 z y", ":1"),
        ("ZDIFFSTORE d 2 z z", ":0"),
        ("ZINTERSTORE d 2 z none", ":0"),
        ("ZUNIONSTORE z 1 z WEIGHTS -1", ":3"),
        ("ZRANGE z 0 -1", "*3 $1 c $1 b $1 a"),
    ]);
    assert_eq!(
        fixture.events(),
        "new d, zunionstore d, zinterstore d, zdiffstore d, del d, keymiss none, zunionstore z"
    );
    fixture.run("ZADD i inf m");
    fixture.run("ZADD j -inf m");
    fixture.expect(&[
        ("ZUNION 2 i j WITHSCORES", "*2 $1 m $1 0"),
        ("ZUNION 1 i WEIGHTS 0 WITHSCORES", "*2 $1 m $1 0"),
        ("ZINTER 2 i j WITHSCORES", "*2 $1 m $1 0"),
    ]);
    let mut fixture = Fixture::resp3();
    fixture.run("ZADD z 1 a 2.5 b");
    assert_eq!(
        fixture.run("ZUNION 1 z WITHSCORES"),
        "*2 *2 $1 a ,1 *2 $1 b ,2.5"
    );
}

#[test]
fn wrong_options_of_unions() {
    let mut fixture = with("1 a");
    fixture.run("SET t v");
    fixture.expect(&[
        (
            "ZUNION 0 z",
            "-ERR at least 1 input key is needed for 'zunion' command",
        ),
        (
            "ZINTERSTORE d -1 z",
            "-ERR at least 1 input key is needed for 'zinterstore' command",
        ),
        ("ZDIFF x z", NOT_INTEGER),
        ("ZUNION 2 z", SYNTAX),
        ("ZUNION 2 z t FOO", WRONG_TYPE),
        ("ZUNION 1 z FOO", SYNTAX),
        ("ZUNION 1 z WEIGHTS", SYNTAX),
        ("ZUNION 1 z WEIGHTS x", "-ERR weight value is not a float"),
        ("ZUNION 1 z WEIGHTS 1 2", SYNTAX),
        ("ZUNION 1 z AGGREGATE", SYNTAX),
        ("ZUNION 1 z AGGREGATE AVG", SYNTAX),
        ("ZUNIONSTORE d 1 z WITHSCORES", SYNTAX),
        ("ZDIFF 1 z WEIGHTS 1", SYNTAX),
        ("ZUNION 1 z LIMIT 1", SYNTAX),
        ("ZINTERCARD 1 z LIMIT", SYNTAX),
        ("ZINTERCARD 1 z LIMIT -1", "-ERR LIMIT can't be negative"),
        ("ZINTERCARD 1 z LIMIT x", "-ERR LIMIT can't be negative"),
        ("ZINTERCARD 1 z WITHSCORES", SYNTAX),
    ]);
}

#[test]
fn names_compare_equal_across_encodings() {
    let mut fixture = Fixture::new();
    let long = "x".repeat(65);
    // The member 7 is a text in the skiplist, and an integer in the listpack and in the intset.
    fixture.run(&format!("ZADD large 1 7 2 {long}"));
    fixture.run("ZADD small 10 7");
    fixture.run("SADD ints 7");
    fixture.expect(&[
        ("OBJECT ENCODING large", "$8 skiplist"),
        ("OBJECT ENCODING small", "$8 listpack"),
        ("ZINTER 3 large small ints WITHSCORES", "*2 $1 7 $2 12"),
        ("ZINTERCARD 2 ints large", ":1"),
        ("ZDIFF 2 small large", "*0"),
        ("ZUNIONSTORE d 3 small ints large WEIGHTS 1 1 1", ":2"),
        ("ZSCORE d 7", "$2 12"),
        ("OBJECT ENCODING d", "$8 skiplist"),
        ("ZINTERSTORE d 2 small large", ":1"),
        ("OBJECT ENCODING d", "$8 listpack"),
    ]);
}

#[test]
fn object_encoding_depends_on_the_size() {
    let mut fixture = Fixture::new();
    let many = |count: usize| (0..count).map(|n| format!(" {n} m{n}")).collect::<String>();
    fixture.run(&format!("ZADD z{}", many(128)));
    assert_eq!(fixture.run("OBJECT ENCODING z"), "$8 listpack");
    fixture.run("ZADD z 5 x");
    assert_eq!(fixture.run("OBJECT ENCODING z"), "$8 skiplist");
    fixture.run("ZREMRANGEBYRANK z 0 100");
    assert_eq!(fixture.run("OBJECT ENCODING z"), "$8 skiplist");
    fixture.run("ZRANGESTORE d z 0 -1");
    assert_eq!(fixture.run("OBJECT ENCODING d"), "$8 listpack");
    assert_eq!(fixture.run("COPY z e"), ":1");
    assert_eq!(fixture.run("ZCARD e"), ":28");
    assert_eq!(fixture.run("ZPOPMIN e"), "*2 $4 m100 $3 100");
    assert_eq!(fixture.run("ZCARD z"), ":28");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any arguments, no command panics, and both encodings give the same replies (except for
    /// -0, which a listpack stores as 0).
    #[test]
    fn encodings_give_the_same_replies(
        lines in proptest::collection::vec(
            (0..20usize, "[-+(\\[]?(inf|[1-9]|1e9|[abc]{0,2})", "[-+(\\[]?(inf|[1-9]|1e9|[abc]{0,2})", 0..12usize),
            1..60,
        ),
    ) {
        const COMMANDS: [&str; 20] = [
            "ZADD", "ZADD", "ZADD", "ZINCRBY", "ZREM", "ZSCORE", "ZCOUNT", "ZRANK", "ZREVRANK", "ZRANGE",
            "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZPOPMIN", "ZPOPMAX", "ZMSCORE", "ZREMRANGEBYRANK",
            "ZREMRANGEBYSCORE", "ZUNION", "ZCARD", "ZREVRANGE",
        ];
        const OPTIONS: [&str; 12] = [
            "", "", "", "WITHSCORES", "LIMIT 1 2", "WITHSCORE", "REV BYSCORE", "NX 1 a", "2 b 1 a", "7 c", "BYLEX", "5",
        ];
        let (mut small, mut large) = (Fixture::new(), Fixture::new());
        large.store.set_limits(crate::limits::Limits { zset_entries: 0, ..Default::default() });
        for (command, a, b, option) in lines {
            let key = if COMMANDS[command] == "ZUNION" { "1 z" } else { "z" };
            let (a, b) = (if a.is_empty() { "\"\"" } else { &a }, if b.is_empty() { "\"\"" } else { &b });
            let line = format!("{} {key} {a} {b} {}", COMMANDS[command], OPTIONS[option]);
            let (of_small, of_large) = (small.run(&line), large.run(&line));
            // For members of unequal scores, BYLEX is undefined and depends on the encoding.
            if OPTIONS[option] != "BYLEX" {
                prop_assert_eq!(of_small, of_large, "{}", line);
            }
        }
        prop_assert_eq!(small.run("ZRANGE z 0 -1 WITHSCORES"), large.run("ZRANGE z 0 -1 WITHSCORES"));
        prop_assert_eq!(small.events(), large.events());
    }
}
