//! Comparison of the keyspace with a map under random commands, jumps of the clock and expiry in
//! small steps.
//!
//! The model is a map from database and name to value and deadline, without a wheel: a key exists
//! until its deadline. Replies must not depend on how far the wheel's expiry has got, and each key
//! must expire once and not before its deadline.

use std::collections::BTreeMap;

use proptest::prelude::*;
use punctual_resp::{OwnedArgs, Protocol, Reply};
use punctual_store::check::Check;
use punctual_store::events::{Classes, Sink};
use punctual_store::{Now, Store, StoreOptions, Turn, command};

const DATABASES: usize = 2;
const START_MS: u64 = 1_000_000;

/// Database and name.
type Name = (usize, u8);

#[derive(Clone, Debug)]
enum Step {
    Set(u8, i64),
    SetFor(u8, i64, u16),
    Expire(Unit, u8, i64, Condition),
    Persist(u8),
    Read(&'static str, u8),
    Delete(&'static str, u8, u8),
    Exists(u8, u8),
    Rename(&'static str, u8, u8),
    Copy(u8, u8, usize, bool),
    Move(u8, usize),
    Keys,
    RandomKey,
    Scan,
    Size,
    Swap,
    Flush,
    Select(usize),
    /// Advances the clock by a number of milliseconds, or of microseconds if the flag is set.
    Jump(u64, bool),
    /// Expires keys of a shard (first number) within a budget (second number).
    Expiry(usize, usize),
    Advance(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Seconds,
    Milliseconds,
    /// An absolute time, which the test computes from the instant rounded down.
    UnixMilliseconds,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Always,
    None,
    Some,
    Later,
    Earlier,
}

impl Condition {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Always, ""),
        (Self::None, " NX"),
        (Self::Some, " XX"),
        (Self::Later, " GT"),
        (Self::Earlier, " LT"),
    ];

    fn holds(self, current: Option<u64>, new: i64) -> bool {
        let current = current.map(|at| at as i64);
        match self {
            Self::Always => true,
            Self::None => current.is_none(),
            Self::Some => current.is_some(),
            Self::Later => new > current.unwrap_or(i64::MAX),
            Self::Earlier => new < current.unwrap_or(i64::MAX),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..12u8;
    let condition = prop::sample::select(Condition::ALL.map(|(condition, _)| condition).to_vec());
    let unit = prop::sample::select(vec![
        Unit::Seconds,
        Unit::Milliseconds,
        Unit::UnixMilliseconds,
    ]);
    let read = prop::sample::select(vec![
        "TTL",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "GET",
        "TYPE",
        "TOUCH",
    ]);
    prop_oneof![
        4 => (key(), -5..100i64).prop_map(|(k, v)| Step::Set(k, v)),
        8 => (key(), 0..100i64, 1..300u16).prop_map(|(k, v, ms)| Step::SetFor(k, v, ms)),
        8 => (unit, key(), -20..400i64, condition).prop_map(|(u, k, n, c)| Step::Expire(u, k, n, c)),
        2 => key().prop_map(Step::Persist),
        6 => (read, key()).prop_map(|(c, k)| Step::Read(c, k)),
        2 => (prop::sample::select(vec!["DEL", "UNLINK"]), key(), key()).prop_map(|(c, a, b)| Step::Delete(c, a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Step::Exists(a, b)),
        3 => (prop::sample::select(vec!["RENAME", "RENAMENX"]), key(), key()).prop_map(|(c, a, b)| Step::Rename(c, a, b)),
        3 => (key(), key(), 0..DATABASES, any::<bool>()).prop_map(|(a, b, d, r)| Step::Copy(a, b, d, r)),
        2 => (key(), 0..DATABASES).prop_map(|(k, d)| Step::Move(k, d)),
        2 => Just(Step::Keys),
        1 => Just(Step::RandomKey),
        1 => Just(Step::Scan),
        2 => Just(Step::Size),
        1 => Just(Step::Swap),
        1 => prop::sample::select(vec![Step::Flush, Step::Select(0)]),
        2 => (0..DATABASES).prop_map(Step::Select),
        6 => (0..120u64).prop_map(|n| Step::Jump(n, false)),
        2 => (1..1500u64).prop_map(|n| Step::Jump(n, true)),
        6 => (0..8usize, 0..6usize).prop_map(|(s, b)| Step::Expiry(s, b)),
        2 => (0..200u64).prop_map(Step::Advance),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: i64,
    deadline: Option<u64>,
}

/// Records expired keys and their events.
#[derive(Default)]
struct ExpirySink {
    /// Database, name, last value, deadline.
    expired: Vec<(usize, u8, i64, u64)>,
    /// Database and name.
    events: Vec<(usize, u8)>,
}

impl Sink for ExpirySink {
    fn keyspace(&mut self, db: usize, _: Classes, event: &str, key: &[u8]) {
        assert_eq!(event, "expired");
        self.events.push((db, key[0]));
    }

    fn expired(&mut self, now: Now, db: usize, key: &[u8], value: Option<&[u8]>, deadline_ms: u64) {
        assert!(now.is_due(deadline_ms), "{deadline_ms} is after {now:?}");
        let value = std::str::from_utf8(value.unwrap())
            .unwrap()
            .parse()
            .unwrap();
        self.expired.push((db, key[0], value, deadline_ms));
    }

    fn wake(&mut self, _: usize, _: u64) {}
}

/// The expected keyspace. Due keys stay in `keys` until the store expires them.
struct Model {
    keys: BTreeMap<Name, Entry>,
    now: Now,
    db: usize,
}

fn name(key: u8) -> char {
    char::from(b'a' + key)
}

impl Model {
    fn live(&self, db: usize, key: u8) -> Option<&Entry> {
        self.keys
            .get(&(db, key))
            .filter(|entry| entry.deadline.is_none_or(|at| !self.now.is_due(at)))
    }

    fn all_live(&self) -> Vec<u8> {
        let db = self.db;
        (0..26)
            .filter(|&key| self.live(db, key).is_some())
            .collect()
    }

    /// Removes a key that exists and is not due.
    fn take(&mut self, db: usize, key: u8) -> Option<Entry> {
        self.live(db, key)?;
        self.keys.remove(&(db, key))
    }

    /// Checks value and deadline of a key that the store has expired, and removes the key.
    fn remove_expired(&mut self, (db, key, value, deadline): (usize, u8, i64, u64)) {
        let entry = self
            .keys
            .remove(&(db, key))
            .expect("only existing keys expire, each once");
        assert_eq!((entry.value, entry.deadline), (value, Some(deadline)));
        assert!(
            self.now.is_due(deadline),
            "{deadline} is after {:?}",
            self.now
        );
    }

    fn expire(&mut self, key: u8, deadline: i64, past: bool) -> i64 {
        let db = self.db;
        if past {
            self.keys.remove(&(db, key));
        } else {
            self.keys.get_mut(&(db, key)).unwrap().deadline = Some(deadline as u64);
        }
        1
    }
}

/// The store under test and its sink.
struct Subject {
    store: Store,
    sink: ExpirySink,
}

impl Subject {
    /// Runs a command line and returns the reply with spaces in place of line ends.
    fn run(&mut self, now: Now, db: usize, line: &str) -> String {
        let args: OwnedArgs = line.split(' ').collect();
        let row = command::find(args.as_args()[0].to_ascii_lowercase().as_slice()).unwrap();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        let mut turn = Turn::new(&self.store, now, &mut self.sink, classes());
        if let Err(error) = turn.run(row, db, true, args.as_args(), &mut reply) {
            reply.error(error.bytes());
        }
        drop(turn);
        String::from_utf8(out)
            .unwrap()
            .trim_end()
            .replace("\r\n", " ")
    }
}

fn classes() -> Classes {
    Classes::parse(b"Ex").unwrap()
}

/// Returns the names of an array reply, sorted.
fn names(reply: &str) -> Vec<u8> {
    let mut names: Vec<u8> = reply
        .split(' ')
        .skip(2)
        .step_by(2)
        .map(|name| name.as_bytes()[0] - b'a')
        .collect();
    names.sort_unstable();
    names
}

fn check(shards: usize, steps: Vec<Step>) {
    let mut subject = Subject {
        store: Store::new(StoreOptions {
            shards,
            databases: DATABASES,
            cluster: false,
            seed: 1,
            nap: std::thread::sleep,
        }),
        sink: ExpirySink::default(),
    };
    let mut model = Model {
        keys: BTreeMap::new(),
        now: Now::from_ms(START_MS),
        db: 0,
    };
    for (at, step) in steps.into_iter().enumerate() {
        apply(&mut subject, &mut model, &step, at);
        let mut found = Check::default();
        Turn::new(&subject.store, model.now, &mut subject.sink, classes()).check(&mut found);
        found.assert_none();
    }
    // Finally, every key with a deadline expires.
    let end = Now::from_ms(START_MS + (1 << 40));
    let mut turn = Turn::new(&subject.store, end, &mut subject.sink, classes());
    for shard in 0..shards {
        while !turn.expire(shard, &mut 3) {}
    }
    drop(turn);
    model.now = end;
    apply_expired(&mut subject, &mut model);
    assert!(
        model.keys.values().all(|entry| entry.deadline.is_none()),
        "{:?}",
        model.keys
    );
    for db in 0..DATABASES {
        let len = model.keys.range((db, 0)..(db + 1, 0)).count();
        assert_eq!(subject.run(end, db, "DBSIZE"), format!(":{len}"));
    }
}

/// Removes the expired keys of the store from the model.
fn apply_expired(subject: &mut Subject, model: &mut Model) {
    let ExpirySink { expired, events } = std::mem::take(&mut subject.sink);
    assert_eq!(
        expired
            .iter()
            .map(|&(db, key, ..)| (db, key))
            .collect::<Vec<_>>(),
        events,
        "each key has an event"
    );
    for (db, key, value, deadline) in expired {
        model.remove_expired((db, key - b'a', value, deadline));
    }
}

fn apply(subject: &mut Subject, model: &mut Model, step: &Step, at: usize) {
    let (now, db) = (model.now, model.db);
    let line = match *step {
        Step::Select(to) => {
            model.db = to;
            return;
        }
        Step::Jump(by, micros) => {
            model.now = Now::from_micros(now.micros() + if micros { by } else { by * 1000 });
            return;
        }
        Step::Expiry(shard, budget) => {
            let shard = shard % subject.store.shards();
            Turn::new(&subject.store, now, &mut subject.sink, classes())
                .expire(shard, &mut { budget });
            return apply_expired(subject, model);
        }
        Step::Advance(ms) => {
            model.now = Now::from_micros(now.micros() + ms * 1000);
            assert!(
                Turn::new(&subject.store, now, &mut subject.sink, classes()).advance(model.now)
            );
            let expired = &subject.sink.expired;
            assert!(expired.is_sorted_by_key(|&(.., deadline)| deadline));
            apply_expired(subject, model);
            assert!(
                model
                    .keys
                    .values()
                    .all(|entry| entry.deadline.is_none_or(|at| !model.now.is_due(at))),
                "no due key is left"
            );
            return;
        }
        Step::Set(key, value) => format!("SET {} {value}", name(key)),
        Step::SetFor(key, value, ms) => format!("SET {} {value} PX {ms}", name(key)),
        Step::Expire(unit, key, amount, condition) => {
            let (command, amount) = match unit {
                Unit::Seconds => ("EXPIRE", amount / 100),
                Unit::Milliseconds => ("PEXPIRE", amount),
                Unit::UnixMilliseconds => ("PEXPIREAT", now.read_ms() as i64 + amount),
            };
            let option = Condition::ALL
                .iter()
                .find(|(c, _)| *c as u8 == condition as u8)
                .unwrap()
                .1;
            format!("{command} {} {amount}{option}", name(key))
        }
        Step::Persist(key) => format!("PERSIST {}", name(key)),
        Step::Read(command, key) => format!("{command} {}", name(key)),
        Step::Delete(command, a, b) => format!("{command} {} {}", name(a), name(b)),
        Step::Exists(a, b) => format!("EXISTS {} {}", name(a), name(b)),
        Step::Rename(command, a, b) => format!("{command} {} {}", name(a), name(b)),
        Step::Copy(a, b, to, replace) => {
            let replace = if replace { " REPLACE" } else { "" };
            format!("COPY {} {} DB {to}{replace}", name(a), name(b))
        }
        Step::Move(key, to) => format!("MOVE {} {to}", name(key)),
        Step::Keys => "KEYS *".into(),
        Step::RandomKey => "RANDOMKEY".into(),
        Step::Scan => "SCAN 0 COUNT 1000".into(),
        Step::Size => "DBSIZE".into(),
        Step::Swap => "SWAPDB 0 1".into(),
        Step::Flush => "FLUSHDB".into(),
    };
    let reply = subject.run(now, db, &line);
    // Keys that the command expired are removed from the model before the command's effect.
    apply_expired(subject, model);
    let expected = match *step {
        Step::Keys => {
            assert_eq!(names(&reply), model.all_live(), "step {at}");
            return;
        }
        Step::Scan => {
            assert!(reply.starts_with("*2 $1 0 "), "{reply}");
            assert_eq!(
                names(&reply["*2 $1 0 ".len()..]),
                model.all_live(),
                "step {at}"
            );
            return;
        }
        Step::RandomKey => {
            let live = model.all_live();
            match reply.strip_prefix("$1 ") {
                None => assert!(live.is_empty() && reply == "$-1", "{reply}"),
                Some(key) => assert!(live.contains(&(key.as_bytes()[0] - b'a')), "{key}"),
            }
            return;
        }
        _ => model.reply(step),
    };
    assert_eq!(reply, expected, "step {at}: {line} at {now:?} in {db}");
}

impl Model {
    /// Applies a command and returns its reply.
    fn reply(&mut self, step: &Step) -> String {
        let (now, db) = (self.now, self.db);
        let base = now.base_ms() as i64;
        let int = match *step {
            Step::Set(key, value) => {
                let deadline = None;
                self.keys.insert((db, key), Entry { value, deadline });
                return "+OK".into();
            }
            Step::SetFor(key, value, ms) => {
                let deadline = Some(now.base_ms() + u64::from(ms));
                self.keys.insert((db, key), Entry { value, deadline });
                return "+OK".into();
            }
            Step::Expire(unit, key, amount, condition) => {
                let (new, past) = match unit {
                    Unit::Seconds => (base + amount / 100 * 1000, amount / 100 <= 0),
                    Unit::Milliseconds => (base + amount, amount <= 0),
                    Unit::UnixMilliseconds => (now.read_ms() as i64 + amount, amount <= 0),
                };
                match self.live(db, key) {
                    Some(entry) if condition.holds(entry.deadline, new) => {
                        self.expire(key, new, past)
                    }
                    _ => 0,
                }
            }
            Step::Persist(key) => match self.live(db, key).and_then(|entry| entry.deadline) {
                Some(_) => {
                    self.keys.get_mut(&(db, key)).unwrap().deadline = None;
                    1
                }
                None => 0,
            },
            Step::Read(command, key) => return self.read(command, key),
            Step::Delete(_, a, b) => [a, b]
                .into_iter()
                .filter(|&key| self.take(db, key).is_some())
                .count() as i64,
            Step::Exists(a, b) => [a, b]
                .into_iter()
                .filter(|&key| self.live(db, key).is_some())
                .count() as i64,
            Step::Rename(command, a, b) => {
                let only_new = command == "RENAMENX";
                if self.live(db, a).is_none() {
                    return "-ERR no such key".into();
                }
                let done = a != b && !(only_new && self.live(db, b).is_some());
                if done {
                    let entry = self.take(db, a).unwrap();
                    self.keys.insert((db, b), entry);
                }
                if !only_new {
                    return "+OK".into();
                }
                i64::from(done)
            }
            Step::Copy(a, b, to, replace) => {
                if a == b && to == db {
                    return "-ERR source and destination objects are the same".into();
                }
                match self.live(db, a).cloned() {
                    Some(entry) if replace || self.live(to, b).is_none() => {
                        self.keys.insert((to, b), entry);
                        1
                    }
                    _ => 0,
                }
            }
            Step::Move(key, to) => {
                if to == db {
                    return "-ERR source and destination objects are the same".into();
                }
                if self.live(db, key).is_some() && self.live(to, key).is_none() {
                    let entry = self.take(db, key).unwrap();
                    self.keys.insert((to, key), entry);
                    1
                } else {
                    0
                }
            }
            Step::Size => self.all_live().len() as i64,
            Step::Swap => {
                let keys = std::mem::take(&mut self.keys);
                self.keys = keys
                    .into_iter()
                    .map(|((db, key), entry)| ((1 - db, key), entry))
                    .collect();
                return "+OK".into();
            }
            Step::Flush => {
                self.keys.retain(|(of, _), _| *of != db);
                return "+OK".into();
            }
            _ => unreachable!("checked by the caller"),
        };
        format!(":{int}")
    }

    fn read(&self, command: &str, key: u8) -> String {
        let Some(entry) = self.live(self.db, key) else {
            return match command {
                "GET" => "$-1".into(),
                "TYPE" => "+none".into(),
                "TOUCH" => ":0".into(),
                _ => ":-2".into(),
            };
        };
        let left = entry
            .deadline
            .map(|at| at.saturating_sub(self.now.base_ms()));
        let int = match command {
            "GET" => {
                let text = entry.value.to_string();
                return format!("${} {text}", text.len());
            }
            "TYPE" => return "+string".into(),
            "TOUCH" => Some(1),
            "PTTL" => left,
            "TTL" => left.map(|ms| (ms + 500) / 1000),
            "PEXPIRETIME" => entry.deadline,
            _ => entry.deadline.map(|ms| (ms + 500) / 1000),
        };
        int.map_or(":-1".into(), |int| format!(":{int}"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_shard_matches_the_model(steps in proptest::collection::vec(step(), 1..300)) {
        check(1, steps);
    }

    #[test]
    fn eight_shards_match_the_model(steps in proptest::collection::vec(step(), 1..300)) {
        check(8, steps);
    }
}
