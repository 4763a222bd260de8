//! Slots against a model: the set of existing keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use punctual_cluster::slot;

use crate::Store;
use crate::command::testing::Fixture;
use crate::eviction::Eviction;
use crate::keyspace::watch::WatchFlag;

/// Returns the keys of a slot, sorted.
fn listed(fixture: &mut Fixture, slot: u16, max: usize) -> Vec<String> {
    let mut keys = Vec::new();
    fixture.with_turn(|turn| {
        turn.keys_in_slot(slot, max, |key| {
            keys.push(String::from_utf8_lossy(key).into_owned())
        });
    });
    keys.sort();
    keys
}

fn counted(fixture: &mut Fixture, slot: u16) -> usize {
    fixture.with_turn(|turn| turn.count_keys_in_slot(slot))
}

fn all_counted(fixture: &mut Fixture) -> usize {
    let slots = 0..slot::SLOTS;
    fixture.with_turn(|turn| slots.map(|slot| turn.count_keys_in_slot(slot)).sum())
}

fn deleted(fixture: &mut Fixture, slot: u16, max: usize) -> usize {
    fixture.with_turn(|turn| turn.delete_slot(slot, max))
}

/// Checks the count and the list of each slot, and that SCAN returns each key.
fn check(fixture: &mut Fixture, model: &BTreeSet<String>) {
    let mut slots: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for key in model {
        slots
            .entry(slot::of_key(key.as_bytes()))
            .or_default()
            .push(key.clone());
    }
    assert_eq!(all_counted(fixture), model.len());
    for (slot, keys) in &slots {
        assert_eq!(counted(fixture, *slot), keys.len());
        assert_eq!(&listed(fixture, *slot, usize::MAX), keys);
        assert_eq!(listed(fixture, *slot, 3).len(), keys.len().min(3));
    }
    let (mut seen, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        cursor = scan(fixture, &cursor, &mut seen);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(&seen, model);
}

/// Runs one call of SCAN, and returns the next cursor.
fn scan(fixture: &mut Fixture, cursor: &str, seen: &mut BTreeSet<String>) -> String {
    let reply = fixture.run(&format!("SCAN {cursor} COUNT 50"));
    let words: Vec<&str> = reply.split(' ').collect();
    seen.extend(
        words[4..]
            .iter()
            .skip(1)
            .step_by(2)
            .map(|key| key.to_string()),
    );
    words[2].to_owned()
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u32),
    Delete(u32, u32),
    /// Sets keys that expire.
    SetFor(u32, u32),
    /// Advances the clock until these keys are due, and expires them.
    Expire,
    Rename(u32, u32),
    Copy(u32, u32),
    /// DUMP and RESTORE under another name.
    Restore(u32, u32),
    Flush(&'static str),
    /// Evicts keys and moves records together.
    Evict(u64),
    /// A snapshot is written and loaded.
    Reload,
    /// A snapshot is loaded into a second keyspace, which replaces the first one.
    Replace,
    DeleteSlot(u32, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..3_000u32;
    prop_oneof![
        8 => (key(), 1..1_500u32).prop_map(|(a, n)| Step::Set(a, n)),
        4 => (key(), 1..1_500u32).prop_map(|(a, n)| Step::Delete(a, n)),
        3 => (key(), 1..300u32).prop_map(|(a, n)| Step::SetFor(a, n)),
        3 => Just(Step::Expire),
        2 => (key(), key()).prop_map(|(a, b)| Step::Rename(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Step::Copy(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Step::Restore(a, b)),
        2 => (1..400u64).prop_map(Step::Evict),
        1 => prop::sample::select(vec![Step::Flush("FLUSHALL"), Step::Flush("FLUSHDB")]),
        2 => prop::sample::select(vec![Step::Reload, Step::Replace]),
        3 => (key(), 1..2_000usize).prop_map(|(a, n)| Step::DeleteSlot(a, n)),
    ]
}

/// Keys in all slots, in ten slots, or in one slot.
#[derive(Clone, Copy, Debug)]
enum Names {
    Spread,
    Tens,
    One,
}

impl Names {
    fn key(self, n: u32) -> String {
        match self {
            Self::Spread => format!("key:{n}"),
            Self::Tens => format!("{{{}}}:{n}", n % 10),
            Self::One => format!("{{tag}}{n}"),
        }
    }
}

/// A keyspace in cluster mode and the keys that it should have.
struct Pair {
    fixture: Fixture,
    names: Names,
    model: BTreeSet<String>,
    /// Keys with a deadline.
    due: BTreeSet<String>,
}

impl Pair {
    fn set(&mut self, key: String, options: &str) {
        assert_eq!(self.fixture.run(&format!("SET {key} v{options}")), "+OK");
        self.due.remove(&key);
        self.model.insert(key);
    }

    fn run(&mut self, step: Step) {
        let names = self.names;
        match step {
            Step::Set(start, count) => {
                (start..start + count).for_each(|n| self.set(names.key(n), ""));
            }
            Step::SetFor(start, count) => {
                for key in (start..start + count).map(|n| names.key(n)) {
                    self.set(key.clone(), " PX 10");
                    self.due.insert(key);
                }
            }
            Step::Delete(start, count) => {
                for key in (start..start + count).map(|n| names.key(n)) {
                    let removed = self.model.remove(&key);
                    self.due.remove(&key);
                    let reply = self.fixture.run(&format!("DEL {key}"));
                    assert_eq!(reply, format!(":{}", u32::from(removed)));
                }
            }
            Step::Expire => {
                self.fixture.advance(10);
                assert_eq!(all_counted(&mut self.fixture), self.model.len());
                self.fixture.expire();
                for key in std::mem::take(&mut self.due) {
                    self.model.remove(&key);
                }
            }
            Step::Rename(from, to) => self.move_key("RENAME", from, to),
            Step::Copy(from, to) => self.move_key("COPY", from, to),
            Step::Restore(from, to) => self.move_key("DUMP", from, to),
            Step::Evict(count) => self.evict(count),
            Step::Flush(command) => {
                self.fixture.run(command);
                self.model.clear();
                self.due.clear();
            }
            Step::Reload => self.fixture.reload(),
            Step::Replace => self.replace(),
            Step::DeleteSlot(n, max) => {
                let slot = slot::of_key(names.key(n).as_bytes());
                let before = listed(&mut self.fixture, slot, usize::MAX);
                let count = deleted(&mut self.fixture, slot, max);
                assert_eq!(count, before.len().min(max));
                let after = listed(&mut self.fixture, slot, usize::MAX);
                assert_eq!(after.len(), before.len() - count);
                for key in before.iter().filter(|key| !after.contains(key)) {
                    self.model.remove(key);
                    self.due.remove(key);
                }
            }
        }
    }

    /// Renames or copies a key. With DUMP, restores the key under the other name.
    fn move_key(&mut self, command: &str, from: u32, to: u32) {
        let (from, to) = (self.names.key(from), self.names.key(to));
        if from == to || !self.model.contains(&from) {
            return;
        }
        let has_deadline = self.due.contains(&from);
        let done = match command {
            "RENAME" => {
                self.model.remove(&from);
                self.due.remove(&from);
                self.fixture.run(&format!("RENAME {from} {to}")) == "+OK"
            }
            "COPY" => self.fixture.run(&format!("COPY {from} {to} REPLACE")) == ":1",
            _ => {
                let args: punctual_resp::OwnedArgs = ["DUMP", &from].into_iter().collect();
                let dump = self.fixture.reply(args.as_args());
                let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                let payload = &dump[start..dump.len() - 2];
                let words: [&[u8]; 5] = [b"RESTORE", to.as_bytes(), b"0", payload, b"REPLACE"];
                assert_eq!(self.fixture.run_words(&words), "+OK");
                self.due.remove(&to);
                self.model.insert(to);
                return;
            }
        };
        assert!(done, "{command} {from} {to}");
        match has_deadline {
            true => self.due.insert(to.clone()),
            false => self.due.remove(&to),
        };
        self.model.insert(to);
    }

    fn evict(&mut self, count: u64) {
        let policy = Eviction::of_name("allkeys-random", 5).unwrap();
        self.fixture.store.set_counts_room(true);
        self.fixture.events();
        self.fixture.with_turn(|turn| {
            turn.evict(policy, 0, 1, &mut |turn| turn.stats.evicted >= count);
            while turn.compact() > 0 {}
        });
        for event in self.fixture.events().split(", ") {
            if let Some(key) = event.strip_prefix("evicted ") {
                assert!(self.model.remove(key), "{key}");
                self.due.remove(key);
            }
        }
    }

    fn replace(&mut self) {
        let file = self.fixture.snapshot();
        let new: Store = self.fixture.store.beside();
        let old = std::mem::replace(&mut self.fixture.store, new);
        self.fixture.load(&file);
        let loaded = std::mem::replace(&mut self.fixture.store, old);
        self.fixture.with_turn(|turn| turn.replace_all(loaded));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn slots_have_the_keys_of_a_model(
        shards in prop_oneof![Just(1usize), Just(3), Just(16)],
        names in prop_oneof![Just(Names::Spread), Just(Names::Tens), Just(Names::One)],
        steps in proptest::collection::vec(step(), 1..16),
    ) {
        let fixture = Fixture::clustered(shards);
        let (model, due) = (BTreeSet::new(), BTreeSet::new());
        let mut pair = Pair { fixture, names, model, due };
        for step in steps {
            pair.run(step);
            check(&mut pair.fixture, &pair.model);
        }
    }

    /// SCAN returns each key that stays, while tables grow, divide, shrink and are replaced.
    #[test]
    fn scan_misses_no_key_that_stays(
        shards in prop_oneof![Just(1usize), Just(3)],
        names in prop_oneof![Just(Names::Spread), Just(Names::Tens), Just(Names::One)],
        steps in proptest::collection::vec(step(), 1..20),
    ) {
        let fixture = Fixture::clustered(shards);
        let (model, due) = (BTreeSet::new(), BTreeSet::new());
        let mut pair = Pair { fixture, names, model, due };
        let stays = |n: u32| names.key(n + 1_000_000);
        (0..1_000).for_each(|n| pair.set(stays(n), ""));
        let (mut seen, mut cursor, mut calls) = (BTreeSet::new(), "0".to_owned(), 0);
        let mut steps = steps.into_iter();
        loop {
            cursor = scan(&mut pair.fixture, &cursor, &mut seen);
            if cursor == "0" {
                break;
            }
            calls += 1;
            if calls % 3 == 0
                && let Some(step) = steps.next()
                && !matches!(step, Step::Flush(_) | Step::Evict(_) | Step::DeleteSlot(..))
            {
                pair.run(step);
            }
        }
        for n in 0..1_000 {
            prop_assert!(seen.contains(&stays(n)));
        }
    }
}

#[test]
fn a_deleted_slot_is_logged_and_has_no_event() {
    for shards in [1, 4] {
        let mut fixture = Fixture::clustered(shards);
        fixture.set_logged(true);
        for line in ["SET {a}1 v", "RPUSH {a}2 v", "SET b v", "SADD {a}3 v"] {
            let reply = fixture.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        fixture.events();
        fixture.take_log();
        let dirty = fixture.stats.dirty;
        let a = slot::of_key(b"a");
        assert_eq!(deleted(&mut fixture, a, 2), 2);
        assert_eq!(deleted(&mut fixture, a, 2), 1);
        assert_eq!(deleted(&mut fixture, a, 2), 0);
        assert_eq!(
            (counted(&mut fixture, a), fixture.stats.dirty),
            (0, dirty + 3)
        );
        assert_eq!(fixture.events(), "", "the keys live on at another node");
        let log = fixture.take_log();
        let mut words: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        words.retain(|word| word.starts_with(b"{a}"));
        words.sort();
        assert_eq!(words, [b"{a}1\r", b"{a}2\r", b"{a}3\r"]);
        assert_eq!(fixture.run("KEYS *"), "*1 $1 b");

        let mut replica = Fixture::clustered(shards);
        replica.run("SET {a}1 v");
        replica.run("SET b v");
        replica.apply(&log);
        assert_eq!(replica.run("KEYS *"), "*1 $1 b");
    }
}

#[test]
fn a_deleted_slot_fails_transactions_that_watch_its_keys() {
    let mut fixture = Fixture::clustered(4);
    let flags: Vec<Arc<WatchFlag>> = (1..=3).map(|n| Arc::new(WatchFlag::new(n))).collect();
    for (key, flag) in ["{a}1", "{a}2", "b"].into_iter().zip(&flags) {
        if key != "{a}2" {
            fixture.run(&format!("SET {key} v"));
        }
        fixture.with_turn(|turn| turn.watch(0, [key.as_bytes()].into_iter(), flag));
    }
    assert_eq!(deleted(&mut fixture, slot::of_key(b"a"), 10), 1);
    let raised: Vec<bool> = flags.iter().map(|flag| flag.is_raised()).collect();
    assert_eq!(raised, [true, false, false], "the second key did not exist");
}

#[test]
fn due_keys_count_until_they_expire() {
    let mut fixture = Fixture::clustered(1);
    let a = slot::of_key(b"a");
    fixture.run("SET a v PX 10");
    fixture.advance(10);
    assert_eq!(
        (counted(&mut fixture, a), listed(&mut fixture, a, 9).len()),
        (1, 1)
    );
    fixture.expire();
    assert_eq!(
        (counted(&mut fixture, a), listed(&mut fixture, a, 9).len()),
        (0, 0)
    );
}

#[test]
fn other_databases_and_other_modes_have_no_slots() {
    let mut fixture = Fixture::clustered(4);
    fixture.db = 1;
    fixture.run("SET a v");
    let a = slot::of_key(b"a");
    assert_eq!(
        (counted(&mut fixture, a), deleted(&mut fixture, a, 9)),
        (0, 0)
    );
    let mut fixture = Fixture::sharded(4);
    fixture.run("SET a v");
    assert_eq!(
        (counted(&mut fixture, a), deleted(&mut fixture, a, 9)),
        (0, 0)
    );
    assert_eq!(listed(&mut fixture, a, 9).len(), 0);
    assert_eq!(fixture.store.shard_of_slot(a), None);
}
