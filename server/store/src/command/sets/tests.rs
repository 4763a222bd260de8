//! Tests of the replies, events and statistics of each set command.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::testing::Fixture;
use crate::limits::Limits;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const INTEGER: &str = "-ERR value is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";

/// Returns the members of a reply that is a set or an array.
fn members(reply: &str) -> Vec<String> {
    let mut words = reply.split(' ');
    let head = words.next().unwrap();
    assert!(head.starts_with(['*', '~']), "{reply}");
    let members: Vec<String> = words.skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(head[1..].parse(), Ok(members.len()));
    members
}

fn sorted(reply: &str) -> String {
    let mut members = members(reply);
    members.sort();
    members.join(" ")
}

#[test]
fn sadd_counts_new_members() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("SADD s a b a"), ":2");
    assert_eq!(fixture.events(), "new s, sadd s");
    assert_eq!(fixture.stats.dirty, 2);
    assert_eq!(fixture.run("SADD s b a"), ":0");
    assert_eq!((fixture.events().as_str(), fixture.stats.dirty), ("", 2));
    assert_eq!(fixture.run("SADD s b c a d"), ":2");
    assert_eq!(fixture.events(), "sadd s");
    assert_eq!(fixture.run("SCARD s"), ":4");
    assert_eq!(sorted(&fixture.run("SMEMBERS s")), "a b c d");
    assert_eq!(fixture.run("SADD e \"\""), ":1");
    assert_eq!(fixture.run("SISMEMBER e \"\""), ":1");
    fixture.run("SET str x");
    assert_eq!(fixture.run("SADD str x"), WRONG);
    assert_eq!(fixture.run("TYPE s"), "+set");
}

#[test]
fn srem_counts_removed_members() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s 1 2 3 x");
    fixture.run("PEXPIRE s 1000");
    fixture.events();
    let dirty = fixture.stats.dirty;
    assert_eq!(fixture.run("SREM s 9 y"), ":0");
    assert_eq!(fixture.run("SREM nope 9"), ":0");
    assert_eq!(fixture.events(), "");
    assert_eq!(fixture.run("SREM s 9 1 x 1"), ":2");
    assert_eq!(fixture.events(), "srem s");
    assert_eq!(fixture.run("PTTL s"), ":1000");
    assert_eq!(fixture.run("SREM s 2 3 4"), ":2");
    assert_eq!(fixture.events(), "srem s, del s");
    assert_eq!(fixture.stats.dirty, dirty + 4);
    assert_eq!(fixture.run("EXISTS s"), ":0");
    fixture.run("SET str x");
    assert_eq!(fixture.run("SREM str x"), WRONG);
}

#[test]
fn smove_moves_a_member() {
    let mut fixture = Fixture::sharded(8);
    fixture.run("SADD a 1 2");
    fixture.run("SADD b 2 x");
    fixture.run("SET str x");
    fixture.events();
    let dirty = fixture.stats.dirty;
    assert_eq!(fixture.run("SMOVE a a 1"), ":1");
    assert_eq!(fixture.run("SMOVE a a 3"), ":0");
    assert_eq!(fixture.run("SMOVE a b 3"), ":0");
    assert_eq!(fixture.run("SMOVE nope str 1"), ":0");
    assert_eq!(fixture.run("SMOVE a str 3"), WRONG);
    assert_eq!(fixture.run("SMOVE str a x"), WRONG);
    assert_eq!(
        (fixture.events().as_str(), fixture.stats.dirty),
        ("", dirty)
    );
    assert_eq!(fixture.run("SMOVE a b 2"), ":1");
    assert_eq!(fixture.events(), "srem a");
    assert_eq!(fixture.stats.dirty, dirty + 1);
    assert_eq!(fixture.run("SMOVE a c 1"), ":1");
    assert_eq!(fixture.events(), "srem a, del a, new c, sadd c");
    assert_eq!(fixture.stats.dirty, dirty + 3);
    assert_eq!(fixture.run("SMOVE b c x"), ":1");
    assert_eq!(fixture.events(), "srem b, sadd c");
    assert_eq!(sorted(&fixture.run("SMEMBERS b")), "2");
    assert_eq!(sorted(&fixture.run("SMEMBERS c")), "1 x");
    assert_eq!(fixture.run("OBJECT ENCODING c"), "$8 listpack");
}

