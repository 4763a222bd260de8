use crate::command::testing::Fixture;

fn filled(values: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.run(&format!("RPUSH l {values}"));
    fixture.events();
    fixture
}

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_INT: &str = "-ERR value is not an integer or out of range";

#[test]
fn pushes_return_the_length() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("LPUSHX l a"), ":0");
    assert_eq!(fixture.run("RPUSHX l a"), ":0");
    assert_eq!(fixture.events(), "");
    assert_eq!(fixture.run("LPUSH l a b"), ":2");
    assert_eq!(fixture.run("RPUSH l c 4"), ":4");
    assert_eq!(fixture.run("LPUSHX l x"), ":5");
    assert_eq!(fixture.run("RPUSHX l y z"), ":7");
    assert_eq!(
        fixture.events(),
        "new l, lpush l, rpush l, lpush l, rpush l"
    );
    assert_eq!(fixture.stats.dirty, 7);
    assert_eq!(
        fixture.run("LRANGE l 0 -1"),
        "*7 $1 x $1 b $1 a $1 c $1 4 $1 y $1 z"
    );
    assert_eq!(fixture.run("TYPE l"), "+list");
    fixture.run("SET s v");
    for push in ["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"] {
        assert_eq!(fixture.run(&format!("{push} s a")), WRONG);
    }
}

#[test]
fn pops_return_one_or_several_elements() {
    let mut fixture = filled("a b c d e f");
    assert_eq!(fixture.run("LPOP l"), "$1 a");
    assert_eq!(fixture.run("RPOP l"), "$1 f");
    assert_eq!(fixture.run("LPOP l 2"), "*2 $1 b $1 c");
    assert_eq!(fixture.run("RPOP l 0"), "*0");
    assert_eq!(fixture.events(), "lpop l, rpop l, lpop l");
    assert_eq!(fixture.run("RPOP l 9223372036854775807"), "*2 $1 e $1 d");
    assert_eq!(fixture.events(), "rpop l, del l");
    assert_eq!(fixture.run("EXISTS l"), ":0");
    assert_eq!(fixture.stats.dirty, 12);
    assert_eq!(fixture.run("LPOP l"), "$-1");
    assert_eq!(fixture.run("LPOP l 0"), "*-1");
    assert_eq!(fixture.run("RPOP l 3"), "*-1");
    fixture.run("SET s v");
    for line in ["LPOP s", "RPOP s", "LPOP s 0", "RPOP s 1"] {
        assert_eq!(fixture.run(line), WRONG, "{line}");
    }
    for line in ["LPOP l -1", "RPOP s x"] {
        let refused = "-ERR value is out of range, must be positive";
        assert_eq!(fixture.run(line), refused, "{line}");
    }
    assert_eq!(
        fixture.run("LPOP l 1 2"),
        "-ERR wrong number of arguments for 'lpop' command"
    );
    assert_eq!(
        fixture.run("RPOP l 1 2"),
        "-ERR wrong number of arguments for 'rpop' command"
    );
}

#[test]
fn the_deadline_is_removed_with_the_last_element() {
    let mut fixture = Fixture::new();
    fixture.run("RPUSH l 1");
    fixture.run("PEXPIRE l 1000");
    assert_eq!(fixture.run("RPOP l"), "$1 1");
    fixture.run("RPUSH l 1");
    assert_eq!(fixture.run("TTL l"), ":-1");
}

#[test]
fn missing_elements_are_null_in_resp3() {
    let mut fixture = Fixture::resp3();
    for line in [
        "LPOP l",
        "RPOP l 2",
        "LINDEX l 0",
        "LPOS l a",
        "LMOVE l m LEFT LEFT",
    ] {
        assert_eq!(fixture.run(line), "_", "{line}");
    }
    assert_eq!(fixture.run("LMPOP 2 l m LEFT"), "_");
    assert_eq!(fixture.run("LPOS l a COUNT 0"), "*0");
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*0");
}

