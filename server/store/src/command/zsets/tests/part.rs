//! Tests of ranges, look-ups, random members and scans.

use super::{NOT_INTEGER, NOT_NAMES, NOT_SCORES, SYNTAX, WRONG_TYPE, with};
use crate::command::testing::Fixture;

#[test]
fn ranges_by_rank() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.expect(&[
        ("ZRANGE z 0 -1", "*3 $1 a $1 b $1 c"),
        ("ZRANGE z 1 1 WITHSCORES", "*2 $1 b $1 2"),
        ("ZRANGE z -2 100", "*2 $1 b $1 c"),
        ("ZRANGE z -100 0 REV", "*1 $1 c"),
        ("ZRANGE z 0 1 REV WITHSCORES", "*4 $1 c $1 3 $1 b $1 2"),
        ("ZREVRANGE z 0 0", "*1 $1 c"),
        ("ZREVRANGE z 1 -1 WITHSCORES", "*4 $1 b $1 2 $1 a $1 1"),
        ("ZRANGE z 3 4", "*0"),
        ("ZRANGE z 2 1", "*0"),
        ("ZRANGE z -9223372036854775808 -9223372036854775807", "*0"),
        (
            "ZRANGE z -9223372036854775808 9223372036854775807 REV",
            "*3 $1 c $1 b $1 a",
        ),
        ("ZRANGE none 0 1", "*0"),
        ("ZRANGE z 0 1 LIMIT 0 -1", "*2 $1 a $1 b"),
        (
            "ZRANGE z 0 1 LIMIT 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ),
        ("ZRANGE z 0 1 LIMIT 0", SYNTAX),
        ("ZRANGE z 0 1 LIMIT 0 x", NOT_INTEGER),
        ("ZRANGE z 0 1 REV REV", SYNTAX),
        ("ZRANGE z 0 x", NOT_INTEGER),
        ("ZRANGE z (0 1", NOT_INTEGER),
        ("ZREVRANGE z 0 1 REV", SYNTAX),
        ("ZREVRANGE z 0 1 BYSCORE", SYNTAX),
        (
            "ZREVRANGE z 0 1 WITHSCORES WITHSCORES",
            "*4 $1 c $1 3 $1 b $1 2",
        ),
    ]);
    let mut fixture = Fixture::resp3();
    fixture.expect(&[
        ("ZADD z 1 a 2.5 7", ":2"),
        ("ZRANGE z 0 -1", "*2 $1 a $1 7"),
        ("ZRANGE z 0 -1 WITHSCORES", "*2 *2 $1 a ,1 *2 $1 7 ,2.5"),
        ("ZRANGE none 0 -1 WITHSCORES", "*0"),
    ]);
}

#[test]
fn ranges_by_score() {
    let mut fixture = with("-inf low 1 a 2 b 2 c 3 d inf high");
    fixture.expect(&[
        ("ZRANGEBYSCORE z 1 2", "*3 $1 a $1 b $1 c"),
        ("ZRANGE z 1 2 BYSCORE", "*3 $1 a $1 b $1 c"),
        ("ZRANGEBYSCORE z (1 (3", "*2 $1 b $1 c"),
        (
            "ZRANGEBYSCORE z -inf +inf",
            "*6 $3 low $1 a $1 b $1 c $1 d $4 high",
        ),
        ("ZRANGEBYSCORE z (-inf (inf", "*4 $1 a $1 b $1 c $1 d"),
        (
            "ZREVRANGEBYSCORE z 2 1 WITHSCORES",
            "*6 $1 c $1 2 $1 b $1 2 $1 a $1 1",
        ),
        ("ZRANGE z (3 1 BYSCORE REV LIMIT 1 1", "*1 $1 b"),
        ("ZRANGEBYSCORE z 1 3 LIMIT 1 2", "*2 $1 b $1 c"),
        ("ZRANGEBYSCORE z 1 3 LIMIT 1 -1", "*3 $1 b $1 c $1 d"),
        ("ZRANGEBYSCORE z 1 3 LIMIT -1 2", "*0"),
        ("ZRANGEBYSCORE z 1 3 LIMIT 4 2", "*0"),
        ("ZRANGEBYSCORE z 1 3 LIMIT 0 0", "*0"),
        ("ZRANGEBYSCORE z 3 1", "*0"),
        ("ZRANGEBYSCORE z (2 2", "*0"),
        ("ZRANGEBYSCORE z 0x1 1e0", "*1 $1 a"),
        ("ZRANGEBYSCORE z x 1", NOT_SCORES),
        ("ZRANGEBYSCORE z nan 1", NOT_SCORES),
        ("ZRANGEBYSCORE z 1 ((2", NOT_SCORES),
        ("ZRANGEBYSCORE z 1 2 REV", SYNTAX),
        ("ZRANGE z 1 2 BYSCORE BYSCORE", SYNTAX),
        ("ZCOUNT z 1 2", ":3"),
        ("ZCOUNT z (1 +inf", ":4"),
        ("ZCOUNT z 2 1", ":0"),
        ("ZCOUNT none 1 2", ":0"),
        ("ZCOUNT z x 2", NOT_SCORES),
    ]);
}