#[test]
fn membership_and_size_are_returned() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s 1 2 x");
    fixture.run("SET str x");
    assert_eq!(fixture.run("SISMEMBER s 1"), ":1");
    assert_eq!(fixture.run("SISMEMBER s 01"), ":0");
    assert_eq!(fixture.run("SISMEMBER nope 1"), ":0");
    assert_eq!(fixture.run("SISMEMBER str x"), WRONG);
    assert_eq!(fixture.run("SMISMEMBER s 1 y x"), "*3 :1 :0 :1");
    assert_eq!(fixture.run("SMISMEMBER nope 1 y"), "*2 :0 :0");
    assert_eq!(fixture.run("SMISMEMBER str x"), WRONG);
    assert_eq!(fixture.run("SCARD nope"), ":0");
    assert_eq!(fixture.run("SCARD str"), WRONG);
    assert_eq!(fixture.run("SMEMBERS nope"), "*0");
    assert_eq!(fixture.run("SMEMBERS str"), WRONG);
    assert_eq!((fixture.stats.hits, fixture.stats.misses), (7, 4));
}

#[test]
fn encodings_match_redis() {
    let mut fixture = Fixture::new();
    let encoding = |fixture: &mut Fixture, form: &str| {
        let reply = fixture.run("OBJECT ENCODING s");
        assert_eq!(reply, format!("${} {form}", form.len()));
        fixture.run("DEL s");
    };
    let numbers = |count: usize| -> String { (0..count).map(|n| format!(" {n}")).collect() };
    for (line, form) in [
        ("SADD s 1 2 3".to_owned(), "intset"),
        ("SADD s x 2 3".to_owned(), "listpack"),
        ("SADD s 1 2 x".to_owned(), "listpack"),
        (format!("SADD s{}", numbers(512)), "intset"),
        (format!("SADD s{}", numbers(513)), "hashtable"),
        (format!("SADD s x{}", numbers(127)), "listpack"),
        (format!("SADD s x{}", numbers(128)), "hashtable"),
        (format!("SADD s {}", "x".repeat(64)), "listpack"),
        (format!("SADD s {}", "x".repeat(65)), "hashtable"),
        // The number of arguments determines the encoding, and not the number of members.
        (format!("SADD s x{}", " x".repeat(128)), "hashtable"),
    ] {
        fixture.run(&line);
        encoding(&mut fixture, form);
    }
    for (first, then, form) in [
        (127, "SADD s x".to_owned(), "listpack"),
        (128, "SADD s x".to_owned(), "hashtable"),
        (5, format!("SADD s {}", "x".repeat(65)), "hashtable"),
        (5, format!("SADD s{}", " 1".repeat(513)), "hashtable"),
        (512, "SADD s 512".to_owned(), "hashtable"),
        (300, "SADD s 9223372036854775807".to_owned(), "intset"),
    ] {
        fixture.run(&format!("SADD s{}", numbers(first)));
        fixture.run(&then);
        encoding(&mut fixture, form);
    }
    fixture.store.set_limits(Limits {
        set_ints: 3,
        ..Limits::default()
    });
    fixture.run("SADD s 1 2 3 4");
    encoding(&mut fixture, "listpack");
}

#[test]
fn spop_removes_random_members() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s 1 2 3");
    fixture.run("SET str x");
    fixture.events();
    let dirty = fixture.stats.dirty;
    let popped = fixture.run("SPOP s");
    let popped = popped.strip_prefix("$1 ").unwrap();
    assert_eq!(fixture.events(), "spop s");
    assert_eq!(fixture.run(&format!("SISMEMBER s {popped}")), ":0");
    assert_eq!(members(&fixture.run("SPOP s 1")).len(), 1);
    assert_eq!(fixture.events(), "spop s");
    assert_eq!(fixture.run("SPOP s 0"), "*0");
    assert_eq!(fixture.events(), "");
    fixture.run("SPOP s");
    assert_eq!(fixture.events(), "spop s, del s");
    assert_eq!(fixture.stats.dirty, dirty + 3);
    fixture.run("SADD s a b c");
    fixture.events();
    assert_eq!(sorted(&fixture.run("SPOP s 9223372036854775807")), "a b c");
    assert_eq!(fixture.events(), "spop s, del s");
    assert_eq!(fixture.stats.dirty, dirty + 9);
    assert_eq!(fixture.run("SPOP s"), "$-1");
    assert_eq!(fixture.run("SPOP s 3"), "*0");
    fixture.expect(&[
        ("SPOP str", WRONG),
        ("SPOP str 0", WRONG),
        ("SPOP s 1 2", SYNTAX),
        ("SPOP s -1", "-ERR value is out of range, must be positive"),
        ("SPOP str x", "-ERR value is out of range, must be positive"),
    ]);
    fixture.protocol = punctual_resp::Protocol::Resp3;
    fixture.run("SADD s a");
    assert_eq!(fixture.run("SPOP s 2"), "~1 $1 a");
    assert_eq!(fixture.run("SPOP s 2"), "~0");
    assert_eq!(fixture.run("SPOP s"), "_");
}