#[test]
fn reads_count_hits_and_misses() {
    let mut fixture = filled("a b c");
    assert_eq!(fixture.run("LLEN l"), ":3");
    assert_eq!(fixture.run("LLEN nope"), ":0");
    assert_eq!(fixture.run("LINDEX l 1"), "$1 b");
    assert_eq!(fixture.run("LINDEX l -3"), "$1 a");
    assert_eq!(fixture.run("LINDEX l 3"), "$-1");
    assert_eq!(fixture.run("LINDEX l -4"), "$-1");
    assert_eq!(fixture.run("LINDEX l -9223372036854775808"), "$-1");
    assert_eq!(fixture.run("LINDEX l x"), NOT_INT);
    assert_eq!(fixture.run("LINDEX nope x"), "$-1");
    assert_eq!(fixture.run("LRANGE nope 0 1"), "*0");
    assert_eq!(fixture.run("LRANGE nope x 1"), NOT_INT);
    assert_eq!(fixture.events(), "keymiss nope, keymiss nope, keymiss nope");
    assert_eq!((fixture.stats.hits, fixture.stats.misses), (7, 3));
    fixture.run("SET s v");
    for line in ["LLEN s", "LINDEX s x", "LRANGE s 0 1", "LPOS s a"] {
        assert_eq!(fixture.run(line), WRONG, "{line}");
    }
}

#[test]
fn lrange_clamps_the_range_to_the_list() {
    let mut fixture = filled("a b c d");
    for (range, shown) in [
        ("0 -1", "*4 $1 a $1 b $1 c $1 d"),
        ("1 2", "*2 $1 b $1 c"),
        ("-2 -1", "*2 $1 c $1 d"),
        ("-100 0", "*1 $1 a"),
        ("3 100", "*1 $1 d"),
        ("2 1", "*0"),
        ("4 9", "*0"),
        ("0 -5", "*0"),
        (
            "-9223372036854775808 9223372036854775807",
            "*4 $1 a $1 b $1 c $1 d",
        ),
        ("9223372036854775807 -9223372036854775808", "*0"),
    ] {
        assert_eq!(fixture.run(&format!("LRANGE l {range}")), shown, "{range}");
    }
}

#[test]
fn lset_replaces_an_existing_element() {
    let mut fixture = filled("a b c");
    assert_eq!(fixture.run("LSET l 1 x"), "+OK");
    assert_eq!(fixture.run("LSET l -1 77"), "+OK");
    assert_eq!(fixture.events(), "lset l, lset l");
    assert_eq!(fixture.stats.dirty, 5);
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*3 $1 a $1 x $2 77");
    assert_eq!(fixture.run("LSET l 3 x"), "-ERR index out of range");
    assert_eq!(fixture.run("LSET l -4 x"), "-ERR index out of range");
    assert_eq!(fixture.run("LSET l x x"), NOT_INT);
    assert_eq!(fixture.run("LSET nope x x"), "-ERR no such key");
    fixture.run("SET s v");
    assert_eq!(fixture.run("LSET s x x"), WRONG);
    assert_eq!(fixture.stats.dirty, 6);
}

#[test]
fn linsert_inserts_beside_the_first_match() {
    let mut fixture = filled("a b a");
    assert_eq!(fixture.run("LINSERT l before a x"), ":4");
    assert_eq!(fixture.run("LINSERT l AFTER a y"), ":5");
    assert_eq!(fixture.events(), "linsert l, linsert l");
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*5 $1 x $1 a $1 y $1 b $1 a");
    assert_eq!(fixture.run("LINSERT l AFTER q y"), ":-1");
    assert_eq!(fixture.run("LINSERT nope AFTER q y"), ":0");
    assert_eq!(fixture.run("LINSERT nope beside q y"), "-ERR syntax error");
    assert_eq!((fixture.events(), fixture.stats.dirty), (String::new(), 5));
    fixture.run("SET s v");
    assert_eq!(fixture.run("LINSERT s AFTER q y"), WRONG);
}

