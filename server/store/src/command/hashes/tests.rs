mod deadlines;
mod extended;
mod model;
mod subkeys;

use std::collections::BTreeSet;

use crate::command::testing::Fixture;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn set(reply: &str) -> BTreeSet<&str> {
    reply
        .split(' ')
        .filter(|word| !word.starts_with(['*', '$', '%']))
        .collect()
}

#[test]
fn fields_are_set_read_and_deleted() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HSET h a 1 b two", ":2"),
        ("HSET h a 2 c 3", ":1"),
        ("HMSET h d 4 d 5", "+OK"),
        ("HGET h a", "$1 2"),
        ("HGET h nope", "$-1"),
        ("HMGET h b nope d", "*3 $3 two $-1 $1 5"),
        ("HLEN h", ":4"),
        ("HSTRLEN h b", ":3"),
        ("HSTRLEN h nope", ":0"),
        ("HEXISTS h c", ":1"),
        ("HEXISTS h nope", ":0"),
        ("HSETNX h a 9", ":0"),
        ("HSETNX h e 9", ":1"),
        ("HDEL h a a nope", ":1"),
        ("HGETALL h", "*8 $1 b $3 two $1 c $1 3 $1 d $1 5 $1 e $1 9"),
        ("HKEYS h", "*4 $1 b $1 c $1 d $1 e"),
        ("HVALS h", "*4 $3 two $1 3 $1 5 $1 9"),
        ("OBJECT ENCODING h", "$8 listpack"),
        ("TYPE h", "+hash"),
    ]);
    assert_eq!(
        fixture.events(),
        "new h, hset h, hset h, hset h, hset h, hdel h"
    );
    assert_eq!(fixture.stats.dirty, 2 + 2 + 2 + 1 + 1);
    fixture.expect(&[
        ("HDEL h b c d e x", ":4"),
        ("EXISTS h", ":0"),
        ("HSETNX h a 1", ":1"),
    ]);
    assert_eq!(fixture.events(), "hdel h, del h, keymiss h, new h, hset h");
}

#[test]
fn a_missing_hash_is_empty() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HGET h a", "$-1"),
        ("HMGET h a b", "*2 $-1 $-1"),
        ("HGETALL h", "*0"),
        ("HKEYS h", "*0"),
        ("HVALS h", "*0"),
        ("HLEN h", ":0"),
        ("HSTRLEN h a", ":0"),
        ("HEXISTS h a", ":0"),
        ("HDEL h a", ":0"),
        ("HRANDFIELD h", "$-1"),
        ("HRANDFIELD h 3 WITHVALUES", "*0"),
        ("HRANDFIELD h -3", "*0"),
        ("HSCAN h 0", "*2 $1 0 *0"),
        ("HTTL h FIELDS 2 a b", "*2 :-2 :-2"),
        ("HPERSIST h FIELDS 1 a", "*1 :-2"),
        ("HEXPIRE h 10 FIELDS 1 a", "*1 :-2"),
    ]);
    assert_eq!(fixture.stats.dirty, 0);
    assert_eq!(fixture.stats.misses, 13);
}

#[test]
fn replies_in_resp3() {
    let mut fixture = Fixture::resp3();
    fixture.expect(&[
        ("HGETALL h", "%0"),
        ("HKEYS h", "*0"),
        ("HSET h a 1", ":1"),
        ("HGETALL h", "%1 $1 a $1 1"),
        ("HVALS h", "*1 $1 1"),
        ("HGET h x", "_"),
        ("HRANDFIELD h 1", "*1 $1 a"),
        ("HRANDFIELD h 1 withvalues", "*1 *2 $1 a $1 1"),
        ("HRANDFIELD h -2 withvalues", "*2 *2 $1 a $1 1 *2 $1 a $1 1"),
        ("HINCRBYFLOAT h a 0.5", "$3 1.5"),
    ]);
}

#[test]
fn other_types_are_refused() {
    let mut fixture = Fixture::new();
    fixture.run("SET s v");
    for line in [
        "HSET s a 1",
        "HMSET s a 1",
        "HSETNX s a 1",
        "HGET s a",
        "HMGET s a",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HSTRLEN s a",
        "HEXISTS s a",
        "HDEL s a",
        "HINCRBY s a 1",
        "HINCRBYFLOAT s a 1",
        "HRANDFIELD s",
        "HRANDFIELD s 1",
        "HSCAN s 0",
        "HTTL s FIELDS 1 a",
        "HPERSIST s FIELDS 1 a",
        "HEXPIRE s x FIELDS 1 a",
        "HPEXPIRETIME s any other arguments",
    ] {
        assert_eq!(fixture.run(line), WRONG_TYPE, "{line}");
    }
    fixture.run("HSET h a 1");
    assert_eq!(fixture.run("GET h"), WRONG_TYPE);
    assert_eq!(fixture.run("SET h string"), "+OK");
    assert_eq!(fixture.run("HSET h a 1"), WRONG_TYPE);
}

