//! Tests of the change from the state few to many timers and back.

use super::Wheel;
use super::few::FEW_MAX;
use super::records::Filed;
use crate::TimerKey;
use crate::queue::model::random::{cases, ops, span, when};
use crate::queue::model::{Model, Op, Subject, sized};
use crate::queue::slab::RecordBody;
use proptest::prelude::*;

impl<T> Wheel<T> {
    /// Returns an empty wheel that files entries.
    pub(super) fn many() -> Self {
        let mut wheel = Wheel::new();
        wheel.become_many();
        wheel
    }
}

impl Wheel<u64> {
    /// Checks a wheel of few timers.
    pub(super) fn check_few(&self) {
        assert_eq!(self.raw.entries(), 0);
        assert!(self.records.used() <= FEW_MAX);
        for index in 0..self.records.used() as u32 {
            assert_eq!(self.records.kept(index), Some(Filed::FEW));
        }
        let armed = self.records.iter();
        let mut armed: Vec<_> = armed
            .map(|(index, timer)| (timer.deadline, timer.sequence, timer.key(index)))
            .collect();
        armed.sort_unstable();
        let bound = self.raw.earliest.bound();
        assert!(armed.iter().all(|&(deadline, ..)| bound <= deadline));
        if let Some(deadline) = self.raw.earliest.known(&self.records) {
            let (first, _, key) = armed[0];
            assert_eq!(deadline, first);
            let named = self.raw.earliest.candidate();
            // A candidate with another deadline is stale: its timer was re-armed to a later tick. A
            // pop checks that.
            if named.deadline == deadline {
                assert_eq!(named.index, key.index(), "the first of equal ones");
            }
        }
    }
}

/// Operations that grow the wheel, use it, drain it, and use it with few timers.
fn grow_and_shrink() -> impl Strategy<Value = Vec<Op>> {
    let few = prop_oneof![
        when().prop_map(Op::Insert),
        any::<u8>().prop_map(Op::Remove),
        Just(Op::RemoveLast),
        (any::<u8>(), when()).prop_map(|(pick, when)| Op::Reset(pick, when)),
        Just(Op::PopOne),
        Just(Op::NextDeadline),
        span().prop_map(Op::Advance),
        any::<u8>().prop_map(Op::Stale),
    ];
    let up = prop::collection::vec((any::<u8>(), when()), 2..6).prop_map(|bursts| {
        bursts
            .into_iter()
            .map(|(count, when)| Op::Burst(count, when))
    });
    let many = ops(0..60);
    let down = (0usize..20).prop_map(|left| Op::Drain(left as u8));
    let few = prop::collection::vec(few, 0..300);
    (up, many, down, few)
        .prop_map(|(up, many, down, few)| up.chain(many).chain([down]).chain(few).collect())
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn growing_and_shrinking_matches_the_model(cycles in prop::collection::vec(grow_and_shrink(), 1..4)) {
        Model::new(Wheel::new()).run(cycles.into_iter().flatten());
    }
}

#[test]
fn handles_survive_both_changes() {
    let mut wheel = Wheel::new();
    for round in 0..3 {
        assert!(wheel.is_few);
        let keys: Vec<_> = (0..sized(1_000, 100) as u64)
            .map(|n| wheel.insert(10 + n % 7, n))
            .collect();
        assert!(!wheel.is_few);
        let (popped, removed) = keys.split_at(7);
        for (n, &key) in (7..).zip(removed) {
            assert_eq!(wheel.remove(key), Some(n));
        }
        for (n, &key) in (0..).zip(popped) {
            assert_eq!(wheel.get(key), Some(&n));
            assert_eq!(wheel.pop_due(100).map(|expired| expired.value), Some(n));
        }
        wheel.check();
        assert!(!wheel.is_few, "round {round}");
        assert_eq!(wheel.pop_due(100), None);
        wheel.check();
        let key = wheel.insert(50, 1);
        assert!(keys.iter().all(|&key| wheel.get(key).is_none()));
        assert_eq!(wheel.remove(key), Some(1));
    }
}

