//! A database of hashes against a model that looks at every deadline: random commands, and jumps through time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::command::testing::Fixture;
use crate::events::{Classes, Silent};
use crate::turn::Turn;

const NEVER: u64 = u64::MAX;

/// Value and deadline of a field.
type Fields = BTreeMap<u8, (i64, u64)>;

/// Fields by key, and the keys' deadlines.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, (Fields, u64)>,
    now: u64,
    /// Fields gone at their deadlines, in all.
    gone: Vec<(u64, u8, u8)>,
}

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8, i64),
    Add(u8, u8, i64),
    Delete(u8, u8),
    Expire(u8, u8, u64),
    Persist(u8, u8),
    ExpireKey(u8, u64),
    Drop(u8),
    Overwrite(u8),
    Rename(u8, u8),
    Copy(u8, u8),
    Rebuild,
    Jump(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (key, field) = (0..4u8, 0..12u8);
    let time = prop_oneof![0..20u64, 0..3000u64];
    let spot = || (key.clone(), field.clone());
    prop_oneof![
        6 => (spot(), -5..5i64).prop_map(|((k, f), v)| Step::Set(k, f, v)),
        2 => (spot(), -5..5i64).prop_map(|((k, f), v)| Step::Add(k, f, v)),
        2 => spot().prop_map(|(k, f)| Step::Delete(k, f)),
        8 => (spot(), time.clone()).prop_map(|((k, f), t)| Step::Expire(k, f, t)),
        2 => spot().prop_map(|(k, f)| Step::Persist(k, f)),
        1 => (key.clone(), time.clone()).prop_map(|(k, t)| Step::ExpireKey(k, t)),
        1 => key.clone().prop_map(Step::Drop),
        1 => key.clone().prop_map(Step::Overwrite),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Step::Copy(a, b)),
        1 => Just(Step::Rebuild),
        5 => time.prop_map(Step::Jump),
    ]
}

impl Model {
    /// Does a step, and gives the command with the reply that it must have.
    fn apply(&mut self, step: &Step) -> Option<(String, String)> {
        let now = self.now;
        let done = match *step {
            Step::Set(k, f, v) => {
                let (fields, _) = self.keys.entry(k).or_insert((Fields::new(), NEVER));
                let new = fields.insert(f, (v, NEVER)).is_none();
                (format!("HSET k{k} f{f} {v}"), format!(":{}", u8::from(new)))
            }
            Step::Add(k, f, by) => {
                let (fields, _) = self.keys.entry(k).or_insert((Fields::new(), NEVER));
                let field = fields.entry(f).or_insert((0, NEVER));
                field.0 += by;
                (format!("HINCRBY k{k} f{f} {by}"), format!(":{}", field.0))
            }
            Step::Delete(k, f) => {
                let there = self
                    .keys
                    .get_mut(&k)
                    .and_then(|(fields, _)| fields.remove(&f));
                (
                    format!("HDEL k{k} f{f}"),
                    format!(":{}", u8::from(there.is_some())),
                )
            }
            Step::Expire(k, f, after) => {
                let fields = self.keys.get_mut(&k).map(|(fields, _)| fields);
                let reply = match fields {
                    Some(fields) if fields.contains_key(&f) && after == 0 => {
                        fields.remove(&f);
                        "*1 :2"
                    }
                    Some(fields) if fields.contains_key(&f) => {
                        fields.get_mut(&f).unwrap().1 = now + after;
                        "*1 :1"
                    }
                    _ => "*1 :-2",
                };
                (
                    format!("HPEXPIRE k{k} {after} FIELDS 1 f{f}"),
                    reply.to_owned(),
                )
            }
            Step::Persist(k, f) => {
                let field = self
                    .keys
                    .get_mut(&k)
                    .and_then(|(fields, _)| fields.get_mut(&f));
                let reply = match field {
                    None => "*1 :-2",
                    Some((_, NEVER)) => "*1 :-1",
                    Some((_, deadline)) => {
                        *deadline = NEVER;
                        "*1 :1"
                    }
                };
                (format!("HPERSIST k{k} FIELDS 1 f{f}"), reply.to_owned())
            }
            Step::ExpireKey(k, after) => {
                let there = match self.keys.get_mut(&k) {
                    None => 0,
                    Some(_) if after == 0 => {
                        self.keys.remove(&k);
                        1
                    }
                    Some((_, deadline)) => {
                        *deadline = now + after;
                        1
                    }
                };
                (format!("PEXPIRE k{k} {after}"), format!(":{there}"))
            }
            Step::Drop(k) => {
                let there = self.keys.remove(&k).is_some();
                (format!("DEL k{k}"), format!(":{}", u8::from(there)))
            }
            Step::Overwrite(k) => {
                self.keys.remove(&k);
                (format!("SET k{k} v"), "+OK".to_owned())
            }
            Step::Rename(a, b) => match self.keys.get(&a).cloned() {
                None => (format!("RENAME k{a} k{b}"), "-ERR no such key".to_owned()),
                Some(value) => {
                    self.keys.remove(&a);
                    self.keys.insert(b, value);
                    (format!("RENAME k{a} k{b}"), "+OK".to_owned())
                }
            },
            Step::Copy(a, b) if a == b => return None,
            Step::Copy(a, b) => match self.keys.get(&a).cloned() {
                None => (format!("COPY k{a} k{b} REPLACE"), ":0".to_owned()),
                Some(value) => {
                    self.keys.insert(b, value);
                    (format!("COPY k{a} k{b} REPLACE"), ":1".to_owned())
                }
            },
            Step::Rebuild | Step::Jump(_) => return None,
        };
        self.keys.retain(|_, (fields, _)| !fields.is_empty());
        Some(done)
    }