#[test]
fn arguments_are_checked() {
    const INTEGER: &str = "-ERR value is not an integer or out of range";
    let mut fixture = Fixture::new();
    fixture.run("HSET h a 1 t text big 9223372036854775807");
    fixture.expect(&[
        (
            "HSET h a",
            "-ERR wrong number of arguments for 'hset' command",
        ),
        (
            "HSET h a 1 b",
            "-ERR wrong number of arguments for 'hset' command",
        ),
        (
            "HMSET h a 1 b",
            "-ERR wrong number of arguments for 'hmset' command",
        ),
        ("HINCRBY h a x", INTEGER),
        ("HINCRBY h t 1", "-ERR hash value is not an integer"),
        (
            "HINCRBY h big 1",
            "-ERR increment or decrement would overflow",
        ),
        ("HINCRBYFLOAT h a x", "-ERR value is not a valid float"),
        ("HINCRBYFLOAT h a inf", "-ERR value is NaN or Infinity"),
        ("HINCRBYFLOAT h t 1", "-ERR hash value is not a float"),
        ("HRANDFIELD h x", INTEGER),
        ("HRANDFIELD h 1 x", "-ERR syntax error"),
        ("HRANDFIELD h 1 withvalues x", "-ERR syntax error"),
        (
            "HRANDFIELD h 9223372036854775807 withvalues",
            "-ERR value is out of range",
        ),
        (
            "HRANDFIELD h -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        (
            "HRANDFIELD h -9223372036854775807",
            "-ERR value is out of range",
        ),
        ("HSCAN h x", "-ERR invalid cursor"),
        ("HSCAN h 0 TYPE hash", "-ERR syntax error"),
        ("HSCAN h 0 COUNT 0", "-ERR syntax error"),
    ]);
    assert_eq!(fixture.stats.dirty, 3);
}

#[test]
fn hincrby_and_hincrbyfloat_add_to_fields() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("HINCRBY h n 5", ":5"),
        ("HINCRBY h n -7", ":-2"),
        ("HINCRBYFLOAT h n 0.25", "$5 -1.75"),
        ("HINCRBYFLOAT h n 1.75", "$1 0"),
        ("HINCRBY h n 3", ":3"),
        ("HINCRBYFLOAT g n 3.0e3", "$4 3000"),
        ("HINCRBY g n 1", ":3001"),
    ]);
    assert_eq!(
        fixture.events(),
        "new h, hincrby h, hincrby h, hincrbyfloat h, hincrbyfloat h, hincrby h, \
         new g, hincrbyfloat g, hincrby g"
    );
}

#[test]
fn a_large_hash_has_the_encoding_hashtable() {
    let mut fixture = Fixture::new();
    for n in 0..512 {
        fixture.run(&format!("HSET h f{n} {n}"));
    }
    assert_eq!(fixture.run("OBJECT ENCODING h"), "$8 listpack");
    fixture.run("HSET h f512 512");
    assert_eq!(fixture.run("OBJECT ENCODING h"), "$9 hashtable");
    for n in 0..=512 {
        assert_eq!(fixture.run(&format!("HGET h f{n}")), {
            let text = n.to_string();
            format!("${} {text}", text.len())
        });
    }
    assert_eq!(fixture.run("HINCRBY h f7 1"), ":8");
    assert_eq!(fixture.run("HINCRBY h fresh 1"), ":1");
    let long = "x".repeat(65);
    assert_eq!(fixture.run(&format!("HSET i {long} v")), ":1");
    assert_eq!(fixture.run("OBJECT ENCODING i"), "$9 hashtable");
    fixture.run("HSET j a 1");
    assert_eq!(fixture.run(&format!("HSETNX j b {long}")), ":1");
    assert_eq!(fixture.run("OBJECT ENCODING j"), "$9 hashtable");
    assert_eq!(
        fixture.run("HGETALL j").len(),
        "*4 $1 a $1 1 $1 b $65 ".len() + 65
    );
}

