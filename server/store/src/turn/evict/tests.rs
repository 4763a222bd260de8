//! Eviction policies against a model: a map of the stored keys and their deadlines.

use std::collections::BTreeMap;

use crate::command::testing::Fixture;
use crate::eviction::{Evicted, Eviction};
use crate::keyspace::shard::Writers;
use crate::limits::Limits;
use crate::uses::Uses;

#[rustfmt::skip]
const POLICIES: [&str; 9] = [
    "allkeys-lru", "allkeys-lfu", "allkeys-lrm", "allkeys-random", "volatile-lru", "volatile-lfu",
    "volatile-lrm", "volatile-random", "volatile-ttl",
];

/// Keys with their deadlines, by database and name.
type Model = BTreeMap<(usize, String), Option<u64>>;

fn fixture(shards: usize, policy: &str) -> (Fixture, Eviction) {
    let policy = Eviction::of_name(policy, 5).unwrap();
    let store = Fixture::sharded(shards);
    let uses = match policy.order {
        crate::eviction::EvictionOrder::Lfu => Uses::Count {
            log_factor: 10,
            decay_minutes: 1,
        },
        crate::eviction::EvictionOrder::Lrm => Uses::Changed,
        _ => Uses::Recent,
    };
    store.store.set_limits(Limits {
        uses,
        eviction: Some(policy),
        ..Limits::default()
    });
    store.store.set_counts_room(true);
    (store, policy)
}

/// Evicts `count` keys. Returns their databases and names in the order of their eviction.
fn evict(store: &mut Fixture, policy: Eviction, count: u64) -> (Evicted, Vec<(usize, String)>) {
    store.events();
    let left = store.with_turn(|turn| {
        let shards = turn.store.shards();
        let mut first = 0;
        loop {
            let before = turn.stats.evicted;
            let end = (before + 7).min(count);
            // Begins with some of the shards, as a loop that owns them does.
            let done = turn.evict(policy, first, 2, &mut |turn| turn.stats.evicted >= end);
            first = (first + 1) % shards;
            if done != Evicted::Enough || turn.stats.evicted >= count {
                return done;
            }
        }
    });
    let events = store.events();
    let gone = events.split(", ").filter(|event| !event.is_empty());
    let gone = gone.map(|event| {
        let words: Vec<&str> = event.split(' ').collect();
        assert_eq!(words[0], "evicted", "{event}");
        let db = words.get(2).map_or(0, |db| db[1..].parse().unwrap());
        (db, words[1].to_owned())
    });
    (left, gone.collect())
}

fn fill(store: &mut Fixture, keys: u64, deadline: impl Fn(u64) -> Option<u64>) -> Model {
    let mut model = Model::new();
    for n in 0..keys {
        store.db = (n % 3) as usize;
        let key = format!("key:{n}");
        store.run(&format!("SET {key} value"));
        if let Some(at) = deadline(n) {
            store.run(&format!("PEXPIREAT {key} {at}"));
        }
        model.insert((store.db, key), deadline(n));
    }
    model
}

/// Each policy evicts only keys that it may evict, until no such key is left.
#[test]
fn only_what_a_policy_allows_is_evicted() {
    for shards in [1, 4] {
        for name in POLICIES {
            for every in [1, 3, 100] {
                let (mut store, policy) = fixture(shards, name);
                let deadline = |n: u64| {
                    n.is_multiple_of(every)
                        .then(|| 2_000_000 + n * 7_919 % 10_007)
                };
                let mut model = fill(&mut store, 1_000, deadline);
                let may = |at: &Option<u64>| !policy.volatile || at.is_some();
                let mut left = model.values().filter(|at| may(at)).count() as u64;
                while left > 0 {
                    let (done, gone) = evict(&mut store, policy, left.min(100));
                    assert_eq!(done, Evicted::Enough, "{name}");
                    assert_eq!(gone.len() as u64, left.min(100), "{name}");
                    left -= gone.len() as u64;
                    for key in gone {
                        let at = model.remove(&key).expect("it was there");
                        assert!(may(&at), "{name}: {key:?}");
                    }
                }
                assert_eq!(evict(&mut store, policy, 1).0, Evicted::Nothing, "{name}");
                for ((db, key), _) in model {
                    store.db = db;
                    assert_eq!(store.run(&format!("GET {key}")), "$5 value", "{name}");
                }
            }
        }
    }
}