    /// Time passes: keys and fields go in the order of their deadlines; those of the same instant in no order.
    fn jump(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.now < until {
            self.now += 1;
            let now = self.now;
            // A key takes its fields with it; whether one of the same instant goes before is not settled.
            let undecided: Vec<u8> = self
                .keys
                .iter()
                .filter(|(_, v)| v.1 <= now)
                .map(|(k, _)| *k)
                .collect();
            for (k, (fields, _)) in &mut self.keys {
                fields.retain(|f, (_, deadline)| {
                    if *deadline <= now && !undecided.contains(k) {
                        self.gone.push((*deadline, *k, *f));
                    }
                    *deadline > now
                });
            }
            self.keys
                .retain(|k, (fields, _)| !fields.is_empty() && !undecided.contains(k));
        }
    }

    fn deadlines(&self) -> usize {
        let all = self.keys.values().flat_map(|(fields, _)| fields.values());
        all.filter(|(_, deadline)| *deadline != NEVER).count()
    }
}

fn timers(fixture: &Fixture) -> usize {
    let mut sink = Silent;
    let mut turn = Turn::new(&fixture.store, fixture.now, &mut sink, Classes::none());
    turn.lock_all();
    turn.held_dbs(0)
        .map(|(_, part)| part.fields_with_deadline())
        .sum()
}

