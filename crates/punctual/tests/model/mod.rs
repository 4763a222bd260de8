//! The model against which tests check every deadline queue: a `BTreeMap` of (deadline, number of
//! the arming).
//!
//! Property tests, storms and fuzz targets share this file. An operation ([`Op`]) refers to timers
//! and times by small numbers, so that random operations often affect the same timers.

#![allow(unreachable_pub, dead_code)] // included privately, by tests that each use a part of it

#[cfg(miri)]
mod drawn;
#[cfg(not(fuzzing))]
pub mod random;

use punctual::{DeadlineQueue, Expired, Polled, TimerKey};
use std::collections::{BTreeMap, BTreeSet};

/// Returns `many`, or `few` under Miri, which is a thousand times slower.
pub const fn sized(many: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { many }
}

/// A distance in ticks: `mantissa << exponent`, from 0 ticks to the full range.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Span {
    pub mantissa: u8,
    pub exponent: u8,
}

impl Span {
    fn ticks(self) -> u64 {
        u64::from(self.mantissa) << (self.exponent % 64)
    }
}

/// A deadline relative to the model's state.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum When {
    /// This distance after the model's clock.
    In(Span),
    /// This distance before the model's clock.
    Ago(Span),
    /// This tick, independent of the clock.
    At(u64),
    /// The deadline of the timer that the `u8` picks, or a tick near it.
    With(u8, i8),
}

/// An operation. A `u8` picks a timer or, in `Stale`, a stale handle, unless the variant says
/// otherwise.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Op {
    Insert(When),
    /// Inserts this many timers with the same deadline.
    Burst(u8, When),
    Remove(u8),
    RemoveLast,
    Reset(u8, When),
    /// Changes the timer's value.
    Change(u8),
    Stale(u8),
    Advance(Span),
    StepBack(Span),
    PopOne,
    PopAll,
    /// Pops due timers, with this budget per call.
    Poll(u8),
    /// Makes one call with this budget, which may leave work half done.
    PollOnce(u8),
    NextDeadline,
    JumpToNext,
    Iterate,
    Clear,
    Shrink,
    /// Removes the oldest timers until this many are left.
    Drain(u8),
}

/// A queue under test, with a check of its private invariants.
pub trait Subject: DeadlineQueue<u64> {
    /// Panics if a private invariant is violated.
    fn check(&self) {}
}

/// Runs operations on a queue and on the model, and compares all visible results.
pub struct Model<Q> {
    pub queue: Q,
    pub now: u64,
    /// Number of the next arming.
    armings: u64,
    values: u64,
    order: BTreeMap<(u64, u64), TimerKey>,
    timers: BTreeMap<TimerKey, Timer>,
    /// Live timers in the order of insertion, each with the number of its first arming.
    keys: Vec<(u64, TimerKey)>,
    stale: Vec<TimerKey>,
    /// Every handle ever returned.
    known: BTreeSet<TimerKey>,
}

/// The model of a live timer.
struct Timer {
    deadline: u64,
    arming: u64,
    value: u64,
    /// Number of the timer's first arming.
    born: u64,
}

impl<Q: Subject> Model<Q> {
    pub fn new(queue: Q) -> Self {
        Model {
            queue,
            now: 0,
            armings: 0,
            values: 0,
            order: BTreeMap::new(),
            timers: BTreeMap::new(),
            keys: Vec::new(),
            stale: Vec::new(),
            known: BTreeSet::new(),
        }
    }

    /// Runs all operations, then pops all timers.
    pub fn run(mut self, ops: impl IntoIterator<Item = Op>) -> Q {
        for (count, op) in ops.into_iter().enumerate() {
            self.apply(op);
            // A check of all invariants is slow, so with many timers it runs only after some
            // operations.
            if count % sized(self.timers.len() / 32 + 1, 200) == 0 {
                self.queue.check();
            }
            self.compare();
        }
        self.now = u64::MAX;
        self.pop_all();
        self.compare();
        self.queue.check();
        assert!(self.queue.is_empty());
        self.queue
    }

