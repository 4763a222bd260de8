//! Tests of the slab against a map, of its generations, and of the amount of memory that one call
//! frees.

use super::*;
use crate::queue::model::random::cases;
use proptest::prelude::*;
use std::collections::HashMap;

struct TestTimer {
    generation: u32,
    value: u32,
}

impl RecordBody for TestTimer {
    type Kept = ();
    const NEW: () = ();

    fn generation(&self) -> u32 {
        self.generation
    }
}

fn insert(slab: &mut Slab<TestTimer>, value: u32) -> TimerKey {
    let (key, _) = slab.insert(|generation| TestTimer { generation, value });
    let timer = slab.at(key.index).expect("a live timer");
    assert_eq!(timer.key(key.index), key);
    key
}

/// Moves all records to the tail if the slab is empty and large, as the wheel does. Returns true if
/// it moved them.
fn restart_if_empty(slab: &mut Slab<TestTimer>) -> bool {
    let restarts = slab.len() == 0 && slab.is_large();
    if restarts {
        slab.restart();
    }
    restarts
}

#[test]
fn a_reused_record_refuses_its_old_handle() {
    let mut slab = Slab::new(0);
    let old = insert(&mut slab, 10);
    assert_eq!(slab.remove(old).map(|timer| timer.value), Some(10));
    let new = insert(&mut slab, 20);
    assert_eq!(old.index, new.index);
    assert!(slab.get(old).is_none() && slab.remove(old).is_none());
    assert_eq!(slab.get(new).map(|timer| timer.value), Some(20));
}