fn compare(fixture: &mut Fixture, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(timers(fixture), model.deadlines());
    for key in 0..4u8 {
        let fields = model
            .keys
            .get(&key)
            .map(|(fields, _)| fields.clone())
            .unwrap_or_default();
        let length = fixture.run(&format!("HLEN k{key}"));
        if length.starts_with("-WRONGTYPE") {
            prop_assert!(fields.is_empty());
            continue;
        }
        prop_assert_eq!(length, format!(":{}", fields.len()));
        for field in 0..12u8 {
            let ttl = fixture.run(&format!("HPTTL k{key} FIELDS 1 f{field}"));
            let expected = match fields.get(&field) {
                None => -2,
                Some((_, NEVER)) => -1,
                Some((_, deadline)) => (deadline - model.now) as i64,
            };
            prop_assert_eq!(ttl, format!("*1 :{expected}"));
            let value = fixture.run(&format!("HGET k{key} f{field}"));
            let text = fields.get(&field).map(|(v, _)| v.to_string());
            prop_assert_eq!(
                value,
                text.map_or("$-1".to_owned(), |t| format!("${} {t}", t.len()))
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fields_live_as_in_a_model(
        shards in prop_oneof![Just(1usize), Just(4)],
        lazy in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut fixture = Fixture::sharded(shards);
        let mut model = Model { now: 1_000_000, ..Model::default() };
        // Without the wheel, all is left to the commands that meet what is due.
        fixture.store.set_active_expire(!lazy);
        let mut strings = std::collections::BTreeSet::new();
        for step in steps {
            match step {
                Step::Jump(ms) => {
                    model.jump(ms);
                    fixture.jump(model.now);
                }
                Step::Rebuild => {
                    fixture.reload();
                }
                ref step => {
                    // A key whose fields are all due is there until one is met: only commands on fields meet them.
                    if lazy
                        && matches!(
                            step,
                            Step::Rename(..) | Step::Copy(..) | Step::Drop(_) | Step::ExpireKey(..) | Step::Overwrite(_)
                        )
                    {
                        continue;
                    }
                    // A string is in the way of hash commands: only those that replace it are run.
                    let (target, source) = match *step {
                        Step::Rename(a, b) | Step::Copy(a, b) => (b, Some(a)),
                        Step::Set(k, ..) | Step::Add(k, ..) | Step::Delete(k, _) | Step::Expire(k, ..)
                        | Step::Persist(k, _) | Step::ExpireKey(k, _) if strings.contains(&k) => continue,
                        Step::Set(k, ..) | Step::Add(k, ..) | Step::Delete(k, _) | Step::Expire(k, ..)
                        | Step::Persist(k, _) | Step::ExpireKey(k, _) | Step::Drop(k) | Step::Overwrite(k) => (k, None),
                        Step::Rebuild | Step::Jump(_) => continue,
                    };
                    if source.is_some_and(|source| strings.contains(&source)) {
                        continue;
                    }
                    if let Step::Drop(k) = step && strings.remove(k) {
                        prop_assert_eq!(fixture.run(&format!("DEL k{k}")), ":1");
                        continue;
                    }
                    if let Some((line, reply)) = model.apply(step) {
                        prop_assert_eq!(fixture.run(&line), reply.clone(), "{}", line);
                        if !reply.starts_with('-') && reply != ":0" {
                            strings.remove(&target);
                        }
                        if matches!(step, Step::Overwrite(_)) {
                            strings.insert(target);
                        }
                    }
                }
            }
            if !lazy {
                prop_assert_eq!(timers(&fixture), model.deadlines());
            }
        }
        if !lazy {
            compare(&mut fixture, &model)?;
            // Exactly those went, in order, each at its instant.
            let told: Vec<(u64, String)> = fixture
                .last_values()
                .iter()
                .filter_map(|line| {
                    let (name, deadline) = line.split_once(" at ")?;
                    Some((deadline.parse().ok()?, name.to_owned()))
                })
                .filter(|(_, name)| name.contains('.'))
                .collect();
            prop_assert!(told.is_sorted_by_key(|(deadline, _)| *deadline));
            for (deadline, key, field) in &model.gone {
                let name = format!("k{key}.f{field}");
                prop_assert!(told.contains(&(*deadline, name)));
            }
        } else {
            fixture.store.set_active_expire(true);
            fixture.expire();
            compare(&mut fixture, &model)?;
        }
        for key in 0..4 {
            fixture.run(&format!("DEL k{key}"));
        }
        prop_assert_eq!(timers(&fixture), 0);
    }
}