#[test]
fn lrem_counts_from_either_end() {
    let mut fixture = filled("a b a c a 1 01");
    assert_eq!(fixture.run("LREM l -1 a"), ":1");
    assert_eq!(fixture.run("LREM l 1 a"), ":1");
    assert_eq!(fixture.run("LREM l 0 1"), ":1");
    assert_eq!(fixture.events(), "lrem l, lrem l, lrem l");
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*4 $1 b $1 a $1 c $2 01");
    assert_eq!(fixture.run("LREM l 0 nope"), ":0");
    assert_eq!(fixture.run("LREM nope 0 a"), ":0");
    assert_eq!(fixture.run("LREM nope x a"), NOT_INT);
    assert_eq!(fixture.events(), "");
    for element in ["b", "c", "01"] {
        fixture.run(&format!("LREM l 5 {element}"));
    }
    fixture.events();
    assert_eq!(fixture.run("LREM l -9223372036854775808 a"), ":1");
    assert_eq!(fixture.events(), "lrem l, del l");
    assert_eq!(fixture.stats.dirty, 14);
    fixture.run("SET s v");
    assert_eq!(fixture.run("LREM s 0 a"), WRONG);
}

#[test]
fn ltrim_keeps_a_range() {
    let mut fixture = filled("a b c d e");
    assert_eq!(fixture.run("LTRIM l 0 -1"), "+OK");
    assert_eq!(
        (fixture.events().as_str(), fixture.stats.dirty),
        ("ltrim l", 5)
    );
    assert_eq!(fixture.run("LTRIM l 1 -2"), "+OK");
    assert_eq!(
        (fixture.events().as_str(), fixture.stats.dirty),
        ("ltrim l", 7)
    );
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*3 $1 b $1 c $1 d");
    assert_eq!(fixture.run("LTRIM l 3 9"), "+OK");
    assert_eq!(fixture.events(), "ltrim l, del l");
    assert_eq!(fixture.stats.dirty, 10);
    assert_eq!(fixture.run("LTRIM l 0 0"), "+OK");
    assert_eq!(fixture.run("LTRIM l x 0"), NOT_INT);
    fixture.run("SET s v");
    assert_eq!(fixture.run("LTRIM s 0 0"), WRONG);
    assert_eq!(fixture.events(), "new s, set s");
}

