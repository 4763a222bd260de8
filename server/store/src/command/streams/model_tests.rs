//! Compares a group with a lease to a model that computes the reply of each read. Random consumers
//! read, acknowledge and crash (forget their entries), and only the test moves the clock.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::command::testing::Fixture;

const LEASE_MS: u64 = 100;
const DELIVERIES_MAX: u32 = 3;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Held {
    consumer: usize,
    at_ms: u64,
    deliveries: u32,
}

/// The expected state of the group.
#[derive(Default)]
struct Model {
    added: u64,
    read: u64,
    held: BTreeMap<u64, Held>,
    acknowledged: Vec<u64>,
    dead: Vec<(u64, usize, u32)>,
}

impl Model {
    /// Returns the IDs that XREADGROUP must deliver, at most `count`. First pending entries in the
    /// order of their deliveries: those whose lease has ended, and those that are idle for `claim`
    /// ms. Then new entries.
    fn deliver(&mut self, now: u64, consumer: usize, count: usize, claim: Option<u64>) -> Vec<u64> {
        let lapsed = |held: &Held| held.at_ms + LEASE_MS <= now;
        let idle = |held: &Held| claim.is_some_and(|ms| held.at_ms + ms <= now);
        let given = |held: &Held| match held.deliveries < DELIVERIES_MAX {
            true => lapsed(held) || idle(held),
            false => idle(held) && !lapsed(held),
        };
        let mut ids: Vec<(u64, u64)> = self
            .held
            .iter()
            .filter(|(_, held)| given(held))
            .map(|(id, held)| (held.at_ms, *id))
            .collect();
        ids.sort_unstable();
        let mut ids: Vec<u64> = ids.into_iter().map(|(_, id)| id).collect();
        ids.truncate(count);
        while ids.len() < count && self.read < self.added {
            self.read += 1;
            ids.push(self.read);
        }
        for id in &ids {
            let before = self.held.get(id).map_or(0, |held| held.deliveries);
            let held = Held {
                consumer,
                at_ms: now,
                deliveries: before + 1,
            };
            self.held.insert(*id, held);
        }
        ids
    }