#[test]
fn spop_with_a_count_removes_each_member_once() {
    for (size, form) in [(400, "i"), (100, "m"), (3000, "m")] {
        for count in [1, 3, size / 3, size * 9 / 10, size - 1] {
            let mut fixture = Fixture::new();
            for n in 0..size {
                fixture.run(&format!("SADD s {}{n}", form.replace('i', "")));
            }
            let popped = members(&fixture.run(&format!("SPOP s {count}")));
            let left = members(&fixture.run("SMEMBERS s"));
            assert_eq!((popped.len(), left.len()), (count, size - count));
            let all: BTreeSet<&String> = popped.iter().chain(&left).collect();
            assert_eq!(all.len(), size);
        }
    }
}

#[test]
fn srandmember_draws_distinct_or_repeated_members() {
    let mut fixture = Fixture::resp3();
    fixture.run("SET str x");
    assert_eq!(fixture.run("SRANDMEMBER nope"), "_");
    assert_eq!(fixture.run("SRANDMEMBER nope 3"), "*0");
    for (size, name) in [(50, ""), (50, "m"), (700, "m")] {
        fixture.run("DEL s");
        for n in 0..size {
            fixture.run(&format!("SADD s {name}{n}"));
        }
        for count in [0, 1, 2, size / 4, size / 2, size - 1, size, size + 1] {
            let reply = fixture.run(&format!("SRANDMEMBER s {count}"));
            assert!(reply.starts_with('*'), "the reply is an array in RESP3 too");
            let drawn = members(&reply);
            let distinct: BTreeSet<&String> = drawn.iter().collect();
            assert_eq!(
                (drawn.len(), distinct.len()),
                (count.min(size), drawn.len())
            );
            assert!(
                distinct
                    .iter()
                    .all(|m| fixture.run(&format!("SISMEMBER s {m}")) == ":1")
            );
        }
        let drawn = members(&fixture.run(&format!("SRANDMEMBER s -{}", size * 40)));
        let mut counts: BTreeMap<&String, u32> = BTreeMap::new();
        drawn
            .iter()
            .for_each(|member| *counts.entry(member).or_default() += 1);
        assert_eq!((drawn.len(), counts.len()), (size * 40, size));
        // The bounds are more than six standard deviations away from the mean.
        assert!(
            counts.values().all(|count| (1..86).contains(count)),
            "{counts:?}"
        );
    }
    assert_eq!(fixture.run("SCARD s"), ":700");
    fixture.expect(&[
        ("SRANDMEMBER str", WRONG),
        ("SRANDMEMBER str 0", WRONG),
        ("SRANDMEMBER s 1 2", SYNTAX),
        ("SRANDMEMBER s x", INTEGER),
        (
            "SRANDMEMBER nope -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        (
            "SRANDMEMBER s -9223372036854775807",
            "-ERR value is out of range",
        ),
    ]);
    fixture.store.set_string_max(1 << 20);
    assert_eq!(
        fixture.run("SRANDMEMBER s -170000"),
        "-ERR value is out of range",
        "the reply would exceed the limit"
    );
}