/// volatile-ttl takes the earliest deadline of all shards and databases, also if deadlines of
/// fields come before it. Fields and later keys still expire at their deadlines.
#[test]
fn volatile_ttl_is_exact() {
    for shards in [1, 8] {
        let (mut store, policy) = fixture(shards, "volatile-ttl");
        let deadline = |n: u64| (!n.is_multiple_of(5)).then(|| 2_000_000 + n * 7_919 % 100_003);
        let model = fill(&mut store, 4_000, deadline);
        for n in 0..300 {
            store.db = n % 3;
            let at = 1_990_000 + n * 97;
            store.run(&format!("HSET hash:{n} a 1 b 2"));
            store.run(&format!("HPEXPIREAT hash:{n} {at} FIELDS 1 a"));
        }
        let mut expected: Vec<(u64, usize, String)> = model
            .into_iter()
            .filter_map(|((db, key), at)| Some((at?, db, key)))
            .collect();
        expected.sort();
        let mut all = Vec::new();
        for count in [1, 10, 500, 1_000] {
            all.extend(evict(&mut store, policy, count).1);
        }
        let at = |(db, key): &(usize, String)| {
            let found = expected.iter().find(|e| (e.1, &e.2) == (*db, key));
            found.expect("a key with a deadline").0
        };
        let deadlines: Vec<u64> = all.iter().map(at).collect();
        let first: Vec<u64> = expected.iter().take(1_511).map(|e| e.0).collect();
        assert_eq!(deadlines, first);
        store.last_values();
        store.jumps_to_the_end();
        let expired = store.last_values();
        assert_eq!(expired.len(), expected.len() - 1_511 + 300);
        let late = |text: &String| text.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        assert!(expired.iter().map(late).is_sorted(), "in exact order");
    }
}

/// A key is evicted even if very many deadlines of fields come before it: the search for the key
/// with the earliest deadline gives up after some of them, and another way finds a key.
#[test]
fn volatile_ttl_finds_keys_behind_many_fields() {
    let (mut store, policy) = fixture(1, "volatile-ttl");
    for n in 0..1_200 {
        store.run(&format!("HSET hash f{n} 1"));
        store.run(&format!("HPEXPIREAT hash 1500000 FIELDS 1 f{n}"));
    }
    for n in 0..30 {
        store.run(&format!("SET key:{n} v PXAT {}", 2_000_000 + n));
    }
    let (done, gone) = evict(&mut store, policy, 30);
    assert_eq!((done, gone.len()), (Evicted::Enough, 30));
    assert_eq!(evict(&mut store, policy, 1).0, Evicted::Nothing);
    assert_eq!(store.run("HLEN hash"), ":1200");
}

impl Fixture {
    fn jumps_to_the_end(&mut self) {
        self.jump(3_000_000);
    }
}

/// The approximation prefers keys that have not been used. An exact policy would evict only such
/// keys.
#[test]
fn lru_and_lfu_find_the_worst_keys() {
    for name in ["allkeys-lru", "volatile-lru", "allkeys-lfu", "volatile-lfu"] {
        let (mut store, policy) = fixture(2, name);
        fill(&mut store, 4_000, |n| (n % 2 == 0).then_some(9_000_000));
        for n in 0..4_000u64 {
            store.advance(50);
            store.db = (n % 3) as usize;
            // Later keys are used more often.
            for _ in 0..(1 + n * 6 / 4_000) {
                store.run(&format!("GET key:{n}"));
            }
        }
        let (_, gone) = evict(&mut store, policy, 200);
        let number = |key: &str| key[4..].parse::<u32>().unwrap();
        let worst = gone.iter().filter(|(_, key)| number(key) < 1_000).count();
        // Random choices would evict about 50 of them. The counters of LFU are random themselves.
        assert!(
            worst > 110,
            "{name}: {worst} of 200 are in the worst quarter"
        );
    }
}

