//! The tree against a sorted vector, with nodes of many sizes.

use super::*;
use crate::check::Check;
use proptest::prelude::*;

/// Identifies a slot by ordinal, then id.
fn key(slot: Slot) -> (u64, u32) {
    (slot.ordinal(), slot.id)
}

fn before(wanted: (u64, u32)) -> impl Fn(&[Slot]) -> usize {
    move |slots| slots.partition_point(|slot| key(*slot) < wanted)
}

fn through(wanted: (u64, u32)) -> impl Fn(&[Slot]) -> usize {
    move |slots| slots.partition_point(|slot| key(*slot) <= wanted)
}

fn check<const L: usize, const F: usize>(tree: &Tree<Slot, L, F>) {
    let mut found = Check::default();
    tree.check(&mut found);
    found.assert_none();
}

fn compare<const L: usize, const F: usize>(tree: &Tree<Slot, L, F>, model: &[(u64, u32)]) {
    check(tree);
    assert_eq!(tree.len(), model.len());
    let all: Vec<_> = tree.walk(0..usize::MAX, false).map(key).collect();
    assert_eq!(all, model);
    let mut all: Vec<_> = tree.walk(0..usize::MAX, true).map(key).collect();
    all.reverse();
    assert_eq!(all, model);
    for (rank, &wanted) in model.iter().enumerate() {
        assert_eq!(tree.rank(before(wanted)), rank);
        assert_eq!(tree.rank(through(wanted)), rank + 1);
        assert_eq!(tree.get(rank).map(key), Some(wanted));
    }
    assert_eq!(tree.get(model.len()), None);
}

fn behaves_as_a_vector<const L: usize, const F: usize>(start: usize, steps: &[(u8, u16, u16)]) {
    let mut model: Vec<(u64, u32)> = (0..start as u64).map(|n| (n * 7 % 1000, 1)).collect();
    model.sort_unstable();
    model.dedup();
    let slots: Vec<Slot> = model.iter().map(|&(o, id)| Slot::new(o, id)).collect();
    let mut tree = Tree::<Slot, L, F>::from_sorted(&slots);
    compare(&tree, &model);
    for (n, &(what, a, b)) in steps.iter().enumerate() {
        let wanted = (u64::from(a) % 1000, u32::from(b) % 3);
        let at = model.partition_point(|k| *k < wanted);
        let there = model.get(at) == Some(&wanted);
        match what {
            0..=3 if there => {
                assert_eq!(key(tree.remove(through(wanted))), wanted);
                model.remove(at);
            }
            4 if !model.is_empty() => {
                let rank = usize::from(a) % model.len();
                assert_eq!(key(tree.remove_at(rank)), model.remove(rank));
            }
            5 if there => {
                // The id stays the same.
                let to = (wanted.0 + u64::from(b) % 5, wanted.1);
                if model.contains(&to) && to != wanted {
                    continue;
                }
                model.remove(at);
                if !tree.change(through(wanted), to.0) {
                    tree.insert(Slot::new(to.0, to.1), before(to));
                }
                let at = model.partition_point(|k| *k < to);
                model.insert(at, to);
            }
            6 => {
                // An ascending run after or before all other slots.
                for i in 0..u64::from(b) % 20 {
                    let next = match (a % 2, model.first(), model.last()) {
                        (0, Some(first), _) if first.0 > 0 => (first.0 - 1, 0),
                        (_, _, Some(last)) => (last.0 + 1, 0),
                        _ => (i, 0),
                    };
                    tree.insert(Slot::new(next.0, next.1), before(next));
                    let at = model.partition_point(|k| *k < next);
                    model.insert(at, next);
                }
            }
            _ if !there => {
                tree.insert(Slot::new(wanted.0, wanted.1), before(wanted));
                model.insert(at, wanted);
            }
            _ => {}
        }
        if n % 16 == 0 {
            compare(&tree, &model);
        }
    }
    compare(&tree, &model);
    let (start, end) = (model.len() / 3, model.len() / 2);
    let part: Vec<_> = tree.walk(start..end, false).map(key).collect();
    assert_eq!(part, model[start..end]);
    for left in (0..model.len()).rev() {
        tree.remove_at(left / 2);
        assert_eq!(tree.len(), left);
    }
    compare(&tree, &[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn trees_behave_as_vectors(
        start in prop_oneof![Just(0usize), 0..600usize],
        steps in proptest::collection::vec((0..10u8, any::<u16>(), any::<u16>()), 1..400),
    ) {
        behaves_as_a_vector::<2, 2>(start, &steps);
        behaves_as_a_vector::<3, 4>(start, &steps);
        behaves_as_a_vector::<4, 3>(start, &steps);
        behaves_as_a_vector::<8, 5>(start, &steps);
        behaves_as_a_vector::<64, 64>(start, &steps);
    }
}

#[test]
fn slots_in_order_fill_their_leaves() {
    for backwards in [false, true] {
        let mut tree = Tree::<Slot, 64, 64>::default();
        for n in 0..100_000u64 {
            let wanted = (if backwards { 1_000_000 - n } else { n }, 0);
            tree.insert(Slot::new(wanted.0, 0), before(wanted));
        }
        check(&tree);
        assert!(tree.memory() < 14 * 100_000, "{} bytes", tree.memory());
    }
}

#[test]
fn removals_release_memory() {
    let mut tree = Tree::<Slot, 64, 64>::default();
    let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
    for n in 0..100_000 {
        let wanted = (scattered(n), n as u32);
        tree.insert(Slot::new(wanted.0, wanted.1), before(wanted));
    }
    assert!(tree.memory() < 16 * 100_000, "{} bytes", tree.memory());
    for n in 0..99_000 {
        let wanted = (scattered(n), n as u32);
        assert_eq!(tree.remove(through(wanted)).id, n as u32);
    }
    check(&tree);
    assert!(tree.memory() < 48 * 1000, "{} bytes", tree.memory());
}