#[test]
fn sets_are_combined() {
    let mut fixture = Fixture::sharded(8);
    fixture.run("SADD ints 1 2 3 4");
    fixture.run("SADD texts 2 3 x y");
    fixture.run(&format!("SADD table 3 x {}", "z".repeat(70)));
    fixture.run("SET str x");
    let z = "z".repeat(70);
    for (line, expected) in [
        ("SINTER ints", "1 2 3 4"),
        ("SINTER ints texts", "2 3"),
        ("SINTER texts ints table", "3"),
        ("SINTER table texts", "3 x"),
        ("SINTER texts texts", "2 3 x y"),
        ("SINTER ints nope", ""),
        ("SUNION ints texts", "1 2 3 4 x y"),
        ("SUNION nope table nope", &format!("3 x {z}")),
        ("SUNION ints table ints texts", &format!("1 2 3 4 x y {z}")),
        ("SUNION nope nope", ""),
        ("SDIFF ints texts", "1 4"),
        ("SDIFF texts table nope", "2 y"),
        ("SDIFF table texts ints", &z),
        ("SDIFF texts nope", "2 3 x y"),
        ("SDIFF nope texts", ""),
        ("SDIFF ints texts ints", ""),
    ] {
        assert_eq!(sorted(&fixture.run(line)), expected, "{line}");
        let mut words = line.split(' ');
        let (command, keys) = (words.next().unwrap(), words.collect::<Vec<_>>().join(" "));
        let count = expected.split_whitespace().count();
        assert_eq!(
            fixture.run(&format!("{command}STORE to {keys}")),
            format!(":{count}")
        );
        assert_eq!(sorted(&fixture.run("SMEMBERS to")), expected, "{line}");
        if command == "SINTER" {
            let number = keys.split(' ').count();
            let card = format!("SINTERCARD {number} {keys}");
            assert_eq!(fixture.run(&card), format!(":{count}"));
            assert_eq!(fixture.run(&format!("{card} LIMIT 0")), format!(":{count}"));
            let limited = format!(":{}", count.min(1));
            assert_eq!(fixture.run(&format!("{card} limit 1")), limited);
        }
        for line in [
            format!("{command} str {keys}"),
            format!("{command} {keys} str"),
            format!("{command}STORE to nope str"),
        ] {
            assert_eq!(fixture.run(&line), WRONG, "{line}");
        }
    }
    fixture.protocol = punctual_resp::Protocol::Resp3;
    assert_eq!(fixture.run("SINTER nope"), "~0");
    assert_eq!(fixture.run("SUNION nope"), "~0");
    assert_eq!(fixture.run("SDIFF nope ints"), "~0");
    assert!(fixture.run("SINTER ints texts").starts_with("~2 "));
    assert!(fixture.run("SUNION ints texts").starts_with("~6 "));
    assert!(fixture.run("SDIFF ints texts").starts_with("~2 "));
}

#[test]
fn both_algorithms_for_a_difference_agree() {
    let mut fixture = Fixture::new();
    for n in 0..1000 {
        fixture.run(&format!("SADD large {n} m{n}"));
        fixture.run(&format!("SADD k{} {n}", n % 7));
    }
    fixture.run("SREM k0 7");
    // With small other sets, removing their members is cheaper than probing all of them.
    let small = sorted(&fixture.run("SDIFF large k0 k1 k2 k3 k4 k5 k6"));
    fixture.run("SUNIONSTORE sum k0 k1 k2 k3 k4 k5 k6");
    let one = sorted(&fixture.run("SDIFF large sum"));
    assert_eq!(small, one);
    assert_eq!(small.split(' ').count(), 1001);
    fixture.run("SDIFFSTORE to large k0 k1 k2 k3 k4 k5 k6");
    assert_eq!(sorted(&fixture.run("SMEMBERS to")), one);
}

#[test]
fn stored_results_have_events() {
    let mut fixture = Fixture::new();
    fixture.run("SADD a 1 2");
    fixture.run("SADD b 2 3");
    fixture.run("SET to x PX 1000");
    fixture.events();
    let dirty = fixture.stats.dirty;
    assert_eq!(fixture.run("SINTERSTORE to a b"), ":1");
    assert_eq!(fixture.events(), "sinterstore to");
    assert_eq!(fixture.run("PTTL to"), ":-1");
    assert_eq!(fixture.run("SUNIONSTORE new a b"), ":3");
    assert_eq!(fixture.events(), "new new, sunionstore new");
    assert_eq!(fixture.run("SDIFFSTORE a a b"), ":1");
    assert_eq!(fixture.events(), "sdiffstore a");
    assert_eq!(fixture.stats.dirty, dirty + 3);
    assert_eq!(fixture.run("SINTERSTORE to a b"), ":0");
    assert_eq!(fixture.events(), "del to");
    assert_eq!(fixture.run("SINTERSTORE to a nope"), ":0");
    assert_eq!(fixture.events(), "keymiss nope");
    assert_eq!(fixture.stats.dirty, dirty + 4);
    assert_eq!(fixture.run("SDIFFSTORE b b b"), ":0");
    assert_eq!(fixture.events(), "del b");
}