#[test]
fn hrandfield_returns_distinct_or_repeated_fields() {
    let mut fixture = Fixture::new();
    for n in 0..20 {
        fixture.run(&format!("HSET small f{n} {n}"));
    }
    for n in 0..2000 {
        fixture.run(&format!("HSET large f{n} {n}"));
    }
    for (key, size) in [("small", 20), ("large", 2000)] {
        for count in [1, 5, 15, 19, 700] {
            let reply = fixture.run(&format!("HRANDFIELD {key} {count}"));
            assert_eq!(
                set(&reply).len(),
                count.min(size),
                "{key} {count}: all distinct"
            );
        }
        let all = fixture.run(&format!("HRANDFIELD {key} 5000"));
        assert_eq!(set(&all).len(), size);
        let reply = fixture.run(&format!("HRANDFIELD {key} -30 WITHVALUES"));
        let words: Vec<&str> = reply.split(' ').collect();
        assert_eq!((words[0], words.len()), ("*60", 121));
        assert!(words[1..].chunks(4).all(|w| w[1] == format!("f{}", w[3])));
        let mut seen = BTreeSet::new();
        for _ in 0..400 + size * 12 {
            seen.insert(fixture.run(&format!("HRANDFIELD {key}")));
        }
        assert!(
            seen.len() > size * 99 / 100,
            "{key}: {} of {size}",
            seen.len()
        );
        assert_eq!(fixture.run(&format!("HRANDFIELD {key} 0")), "*0");
    }
}

/// Runs HSCAN to its end and returns the names and values.
fn scan(fixture: &mut Fixture, key: &str, options: &str) -> Vec<String> {
    let (mut cursor, mut words) = ("0".to_owned(), Vec::new());
    loop {
        let reply = fixture.run(&format!("HSCAN {key} {cursor} {options}"));
        let parts: Vec<&str> = reply.split(' ').collect();
        cursor = parts[2].to_owned();
        words.extend(
            parts[4..]
                .iter()
                .skip(1)
                .step_by(2)
                .map(|w| (*w).to_owned()),
        );
        if cursor == "0" {
            return words;
        }
    }
}

#[test]
fn hscan_returns_each_field_once() {
    let mut fixture = Fixture::new();
    for n in 0..20 {
        fixture.run(&format!("HSET small f{n} {n}"));
    }
    for n in 0..3000 {
        fixture.run(&format!("HSET large f{n} {n}"));
    }
    for (key, size) in [("small", 20), ("large", 3000)] {
        for options in ["", "COUNT 1", "COUNT 1000"] {
            let words = scan(&mut fixture, key, options);
            assert_eq!(words.len(), 2 * size);
            assert!(words.chunks(2).all(|w| w[0] == format!("f{}", w[1])));
            assert_eq!(words.iter().step_by(2).collect::<BTreeSet<_>>().len(), size);
        }
        assert_eq!(scan(&mut fixture, key, "MATCH f1?").len(), 20);
        let names = scan(&mut fixture, key, "COUNT 7 NOVALUES MATCH *");
        assert_eq!(names.len(), size);
        assert!(names.iter().all(|name| name.starts_with('f')));
    }
}

/// A hash and its field may be due in the same millisecond.
#[test]
fn a_field_is_due_with_its_key() {
    let mut fixture = Fixture::new();
    fixture.run("HSET h f v g w");
    fixture.run("HPEXPIRE h 12 FIELDS 1 f");
    fixture.run("PEXPIRE h 12");
    fixture.run("XADD s * f v");
    fixture.run("XRETAIN s 12");
    fixture.run("PEXPIRE s 12");
    fixture.jump(1_000_012);
    assert_eq!(fixture.run("EXISTS h s"), ":0");
}

#[test]
fn commands_accept_many_fields_of_a_large_hash() {
    let mut fixture = Fixture::new();
    let fields = |range: std::ops::Range<u32>, value: &str| {
        let words: Vec<String> = range.map(|n| format!("f{n}{value}")).collect();
        words.join(" ")
    };
    assert_eq!(
        fixture.run(&format!("HSET h {}", fields(0..10_000, " v"))),
        ":10000"
    );
    assert_eq!(
        fixture.run(&format!("HSET h {}", fields(9_980..10_020, " w"))),
        ":20"
    );
    let found = fixture.run(&format!("HMGET h {}", fields(9_960..10_040, "")));
    let expected = ["$1 v", "$1 w", "$1 w", "$-1"].map(|value| format!(" {value}").repeat(20));
    assert_eq!(found, format!("*80{}", expected.concat()));
    assert_eq!(
        fixture.run(&format!("HDEL h {}", fields(0..2_000, ""))),
        ":2000"
    );
    assert_eq!(fixture.run("HLEN h"), ":8020");
}
