//! Snapshots of Redis's types except streams, and the instant of a snapshot under random writes.

use proptest::prelude::*;

use super::{Format, Snapshot};
use crate::command::testing::{Fixture, snapshot_file};
use crate::events::{Classes, Silent};
use crate::limits::Limits;
use crate::turn::Turn;

/// Commands that create keys of Redis's types except streams.
const DATASET: &[&str] = &[
    "SET int 12345678901",
    "SET text hello PX 5000",
    "SET negative -1",
    "RPUSH list a 1 -300 b",
    "SADD ints 1 2 70000 -5",
    "SADD words a b 3",
    "HSET hash f v g 12",
    "HSET timed f v g 12 h x",
    "HPEXPIRE timed 300 FIELDS 1 f",
    "HPEXPIRE timed 400 FIELDS 1 h",
    "SADD timedset a 1 long-member-of-a-set",
    "SPEXPIRE timedset 300 MEMBERS 2 a 1",
    "SADD timedints 1 2 3",
    "SPEXPIRE timedints 400 MEMBERS 1 2",
    "ZADD zset 1 a 2.5 b inf c -inf d",
    "ZADD timedzset 1 a -2.5 b inf c",
    "ZPEXPIRE timedzset 300 MEMBERS 2 a c",
    "SETBIT bits 1000 1",
    "PFADD hll a b c",
    "GEOADD geo 13.361389 38.115556 Palermo",
];

/// Returns the whole keyspace as text, from the replies of commands.
fn state(fixture: &mut Fixture) -> Vec<String> {
    state_with(fixture, true)
}

/// Same as [`state`]; without `encodings`, OBJECT ENCODING is left out, because a collection that
/// has shrunk may get another encoding when it is loaded.
fn state_with(fixture: &mut Fixture, encodings: bool) -> Vec<String> {
    let mut state = Vec::new();
    for db in 0..3 {
        fixture.db = db;
        let listed = fixture.run("KEYS *");
        let mut keys: Vec<&str> = listed.split(' ').skip(1).collect();
        keys.retain(|word| !word.starts_with('$'));
        keys.sort_unstable();
        for key in keys {
            let kind = fixture.run(&format!("TYPE {key}"));
            let content = match &kind[1..] {
                "list" => fixture.run(&format!("LRANGE {key} 0 -1")),
                "hash" => {
                    let mut pairs: Vec<String> = Vec::new();
                    let names = fixture.run(&format!("HKEYS {key}"));
                    for name in names.split(' ').skip(1).filter(|w| !w.starts_with('$')) {
                        let value = fixture.run(&format!("HGET {key} {name}"));
                        let ttl = fixture.run(&format!("HPEXPIRETIME {key} FIELDS 1 {name}"));
                        pairs.push(format!("{name}={value} {ttl}"));
                    }
                    pairs.sort_unstable();
                    pairs.join(",")
                }
                "set" => {
                    let members = fixture.run(&format!("SMEMBERS {key}"));
                    let mut members: Vec<&str> = members.split(' ').collect();
                    members.sort_unstable();
                    let ttls = members.iter().filter(|m| !m.starts_with(['*', '$', '~']));
                    let ttls: Vec<String> = ttls
                        .map(|m| fixture.run(&format!("SPEXPIRETIME {key} MEMBERS 1 {m}")))
                        .collect();
                    format!("{} {}", members.join(" "), ttls.join(" "))
                }
                "zset" => {
                    let members = fixture.run(&format!("ZRANGE {key} 0 -1 WITHSCORES"));
                    let names = fixture.run(&format!("ZRANGE {key} 0 -1"));
                    let names = names.split(' ').filter(|m| !m.starts_with(['*', '$']));
                    let ttls: Vec<String> = names
                        .map(|m| fixture.run(&format!("ZPEXPIRETIME {key} MEMBERS 1 {m}")))
                        .collect();
                    format!("{members} {}", ttls.join(" "))
                }
                _ => fixture.run(&format!("GET {key}")),
            };
            let at = fixture.run(&format!("PEXPIRETIME {key}"));
            // A string that was changed in place may have another encoding after it is loaded.
            let encoding = match &kind[1..] {
                "string" => String::new(),
                _ if !encodings => String::new(),
                _ => fixture.run(&format!("OBJECT ENCODING {key}")),
            };
            state.push(format!("{db} {key} {kind} {at} {encoding} {content}"));
        }
    }
    fixture.db = 0;
    state
}

fn filled(shards: usize) -> Fixture {
    let mut fixture = Fixture::sharded(shards);
    for line in DATASET {
        assert!(!fixture.run(line).starts_with('-'), "{line}");
    }
    for n in 0..300 {
        fixture.run(&format!("RPUSH long element:{n} {n}"));
        fixture.run(&format!("HSET wide field:{n} {n}"));
        fixture.run(&format!("SADD many member:{n}"));
        fixture.run(&format!("ZADD ranks {n}.5 member:{n}"));
    }
    fixture.run(&format!("RPUSH long {}", "x".repeat(20_000)));
    fixture.run(&format!("HSET wide long {}", "y".repeat(1000)));
    fixture.db = 2;
    fixture.run("SET elsewhere 1 PX 70");
    fixture.db = 0;
    fixture
}