#[test]
fn ranges_by_name() {
    let mut fixture = with("0 a 0 aa 0 b 0 c 0 d");
    fixture.expect(&[
        ("ZRANGEBYLEX z - +", "*5 $1 a $2 aa $1 b $1 c $1 d"),
        ("ZRANGEBYLEX z [aa (c", "*2 $2 aa $1 b"),
        ("ZRANGEBYLEX z (a [c LIMIT 1 1", "*1 $1 b"),
        ("ZREVRANGEBYLEX z + (aa", "*3 $1 d $1 c $1 b"),
        ("ZRANGE z [c - BYLEX REV LIMIT 0 2", "*2 $1 c $1 b"),
        ("ZRANGEBYLEX z + -", "*0"),
        ("ZRANGEBYLEX z [ [a", "*1 $1 a"),
        ("ZRANGEBYLEX z [b [a", "*0"),
        ("ZRANGEBYLEX z b [c", NOT_NAMES),
        ("ZRANGEBYLEX z -- +", NOT_NAMES),
        (
            "ZRANGEBYLEX z [a [b WITHSCORES",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ),
        ("ZLEXCOUNT z [a (c", ":3"),
        ("ZLEXCOUNT z - +", ":5"),
        ("ZLEXCOUNT none - +", ":0"),
        ("ZLEXCOUNT z a b", NOT_NAMES),
    ]);
}

#[test]
fn ranges_are_stored() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.run("SET d v PX 1000");
    fixture.events();
    fixture.expect(&[
        ("ZRANGESTORE d z 1 -1", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 b $1 2 $1 c $1 3"),
        ("TTL d", ":-1"),
        ("ZRANGESTORE n z (1 (3 BYSCORE", ":1"),
        ("ZRANGESTORE z z 0 0 REV", ":1"),
        ("ZRANGE z 0 -1", "*1 $1 c"),
        ("ZRANGESTORE d z 5 9", ":0"),
        ("EXISTS d", ":0"),
        ("ZRANGESTORE d none 0 1", ":0"),
        ("ZRANGESTORE d z 0 1 WITHSCORES", SYNTAX),
        ("ZRANGESTORE d z x 1", NOT_INTEGER),
    ]);
    assert_eq!(
        fixture.events(),
        "zrangestore d, new n, zrangestore n, zrangestore z, del d, keymiss d, keymiss none"
    );
}

#[test]
fn scores_and_ranks_are_looked_up() {
    let mut fixture = with("1 a 2 b 2.5 c");
    fixture.run("SET s v");
    fixture.expect(&[
        ("ZSCORE z c", "$3 2.5"),
        ("ZSCORE z x", "$-1"),
        ("ZSCORE none x", "$-1"),
        ("ZMSCORE z a x c", "*3 $1 1 $-1 $3 2.5"),
        ("ZMSCORE none a b", "*2 $-1 $-1"),
        ("ZCARD z", ":3"),
        ("ZCARD none", ":0"),
        ("ZRANK z b", ":1"),
        ("ZREVRANK z a", ":2"),
        ("ZRANK z x", "$-1"),
        ("ZRANK z c WITHSCORE", "*2 :2 $3 2.5"),
        ("ZREVRANK z c withscore", "*2 :0 $3 2.5"),
        ("ZRANK z x WITHSCORE", "*-1"),
        ("ZRANK none x WITHSCORE", "*-1"),
        ("ZRANK none x", "$-1"),
        ("ZRANK z a WITHSCORES", SYNTAX),
        (
            "ZRANK z a WITHSCORE x",
            "-ERR wrong number of arguments for 'zrank' command",
        ),
        ("ZSCORE s x", WRONG_TYPE),
        ("ZMSCORE s x", WRONG_TYPE),
        ("ZCARD s", WRONG_TYPE),
        ("ZRANK s x", WRONG_TYPE),
        ("ZRANGE s 0 1", WRONG_TYPE),
        ("ZCOUNT s 0 1", WRONG_TYPE),
    ]);
    let mut fixture = Fixture::resp3();
    fixture.expect(&[
        ("ZADD z 1.5 a", ":1"),
        ("ZSCORE z a", ",1.5"),
        ("ZSCORE z x", "_"),
        ("ZRANK z a WITHSCORE", "*2 :0 ,1.5"),
        ("ZRANK z x WITHSCORE", "_"),
        ("ZMSCORE z a x", "*2 ,1.5 _"),
    ]);
}