    /// Runs one operation.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Insert(when) => self.insert(when),
            Op::Burst(count, when) => (0..count).for_each(|_| self.insert(when)),
            Op::Remove(pick) => {
                if let Some(key) = self.pick(pick) {
                    self.remove(key);
                }
            }
            Op::RemoveLast => {
                if let Some(&(_, key)) = self.keys.last() {
                    self.remove(key);
                }
            }
            Op::Reset(pick, when) => self.reset(pick, when),
            Op::Change(pick) => {
                if let Some(key) = self.pick(pick) {
                    self.values += 1;
                    *self.queue.get_mut(key).expect("a living timer") = self.values;
                    self.timers.get_mut(&key).expect("a living timer").value = self.values;
                }
            }
            Op::Stale(pick) => self.refuse(pick),
            Op::Advance(span) => self.now = self.now.saturating_add(span.ticks()),
            Op::StepBack(span) => self.now = self.now.saturating_sub(span.ticks()),
            Op::PopOne => {
                self.pop();
            }
            Op::PopAll => self.pop_all(),
            Op::Poll(budget) => while !self.poll(usize::from(budget).max(1)) {},
            Op::PollOnce(budget) => {
                self.poll(usize::from(budget));
            }
            Op::NextDeadline => {
                self.next();
                self.next();
            }
            Op::JumpToNext => {
                let next = self.next();
                self.now = next.map_or(self.now, |next| next.max(self.now));
            }
            Op::Iterate => {
                let mut seen: Vec<_> = self
                    .queue
                    .iter()
                    .map(|(key, due, &value)| (key, due, value))
                    .collect();
                seen.sort_unstable();
                let known: Vec<_> = self
                    .timers
                    .iter()
                    .map(|(&key, timer)| (key, timer.deadline, timer.value))
                    .collect();
                assert_eq!(seen, known, "all timers");
            }
            Op::Clear => {
                self.queue.clear();
                self.order.clear();
                self.timers.clear();
                self.stale.extend(self.keys.drain(..).map(|(_, key)| key));
            }
            Op::Drain(left) => {
                while self.keys.len() > usize::from(left) {
                    self.remove(self.keys[0].1);
                }
            }
            Op::Shrink => self.queue.shrink_to_fit(),
        }
    }

    /// Compares the results of calls that do not change the queue.
    pub fn compare(&self) {
        assert_eq!(self.queue.len(), self.timers.len());
        match (self.queue.next_wakeup(), self.earliest()) {
            (None, None) => {}
            (Some(wakeup), Some(earliest)) => {
                assert!(wakeup <= earliest, "wake-up {wakeup} after {earliest}")
            }
            (wakeup, earliest) => {
                panic!("wake-up {wakeup:?}, but the earliest deadline is {earliest:?}")
            }
        }
    }

    /// Returns the live timers in the order of insertion.
    pub fn keys(&self) -> Vec<TimerKey> {
        self.keys.iter().map(|&(_, key)| key).collect()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the live timer at `place` in the order of insertion.
    pub fn key(&self, place: usize) -> TimerKey {
        self.keys[place].1
    }

    pub fn deadline(&self, key: TimerKey) -> u64 {
        self.timers[&key].deadline
    }

    /// Returns the timer that fires next.
    pub fn first(&self) -> Option<TimerKey> {
        self.order.first_key_value().map(|(_, &key)| key)
    }

    /// Returns the number of due timers.
    pub fn count_due(&self) -> usize {
        self.order.range(..=(self.now, u64::MAX)).count()
    }

    /// Returns the next deadline.
    pub fn next(&mut self) -> Option<u64> {
        let next = self.queue.next_deadline();
        assert_eq!(next, self.earliest(), "the next deadline at {}", self.now);
        next
    }

    fn earliest(&self) -> Option<u64> {
        self.order
            .first_key_value()
            .map(|(&(deadline, _), _)| deadline)
    }

    fn pick(&self, pick: u8) -> Option<TimerKey> {
        // Numbers below 128 pick the oldest timers, other numbers the youngest.
        let len = self.keys.len();
        if len == 0 {
            return None;
        }
        let pick = usize::from(pick);
        let place = if pick < 128 {
            pick
        } else {
            len.wrapping_sub(256 - pick)
        };
        self.keys.get(place % len).map(|&(_, key)| key)
    }

    fn tick(&self, when: When) -> u64 {
        match when {
            When::In(span) => self.now.saturating_add(span.ticks()),
            When::Ago(span) => self.now.saturating_sub(span.ticks()),
            When::At(tick) => tick,
            When::With(pick, off) => {
                let with = self
                    .pick(pick)
                    .map_or(self.now, |key| self.timers[&key].deadline);
                with.saturating_add_signed(i64::from(off) / 32)
            }
        }
    }

    fn insert(&mut self, when: When) {
        self.insert_at(self.tick(when));
    }

    pub fn insert_at(&mut self, deadline: u64) {
        self.values += 1;
        let key = self.queue.insert(deadline, self.values);
        assert!(self.known.insert(key), "the handle of another timer");
        let timer = Timer {
            deadline,
            arming: self.armings,
            value: self.values,
            born: self.armings,
        };
        self.order.insert((deadline, self.armings), key);
        self.keys.push((self.armings, key));
        self.timers.insert(key, timer);
        self.armings += 1;
    }

    pub fn remove(&mut self, key: TimerKey) {
        let value = self.queue.remove(key);
        assert_eq!(value, Some(self.forget(key)), "the value removed");
    }

    fn reset(&mut self, pick: u8, when: When) {
        if let Some(key) = self.pick(pick) {
            self.reset_to(key, self.tick(when));
        }
    }

    pub fn reset_to(&mut self, key: TimerKey, deadline: u64) {
        assert!(self.queue.reset(key, deadline), "a living timer");
        let timer = self.timers.get_mut(&key).expect("a living timer");
        self.order.remove(&(timer.deadline, timer.arming));
        (timer.deadline, timer.arming) = (deadline, self.armings);
        self.order.insert((deadline, self.armings), key);
        self.armings += 1;
        assert_eq!(self.queue.deadline(key), Some(deadline));
    }

    fn refuse(&mut self, pick: u8) {
        if let Some(&key) = self.stale.get(usize::from(pick) % self.stale.len().max(1)) {
            self.refuse_stale(key);
        }
    }

    /// Checks that the queue refuses the handle of the last timer that fired or was removed.
    pub fn refuse_last(&mut self) {
        if let Some(&key) = self.stale.last() {
            self.refuse_stale(key);
        }
    }

    fn refuse_stale(&mut self, key: TimerKey) {
        assert_eq!(self.queue.get(key), None);
        assert_eq!(self.queue.get_mut(key), None);
        assert_eq!(self.queue.deadline(key), None);
        assert_eq!(self.queue.remove(key), None);
        assert!(!self.queue.reset(key, 0));
    }

    /// Removes a timer from the model and returns its value.
    fn forget(&mut self, key: TimerKey) -> u64 {
        let timer = self.timers.remove(&key).expect("a living timer");
        self.order.remove(&(timer.deadline, timer.arming));
        let place = self
            .keys
            .binary_search_by_key(&timer.born, |&(born, _)| born);
        self.keys.remove(place.expect("a living timer"));
        self.stale.push(key);
        timer.value
    }

    /// Pops a due timer. Returns false if no timer is due.
    pub fn pop(&mut self) -> bool {
        let popped = self.queue.pop_due(self.now);
        self.expect(popped);
        popped.is_some()
    }

    /// Compares a popped timer, or `None`, with the timer that must be popped next.
    fn expect(&mut self, popped: Option<Expired<u64>>) {
        let due = self
            .order
            .first_key_value()
            .filter(|&(&(deadline, _), _)| deadline <= self.now);
        let Some((&(deadline, _), &key)) = due else {
            assert_eq!(popped, None, "popped at {}, too early", self.now);
            let wakeup = self.queue.next_wakeup();
            assert!(
                wakeup.is_none_or(|wakeup| wakeup > self.now),
                "wake-up {wakeup:?} at {}",
                self.now
            );
            return;
        };
        let value = self.timers[&key].value;
        assert_eq!(
            popped,
            Some(Expired {
                key,
                deadline,
                value
            }),
            "popped at {}",
            self.now
        );
        self.forget(key);
    }

    fn pop_all(&mut self) {
        while self.pop() {}
    }

    /// Calls `poll_due` once with this budget. Returns true if no timer is due any more.
    pub fn poll(&mut self, budget: usize) -> bool {
        let mut left = budget;
        match self.queue.poll_due(self.now, &mut left) {
            Polled::Due(expired) => self.expect(Some(expired)),
            Polled::Busy => assert_eq!(left, 0, "busy with budget left"),
            Polled::Idle => {
                self.expect(None);
                return true;
            }
        }
        false
    }
}