#[test]
fn values_come_back_as_they_were() {
    for shards in [1, 8] {
        let mut fixture = filled(shards);
        let before = state(&mut fixture);
        // The five lines that set deadlines add no key, and `filled` adds five keys.
        assert_eq!(before.len(), DATASET.len() - 5 + 5);
        fixture.events();
        fixture.reload();
        assert_eq!(fixture.events(), "", "a load publishes no events");
        assert!(state(&mut fixture) == before, "{} shards", shards);
        // Deadlines of keys and fields are armed.
        fixture.advance(400);
        fixture.expire();
        let events = fixture.events();
        for event in [
            "hexpired timed",
            "sexpired timedset",
            "sexpired timedints",
            "zexpired timedzset",
            "expired elsewhere @2",
        ] {
            assert!(events.contains(event), "{event} in {events}");
        }
        fixture.advance(5000);
        fixture.expire();
        assert!(fixture.events().contains("expired text"));
    }
}

#[test]
fn what_is_due_does_not_come_back() {
    let mut fixture = filled(1);
    let file = fixture.snapshot();
    let mut later = Fixture::new();
    later.advance(5_001);
    later.load(&file);
    assert_eq!(later.run("EXISTS text int"), ":1");
    later.expire();
    assert!(later.events().contains("hexpired timed"));
}

#[test]
fn a_given_up_snapshot_leaves_nothing_to_do() {
    let mut fixture = filled(4);
    let mut sink = Silent;
    let mut turn = Turn::new(&fixture.store, fixture.now, &mut sink, Classes::none());
    let mut snapshot = Snapshot::begin(&mut turn, Format::default());
    drop(turn);
    assert!(snapshot.next(&fixture.store, &mut Vec::new()).is_some());
    snapshot.abandon(&fixture.store);
    fixture.run("DEL int");
    fixture.run("FLUSHALL");
    // The next snapshot finds no walk of the old snapshot, which `snapshot` asserts.
    assert!(!fixture.snapshot().is_empty());
}

/// An operation between two steps of a snapshot.
#[derive(Clone, Debug)]
enum Happening {
    Step,
    Line(String),
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let key = (0..60u32).prop_map(|n| format!("k{n}"));
    let pair = (key.clone(), (0..60u32).prop_map(|n| format!("k{n}")));
    prop_oneof![
        3 => Just(Happening::Step),
        6 => (key.clone(), 0..9usize, any::<u8>()).prop_map(|(key, kind, n)| Happening::Line(match kind {
            0 => format!("SET {key} v{n}"),
            1 => format!("SET {key} {n} PX {}", 1 + u32::from(n)),
            2 => format!("DEL {key}"),
            3 => format!("RPUSH {key} {n}"),
            4 => format!("HSET {key} f{} {n}", n % 4),
            5 => format!("HPEXPIRE {key} {} FIELDS 1 f{}", 1 + u32::from(n), n % 4),
            6 => format!("ZADD {key} {n} m{}", n % 5),
            7 => format!("PEXPIRE {key} {n}"),
            _ => format!("SADD {key} {n}"),
        })),
        1 => pair.prop_map(|(a, b)| Happening::Line(format!("RENAME {a} {b}"))),
        1 => (key, 1..3usize).prop_map(|(key, db)| Happening::Line(format!("MOVE {key} {db}"))),
        1 => prop_oneof![Just("FLUSHALL"), Just("FLUSHDB"), Just("SWAPDB 0 1"), Just("SWAPDB 1 2")]
            .prop_map(|line| Happening::Line(line.to_owned())),
        1 => (1..40u64).prop_map(Happening::Wait),
    ]
}