#[test]
fn encodings_of_stored_results_match_redis() {
    let mut fixture = Fixture::new();
    let ints: String = (0..130).map(|n| format!(" {n}")).collect();
    fixture.run(&format!("SADD table x{ints}"));
    fixture.run(&format!("SADD ints{ints}"));
    fixture.run("SADD few 1 2 3");
    fixture.run("SADD mixed 1 2 x");
    for (line, form) in [
        ("SINTERSTORE to table ints", "intset"),
        ("SINTERSTORE to table table", "hashtable"),
        ("SINTERSTORE to table mixed", "listpack"),
        ("SINTERSTORE to mixed few", "intset"),
        ("SUNIONSTORE to few mixed", "listpack"),
        ("SUNIONSTORE to few ints", "intset"),
        ("SUNIONSTORE to ints mixed", "hashtable"),
        ("SDIFFSTORE to table mixed", "intset"),
        ("SDIFFSTORE to table few", "listpack"),
        ("SDIFFSTORE to mixed few", "listpack"),
    ] {
        fixture.run(line);
        let reply = fixture.run("OBJECT ENCODING to");
        assert_eq!(reply, format!("${} {form}", form.len()), "{line}");
    }
}

#[test]
fn options_of_commands_that_count() {
    const FEW: &str = "-ERR numkeys should be greater than 0";
    const MANY: &str = "-ERR Number of keys can't be greater than number of args";
    const NEGATIVE: &str = "-ERR LIMIT can't be negative";
    let mut fixture = Fixture::sharded(4);
    fixture.run("SADD a 1 2 3");
    fixture.expect(&[
        ("SINTERCARD x a", FEW),
        ("SINTERCARD 0 a", FEW),
        ("SINTERCARD -1 a", FEW),
        ("SINTERCARD 2 a", MANY),
        ("SINTERCARD 9223372036854775807 a", MANY),
        ("SINTERCARD 1 a LIMIT -1", NEGATIVE),
        ("SINTERCARD 1 a LIMIT x", NEGATIVE),
        ("SINTERCARD 1 a LIMIT", SYNTAX),
        ("SINTERCARD 1 a what 1", SYNTAX),
        ("SINTERCARD 1 a limit 2", ":2"),
        ("SINTERCARD 1 a LIMIT 1 LIMIT 2", ":2"),
        ("SINTERCARD 1 a LIMIT 9223372036854775807", ":3"),
        ("SINTERCARD 3 a a a", ":3"),
        ("SINTERCARD 1 a APPROX", SYNTAX),
        ("SADD b 3 4 x", ":3"),
        ("SUNIONCARD 2 a b", ":5"),
        ("SUNIONCARD 3 a b none LIMIT 4", ":4"),
        ("SUNIONCARD 3 a b none APPROX LIMIT 9", ":5"),
        ("SUNIONCARD 2 a b LIMIT 3 APPROX", ":3"),
        ("SUNIONCARD 1 none", ":0"),
        ("SUNIONCARD 0 a", FEW),
        ("SDIFFCARD 2 a b", ":2"),
        ("SDIFFCARD 2 a b LIMIT 1", ":1"),
        ("SDIFFCARD 2 none b", ":0"),
        ("SDIFFCARD 3 a b a", ":0"),
        ("SDIFFCARD 2 a b APPROX", SYNTAX),
    ]);
}

#[test]
fn due_sets_are_missing() {
    let mut fixture = Fixture::new();
    fixture.run("SADD a 1 2");
    fixture.run("SADD b 1 2");
    fixture.run("PEXPIRE a 10");
    fixture.advance(10);
    fixture.events();
    assert_eq!(fixture.run("SINTER b a"), "*0");
    assert_eq!(fixture.events(), "expired a, keymiss a");
    assert_eq!(sorted(&fixture.run("SUNION a b")), "1 2");
}

