use super::*;
use proptest::prelude::*;
use punctual_harness::Random;
use std::collections::{HashMap, HashSet};

/// Hashes an index.
fn mix(n: u32) -> u64 {
    Random::new(n.into()).bits()
}

fn place(n: u32) -> u32 {
    Hash::new(mix(n)).place
}

#[test]
fn equal_bytes_are_found() {
    for n in 1..=1000 {
        let bytes = mix(n).to_le_bytes();
        for byte in [bytes[0], bytes[3], bytes[7], 0, 1, 0x80, 0xff] {
            let found = equal_bytes(u64::from_le_bytes(bytes), byte);
            for (i, b) in bytes.iter().enumerate() {
                assert_eq!(found >> i & 1 == 1, *b == byte);
            }
            assert_eq!(found >> 8, 0);
        }
    }
}

#[test]
fn a_hundred_thousand_keys_are_inserted_and_removed() {
    let mut index = HashTable::default();
    for n in 0..100_000 {
        index.insert(Hash::new(mix(n)), n, place);
    }
    assert_eq!(index.len(), 100_000);
    let load = index.len() as f64 / index.slots() as f64;
    assert!((0.6..0.9).contains(&load), "load {load}");
    for n in 0..100_000 {
        assert_eq!(index.find(Hash::new(mix(n)), |i| i == n), Some(n));
    }
    assert_eq!(index.find(Hash::new(mix(100_001)), |i| i == 100_001), None);
    for n in 0..100_000 {
        assert!(index.remove(place(n), n, place));
        assert!(!index.remove(place(n), n, place));
    }
    assert_eq!(index.len(), 0);
    assert!(index.memory() < 32_000, "{} bytes", index.memory());
    assert!(
        index.parts.iter().all(|p| p
            .blocks
            .iter()
            .flat_map(|b| b.iter())
            .all(|c| c.passed == 0)),
        "no chunk counts a passed key"
    );
}

/// Reserves room for no keys, and for fewer, as many and more keys than are inserted.
#[test]
fn reserved_room_is_used_and_released() {
    for reserved in [0, 4_096, 4_097, 50_000, 100_000, 400_000] {
        let mut index = HashTable::default();
        index.reserve(reserved);
        let parts = index.parts.len();
        for n in 0..100_000 {
            index.insert(Hash::new(mix(n)), n, place);
            assert!(reserved < 100_000 || index.parts.len() == parts);
        }
        for n in 0..100_000 {
            assert_eq!(index.find(Hash::new(mix(n)), |i| i == n), Some(n));
        }
        let mut seen = HashSet::new();
        let mut from = Some(0);
        while let Some(at) = from {
            from = index.scan(at, place, |n| assert!(seen.insert(n)));
        }
        assert_eq!(seen.len(), 100_000, "{reserved} were reserved");
        for n in 0..100_000 {
            assert!(index.remove(place(n), n, place));
        }
        assert!(index.memory() < 200_000, "{} bytes", index.memory());
    }
}

#[test]
fn keys_with_equal_hashes_are_distinguished() {
    let hash = Hash::new(77 << 32 | 5);
    let mut index = HashTable::default();
    for n in 0..5000 {
        index.insert(hash, n, |_| hash.place);
    }
    for n in 0..5000 {
        assert_eq!(index.find(hash, |i| i == n), Some(n));
    }
    let mut seen = HashSet::new();
    let mut from = Some(0);
    while let Some(at) = from {
        from = index.scan(at, |_| hash.place, |i| assert!(seen.insert(i)));
    }
    assert_eq!(seen.len(), 5000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn behaves_as_a_map(steps in proptest::collection::vec((0..4u8, 0..20_000u32, 1..2000u32), 1..60)) {
        let mut index = HashTable::default();
        let mut model: HashSet<u32> = HashSet::new();
        for (what, start, count) in steps {
            for n in start..start + count {
                if what > 0 {
                    if model.insert(n) {
                        index.insert(Hash::new(mix(n)), n, place);
                    }
                } else {
                    prop_assert_eq!(index.remove(place(n), n, place), model.remove(&n));
                }
            }
            prop_assert_eq!(index.len(), model.len());
        }
        for n in 0..22_000 {
            prop_assert_eq!(index.find(Hash::new(mix(n)), |i| i == n).is_some(), model.contains(&n));
        }
    }

    /// A scan visits every key that stays exactly once, while other keys are added and removed.
    #[test]
    fn a_scan_visits_all_keys_that_stay(seed in any::<u32>(), churn in proptest::collection::vec((any::<bool>(), 0..50_000u32, 1..3000u32), 1..30)) {
        let stay: Vec<u32> = (1_000_000..1_003_000).collect();
        let mut index = HashTable::default();
        let mut others: HashSet<u32> = HashSet::new();
        for &n in &stay {
            index.insert(Hash::new(mix(n)), n, place);
        }
        let mut seen: HashMap<u32, u32> = HashMap::new();
        let mut from = Some(0);
        let mut turn = seed;
        while let Some(at) = from {
            from = index.scan(at, place, |i| *seen.entry(i).or_default() += 1);
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if turn >> 29 == 0 {
                let (add, start, count) = churn[turn as usize / 8 % churn.len()];
                for n in start..start + count {
                    if add && others.insert(n) {
                        index.insert(Hash::new(mix(n)), n, place);
                    } else if !add && others.remove(&n) {
                        index.remove(place(n), n, place);
                    }
                }
            }
        }
        for n in stay {
            prop_assert_eq!(seen.get(&n), Some(&1));
        }
    }
}

mod slots;