#[test]
fn zrandmember_draws_uniformly() {
    let mut fixture = with("1 a 2 b 3 c");
    fixture.expect(&[
        ("ZRANDMEMBER none", "$-1"),
        ("ZRANDMEMBER none 2", "*0"),
        ("ZRANDMEMBER z 0", "*0"),
        ("ZRANDMEMBER z 5", "*3 $1 a $1 b $1 c"),
        (
            "ZRANDMEMBER z 3 WITHSCORES",
            "*6 $1 a $1 1 $1 b $1 2 $1 c $1 3",
        ),
        ("ZRANDMEMBER z x", NOT_INTEGER),
        ("ZRANDMEMBER z 1 SCORES", SYNTAX),
        ("ZRANDMEMBER z 1 WITHSCORES x", SYNTAX),
        (
            "ZRANDMEMBER z -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        (
            "ZRANDMEMBER z 9223372036854775807 WITHSCORES",
            "-ERR value is out of range",
        ),
        (
            "ZRANDMEMBER z -9223372036854775807",
            "-ERR value is out of range",
        ),
    ]);
    for large in [false, true] {
        let mut fixture = with("1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h");
        if large {
            fixture.run(&format!("ZADD z 9 {}", "x".repeat(65)));
            fixture.run("ZREMRANGEBYRANK z -1 -1");
        }
        let mut seen = std::collections::BTreeMap::<String, usize>::new();
        for _ in 0..800 {
            *seen.entry(fixture.run("ZRANDMEMBER z")).or_default() += 1;
            for count in [2, 6] {
                let reply = fixture.run(&format!("ZRANDMEMBER z {count}"));
                let mut names: Vec<&str> = reply.split(' ').skip(2).step_by(2).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), count, "{reply}");
                for name in names {
                    *seen.entry(format!("{name} of {count}")).or_default() += 1;
                }
            }
        }
        assert_eq!(seen.len(), 24);
        for (name, times) in seen {
            let expected = match name.split(" of ").nth(1) {
                Some("2") => 200,
                Some(_) => 600,
                None => 100,
            };
            assert!(times.abs_diff(expected) < 80, "{name}: {times}");
        }
        let reply = fixture.run("ZRANDMEMBER z -20 WITHSCORES");
        assert!(reply.starts_with("*40 $1 "), "{reply}");
    }
    let mut fixture = Fixture::resp3();
    fixture.run("ZADD z 1 a");
    assert_eq!(
        fixture.run("ZRANDMEMBER z -2 WITHSCORES"),
        "*2 *2 $1 a ,1 *2 $1 a ,1"
    );
}

#[test]
fn zscan_returns_each_member_once() {
    let mut fixture = with("1 a 2.5 b 0.1 11");
    fixture.expect(&[
        ("ZSCAN z 0", "*2 $1 0 *6 $2 11 $3 0.1 $1 a $1 1 $1 b $3 2.5"),
        ("ZSCAN z 0 MATCH a*", "*2 $1 0 *2 $1 a $1 1"),
        ("ZSCAN none 0", "*2 $1 0 *0"),
        ("ZSCAN z x", "-ERR invalid cursor"),
    ]);
    for n in 0..200 {
        fixture.run(&format!("ZADD z 0.1 n:{n}"));
    }
    let mut cursor = "0".to_owned();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let reply = fixture.run(&format!("ZSCAN z {cursor} COUNT 20"));
        let words: Vec<&str> = reply.split(' ').collect();
        for pair in words[4..].chunks(4) {
            if pair[1].starts_with("n:") {
                assert_eq!(
                    pair[3], "0.10000000000000001",
                    "Redis's format for a skiplist"
                );
            }
            assert!(seen.insert(pair[1].to_owned()));
        }
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 203);
}
