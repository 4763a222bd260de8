//! Comparison of sets and sorted sets whose members have deadlines with a simple model: random
//! commands and jumps of the clock. A second keyspace applies the log of changes, as a replica or a
//! restart does, and must end with the same members and deadlines.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::command::testing::Fixture;

const NEVER: u64 = u64::MAX;

/// Score and deadline by member. In a set, each score is 0.
type Members = BTreeMap<u8, (i64, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Set,
    Zset,
}

impl Kind {
    fn letter(self) -> &'static str {
        match self {
            Self::Set => "S",
            Self::Zset => "Z",
        }
    }

    fn key(self, key: u8) -> String {
        format!("{}{key}", self.letter())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(Kind, u8, u8, i64),
    Increment(u8, u8, i64),
    Remove(Kind, u8, u8),
    /// Deadline of two members, after so many ms.
    Expire(Kind, u8, [u8; 2], u64),
    Persist(Kind, u8, u8),
    /// SADDEX and ZADDEX of two members: a condition, and a deadline after so many ms.
    AddTimed(Kind, u8, [u8; 2], &'static str, Ttl),
    /// ZPOPMIN.
    Pop(u8),
    /// SPOP of the given number of members; the model learns from the reply which ones.
    PopRandom(u8, usize),
    Move(u8, u8, u8),
    Union(u8, u8),
    Rename(Kind, u8, u8),
    Copy(Kind, u8, u8),
    Drop(Kind, u8),
    Rebuild,
    Jump(u64),
}

#[derive(Clone, Copy, Debug)]
enum Ttl {
    NotGiven,
    Keep,
    After(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = || prop_oneof![Just(Kind::Set), Just(Kind::Zset)];
    let (key, member) = (|| 0..3u8, || 0..20u8);
    let time = || prop_oneof![1..20u64, 0..3000u64];
    let condition = || prop_oneof![3 => Just(""), 1 => Just("MNX "), 1 => Just("MXX ")];
    let ttl = move || {
        prop_oneof![
            1 => Just(Ttl::NotGiven),
            1 => Just(Ttl::Keep),
            4 => time().prop_map(Ttl::After),
        ]
    };
    prop_oneof![
        10 => (kind(), key(), member(), -5..5i64).prop_map(|(t, k, m, s)| Step::Add(t, k, m, s)),
        2 => (key(), member(), -5..5i64).prop_map(|(k, m, s)| Step::Increment(k, m, s)),
        2 => (kind(), key(), member()).prop_map(|(t, k, m)| Step::Remove(t, k, m)),
        10 => (kind(), key(), [member(), member()], time())
            .prop_map(|(t, k, m, after)| Step::Expire(t, k, m, after)),
        6 => (kind(), key(), [member(), member()], condition(), ttl())
            .prop_map(|(t, k, both, condition, ttl)| Step::AddTimed(t, k, both, condition, ttl)),
        2 => (kind(), key(), member()).prop_map(|(t, k, m)| Step::Persist(t, k, m)),
        1 => key().prop_map(Step::Pop),
        1 => (key(), 1..8usize).prop_map(|(k, n)| Step::PopRandom(k, n)),
        3 => (key(), key(), member()).prop_map(|(a, b, m)| Step::Move(a, b, m)),
        1 => (key(), key()).prop_map(|(a, b)| Step::Union(a, b)),
        1 => (kind(), key(), key()).prop_map(|(t, a, b)| Step::Rename(t, a, b)),
        1 => (kind(), key(), key()).prop_map(|(t, a, b)| Step::Copy(t, a, b)),
        1 => (kind(), key()).prop_map(|(t, k)| Step::Drop(t, k)),
        1 => Just(Step::Rebuild),
        6 => time().prop_map(Step::Jump),
    ]
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<(Kind, u8), Members>,
    now: u64,
    /// Expired members: deadline, key, member.
    expired: Vec<(u64, String)>,
}

impl Model {
    /// Applies a step. Returns the command and its expected reply, or `None` for a step that is not
    /// a command with one expected reply.
    fn apply(&mut self, step: &Step) -> Option<(String, String)> {
        let done = self
            .apply_to_members(step)
            .or_else(|| self.apply_to_keys(step));
        self.keys.retain(|_, members| !members.is_empty());
        done
    }

    fn apply_to_members(&mut self, step: &Step) -> Option<(String, String)> {
        let now = self.now;
        Some(match *step {
            Step::Add(t, k, m, score) => {
                let members = self.keys.entry((t, k)).or_default();
                let new = !members.contains_key(&m);
                let member = members.entry(m).or_insert((0, NEVER));
                let key = t.key(k);
                let line = match t {
                    Kind::Set => format!("SADD {key} m{m}"),
                    Kind::Zset => {
                        member.0 = score;
                        format!("ZADD {key} {score} m{m}")
                    }
                };
                (line, format!(":{}", u8::from(new)))
            }
            Step::Increment(k, m, by) => {
                let members = self.keys.entry((Kind::Zset, k)).or_default();
                let member = members.entry(m).or_insert((0, NEVER));
                member.0 += by;
                let sum = member.0.to_string();
                (
                    format!("ZINCRBY Z{k} {by} m{m}"),
                    format!("${} {sum}", sum.len()),
                )
            }
            Step::Remove(t, k, m) => {
                let members = self.keys.get_mut(&(t, k));
                let existed = members.and_then(|members| members.remove(&m)).is_some();
                let line = format!("{}REM {} m{m}", t.letter(), t.key(k));
                (line, format!(":{}", u8::from(existed)))
            }
            Step::Expire(t, k, both, after) => {
                let mut replies = Vec::new();
                for m in both {
                    let members = self.keys.get_mut(&(t, k));
                    let reply = match members {
                        Some(members) if members.contains_key(&m) && after == 0 => {
                            members.remove(&m);
                            2
                        }
                        Some(members) if members.contains_key(&m) => {
                            members.get_mut(&m).unwrap().1 = now + after;
                            1
                        }
                        _ => -2,
                    };
                    replies.push(format!(":{reply}"));
                }
                let (letter, key, [a, b]) = (t.letter(), t.key(k), both);
                let line = format!("{letter}PEXPIRE {key} {after} MEMBERS 2 m{a} m{b}");
                (line, format!("*2 {}", replies.join(" ")))
            }
            Step::Persist(t, k, m) => {
                let members = self.keys.get_mut(&(t, k));
                let reply = match members.and_then(|members| members.get_mut(&m)) {
                    None => -2,
                    Some((_, NEVER)) => -1,
                    Some((_, deadline)) => {
                        *deadline = NEVER;
                        1
                    }
                };
                let line = format!("{}PERSIST {} MEMBERS 1 m{m}", t.letter(), t.key(k));
                (line, format!("*1 :{reply}"))
            }
            Step::AddTimed(t, k, both, condition, ttl) => {
                self.add_timed(t, k, both, condition, ttl)
            }
            Step::Pop(k) => {
                let members = self.keys.get_mut(&(Kind::Zset, k));
                let first = members.as_ref().and_then(|members| {
                    let by_order = members
                        .iter()
                        .map(|(m, (score, _))| (*score, format!("m{m}"), *m));
                    by_order.min()
                });
                let reply = match (members, first) {
                    (Some(members), Some((score, name, m))) => {
                        members.remove(&m);
                        let score = score.to_string();
                        format!("*2 ${} {name} ${} {score}", name.len(), score.len())
                    }
                    _ => "*0".to_owned(),
                };
                (format!("ZPOPMIN Z{k}"), reply)
            }
            _ => return None,
        })
    }

    fn add_timed(
        &mut self,
        t: Kind,
        k: u8,
        both: [u8; 2],
        condition: &str,
        ttl: Ttl,
    ) -> (String, String) {
        let now = self.now;
        let members = self.keys.entry((t, k)).or_default();
        let known = both.map(|m| members.contains_key(&m));
        let holds = match condition {
            "MNX " => known == [false; 2],
            "MXX " => known == [true; 2],
            _ => true,
        };
        for m in both.into_iter().filter(|_| holds) {
            let deadline = members.get(&m).map_or(NEVER, |(_, deadline)| *deadline);
            let deadline = match ttl {
                Ttl::NotGiven => NEVER,
                Ttl::Keep => deadline,
                Ttl::After(0) => {
                    members.remove(&m);
                    continue;
                }
                Ttl::After(ms) => now + ms,
            };
            members.insert(m, (3 * i64::from(t == Kind::Zset), deadline));
        }
        let ttl = match ttl {
            Ttl::NotGiven => String::new(),
            Ttl::Keep => "KEEPTTL ".to_owned(),
            Ttl::After(ms) => format!("PX {ms} "),
        };
        let score = if t == Kind::Zset { "3 " } else { "" };
        let (letter, key, [a, b]) = (t.letter(), t.key(k), both);
        (
            format!("{letter}ADDEX {key} {condition}{ttl}MEMBERS 2 {score}m{a} {score}m{b}"),
            format!(":{}", u8::from(holds)),
        )
    }

    fn apply_to_keys(&mut self, step: &Step) -> Option<(String, String)> {
        let none = Members::new();
        Some(match *step {
            Step::Move(a, b, m) => {
                let from = self.keys.get(&(Kind::Set, a)).unwrap_or(&none);
                let reply = match from.get(&m).copied() {
                    None => 0,
                    Some(_) if a == b => 1,
                    Some(member) => {
                        self.keys.get_mut(&(Kind::Set, a)).unwrap().remove(&m);
                        let to = self.keys.entry((Kind::Set, b)).or_default();
                        to.entry(m).or_insert(member);
                        1
                    }
                };
                (format!("SMOVE S{a} S{b} m{m}"), format!(":{reply}"))
            }
            Step::Union(a, b) => {
                let members = self.keys.get(&(Kind::Set, a)).unwrap_or(&none);
                let members: Members = members.keys().map(|m| (*m, (0, NEVER))).collect();
                let reply = format!(":{}", members.len());
                self.keys.insert((Kind::Set, b), members);
                (format!("SUNIONSTORE S{b} S{a}"), reply)
            }
            Step::Rename(t, a, b) => {
                let line = format!("RENAME {} {}", t.key(a), t.key(b));
                match self.keys.remove(&(t, a)) {
                    None => (line, "-ERR no such key".to_owned()),
                    Some(members) => {
                        self.keys.insert((t, b), members);
                        (line, "+OK".to_owned())
                    }
                }
            }
            Step::Copy(_, a, b) if a == b => return None,
            Step::Copy(t, a, b) => {
                let line = format!("COPY {} {} REPLACE", t.key(a), t.key(b));
                match self.keys.get(&(t, a)).cloned() {
                    None => (line, ":0".to_owned()),
                    Some(members) => {
                        self.keys.insert((t, b), members);
                        (line, ":1".to_owned())
                    }
                }
            }
            Step::Drop(t, k) => {
                let existed = self.keys.remove(&(t, k)).is_some();
                (
                    format!("DEL {}", t.key(k)),
                    format!(":{}", u8::from(existed)),
                )
            }
            _ => return None,
        })
    }

    /// Removes the members that SPOP has returned.
    fn popped(&mut self, key: u8, wanted: usize, reply: &str) -> Result<(), TestCaseError> {
        let Some(members) = self.keys.get_mut(&(Kind::Set, key)) else {
            prop_assert_eq!(reply, "*0");
            return Ok(());
        };
        let names: Vec<&str> = reply
            .split(' ')
            .filter(|word| word.starts_with('m'))
            .collect();
        prop_assert_eq!(names.len(), wanted.min(members.len()));
        for name in names {
            prop_assert!(
                members.remove(&name[1..].parse().unwrap()).is_some(),
                "{}",
                name
            );
        }
        self.keys.retain(|_, members| !members.is_empty());
        Ok(())
    }

    /// Advances the clock, and expires the members in the order of their deadlines.
    fn jump(&mut self, ms: u64) {
        let (until, first) = (self.now + ms, self.expired.len());
        for ((t, k), members) in &mut self.keys {
            members.retain(|m, (_, deadline)| {
                if *deadline <= until {
                    self.expired
                        .push((*deadline, format!("{}.m{m}", t.key(*k))));
                }
                *deadline > until
            });
        }
        self.expired[first..].sort();
        self.keys.retain(|_, members| !members.is_empty());
        self.now = until;
    }

    fn deadlines(&self) -> usize {
        let all = self.keys.values().flat_map(BTreeMap::values);
        all.filter(|(_, deadline)| *deadline != NEVER).count()
    }
}

/// Asserts that a keyspace has the model's members, scores, ranks and deadlines.
fn compare(fixture: &mut Fixture, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(fixture.parts_with_deadline(), model.deadlines());
    for t in [Kind::Set, Kind::Zset] {
        for k in 0..3u8 {
            let (letter, key) = (t.letter(), t.key(k));
            let members = model.keys.get(&(t, k)).cloned().unwrap_or_default();
            let count = fixture.run(&format!("{letter}CARD {key}"));
            prop_assert_eq!(count, format!(":{}", members.len()));
            for m in 0..20u8 {
                let at = fixture.run(&format!("{letter}PEXPIRETIME {key} MEMBERS 1 m{m}"));
                let expected = match members.get(&m) {
                    None => -2,
                    Some((_, NEVER)) => -1,
                    Some((_, deadline)) => *deadline as i64,
                };
                prop_assert_eq!(at, format!("*1 :{expected}"), "{} m{}", key, m);
            }
            if t == Kind::Zset {
                let mut names: Vec<_> = members
                    .iter()
                    .map(|(m, (s, _))| (*s, format!("m{m}")))
                    .collect();
                names.sort();
                let range = fixture.run(&format!("ZRANGE {key} 0 -1"));
                let found: Vec<&str> = range
                    .split(' ')
                    .filter(|word| word.starts_with('m'))
                    .collect();
                let names: Vec<&str> = names.iter().map(|(_, name)| &name[..]).collect();
                prop_assert_eq!(found, names);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn members_match_the_model(
        shards in prop_oneof![Just(1usize), Just(4)],
        lazy in any::<bool>(),
        limit in prop_oneof![Just(128usize), Just(3)],
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut fixture = Fixture::sharded(shards);
        let limits = crate::limits::Limits {
            set_entries: limit,
            zset_entries: limit,
            ..Default::default()
        };
        fixture.store.set_limits(limits);
        fixture.set_logged(true);
        let mut model = Model { now: 1_000_000, ..Model::default() };
        // Without active expiry, only commands expire due members.
        fixture.store.set_active_expire(!lazy);
        for step in steps {
            // A key of due members exists for commands on keys until a command on its members.
            if lazy && matches!(step, Step::Rename(..) | Step::Copy(..) | Step::Drop(..) | Step::Rebuild) {
                continue;
            }
            match step {
                Step::Jump(ms) => {
                    model.jump(ms);
                    fixture.jump(model.now);
                }
                Step::Rebuild => fixture.reload(),
                Step::PopRandom(k, wanted) => {
                    let reply = fixture.run(&format!("SPOP S{k} {wanted}"));
                    model.popped(k, wanted, &reply)?;
                }
                ref step => {
                    if let Some((line, reply)) = model.apply(step) {
                        prop_assert_eq!(fixture.run(&line), reply, "{}", line);
                    }
                }
            }
            if !lazy {
                prop_assert_eq!(fixture.parts_with_deadline(), model.deadlines());
            }
        }
        fixture.store.set_active_expire(true);
        fixture.expire();
        compare(&mut fixture, &model)?;
        if !lazy {
            // Each member expired once, at its deadline, and in order.
            let expired: Vec<(u64, String)> = fixture
                .last_values()
                .iter()
                .filter_map(|line| {
                    let (name, deadline) = line.split_once(" at ")?;
                    Some((deadline.parse().ok()?, name.to_owned()))
                })
                .collect();
            prop_assert!(expired.is_sorted_by_key(|(deadline, _)| *deadline));
            let mut sorted = expired;
            sorted.sort();
            model.expired.sort();
            prop_assert_eq!(sorted, model.expired.clone());
        }

        let log = fixture.take_log();
        let mut replica = Fixture::sharded(shards);
        replica.store.set_limits(limits);
        replica.now = fixture.now;
        replica.apply(&log);
        compare(&mut replica, &model)?;
    }
}