/// Runs a whole scan and returns the number of times that it returned each member.
fn scan(
    fixture: &mut Fixture,
    options: &str,
    mut between: impl FnMut(&mut Fixture),
) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = fixture.run(&format!("SSCAN s {cursor} {options}"));
        let (head, found) = reply.split_at(reply.find(" *").unwrap());
        cursor = head.split(' ').nth(2).unwrap().to_owned();
        for member in members(&found[1..]) {
            *seen.entry(member).or_default() += 1;
        }
        if cursor == "0" {
            return seen;
        }
        between(fixture);
    }
}

#[test]
fn sscan_returns_each_member_once() {
    let mut fixture = Fixture::new();
    fixture.run("SADD s 1 2 3");
    assert_eq!(scan(&mut fixture, "COUNT 1", |_| ()).len(), 3);
    fixture.run("SADD s x");
    assert_eq!(scan(&mut fixture, "COUNT 1 MATCH [0-2]", |_| ()).len(), 2);
    for n in 0..2000 {
        fixture.run(&format!("SADD s m{n}"));
    }
    for options in ["", "COUNT 1", "COUNT 77", "COUNT 9223372036854775807"] {
        let seen = scan(&mut fixture, options, |_| ());
        assert_eq!(seen.len(), 2004, "{options}");
        assert!(seen.values().all(|&times| times == 1));
    }
    assert_eq!(
        scan(&mut fixture, "MATCH m1?? COUNT 100", |_| ()).len(),
        100
    );
    // A member that exists during the whole scan is returned, also if other members are added or
    // removed.
    let mut n = 0;
    let seen = scan(&mut fixture, "COUNT 50", |fixture| {
        for _ in 0..100 {
            fixture.run(&format!("SADD s more{n}"));
            fixture.run(&format!("SREM s more{} m{}", n / 2, n % 1000));
            n += 1;
        }
    });
    assert!((1000..2000).all(|n| seen.get(&format!("m{n}")) == Some(&1)));
}

#[test]
fn arguments_of_sscan() {
    const EMPTY: &str = "*2 $1 0 *0";
    let mut fixture = Fixture::new();
    fixture.run("SADD s a");
    fixture.run("SET str x");
    fixture.expect(&[
        ("SSCAN nope 0", EMPTY),
        ("SSCAN nope 0 what", EMPTY),
        ("SSCAN nope x", "-ERR invalid cursor"),
        ("SSCAN str 0 what", WRONG),
        ("SSCAN s 0 what", SYNTAX),
        ("SSCAN s 0 TYPE set", SYNTAX),
        ("SSCAN s 0 COUNT 0", SYNTAX),
        ("SSCAN s 0 COUNT x", INTEGER),
        ("SSCAN s 0 MATCH", SYNTAX),
        ("SSCAN s 18446744073709551615", "*2 $1 0 *1 $1 a"),
        ("SSCAN s 0 MATCH b", EMPTY),
    ]);
    for n in 0..200 {
        fixture.run(&format!("SADD s m{n}"));
    }
    assert_eq!(fixture.run("SSCAN s 18446744073709551615"), EMPTY);
}

#[test]
fn commands_accept_many_members_of_a_large_set() {
    let mut fixture = Fixture::new();
    let members = |range: std::ops::Range<u32>| {
        let words: Vec<String> = range.map(|n| format!("m{n}")).collect();
        words.join(" ")
    };
    assert_eq!(
        fixture.run(&format!("SADD s {}", members(0..10_000))),
        ":10000"
    );
    assert_eq!(
        fixture.run(&format!("SADD s {}", members(9_980..10_020))),
        ":20"
    );
    let found = fixture.run(&format!("SMISMEMBER s {}", members(9_980..10_060)));
    assert_eq!(
        found,
        format!("*80{}{}", " :1".repeat(40), " :0".repeat(40))
    );
    assert_eq!(
        fixture.run(&format!("SREM s {}", members(0..2_000))),
        ":2000"
    );
    assert_eq!(fixture.run("SCARD s"), ":8020");
}