/// Under LRM, a key is kept by changes of its value, its deadline or a stream's groups, and not by
/// reads or by commands that fail or change nothing.
#[test]
fn lrm_evicts_what_was_not_changed_whatever_was_read() {
    let (mut f, mut policy) = fixture(1, "allkeys-lrm");
    policy.samples = 1_000;
    let idle = |f: &mut Fixture, key: &str| f.run(&format!("OBJECT IDLETIME {key}"));
    let keys = ["string", "hash", "stream", "list"];
    f.run("SET string v");
    f.run("HSET hash field v");
    f.run("XGROUP CREATE stream group 0 MKSTREAM");
    f.run("RPUSH list a b");
    f.run("XADD stream 1-1 f v");
    // Times of changes are in units of 128 ms.
    f.advance(30_080);
    for line in [
        "GET string",
        "TOUCH string hash stream list",
        "HGETALL hash",
        "LRANGE list 0 -1",
        "XRANGE stream - +",
        "INCR string",
        "HSETNX hash field v",
        "SET string w NX",
    ] {
        f.run(line);
    }
    for key in keys {
        assert_eq!(idle(&mut f, key), ":30", "{key}");
    }
    for (line, key) in [
        ("APPEND string w", "string"),
        ("EXPIRE hash 1000", "hash"),
        ("XREADGROUP GROUP group me STREAMS stream >", "stream"),
        ("LPOP list", "list"),
    ] {
        f.run(line);
        assert_eq!(idle(&mut f, key), ":0", "{line}");
    }
    f.advance(10_000);
    f.run("SET new v");
    f.run("LPUSH list b");
    f.run("HGET hash field");
    let payload = crate::value::Value::string(b"v").dump();
    f.run_words(&[b"RESTORE", &b"old"[..], b"0", &payload, b"IDLETIME", b"900"]);
    let order: Vec<String> = (evict(&mut f, policy, 4).1.into_iter().map(|key| key.1)).collect();
    assert_eq!(order[0], "old");
    assert!(
        !order.contains(&"new".to_owned()) && !order.contains(&"list".to_owned()),
        "{order:?}"
    );
}

/// A key that was used after it became a candidate is not evicted.
#[test]
fn candidates_that_are_used_stay() {
    let (mut store, mut policy) = fixture(1, "allkeys-lru");
    // Every key is examined.
    policy.samples = 1_000;
    fill(&mut store, 60, |_| None);
    store.advance(10_000);
    let first = evict(&mut store, policy, 1).1;
    store.advance(10_000);
    for n in 10..60 {
        store.db = n % 3;
        store.run(&format!("GET key:{n}"));
    }
    let old = |(_, key): &(usize, String)| key[4..].parse::<u32>().unwrap() < 10;
    let count = 10 - first.iter().filter(|key| old(key)).count() as u64;
    let (_, gone) = evict(&mut store, policy, count);
    assert!(gone.iter().all(old), "{gone:?}");
}

/// Compaction moves records when many places are free. Names, values, deadlines, fields and the
/// table stay correct.
#[test]
fn records_move_and_everything_follows() {
    let (mut store, policy) = fixture(1, "allkeys-random");
    let deadline = |n: u64| n.is_multiple_of(2).then(|| 2_000_000 + n * 7_919 % 100_003);
    let mut model = fill(&mut store, 12_000, deadline);
    for n in 0..500 {
        store.db = 1;
        let at = 2_000_000 + n * 97;
        store.run(&format!("HSET hash:{n} a 1 b 2"));
        store.run(&format!("HPEXPIREAT hash:{n} {at} FIELDS 1 a"));
        store.run(&format!("XADD stream:{n} 1-{n} f v"));
        store.run(&format!("XRETAIN stream:{n} MAXAGE 600000"));
    }
    for key in evict(&mut store, policy, 9_000).1 {
        model.remove(&key);
    }
    let (before, freed) = store.with_turn(|turn| {
        turn.lock_all();
        let (before, mut freed) = (turn.room(), 0);
        loop {
            let bytes = turn.compact();
            freed += bytes;
            if bytes == 0 {
                break;
            }
        }
        assert_eq!(turn.room(), before - freed);
        (before, freed)
    });
    // About one page (14 KiB) of each of the three databases stays partly free. The bound allows
    // eight pages of 16 KiB.
    assert!(
        before > 500_000 && freed > before - 4 * 16_384 * 2,
        "{freed} of {before}"
    );
    let mut hashes = 0;
    for n in 0..500 {
        store.db = 1;
        hashes += usize::from(store.run(&format!("HGET hash:{n} a")) == "$1 1");
    }
    assert!(hashes > 50);
    for ((db, key), at) in &model {
        store.db = *db;
        let expected = at.map_or(":-1".to_owned(), |at| format!(":{at}"));
        assert_eq!(store.run(&format!("PEXPIRETIME {key}")), expected);
    }
    store.last_values();
    store.jump(2_150_000);
    let expired = store.last_values();
    let with_deadline = model.values().flatten().count();
    assert_eq!(expired.len(), with_deadline + hashes);
    let late = |text: &String| text.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert!(expired.iter().map(late).is_sorted());
    for ((db, key), at) in &model {
        store.db = *db;
        let expected = if at.is_some() { ":0" } else { ":1" };
        assert_eq!(store.run(&format!("EXISTS {key}")), expected);
    }
    let reply = store.run("DBSIZE");
    assert!(reply.starts_with(':'), "{reply}");
}

