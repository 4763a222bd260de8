//! Comparison of a database of hashes with a model that checks every deadline: random commands and
//! jumps of the clock.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::command::testing::Fixture;

const NEVER: u64 = u64::MAX;

/// Value and deadline by field.
type Fields = BTreeMap<u8, (i64, u64)>;

/// Fields by key, and the keys' deadlines.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, (Fields, u64)>,
    now: u64,
    /// Expired fields: deadline, key, field.
    expired: Vec<(u64, u8, u8)>,
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
    /// Applies a step. Returns the command and its expected reply.
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
                let existed = self
                    .keys
                    .get_mut(&k)
                    .and_then(|(fields, _)| fields.remove(&f));
                (
                    format!("HDEL k{k} f{f}"),
                    format!(":{}", u8::from(existed.is_some())),
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
                let existed = match self.keys.get_mut(&k) {
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
                (format!("PEXPIRE k{k} {after}"), format!(":{existed}"))
            }
            Step::Drop(k) => {
                let existed = self.keys.remove(&k).is_some();
                (format!("DEL k{k}"), format!(":{}", u8::from(existed)))
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

    /// Advances the clock and expires keys and fields in the order of their deadlines, in any order
    /// at one instant.
    fn jump(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.now < until {
            self.now += 1;
            let now = self.now;
            // Fields may expire before or with a key of the same deadline, so they are not
            // recorded.
            let undecided: Vec<u8> = self
                .keys
                .iter()
                .filter(|(_, v)| v.1 <= now)
                .map(|(k, _)| *k)
                .collect();
            for (k, (fields, _)) in &mut self.keys {
                fields.retain(|f, (_, deadline)| {
                    if *deadline <= now && !undecided.contains(k) {
                        self.expired.push((*deadline, *k, *f));
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

fn compare(fixture: &mut Fixture, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(fixture.parts_with_deadline(), model.deadlines());
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
    fn hashes_match_the_model(
        shards in prop_oneof![Just(1usize), Just(4)],
        lazy in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut fixture = Fixture::sharded(shards);
        let mut model = Model { now: 1_000_000, ..Model::default() };
        // Without active expiry, only commands that find due fields expire them.
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
                    // Without active expiry, a hash whose fields are all due still exists for
                    // commands on keys. The model has removed it.
                    if lazy
                        && matches!(
                            step,
                            Step::Rename(..) | Step::Copy(..) | Step::Drop(_) | Step::ExpireKey(..) | Step::Overwrite(_)
                        )
                    {
                        continue;
                    }
                    // Hash commands fail on a string, so only commands that replace it are run.
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
                prop_assert_eq!(fixture.parts_with_deadline(), model.deadlines());
            }
        }
        if !lazy {
            compare(&mut fixture, &model)?;
            // The same fields expired in order, each at its deadline.
            let expired: Vec<(u64, String)> = fixture
                .last_values()
                .iter()
                .filter_map(|line| {
                    let (name, deadline) = line.split_once(" at ")?;
                    Some((deadline.parse().ok()?, name.to_owned()))
                })
                .filter(|(_, name)| name.contains('.'))
                .collect();
            prop_assert!(expired.is_sorted_by_key(|(deadline, _)| *deadline));
            for (deadline, key, field) in &model.expired {
                let name = format!("k{key}.f{field}");
                prop_assert!(expired.contains(&(*deadline, name)));
            }
        } else {
            fixture.store.set_active_expire(true);
            fixture.expire();
            compare(&mut fixture, &model)?;
        }
        for key in 0..4 {
            fixture.run(&format!("DEL k{key}"));
        }
        prop_assert_eq!(fixture.parts_with_deadline(), 0);
    }
}
