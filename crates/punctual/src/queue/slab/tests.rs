//! The slab against a map, what its generations promise, and how much is given back at once.

use super::*;
use crate::queue::model::random::cases;
use proptest::prelude::*;
use std::collections::HashMap;

struct Guest {
    generation: u32,
    value: u32,
}

impl Tenant for Guest {
    fn generation(&self) -> u32 {
        self.generation
    }
}

fn insert(slab: &mut Slab<Guest>, value: u32) -> TimerKey {
    let key = slab.insert(|generation| Guest { generation, value });
    let guest = slab.at(key.index).expect("a living guest");
    assert_eq!(guest.key(key.index), key);
    key
}

#[test]
fn a_reused_record_refuses_the_handle_before() {
    let mut slab = Slab::new();
    let old = insert(&mut slab, 10);
    assert_eq!(slab.remove(old).map(|guest| guest.value), Some(10));
    let new = insert(&mut slab, 20);
    assert_eq!(old.index, new.index);
    assert!(slab.get(old).is_none() && slab.remove(old).is_none());
    assert_eq!(slab.get(new).map(|guest| guest.value), Some(20));
}

#[test]
fn a_record_out_of_generations_is_not_used_again() {
    let mut slab = Slab::new();
    let index = insert(&mut slab, 0).index;
    slab.at_mut(index).expect("alive").generation = LAST_GENERATION;
    let last = TimerKey::new(index, LAST_GENERATION);
    assert!(slab.remove(last).is_some());
    for _ in 0..3 {
        assert_ne!(insert(&mut slab, 0).index, index);
        assert!(slab.get(last).is_none());
    }
    slab.clear();
    slab.shrink_to_fit();
    assert_ne!(insert(&mut slab, 0).index, index);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn handles_stay_stale_when_the_records_were_given_back() {
    let mut slab = Slab::new();
    let keys: Vec<_> = (0..3 * KEPT as u32)
        .map(|value| insert(&mut slab, value))
        .collect();
    keys.iter()
        .for_each(|&key| assert!(slab.remove(key).is_some()));
    slab.release();
    assert!(slab.memory() <= KEPT * Slab::<Guest>::RECORD);
    for value in 0..3 * KEPT as u32 {
        insert(&mut slab, value);
    }
    assert!(keys.iter().all(|&key| slab.get(key).is_none()));
}

/// So many records are given back in some pieces.
const CROWD: u32 = 50_000;
/// Records that a piece has at most.
const PIECE: usize = STEP / Slab::<Guest>::RECORD;

/// The slab is empty: gives all back, and tells how many records went with each look.
fn tidy(slab: &mut Slab<Guest>) -> Vec<usize> {
    let mut pieces = Vec::new();
    while slab.is_untidy() {
        let before = slab.records();
        assert_eq!(slab.tidy(), slab.is_untidy());
        pieces.push(before - slab.records());
    }
    pieces
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn a_crowd_is_given_back_in_pieces() {
    let orders: [fn(u32) -> u32; 3] = [|n| n, |n| CROWD - 1 - n, |n| n * 7919 % CROWD];
    for order in orders {
        let mut slab = Slab::new();
        let keys: Vec<_> = (0..CROWD).map(|value| insert(&mut slab, value)).collect();
        for n in 0..CROWD {
            let (left, records) = (CROWD - n, slab.records());
            let key = keys[order(n) as usize];
            assert_eq!(slab.remove(key).map(|guest| guest.value), Some(order(n)));
            assert_eq!(slab.begin_release(), left == 1);
            let freed = records - slab.records();
            assert!(freed <= PIECE, "{freed} records at once");
        }
        let pieces = tidy(&mut slab);
        assert!(pieces.len() <= CROWD as usize / PIECE);
        assert!(pieces.iter().all(|piece| (1..=PIECE).contains(piece)));
        assert_eq!(slab.memory(), KEPT * Slab::<Guest>::RECORD);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn a_crowd_that_comes_back_finds_its_records() {
    let mut slab = Slab::new();
    let first: Vec<_> = (0..CROWD).map(|value| insert(&mut slab, value)).collect();
    for &key in &first {
        slab.remove(key);
    }
    assert!(slab.begin_release());
    // Half of it is back, and then only that is kept.
    let again: Vec<_> = (0..CROWD / 2).map(|n| insert(&mut slab, n)).collect();
    assert!(slab.records() > again.len() && slab.is_untidy());
    tidy(&mut slab);
    assert_eq!(slab.records(), again.len());
    for value in again.len() as u32..CROWD {
        insert(&mut slab, value);
    }
    assert_eq!(slab.records(), CROWD as usize);
    assert!(first.iter().all(|&key| slab.get(key).is_none()));
    assert!(again.iter().all(|&key| slab.get(key).is_some()));
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of records")]
fn records_out_of_generations_stay() {
    let mut slab = Slab::new();
    let keys: Vec<_> = (0..CROWD).map(|n| insert(&mut slab, n)).collect();
    let worn = keys[CROWD as usize / 2];
    slab.at_mut(worn.index).expect("alive").generation = LAST_GENERATION;
    let worn = TimerKey::new(worn.index, LAST_GENERATION);
    for &key in &keys {
        slab.remove(key);
    }
    assert!(slab.remove(worn).is_some() && slab.begin_release());
    tidy(&mut slab);
    assert!(slab.records() > worn.index as usize && !slab.begin_release());
    for value in 0..CROWD {
        let key = insert(&mut slab, value);
        assert_ne!(key.index, worn.index);
        assert!(slab.get(worn).is_none());
    }
    assert!(keys.iter().all(|&key| slab.get(key).is_none()));
}

/// Crowds that come, and go in some order.
#[derive(Clone, Debug)]
enum Tide {
    Come(u32),
    /// So many of the oldest.
    First(u32),
    Last(u32),
    /// Of every so many, one stays.
    Most(u32),
    Tidy,
    Shrink,
    Clear,
}

fn tide() -> impl Strategy<Value = Tide> {
    let some = 1..3 * PIECE as u32;
    prop_oneof![
        3 => some.clone().prop_map(Tide::Come),
        2 => (1..CROWD).prop_map(Tide::Come),
        3 => some.clone().prop_map(Tide::First),
        3 => some.prop_map(Tide::Last),
        2 => (2u32..3_000).prop_map(Tide::Most),
        1 => (1..CROWD).prop_map(Tide::First),
        3 => Just(Tide::Tidy),
        1 => Just(Tide::Shrink),
        1 => Just(Tide::Clear),
    ]
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    #[cfg_attr(miri, ignore = "takes thousands of records")]
    fn it_does_what_a_map_does(tides in prop::collection::vec(tide(), 1..20)) {
        let mut slab = Slab::new();
        let mut guests: Vec<(TimerKey, u32)> = Vec::new();
        let mut gone: Vec<TimerKey> = Vec::new();
        let mut value = 0;
        for tide in tides {
            let left = match tide {
                Tide::Come(count) => {
                    for _ in 0..count.min(2 * CROWD - guests.len().min(2 * CROWD as usize) as u32) {
                        guests.push((insert(&mut slab, value), value));
                        value += 1;
                    }
                    Vec::new()
                }
                Tide::First(count) => guests.drain(..guests.len().min(count as usize)).collect(),
                Tide::Last(count) => guests.split_off(guests.len().saturating_sub(count as usize)),
                Tide::Most(one) => guests.extract_if(.., |&mut (_, value)| value % one != 0).collect(),
                Tide::Tidy => {
                    slab.tidy_up();
                    Vec::new()
                }
                Tide::Shrink => {
                    slab.shrink_to_fit();
                    Vec::new()
                }
                Tide::Clear => {
                    slab.clear();
                    gone.extend(guests.drain(..).map(|(key, _)| key));
                    Vec::new()
                }
            };
            for (key, value) in left {
                prop_assert_eq!(slab.remove(key).map(|guest| guest.value), Some(value));
                slab.begin_release();
                gone.push(key);
            }
            prop_assert_eq!(slab.len(), guests.len());
            let all: HashMap<_, _> = slab.iter().map(|(index, guest)| (guest.key(index), guest.value)).collect();
            prop_assert_eq!(all.len(), guests.len());
            for &(key, value) in &guests {
                prop_assert_eq!(all.get(&key), Some(&value));
                prop_assert_eq!(slab.get(key).map(|guest| guest.value), Some(value));
                prop_assert!(slab.records() > key.index as usize);
            }
            let stale = gone.iter().filter(|&&key| slab.get(key).is_some()).count();
            prop_assert_eq!(stale, 0);
        }
        for (key, _) in guests {
            prop_assert!(slab.remove(key).is_some());
        }
        slab.begin_release();
        tidy(&mut slab);
        prop_assert!(slab.memory() <= KEPT * Slab::<Guest>::RECORD);
    }
}
