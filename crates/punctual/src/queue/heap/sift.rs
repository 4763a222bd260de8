//! Sifts the entries of all heaps of this crate. A heap is a slice in which no entry is greater
//! than its `D` children.
//!
//! The children of the entry at `n` are contiguous from `D * n + 1`: four children of 16 bytes span
//! one or two cache lines. The functions call `moved` with the new position of every entry that
//! they move.
//!
//! D-ary heaps: D. B. Johnson, "Priority queues with update and finding minimum spanning trees",
//! Information Processing Letters 4 (1975). Heapify in O(n): R. W. Floyd, "Algorithm 245:
//! Treesort 3", Communications of the ACM 7 (1964).

use super::entry::Sifted;
use core::hint::select_unpredictable;
use core::mem::size_of;

/// Checks an arity at compile time, where code reads [`CHECKED`](Self::CHECKED). With at most 16
/// children, and entries of at least 8 bytes, no child index overflows.
pub(in crate::queue) struct Arity<const D: usize>;

impl<const D: usize> Arity<D> {
    pub(in crate::queue) const CHECKED: () =
        assert!(D >= 2 && D <= 16, "a heap's arity is 2 to 16");
}

/// An entry, and its position among the children of its parent.
type Child<'a, E> = (&'a E, usize);

/// Returns the least child of the entry at `at` and the child's position in `entries`, or `None` if
/// the entry has no children.
#[inline(always)]
fn least_child<E: Sifted, const D: usize>(entries: &[E], at: usize) -> Option<Child<'_, E>> {
    const { assert!(size_of::<E>() >= 8) };
    let first = at * D + 1;
    let rest = entries.get(first..)?;
    let (least, place) = match rest.first_chunk::<D>() {
        Some(children) => least_of_all(children),
        None => least_in_turn(rest)?,
    };
    Some((least, first + place))
}

/// Returns the least of `D` children: the least of each group of four, and then the least of the
/// groups.
#[inline(always)]
fn least_of_all<E: Ord, const D: usize>(children: &[E; D]) -> Child<'_, E> {
    let child = |place: usize| (&children[place], place);
    let mut least = child(0);
    let mut four = 0;
    while four < D {
        let winner = match D - four {
            1 => child(four),
            2 => lesser(child(four), child(four + 1)),
            3 => lesser(lesser(child(four), child(four + 1)), child(four + 2)),
            _ => lesser(
                lesser(child(four), child(four + 1)),
                lesser(child(four + 2), child(four + 3)),
            ),
        };
        least = if four == 0 {
            winner
        } else {
            lesser(least, winner)
        };
        four += 4;
    }
    least
}

/// Returns the lesser of two entries, the first if they are equal. The results of these comparisons
/// are unpredictable and dominate the cost of a heap, so the code does not branch on them.
#[inline(always)]
fn lesser<'a, E: Ord>(former: Child<'a, E>, latter: Child<'a, E>) -> Child<'a, E> {
    let is_latter = latter.0 < former.0;
    (
        select_unpredictable(is_latter, latter.0, former.0),
        select_unpredictable(is_latter, latter.1, former.1),
    )
}

/// Returns the least of the fewer than `D` children at the end of the slice.
#[inline]
fn least_in_turn<E: Ord>(entries: &[E]) -> Option<Child<'_, E>> {
    entries.iter().zip(0..).reduce(lesser)
}

/// Sifts down the entry at `at`, which may be greater than its children. O(log n).
#[inline]
pub(in crate::queue) fn sift_down<E: Sifted, const D: usize>(
    entries: &mut [E],
    mut at: usize,
    mut moved: impl FnMut(&E, usize),
) {
    let held = E::hold(entries, at);
    while let Some((least, child)) = least_child::<E, D>(entries, at) {
        if E::held(&held, entries, at) <= least {
            break;
        }
        E::shift(entries, child, at);
        moved(&entries[at], at);
        at = child;
    }
    E::settle(held, entries, at);
    moved(&entries[at], at);
}

/// Sifts up the entry at `at`, which may be less than its parent. O(log n).
#[inline]
pub(in crate::queue) fn sift_up<E: Sifted, const D: usize>(
    entries: &mut [E],
    mut at: usize,
    mut moved: impl FnMut(&E, usize),
) {
    let held = E::hold(entries, at);
    while at > 0 {
        let parent = (at - 1) / D;
        if entries[parent] <= *E::held(&held, entries, at) {
            break;
        }
        E::shift(entries, parent, at);
        moved(&entries[at], at);
        at = parent;
    }
    E::settle(held, entries, at);
    moved(&entries[at], at);
}

/// Sifts the entry at `at` up or down. O(log n).
#[inline]
pub(in crate::queue) fn sift<E: Sifted, const D: usize>(
    entries: &mut [E],
    at: usize,
    moved: impl FnMut(&E, usize),
) {
    if at > 0 && entries[at] < entries[(at - 1) / D] {
        sift_up::<E, D>(entries, at, moved);
    } else {
        sift_down::<E, D>(entries, at, moved);
    }
}

/// Makes a heap of unordered entries. O(n).
pub(in crate::queue) fn heapify<E: Sifted, const D: usize>(entries: &mut [E]) {
    let Some(last) = entries.len().checked_sub(1) else {
        return;
    };
    // The parent of the last entry is the last entry with children.
    for at in (0..last.div_ceil(D)).rev() {
        sift_down::<E, D>(entries, at, |_, _| {});
    }
}

/// Panics if an entry is less than its parent.
#[cfg(test)]
pub(in crate::queue) fn check<E: Sifted, const D: usize>(entries: &[E]) {
    for at in 1..entries.len() {
        assert!(entries[(at - 1) / D] <= entries[at], "a heap at {at}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::armings::Arming;
    use crate::queue::heap::entry::Entry;
    use core::num::NonZeroU32;
    use proptest::prelude::*;

    fn sorts<const D: usize>(keys: &[u8]) {
        let mut entries: Vec<Arming> = (0..)
            .zip(keys)
            .map(|(n, &key)| Arming::new(u64::from(key), NonZeroU32::MIN, n))
            .collect();
        let mut sorted = entries.clone();
        sorted.sort_unstable();
        heapify::<_, D>(&mut entries);
        check::<_, D>(&entries);
        for least in sorted {
            assert_eq!(entries.swap_remove(0), least);
            if !entries.is_empty() {
                let mut places = vec![None; keys.len()];
                sift_down::<_, D>(&mut entries, 0, |entry, at| {
                    places[entry.index() as usize] = Some(at);
                });
                for (at, entry) in entries.iter().enumerate() {
                    let reported = places[entry.index() as usize];
                    assert!(
                        reported.is_none_or(|reported| reported == at),
                        "reported its place"
                    );
                }
            }
        }
    }

    proptest! {
        #![proptest_config(crate::queue::model::random::cases(64))]

        #[test]
        fn heaps_of_several_arities_sort(keys in prop::collection::vec(any::<u8>(), 0..crate::queue::model::sized(200, 30))) {
            sorts::<2>(&keys);
            sorts::<3>(&keys);
            sorts::<4>(&keys);
            sorts::<5>(&keys);
            sorts::<8>(&keys);
            sorts::<12>(&keys);
            sorts::<15>(&keys);
            sorts::<16>(&keys);
        }
    }
}