#[test]
fn a_record_without_generations_is_not_reused() {
    let mut slab = Slab::new(0);
    let index = insert(&mut slab, 0).index;
    slab.at_mut(index).expect("alive").generation = LAST_GENERATION;
    let last = TimerKey::new(index, LAST_GENERATION);
    assert!(slab.remove(last).is_some());
    for _ in 0..3 {
        assert_ne!(insert(&mut slab, 0).index, index);
        assert!(slab.get(last).is_none());
    }
    slab.clear();
    slab.shrink_to_fit(usize::MAX);
    assert_ne!(insert(&mut slab, 0).index, index);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn handles_stay_stale_after_their_records_were_freed() {
    let mut slab = Slab::new(0);
    let keys: Vec<_> = (0..3 * RECORDS_KEPT as u32)
        .map(|value| insert(&mut slab, value))
        .collect();
    keys.iter()
        .for_each(|&key| assert!(slab.remove(key).is_some()));
    slab.free_if_empty();
    assert!(slab.memory() <= RECORDS_KEPT * Slab::<TestTimer>::RECORD);
    for value in 0..3 * RECORDS_KEPT as u32 {
        insert(&mut slab, value);
    }
    assert!(keys.iter().all(|&key| slab.get(key).is_none()));
}

/// Number of records in tests that free several pieces.
const MANY: u32 = 50_000;
/// Maximum number of records in a piece that is freed at once.
const PIECE: usize = FREE_STEP / Slab::<TestTimer>::RECORD;

/// Frees the whole tail, and returns the number of records in each freed piece.
fn free_tail(slab: &mut Slab<TestTimer>) -> Vec<usize> {
    let mut pieces = Vec::new();
    while slab.has_memory_to_free() {
        let before = slab.records();
        assert_eq!(slab.free_piece(), slab.has_memory_to_free());
        pieces.push(before - slab.records());
    }
    pieces
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn many_records_are_freed_in_pieces() {
    let orders: [fn(u32) -> u32; 3] = [|n| n, |n| MANY - 1 - n, |n| n * 7919 % MANY];
    for order in orders {
        let mut slab = Slab::new(0);
        let keys: Vec<_> = (0..MANY).map(|value| insert(&mut slab, value)).collect();
        for n in 0..MANY {
            let (left, records) = (MANY - n, slab.records());
            let key = keys[order(n) as usize];
            assert_eq!(slab.remove(key).map(|timer| timer.value), Some(order(n)));
            assert_eq!(restart_if_empty(&mut slab), left == 1);
            let freed = records - slab.records();
            assert!(freed <= PIECE, "{freed} records at once");
        }
        let pieces = free_tail(&mut slab);
        assert!(pieces.len() <= MANY as usize / PIECE);
        assert!(pieces.iter().all(|piece| (1..=PIECE).contains(piece)));
        assert_eq!(slab.memory(), RECORDS_KEPT * Slab::<TestTimer>::RECORD);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn records_of_the_tail_are_reused() {
    let mut slab = Slab::new(0);
    let first: Vec<_> = (0..MANY).map(|value| insert(&mut slab, value)).collect();
    for &key in &first {
        slab.remove(key);
    }
    assert!(restart_if_empty(&mut slab));
    // Half of the timers are inserted again: the slab then keeps only the records of this half.
    let again: Vec<_> = (0..MANY / 2).map(|n| insert(&mut slab, n)).collect();
    assert!(slab.records() > again.len() && slab.has_memory_to_free());
    free_tail(&mut slab);
    assert!(slab.records() - again.len() < REFILL);
    for value in again.len() as u32..MANY {
        insert(&mut slab, value);
    }
    assert!(slab.records() - (MANY as usize) < REFILL);
    assert!(first.iter().all(|&key| slab.get(key).is_none()));
    assert!(again.iter().all(|&key| slab.get(key).is_some()));
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn records_without_generations_are_not_freed() {
    let mut slab = Slab::new(0);
    let keys: Vec<_> = (0..MANY).map(|n| insert(&mut slab, n)).collect();
    let worn = keys[MANY as usize / 2];
    slab.at_mut(worn.index).expect("alive").generation = LAST_GENERATION;
    let worn = TimerKey::new(worn.index, LAST_GENERATION);
    for &key in &keys {
        slab.remove(key);
    }
    assert!(slab.remove(worn).is_some() && restart_if_empty(&mut slab));
    free_tail(&mut slab);
    assert!(slab.records() > worn.index as usize && !restart_if_empty(&mut slab));
    for value in 0..MANY {
        let key = insert(&mut slab, value);
        assert_ne!(key.index, worn.index);
        assert!(slab.get(worn).is_none());
    }
    assert!(keys.iter().all(|&key| slab.get(key).is_none()));
}

/// A step of the random test.
#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    /// Removes this many of the oldest timers.
    RemoveFirst(u32),
    RemoveLast(u32),
    /// Keeps the timers whose value is a multiple of this number.
    KeepEvery(u32),
    FreePiece,
    Shrink,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let some = 1..3 * PIECE as u32;
    prop_oneof![
        3 => some.clone().prop_map(Step::Insert),
        2 => (1..MANY).prop_map(Step::Insert),
        3 => some.clone().prop_map(Step::RemoveFirst),
        3 => some.prop_map(Step::RemoveLast),
        2 => (2u32..3_000).prop_map(Step::KeepEvery),
        1 => (1..MANY).prop_map(Step::RemoveFirst),
        3 => Just(Step::FreePiece),
        1 => Just(Step::Shrink),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    #[cfg_attr(miri, ignore = "takes thousands of records")]
    fn it_matches_a_map(steps in prop::collection::vec(step(), 1..20)) {
        let mut slab = Slab::new(0);
        let mut live: Vec<(TimerKey, u32)> = Vec::new();
        let mut gone: Vec<TimerKey> = Vec::new();
        let mut value = 0;
        for step in steps {
            let left = match step {
                Step::Insert(count) => {
                    for _ in 0..count.min(2 * MANY - live.len().min(2 * MANY as usize) as u32) {
                        live.push((insert(&mut slab, value), value));
                        value += 1;
                    }
                    Vec::new()
                }
                Step::RemoveFirst(count) => live.drain(..live.len().min(count as usize)).collect(),
                Step::RemoveLast(count) => live.split_off(live.len().saturating_sub(count as usize)),
                Step::KeepEvery(one) => live.extract_if(.., |&mut (_, value)| value % one != 0).collect(),
                Step::FreePiece => {
                    slab.free_piece();
                    Vec::new()
                }
                Step::Shrink => {
                    slab.shrink_to_fit(usize::MAX);
                    Vec::new()
                }
                Step::Clear => {
                    slab.clear();
                    gone.extend(live.drain(..).map(|(key, _)| key));
                    Vec::new()
                }
            };
            for (key, value) in left {
                prop_assert_eq!(slab.remove(key).map(|timer| timer.value), Some(value));
                restart_if_empty(&mut slab);
                gone.push(key);
            }
            prop_assert_eq!(slab.len(), live.len());
            let all: HashMap<_, _> = slab.iter().map(|(index, timer)| (timer.key(index), timer.value)).collect();
            prop_assert_eq!(all.len(), live.len());
            for &(key, value) in &live {
                prop_assert_eq!(all.get(&key), Some(&value));
                prop_assert_eq!(slab.get(key).map(|timer| timer.value), Some(value));
                prop_assert!(slab.records() > key.index as usize);
            }
            let stale = gone.iter().filter(|&&key| slab.get(key).is_some()).count();
            prop_assert_eq!(stale, 0);
        }
        for (key, _) in live {
            prop_assert!(slab.remove(key).is_some());
        }
        restart_if_empty(&mut slab);
        free_tail(&mut slab);
        prop_assert!(slab.memory() <= RECORDS_KEPT * Slab::<TestTimer>::RECORD);
    }
}
