//! Subkeys of events: the fields and members that a command or an expiry has changed.

use crate::command::testing::Fixture;
use crate::events::Classes;

/// Returns a fixture with the channels `letters` and every class of events.
fn with_channels(letters: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.classes = Classes::parse(format!("{letters}A").as_bytes()).unwrap();
    fixture
}

#[test]
fn hash_commands_name_the_fields_that_they_change() {
    let mut fixture = with_channels("S");
    fixture.expect_subkeys(&[
        ("HSET h a 1 b 2 a 3", "hset h a b a"),
        ("HMSET h c 1", "hset h c"),
        ("HSETNX h a 1", ""),
        ("HSETNX h d 1", "hset h d"),
        ("HINCRBY h n 2", "hincrby h n"),
        ("HINCRBYFLOAT h n 0.5", "hincrbyfloat h n"),
        ("HINCRBYFLOAT f n 1", "hincrbyfloat f n"),
        ("HDEL h none", ""),
        ("HDEL h a none a c", "hdel h a c"),
        ("HGETDEL h FIELDS 3 none d d", "hdel h d"),
        ("HEXPIRE h 10 FIELDS 2 b none", "hexpire h b"),
        ("HEXPIRE h 10 NX FIELDS 2 b n", "hexpire h n"),
        ("HPERSIST h FIELDS 3 b none n", "hpersist h b n"),
        ("HPERSIST h FIELDS 1 b", ""),
        ("HGETEX h FIELDS 1 b", ""),
        ("HGETEX h PX 5000 FIELDS 2 none b", "hexpire h b"),
        ("HGETEX h PERSIST FIELDS 2 n b", "hpersist h b"),
        ("HGETEX h PXAT 1 FIELDS 2 b b", "hdel h b"),
        (
            "HSETEX h EX 10 FIELDS 2 x 1 y 2",
            "hset h x y, hexpire h x y",
        ),
        ("HSETEX h PXAT 1 FIELDS 1 x 1", "hset h x, hdel h x"),
        ("HPEXPIRE h 0 FIELDS 2 y none", "hdel h y"),
        ("HDEL h n", "hdel h n"),
    ]);
    fixture.db = 3;
    fixture.expect_subkeys(&[("HSET h a 1", "hset h a @3")]);
}

#[test]
fn deadlines_of_members_name_the_members() {
    for (letter, add) in [("s", "SADD k a b c"), ("z", "ZADD k 1 a 2 b 3 c")] {
        let mut fixture = with_channels("V");
        for (line, subkeys) in [
            (add, ""),
            ("?EXPIRE k 10 MEMBERS 3 a none b", "?expire k a b"),
            ("?PERSIST k MEMBERS 3 a b c", "?persist k a b"),
            ("?EXPIRE k 0 MEMBERS 1 a", "?rem k a"),
            ("?PEXPIRE k 100 MEMBERS 2 b c", "?expire k b c"),
            ("?REM k b", ""),
        ] {
            let line = line.replace('?', &letter.to_uppercase());
            fixture.expect_subkeys(&[(&line, &subkeys.replace('?', letter))]);
        }
        fixture.advance(100);
        fixture.expire();
        assert_eq!(fixture.subkeys(), format!("{letter}expired k c"));
        assert_eq!(fixture.events(), "", "no channel of keys is on");
    }
}

/// The timer, a command that names due fields and a command that reads a whole set expire alike.
#[test]
fn expired_elements_share_an_event() {
    let mut fixture = with_channels("KT");
    for line in [
        "HSET h a 1 b 2 c 3 d 4",
        "HPEXPIRE h 10 FIELDS 2 a b",
        "HPEXPIRE h 20 FIELDS 2 c d",
        "SADD s a b c",
        "SPEXPIRE s 20 MEMBERS 2 a b",
    ] {
        fixture.run(line);
    }
    fixture.events();
    fixture.subkeys();
    fixture.advance(10);
    fixture.expire();
    assert_eq!(fixture.subkeys(), "hexpired h a b");
    assert_eq!(fixture.events(), "hexpired h");
    fixture.advance(10);
    fixture.expect_subkeys(&[
        ("HMGET h c x d", "hexpired h c d"),
        ("SCARD s", "sexpired s a b"),
    ]);
    assert_eq!(fixture.events(), "hexpired h, del h, sexpired s");
}

/// The event comes once, and no call of the sink has more than 1,024 of the subkeys.
#[test]
fn many_fields_that_expire_at_once_come_in_batches() {
    let mut fixture = with_channels("KS");
    let names: Vec<String> = (0..10_000).map(|n| format!("f{n}")).collect();
    let names = names.join(" ");
    fixture.run(&format!("SADD s {names}"));
    fixture.run(&format!("SPEXPIRE s 10 MEMBERS 10000 {names}"));
    fixture.events();
    fixture.subkeys();
    fixture.advance(10);
    fixture.run("SCARD s");
    assert_eq!(fixture.events(), "sexpired s, del s");
    let subkeys = fixture.subkeys();
    let batches: Vec<Vec<&str>> = subkeys
        .split(", ")
        .map(|s| s.split(' ').collect())
        .collect();
    assert!(batches.iter().all(|batch| batch[..2] == ["sexpired", "s"]));
    assert!(batches.iter().all(|batch| batch.len() <= 1_024 + 2));
    let mut expired: Vec<&str> = batches
        .iter()
        .flat_map(|batch| &batch[2..])
        .copied()
        .collect();
    let mut all: Vec<&str> = names.split(' ').collect();
    expired.sort_unstable();
    all.sort_unstable();
    assert_eq!(expired, all);
}

#[test]
fn subkeys_need_a_channel_and_a_class() {
    for (letters, subkeys) in [
        ("KEA", ""),
        ("STIV", ""),
        ("STIVsz", ""),
        ("Ih", "hset h a"),
        ("Th", "hset h a"),
        ("EVh", "hset h a"),
    ] {
        let mut fixture = Fixture::new();
        fixture.classes = Classes::parse(letters.as_bytes()).unwrap();
        fixture.expect_subkeys(&[("HSET h a 1", subkeys)]);
    }
}
