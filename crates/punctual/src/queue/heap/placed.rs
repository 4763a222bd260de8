//! Moves the entries of the bindings' heaps, whose comparisons run code that may fail.
//!
//! The engine's own heaps compare entries while they move them. Here an operation has two steps.
//! The first step finds the new place of an entry: it compares entries and changes nothing. The
//! second step moves the entry there: it compares nothing and cannot fail.

pub use super::entry::Entry;
pub use super::tracked::TrackedHeap;
pub use crate::queue::prefetch::prefetch;

use crate::TimerKey;
use alloc::vec::Vec;
use core::mem::{replace, take};
use core::num::NonZeroU32;

/// Returns the place to which the entry at `at` must move, up or down, in a heap of `len` entries
/// with `arity` children per entry. `is_before(a, b)` returns whether the entry at `a` precedes the
/// entry at `b`; if `a` is `None`, it stands for the entry that moves. O(log n).
///
/// On the way down, the search follows the least children to the bottom and then goes back up. Most
/// entries belong near the bottom, so this takes fewer comparisons than to compare the entry on
/// each level (I. Wegener, "Bottom-up-heapsort", Theoretical Computer Science 118, 1993).
///
/// # Errors
///
/// Returns the first error of a comparison.
#[inline(always)]
pub fn find_place<E>(
    arity: usize,
    len: usize,
    at: usize,
    mut is_before: impl FnMut(Option<usize>, usize) -> Result<bool, E>,
) -> Result<usize, E> {
    let parent = |at: usize| (at - 1) / arity;
    let mut to = at;
    while to > 0 && is_before(None, parent(to))? {
        to = parent(to);
    }
    if to < at {
        return Ok(to);
    }
    loop {
        let first = to * arity + 1;
        let mut children = first..len.min(first + arity);
        let Some(mut least) = children.next() else {
            break;
        };
        for child in children {
            if is_before(Some(child), least)? {
                least = child;
            }
        }
        to = least;
    }
    while to > at && is_before(None, to)? {
        to = parent(to);
    }
    Ok(to)
}

/// Moves the entry at `from` to `to`, which is above or below it in the heap. Each entry between
/// the two places moves one level the other way. Calls `moved` with the new place of every entry
/// that moved. O(log n).
#[inline(always)]
pub fn relocate<E>(
    entries: &mut [E],
    arity: usize,
    from: usize,
    to: usize,
    mut moved: impl FnMut(&E, usize),
) {
    let mut at = from;
    while at > to {
        let parent = (at - 1) / arity;
        entries.swap(at, parent);
        moved(&entries[at], at);
        at = parent;
    }
    at = to;
    while at > from {
        entries.swap(at, from);
        moved(&entries[at], at);
        at = (at - 1) / arity;
    }
    moved(&entries[at], at);
}

impl<E: Entry, T, const D: usize> TrackedHeap<E, T, D> {
    /// Returns the place of a handle's entry. O(1).
    #[inline]
    pub fn place(&self, key: TimerKey) -> Option<usize> {
        self.slab.get(key).map(|timer| timer.place())
    }

    /// Adds a value, with the entry that `make` builds from its sequence and its index, at the
    /// place `to`. O(log n).
    #[inline]
    pub fn insert_at(
        &mut self,
        to: usize,
        value: T,
        make: impl FnOnce(NonZeroU32, u32) -> E,
    ) -> TimerKey {
        let key = self.append(value, make);
        self.relocate(self.entries.len() - 1, to);
        key
    }

    /// Replaces the entry at `place` by the entry that `make` builds, moves the new entry to `to`,
    /// and returns the old entry. O(log n).
    #[inline]
    pub fn reset_at(
        &mut self,
        place: usize,
        to: usize,
        make: impl FnOnce(NonZeroU32, u32) -> E,
    ) -> E {
        let sequence = self.next_sequence();
        let entry = &mut self.entries[place];
        let index = entry.index();
        let old = replace(entry, make(sequence, index));
        self.relocate(place, to);
        old
    }

    /// Removes the timer at `place`. The heap's last entry fills the gap and moves from there to
    /// `to`. O(log n).
    #[inline]
    pub fn remove_at(&mut self, place: usize, to: usize) -> Option<(E, T)> {
        let entry = self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.relocate(place, to);
        }
        let timer = self.slab.take(entry.index())?;
        self.free_if_empty();
        Some((entry, timer.value))
    }

    /// Removes all timers and returns them in the order of their entries in the heap. O(n).
    pub fn take_all(&mut self) -> Vec<(E, T)> {
        let taken = take(&mut self.entries).into_iter().filter_map(|entry| {
            let timer = self.slab.take(entry.index())?;
            Some((entry, timer.value))
        });
        let all = taken.collect();
        self.free_if_empty();
        all
    }

    #[inline]
    fn relocate(&mut self, from: usize, to: usize) {
        let (entries, moved) = self.entries_and_moved();
        relocate(entries, D, from, to, moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use proptest::prelude::*;

    /// Sorts keys by finding the place of each key and moving the key to its place.
    fn sorts(arity: usize, keys: &[u8]) {
        let find = |entries: &[u8], len, at, moving: u8| {
            let entry = |place: Option<usize>| place.map_or(moving, |place| entries[place]);
            let Ok(to) = find_place(arity, len, at, |a, b| {
                Ok::<_, Infallible>(entry(a) < entries[b])
            });
            to
        };
        let (mut entries, mut popped) = (Vec::new(), Vec::new());
        for (at, &key) in keys.iter().enumerate() {
            let to = find(&entries, at, at, key);
            entries.push(key);
            relocate(&mut entries, arity, at, to, |_, _| {});
        }
        while let Some(last) = entries.len().checked_sub(1) {
            let to = find(&entries, last, 0, entries[last]);
            popped.push(entries.swap_remove(0));
            if last > 0 {
                relocate(&mut entries, arity, 0, to, |_, _| {});
            }
        }
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        assert_eq!(popped, sorted);
    }

    proptest! {
        #![proptest_config(crate::queue::model::random::cases(64))]

        #[test]
        fn heaps_of_several_arities_sort(keys in prop::collection::vec(any::<u8>(), 0..crate::queue::model::sized(200, 30))) {
            for arity in [2, 3, 4, 16, 128] {
                sorts(arity, &keys);
            }
        }
    }
}