/// Commands on few keys with large values. In tests a collection of three elements or pieces counts
/// as large.
fn large_happening() -> impl Strategy<Value = Happening> {
    let line = (0..8u32, 0..49usize, any::<u8>(), 0..8u32).prop_map(|(key, kind, n, other)| {
        let m = n % 16;
        Happening::Line(match kind {
            0..3 => format!("RPUSH l{key} {n} {m} a b c"),
            3 => format!("LPUSH l{key} {n} x"),
            4 => format!("LPOP l{key} {}", n % 4),
            5 => format!("RPOP l{key} {}", n % 4),
            6 => format!("LSET l{key} {} changed{n}", i32::from(m) - 8),
            7 => format!("LINSERT l{key} BEFORE {m} {n}"),
            8 => format!("LREM l{key} {} a", i32::from(n % 5) - 2),
            9 => format!("LTRIM l{key} {} -{}", n % 4, 1 + n % 3),
            10..13 => format!("HSET h{key} f{m} {n} g{n} 1 h{m} 2"),
            13 => format!("HDEL h{key} f{m} g{n}"),
            14 => format!("HINCRBY h{key} f{m} 7"),
            15 => format!("HPEXPIRE h{key} {} FIELDS 2 f{m} h{m}", 1 + u32::from(n)),
            16..18 => format!("SADD s{key} m{n} {m} m{m}"),
            18 => format!("SREM s{key} m{m} {m}"),
            19 => format!("SPOP s{key} {}", n % 12),
            20..22 => format!("ZADD z{key} {n} m{m} 1 {n} 2 x{n}"),
            22 => format!("ZPOPMIN z{key} {}", n % 5),
            23 => format!("ZREMRANGEBYRANK z{key} {} -1", n % 6),
            24 => format!("DEL l{key} h{other}"),
            25 => format!(
                "RENAME {0}{key} {0}{other}",
                ["l", "h", "s", "z"][usize::from(n % 4)]
            ),
            26 => format!(
                "COPY {0}{key} {0}{other} REPLACE",
                ["l", "h", "s", "z"][usize::from(n % 4)]
            ),
            27 => format!(
                "MOVE {}{key} {}",
                ["l", "h", "s", "z"][usize::from(n % 4)],
                1 + n % 2
            ),
            28 => format!(
                "PEXPIRE {}{key} {}",
                ["l", "h", "s", "z"][usize::from(n % 4)],
                n / 4
            ),
            29..31 => format!("SPEXPIRE s{key} {} MEMBERS 2 m{m} {m}", 1 + u32::from(n)),
            31..33 => format!("ZPEXPIRE z{key} {} MEMBERS 2 m{m} x{n}", 1 + u32::from(n)),
            33 => format!("SPERSIST s{key} MEMBERS 2 m{m} {m}"),
            34 => format!("SMOVE s{key} s{other} m{m}"),
            _ => format!("SET {}{key} text", ["l", "h", "s", "z"][usize::from(n % 4)]),
        })
    });
    prop_oneof![
        10 => Just(Happening::Step),
        30 => line,
        1 => prop_oneof![Just("FLUSHDB"), Just("SWAPDB 0 1")]
            .prop_map(|line| Happening::Line(line.to_owned())),
        1 => (1..40u64).prop_map(Happening::Wait),
    ]
}

fn small_limits() -> Limits {
    Limits {
        list_piece: 2,
        hash_entries: 2,
        set_ints: 2,
        set_entries: 2,
        zset_entries: 2,
        stream_entries: 3,
        ..Limits::default()
    }
}

/// Asserts that a snapshot has the keyspace of the snapshot's first instant.
fn check_one_instant(before: &[Happening], during: &[Happening], shards: usize, limits: Limits) {
    let state = |fixture: &mut Fixture| state_with(fixture, limits == Limits::default());
    let mut fixture = Fixture::sharded(shards);
    fixture.store.set_limits(limits);
    let happen = |fixture: &mut Fixture, what: &Happening| match what {
        Happening::Line(line) => {
            fixture.run(line);
        }
        Happening::Wait(ms) => {
            fixture.advance(*ms);
            fixture.expire();
        }
        Happening::Step => {}
    };
    for what in before {
        happen(&mut fixture, what);
    }
    let expected = state(&mut fixture);
    let instant = fixture.now;
    let mut sink = Silent;
    let mut turn = Turn::new(&fixture.store, fixture.now, &mut sink, Classes::none());
    let mut snapshot = Snapshot::begin(&mut turn, Format::default());
    drop(turn);
    let mut left = during.iter();
    let file = snapshot_file(&mut snapshot, |snapshot, out| {
        for what in left.by_ref() {
            if matches!(what, Happening::Step) {
                break;
            }
            happen(&mut fixture, what);
        }
        snapshot.next(&fixture.store, out)
    });
    assert_eq!(snapshot.written(), snapshot.keys());
    let mut loaded = Fixture::sharded(shards);
    loaded.store.set_limits(limits);
    loaded.now = instant;
    loaded.load(&file);
    let found = state(&mut loaded);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    // No walk is left, so a second snapshot shows the current state.
    let now = state(&mut fixture);
    let again = fixture.snapshot();
    let mut loaded = Fixture::sharded(shards);
    loaded.store.set_limits(limits);
    loaded.now = fixture.now;
    loaded.load(&again);
    assert_eq!(state(&mut loaded), now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A snapshot shows the keyspace at the instant at which it began, with any operations between
    /// its steps.
    #[test]
    fn a_snapshot_is_one_instant(
        before in proptest::collection::vec(happening(), 0..250),
        during in proptest::collection::vec(happening(), 0..250),
        shards in prop_oneof![Just(1usize), Just(4)],
    ) {
        check_one_instant(&before, &during, shards, Limits::default());
    }

    /// The same for values that are encoded in several steps.
    #[test]
    fn large_values_are_of_one_instant(
        before in proptest::collection::vec(large_happening(), 20..200),
        during in proptest::collection::vec(large_happening(), 0..300),
        shards in prop_oneof![Just(1usize), Just(4)],
    ) {
        check_one_instant(&before, &during, shards, small_limits());
    }
}