#[test]
fn equal_deadlines_keep_their_order() {
    let mut wheel = Wheel::new();
    let keys: Vec<_> = (0..24).map(|n| wheel.insert(50, n)).collect();
    // Make two timers the last of their tick: one by a re-arm to the same tick, the other by a
    // re-arm to a later tick and back.
    assert!(wheel.reset(keys[3], 50));
    assert!(wheel.reset(keys[4], 70) && wheel.reset(keys[4], 50));
    assert!(wheel.is_few);
    wheel.check();
    (24..34).for_each(|n| {
        wheel.insert(60, n);
    });
    assert!(!wheel.is_few);
    assert!(wheel.reset(keys[9], 50));
    for &key in &keys[14..] {
        wheel.remove(key);
    }
    let mut popped = Vec::new();
    popped.extend((0..12).filter_map(|_| wheel.pop_due(50)));
    popped.extend(core::iter::from_fn(|| wheel.pop_due(90)));
    let values: Vec<u64> = popped.iter().map(|expired| expired.value).collect();
    let first = [0, 1, 2, 5, 6, 7, 8, 10, 11, 12, 13, 3, 4, 9];
    assert_eq!(values, first.into_iter().chain(24..34).collect::<Vec<_>>());
}

/// One of two timers with the earliest deadline is armed again for the same tick, by a reset or by
/// a removal and an insertion. Then the other timer fires first, even if the cache has the index of
/// the timer that was armed again.
#[test]
fn the_first_of_equal_deadlines_is_the_one_armed_first() {
    let mut wheel = Wheel::new();
    let first = wheel.insert(50, 0);
    let second = wheel.insert(50, 1);
    assert_eq!(wheel.next_deadline(), Some(50));
    assert!(wheel.reset(first, 50));
    assert_eq!(wheel.pop_due(50).map(|expired| expired.value), Some(1));
    assert_eq!(wheel.next_deadline(), Some(50));
    let third = wheel.insert(50, 2);
    assert_eq!(third.index(), second.index());
    assert_eq!(wheel.remove(first), Some(0));
    wheel.insert(50, 3);
    wheel.check();
    let popped = core::iter::from_fn(|| wheel.pop_due(50)).map(|expired| expired.value);
    assert_eq!(popped.collect::<Vec<_>>(), [2, 3]);
}

/// Timers that are armed before a call finds the wheel empty reuse the entries of cancelled timers.
#[test]
fn an_empty_wheel_keeps_its_entries_until_a_call_finds_it_empty() {
    let mut wheel = Wheel::new();
    for _ in 0..10 {
        let keys: Vec<_> = (0..100).map(|n| wheel.insert(1_000, n)).collect();
        keys.into_iter()
            .for_each(|key| assert!(wheel.remove(key).is_some()));
        assert!(!wheel.is_few && wheel.entries() <= 100);
    }
    assert_eq!(wheel.pop_due(0), None);
    assert!(wheel.is_few && wheel.entries() == 0);
    wheel.check();
}

#[test]
#[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
fn the_memory_of_many_timers_is_freed_while_a_few_stay() {
    let mut wheel = Wheel::new();
    let fill = |wheel: &mut Wheel<u64>| -> Vec<TimerKey> {
        (0..100_000).map(|n| wheel.insert(n % 60_000, n)).collect()
    };
    let keys = fill(&mut wheel);
    let full = wheel.memory();
    keys.into_iter().for_each(|key| {
        wheel.remove(key);
    });
    // Without a poll in between, the next timers reuse the memory of the cancelled timers.
    let keys = fill(&mut wheel);
    assert!(wheel.memory() < full + full / 8);
    wheel.check();
    keys.into_iter().for_each(|key| {
        wheel.remove(key);
    });
    let last = wheel.insert(70_000, 0);
    let mut polls = 0;
    while wheel.has_memory_to_free() {
        assert_eq!(wheel.pop_due(0), None);
        polls += 1;
        if polls % 100 == 0 {
            wheel.check();
        }
    }
    assert!(polls < 1_000, "{polls} polls");
    assert!(wheel.memory() < full / 20, "{} bytes", wheel.memory());
    assert!(wheel.is_few);
    assert_eq!(wheel.remove(last), Some(0));
    let empty = Wheel::<u64>::new().memory();
    assert!(wheel.memory() < empty + 40_000, "{} bytes", wheel.memory());
}

#[test]
fn a_few_hundred_timers_take_little_memory_however_they_are_spread() {
    for exponent in [0, 10, 24, 40] {
        let mut wheel = Wheel::new();
        for n in 0..300u64 {
            let spread = (n * 7919 % 1024) << (n * 31 % (exponent + 1));
            wheel.insert(1_000 + spread, n);
        }
        let full = wheel.memory();
        assert!(full <= 24 << 10, "{full} bytes armed");
        // The timers fire one after the other, and are armed again.
        for n in 0..300 {
            let now = wheel.next_deadline().expect("armed");
            let expired = wheel.pop_due(now).expect("due");
            wheel.insert(
                now + 1 + ((n * 7919 % 1024) << (exponent / 2)),
                expired.value,
            );
        }
        assert!(wheel.memory() <= 24 << 10, "{} bytes", wheel.memory());
        wheel.check();
    }
}