#[test]
fn lpos_finds_by_rank_count_and_length() {
    let mut fixture = filled("a b c 1 2 3 c c");
    for (search, shown) in [
        ("c", ":2"),
        ("q", "$-1"),
        ("1", ":3"),
        ("01", "$-1"),
        ("c RANK 2", ":6"),
        ("c RANK -1", ":7"),
        ("c RANK -3", ":2"),
        ("c RANK 4", "$-1"),
        ("c COUNT 2", "*2 :2 :6"),
        ("c COUNT 0", "*3 :2 :6 :7"),
        ("c COUNT 0 RANK -2", "*2 :6 :2"),
        ("c COUNT 1 RANK -1", "*1 :7"),
        ("q COUNT 1", "*0"),
        ("c MAXLEN 2", "$-1"),
        ("c MAXLEN 3", ":2"),
        ("c COUNT 0 MAXLEN 7", "*2 :2 :6"),
        ("c COUNT 0 MAXLEN 2 RANK -1", "*2 :7 :6"),
        ("c RANK 9223372036854775807", "$-1"),
        ("c RANK x", NOT_INT),
        ("c COUNT x", "-ERR COUNT can't be negative"),
        ("c COUNT -1", "-ERR COUNT can't be negative"),
        ("c MAXLEN -1", "-ERR MAXLEN can't be negative"),
        ("c MAXLEN", "-ERR syntax error"),
        ("c LENGTH 1", "-ERR syntax error"),
        (
            "c RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
             start from the end of the list",
        ),
        (
            "c RANK -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
    ] {
        assert_eq!(fixture.run(&format!("LPOS l {search}")), shown, "{search}");
    }
    assert_eq!(fixture.run("LPOS nope a COUNT 3"), "*0");
    assert_eq!(fixture.run("LPOS nope a RANK 1"), "$-1");
}

#[test]
fn lmove_moves_an_element_between_ends_of_two_lists() {
    let mut fixture = filled("a b 3");
    assert_eq!(fixture.run("LMOVE l m LEFT right"), "$1 a");
    assert_eq!(fixture.events(), "new m, rpush m, lpop l");
    assert_eq!(fixture.run("RPOPLPUSH l m"), "$1 3");
    assert_eq!(fixture.events(), "lpush m, rpop l");
    assert_eq!(fixture.run("LRANGE m 0 -1"), "*2 $1 3 $1 a");
    assert_eq!(fixture.run("LMOVE l m RIGHT RIGHT"), "$1 b");
    assert_eq!(fixture.events(), "rpush m, rpop l, del l");
    assert_eq!(fixture.stats.dirty, 6);
    assert_eq!(fixture.run("LMOVE l m LEFT LEFT"), "$-1");
    assert_eq!(fixture.run("RPOPLPUSH l m"), "$-1");
    assert_eq!(fixture.run("LMOVE l m LEFT up"), "-ERR syntax error");
    fixture.run("SET s v");
    assert_eq!(fixture.run("LMOVE l s LEFT LEFT"), "$-1");
    assert_eq!(fixture.run("LMOVE m s LEFT LEFT"), WRONG);
    assert_eq!(fixture.run("LMOVE s m LEFT LEFT"), WRONG);
    assert_eq!(fixture.run("LLEN m"), ":3");
}

#[test]
fn lmove_rotates_a_list() {
    let mut fixture = filled("a b c");
    assert_eq!(fixture.run("RPOPLPUSH l l"), "$1 c");
    assert_eq!(fixture.events(), "lpush l, rpop l");
    assert_eq!(fixture.run("LMOVE l l LEFT LEFT"), "$1 c");
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*3 $1 c $1 a $1 b");
    let mut fixture = filled("only");
    for _ in 0..100 {
        assert_eq!(fixture.run("RPOPLPUSH l l"), "$4 only");
    }
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*1 $4 only");
    let large = "x".repeat(10_000);
    fixture.run(&format!("RPUSH l {large}"));
    assert_eq!(
        fixture.run("LMOVE l m RIGHT LEFT"),
        format!("$10000 {large}")
    );
    assert_eq!(
        fixture.run("LMOVE m l LEFT LEFT"),
        format!("$10000 {large}")
    );
    assert_eq!(fixture.run("LLEN l"), ":2");
}

#[test]
fn lmpop_pops_from_the_first_existing_list() {
    let mut fixture = filled("a b c");
    assert_eq!(fixture.run("LMPOP 2 nope l LEFT"), "*2 $1 l *1 $1 a");
    assert_eq!(fixture.events(), "lpop l");
    assert_eq!(
        fixture.run("LMPOP 1 l right COUNT 9"),
        "*2 $1 l *2 $1 c $1 b"
    );
    assert_eq!(fixture.events(), "rpop l, del l");
    assert_eq!(fixture.stats.dirty, 6);
    assert_eq!(fixture.run("LMPOP 2 l nope LEFT COUNT 1"), "*-1");
    fixture.run("SET s v");
    assert_eq!(fixture.run("LMPOP 2 nope s LEFT"), WRONG);
    for (arguments, refused) in [
        ("0 l LEFT", "numkeys should be greater than 0"),
        ("-1 l LEFT", "numkeys should be greater than 0"),
        ("x l LEFT", "numkeys should be greater than 0"),
        ("2 l LEFT", "syntax error"),
        ("9223372036854775807 l LEFT", "syntax error"),
        ("1 l up", "syntax error"),
        ("1 l LEFT COUNT 0", "count should be greater than 0"),
        ("1 l LEFT COUNT x", "count should be greater than 0"),
        ("1 l LEFT COUNT", "syntax error"),
        ("1 l LEFT COUNTS 1", "syntax error"),
        ("1 l LEFT COUNT 1 COUNT 1", "syntax error"),
    ] {
        let reply = fixture.run(&format!("LMPOP {arguments}"));
        assert_eq!(reply, format!("-ERR {refused}"), "{arguments}");
    }
}

#[test]
fn lists_move_and_pop_between_shards() {
    let mut fixture = Fixture::sharded(8);
    for n in 0..50 {
        fixture.run(&format!("RPUSH from{n} {n} x"));
        assert_eq!(
            fixture.run(&format!("LMOVE from{n} to{n} LEFT LEFT")),
            format!("${} {n}", n.to_string().len())
        );
        let popped = fixture.run(&format!("LMPOP 3 no{n} to{n} from{n} LEFT"));
        assert!(popped.starts_with(&format!("*2 ${} to{n} *1", 2 + n.to_string().len())));
    }
    assert_eq!(fixture.run("DBSIZE"), ":50");
}

#[test]
fn the_encoding_depends_on_the_size() {
    let mut fixture = filled("a");
    assert_eq!(fixture.run("OBJECT ENCODING l"), "$8 listpack");
    fixture.run(&format!("RPUSH l {}", "x".repeat(9000)));
    assert_eq!(fixture.run("OBJECT ENCODING l"), "$9 quicklist");
    fixture.run("COPY l copy");
    assert_eq!(fixture.run("OBJECT ENCODING copy"), "$9 quicklist");
    fixture.run("RPOP l");
    assert_eq!(fixture.run("OBJECT ENCODING l"), "$8 listpack");
    assert_eq!(fixture.run("LINDEX copy 0"), "$1 a");
}

/// The expected replies are from the documentation and the tests of Redis 8.10.
#[test]
fn lmovem_moves_elements_one_by_one_or_in_bulk() {
    for (ends, reply, left) in [
        ("LEFT LEFT COUNT 3 OBO", "3 2 1", "4 5"),
        ("LEFT LEFT COUNT 3 BULK", "1 2 3", "4 5"),
        ("RIGHT RIGHT COUNT 3 OBO", "5 4 3", "1 2"),
        ("RIGHT RIGHT EXACTLY 3 BULK", "3 4 5", "1 2"),
        ("LEFT RIGHT COUNT 2 BULK", "1 2", "3 4 5"),
        ("LEFT RIGHT COUNT 2 OBO", "1 2", "3 4 5"),
        ("RIGHT LEFT COUNT 2 OBO", "4 5", "1 2 3"),
        ("LEFT RIGHT COUNT 100 BULK", "1 2 3 4 5", ""),
        ("LEFT RIGHT EXACTLY 5 OBO", "1 2 3 4 5", ""),
        ("LEFT RIGHT", "1", "2 3 4 5"),
        ("right left", "5", "1 2 3 4"),
    ] {
        let shown = |texts: Vec<&str>| {
            let all: String = texts.iter().map(|text| format!(" $1 {text}")).collect();
            format!("*{}{all}", texts.len())
        };
        let mut fixture = filled("1 2 3 4 5");
        fixture.run("RPUSH m x y");
        fixture.events();
        let moved: Vec<&str> = reply.split(' ').collect();
        assert_eq!(
            fixture.run(&format!("LMOVEM l m {ends}")),
            shown(moved.clone()),
            "{ends}"
        );
        let to_head = ends.to_uppercase().split(' ').nth(1) == Some("LEFT");
        let left: Vec<&str> = left.split_whitespace().collect();
        let push = if to_head { "lpush" } else { "rpush" };
        let pop = if ends.to_uppercase().starts_with("LEFT") {
            "lpop"
        } else {
            "rpop"
        };
        let gone = if left.is_empty() { ", del l" } else { "" };
        assert_eq!(
            fixture.events(),
            format!("{push} m, {pop} l{gone}"),
            "{ends}"
        );
        let all = if to_head {
            [moved, vec!["x", "y"]]
        } else {
            [vec!["x", "y"], moved]
        };
        assert_eq!(fixture.run("LRANGE m 0 -1"), shown(all.concat()), "{ends}");
        assert_eq!(fixture.run("LRANGE l 0 -1"), shown(left.clone()), "{ends}");
    }
}

#[test]
fn lmovem_of_too_few_elements_or_bad_words_moves_nothing() {
    let mut fixture = filled("a b c");
    fixture.run("SET s v");
    fixture.events();
    fixture.expect(&[
        ("LMOVEM l m LEFT RIGHT EXACTLY 4 BULK", "*-1"),
        ("LMOVEM none m LEFT RIGHT", "*-1"),
        ("LMOVEM none s LEFT RIGHT COUNT 2 OBO", "*-1"),
        ("LMOVEM l s LEFT RIGHT COUNT 2 BULK", WRONG),
        ("LMOVEM s l LEFT RIGHT", WRONG),
        (
            "LMOVEM l m LEFT RIGHT COUNT 0 BULK",
            "-ERR count should be greater than 0",
        ),
        (
            "LMOVEM l m LEFT RIGHT EXACTLY -1 BULK",
            "-ERR count should be greater than 0",
        ),
        (
            "LMOVEM l m LEFT RIGHT COUNT a up",
            "-ERR count should be greater than 0",
        ),
        ("LMOVEM l m LEFT RIGHT COUNT 2", "-ERR syntax error"),
        (
            "LMOVEM l m LEFT RIGHT COUNT 2 OBO more",
            "-ERR syntax error",
        ),
        ("LMOVEM l m LEFT RIGHT BAD 2 OBO", "-ERR syntax error"),
        ("LMOVEM l m LEFT RIGHT COUNT 2 BAD", "-ERR syntax error"),
        ("LMOVEM l m UP RIGHT COUNT 2 OBO", "-ERR syntax error"),
        ("LMOVEM l m LEFT UP COUNT 2 OBO", "-ERR syntax error"),
    ]);
    assert_eq!(fixture.events(), "");
    assert_eq!(fixture.run("LRANGE l 0 -1"), "*3 $1 a $1 b $1 c");
    assert_eq!(fixture.run("EXISTS m"), ":0");
}

/// LMOVEM within one list keeps the list's deadline. The log has only commands that every
/// redis-server knows.
#[test]
fn lmovem_within_a_list_replays() {
    let long: String = (0..3_000).map(|n| format!(" {n}")).collect();
    for (words, list) in [
        ("k k LEFT LEFT EXACTLY 2 OBO", "*3 $1 b $1 a $1 c"),
        ("k k LEFT LEFT COUNT 2 BULK", "*3 $1 a $1 b $1 c"),
        ("k k LEFT RIGHT COUNT 2 BULK", "*3 $1 c $1 a $1 b"),
        ("k k LEFT LEFT COUNT 9 OBO", "*3 $1 c $1 b $1 a"),
        ("k k RIGHT RIGHT COUNT 9 OBO", "*3 $1 c $1 b $1 a"),
        ("k k RIGHT LEFT COUNT 9 OBO", "*3 $1 a $1 b $1 c"),
        ("long k RIGHT LEFT COUNT 9999 OBO", ""),
        ("long k LEFT LEFT COUNT 2999 BULK", ""),
    ] {
        let (mut fixture, mut replica) = (Fixture::new(), Fixture::new());
        fixture.set_logged(true);
        fixture.run("RPUSH k a b c");
        fixture.run("EXPIRE k 1000");
        fixture.run(&format!("RPUSH long{long}"));
        fixture.run(&format!("LMOVEM {words}"));
        let shown = fixture.run("LRANGE k 0 -1");
        assert!(list.is_empty() || shown == list, "{words}: {shown}");
        replica.apply(&fixture.take_log());
        for read in ["LRANGE k 0 -1", "LRANGE long 0 -1", "PTTL k"] {
            assert_eq!(fixture.run(read), replica.run(read), "{words}");
        }
        assert_eq!(fixture.run("PTTL k"), ":1000000");
    }
}