/// A running snapshot contains all keys of its instant, even if they are evicted meanwhile. Records
/// do not move while it runs.
#[test]
fn a_snapshot_keeps_what_is_evicted() {
    let (mut store, policy) = fixture(1, "allkeys-random");
    fill(&mut store, 3_000, |_| None);
    let keys = store.with_turn(|turn| {
        let mut snapshot =
            crate::snapshot::Snapshot::begin(turn, crate::snapshot::Format::default());
        let mut out = Vec::new();
        let mut steps = 0;
        while snapshot.next_held(turn, &mut out).is_some() {
            if steps < 100 {
                let end = turn.stats.evicted + 20;
                turn.evict(policy, 0, 1, &mut |turn| turn.stats.evicted >= end);
                assert_eq!(turn.compact(), 0, "a snapshot visits records by index");
            }
            steps += 1;
        }
        assert!(turn.stats.evicted > 1_000);
        snapshot.written()
    });
    assert_eq!(keys, 3_000);
}

/// An evicted timer would be a command that never runs.
#[test]
fn timers_are_never_evicted() {
    use crate::command::timers::SET;
    for name in POLICIES {
        let (mut store, policy) = fixture(2, name);
        let model = fill(&mut store, 300, |n| Some(3_000_000 + n));
        store.db = 0;
        for n in 0..900 {
            let line = format!("TIMER SET timer:{n} IN {} DO PING", 1_000 + n);
            assert_eq!(store.run_row(&SET, &line), "+OK");
        }
        store.run("PERSIST timer:7");
        let (left, gone) = evict(&mut store, policy, u64::MAX);
        assert_eq!(
            (left, gone.len()),
            (Evicted::Nothing, model.len()),
            "{name}"
        );
        // Compaction moves timers into the places of the evicted keys.
        store.with_turn(|turn| while turn.compact() > 0 {});
        assert_eq!(store.run("DBSIZE"), ":900");
        assert_eq!(store.run("PTTL timer:0"), ":1000");
    }
}

/// If only queues of jobs are left, there is nothing to evict.
#[test]
fn queues_of_jobs_are_never_evicted() {
    for name in POLICIES {
        let (mut store, policy) = fixture(1, name);
        let model = fill(&mut store, 50, |n| Some(3_000_000 + n));
        store.db = 0;
        for n in 0..20 {
            store.run(&format!("JOB ADD queue:{n} work"));
            store.run(&format!("PEXPIREAT queue:{n} {}", 3_000_000 + n));
        }
        let (left, gone) = evict(&mut store, policy, u64::MAX);
        let expected = (Evicted::Nothing, model.len());
        assert_eq!((left, gone.len()), expected, "{name}");
        assert_eq!(store.run("DBSIZE"), ":20");
    }
}

/// Keys that a replica's own clients have written expire on the replica, also after a move.
#[test]
fn records_move_and_local_keys_follow() {
    let (mut store, policy) = fixture(1, "allkeys-random");
    fill(&mut store, 6_000, |_| None);
    store.db = 0;
    store.store.set_writers(Writers::Both);
    store.with_turn(|turn| turn.set_following(true));
    for n in 0..300 {
        store.run(&format!("SET local:{n} v PXAT {}", 2_000_000 + n));
    }
    let gone = evict(&mut store, policy, 5_000).1;
    let evicted = gone.iter().filter(|(_, key)| key.starts_with("local:"));
    let left = 300 - evicted.count();
    let freed = store.with_turn(|turn| {
        turn.lock_all();
        std::iter::repeat_with(|| turn.compact())
            .take_while(|bytes| *bytes > 0)
            .count()
    });
    assert!(freed > 0 && left > 0);
    store.last_values();
    store.jump(2_150_000);
    assert_eq!(store.last_values().len(), left);
}