    /// Moves due entries to the dead-letter stream, in the order of their deliveries.
    fn expire(&mut self, now: u64) {
        let mut due: Vec<(u64, u64)> = self
            .held
            .iter()
            .filter(|(_, held)| held.deliveries >= DELIVERIES_MAX && held.at_ms + LEASE_MS <= now)
            .map(|(id, held)| (held.at_ms, *id))
            .collect();
        due.sort_unstable();
        for (_, id) in due {
            if let Some(held) = self.held.remove(&id) {
                self.dead.push((id, held.consumer, held.deliveries));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add,
    Read(usize, usize, Option<u64>),
    Acknowledge(usize, usize),
    Crash(usize),
    History(usize),
    Take(usize, usize),
    Wait(u64),
    Expire,
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let consumer = 0..3usize;
    let claim = prop_oneof![4 => Just(None), 1 => (0..150u64).prop_map(Some)];
    prop_oneof![
        6 => Just(Step::Add),
        6 => (consumer.clone(), 1..4usize, claim).prop_map(|(c, n, claim)| Step::Read(c, n, claim)),
        3 => (consumer.clone(), 0..9usize).prop_map(|(c, n)| Step::Acknowledge(c, n)),
        1 => consumer.clone().prop_map(Step::Crash),
        1 => consumer.clone().prop_map(Step::History),
        1 => (consumer, 0..9usize).prop_map(|(c, n)| Step::Take(c, n)),
        5 => (1..60u64).prop_map(Step::Wait),
        4 => Just(Step::Expire),
        1 => Just(Step::Reload),
    ]
}

/// A group, its model, and the entries that each consumer remembers.
struct Run {
    fixture: Fixture,
    model: Model,
    given: [Vec<u64>; 3],
}

/// Reads the milliseconds of the IDs in a reply; all IDs end with `-7`.
fn ids(reply: &str) -> Vec<u64> {
    let words = reply.split(' ').filter_map(|word| word.strip_suffix("-7"));
    words.map(|ms| ms.parse().unwrap()).collect()
}

impl Run {
    fn new(shards: usize) -> Self {
        let mut fixture = Fixture::sharded(shards);
        fixture.run("XGROUP CREATE s g 0 MKSTREAM");
        let lease = format!(
            "XGROUP SETLEASE s g {LEASE_MS} MAXDELIVERIES {DELIVERIES_MAX} DEADLETTER dead"
        );
        assert_eq!(fixture.run(&lease), "+OK");
        Self {
            fixture,
            model: Model::default(),
            given: Default::default(),
        }
    }

    fn now(&self) -> u64 {
        self.fixture.now.read_ms()
    }

    fn read(&mut self, consumer: usize, count: usize, claim: Option<u64>) {
        let expected = self.model.deliver(self.now(), consumer, count, claim);
        let claim = claim.map_or(String::new(), |ms| format!("CLAIM {ms} "));
        let line = format!("XREADGROUP GROUP g c{consumer} COUNT {count} {claim}STREAMS s >");
        let got = ids(&self.fixture.run(&line));
        assert_eq!(got, expected, "{line} at {}", self.now());
        for id in &got {
            assert!(
                !self.model.acknowledged.contains(id),
                "{id} was acknowledged"
            );
        }
        self.given[consumer].extend(got);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add => {
                self.model.added += 1;
                let id = self.model.added;
                self.fixture.run(&format!("XADD s {id}-7 f {id}"));
            }
            Step::Read(consumer, count, claim) => self.read(consumer, count, claim),
            Step::Acknowledge(consumer, pick) => {
                let given = &mut self.given[consumer];
                if given.is_empty() {
                    return;
                }
                let id = given.swap_remove(pick % given.len());
                // An acknowledgement counts once, also if another consumer has the entry now.
                let counts = self.model.held.remove(&id).is_some();
                let reply = self.fixture.run(&format!("XACK s g {id}-7"));
                assert_eq!(reply, format!(":{}", u8::from(counts)));
                if counts {
                    self.model.acknowledged.push(id);
                }
            }
            Step::Crash(consumer) => self.given[consumer].clear(),
            Step::History(consumer) => {
                let now = self.now();
                let line = format!("XREADGROUP GROUP g c{consumer} STREAMS s 0");
                self.fixture.run(&line);
                let held = self.model.held.values_mut();
                for held in held.filter(|held| held.consumer == consumer) {
                    held.at_ms = now;
                    held.deliveries += 1;
                }
            }
            Step::Take(consumer, pick) => {
                let held = self.model.held.keys().copied();
                if let Some(id) = held
                    .cycle()
                    .nth(pick)
                    .filter(|_| !self.model.held.is_empty())
                {
                    let now = self.now();
                    self.fixture
                        .run(&format!("XCLAIM s g c{consumer} 0 {id}-7 JUSTID"));
                    let held = self.model.held.get_mut(&id).unwrap();
                    (held.at_ms, held.consumer) = (now, consumer);
                    self.given[consumer].push(id);
                }
            }
            Step::Wait(ms) => self.fixture.advance(ms),
            Step::Expire => self.expire(),
            Step::Reload => self.fixture.reload(),
        }
    }

    fn expire(&mut self) {
        self.fixture.expire();
        self.model.expire(self.now());
        let dead = self.fixture.run("XRANGE dead - +");
        let words: Vec<&str> = dead.split(' ').collect();
        let after = |name: &str| {
            let named = words.windows(3).filter(|words| words[0] == name);
            named.map(|words| words[2].to_owned()).collect::<Vec<_>>()
        };
        let expected = |text: fn(&(u64, usize, u32)) -> String| {
            self.model.dead.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(after("origin-id"), expected(|dead| format!("{}-7", dead.0)));
        assert_eq!(
            after("origin-consumer"),
            expected(|dead| format!("c{}", dead.1))
        );
        assert_eq!(
            after("origin-deliveries"),
            expected(|dead| dead.2.to_string())
        );
    }

    /// Reads and acknowledges entries until no entry is left.
    fn drain(&mut self) {
        while self.model.read < self.model.added || !self.model.held.is_empty() {
            self.fixture.advance(LEASE_MS);
            self.expire();
            let given = self.given[0].len();
            self.read(0, 5, None);
            let ids: Vec<u64> = self.given[0].split_off(given);
            for id in ids {
                assert_eq!(self.fixture.run(&format!("XACK s g {id}-7")), ":1");
                self.model.held.remove(&id);
                self.model.acknowledged.push(id);
            }
        }
        let dead = self.model.dead.iter().map(|dead| dead.0);
        let mut all: Vec<u64> = self
            .model
            .acknowledged
            .iter()
            .copied()
            .chain(dead)
            .collect();
        all.sort_unstable();
        assert!(
            all.into_iter().eq(1..=self.model.added),
            "each entry is acknowledged or moved once"
        );
        assert!(self.fixture.run("XPENDING s g").starts_with("*4 :0 "));
        assert_eq!(
            self.fixture.stats.dead_letters,
            self.model.dead.len() as u64
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// No entry is lost, delivered early or late, or delivered again after its acknowledgement.
    #[test]
    fn a_group_with_a_lease_matches_its_model(
        steps in proptest::collection::vec(step(), 1..250),
        shards in prop_oneof![Just(1usize), Just(4)],
    ) {
        let mut run = Run::new(shards);
        for step in &steps {
            run.step(step);
        }
        run.drain();
    }
}
