//! Trees of slots that have an order of their own, as sets: no two slots are equal.

use std::ops::Range;

use super::{Slot, Sorted, Tree, count_before};

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.ordinal(), self.id).cmp(&(other.ordinal(), other.id))
    }
}

/// A number, and what tells slots with the same number apart.
impl Sorted for (u64, u64) {
    #[inline]
    fn ordinal(self) -> u64 {
        self.0
    }

    #[inline]
    fn with_ordinal(self, ordinal: u64) -> Self {
        (ordinal, self.1)
    }
}

impl<S: Sorted + Ord, const LEAF: usize, const FAN: usize> Tree<S, LEAF, FAN> {
    /// Adds a slot that is not there. O(log n).
    #[inline]
    pub(crate) fn add(&mut self, slot: S) {
        self.insert(slot, |slots| match slots.last() {
            // What is due later mostly comes later.
            Some(last) if *last < slot => slots.len(),
            _ => count_before(slots, |other| other < slot),
        });
    }

    /// Removes a slot that is there. O(log n).
    ///
    /// # Panics
    /// If the tree is empty.
    #[inline]
    pub(crate) fn discard(&mut self, slot: S) {
        let removed = match self.first() == Some(slot) {
            // What is next goes first.
            true => self.remove_at(0),
            false => self.remove(|slots| count_before(slots, |other| other <= slot)),
        };
        debug_assert_eq!(removed, slot, "the slot is in the tree");
    }

    /// Returns whether a slot is there. O(log n).
    #[cfg(test)]
    pub(crate) fn contains(&self, slot: S) -> bool {
        let rank = self.rank(|slots| count_before(slots, |other| other < slot));
        self.get(rank) == Some(slot)
    }
}

impl<S: Sorted, const LEAF: usize, const FAN: usize> Tree<S, LEAF, FAN> {
    /// Returns the first slot. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Option<S> {
        self.root.nonempty().then(|| self.root.first())
    }

    /// Returns the number of slots with a smaller number than this one. O(log n).
    pub(crate) fn before(&self, ordinal: u64) -> usize {
        self.rank(|slots| count_before(slots, |other| other.ordinal() < ordinal))
    }

    /// Adds to each of `counts` the number of slots in its part of `range`, which is divided
    /// evenly. Leaves out the first `skipped` slots of the tree. O(log n) for each count that is
    /// not 0, and at most as often again.
    pub(crate) fn spread(&self, range: Range<u64>, skipped: usize, counts: &mut [u64]) {
        let (width, parts) = (
            u128::from(range.end - range.start),
            counts.len().max(1) as u128,
        );
        let edge = |at: usize| range.start + (width * at as u128 / parts) as u64;
        let ranks = self.before(range.start).max(skipped)..self.before(range.end);
        self.spread_parts(&edge, ranks, 0, counts);
    }

    /// Counts the slots of these ranks, all of which are in the parts from `first` on.
    fn spread_parts(
        &self,
        edge: &impl Fn(usize) -> u64,
        ranks: Range<usize>,
        first: usize,
        counts: &mut [u64],
    ) {
        match counts {
            _ if ranks.is_empty() => {}
            [] => {}
            [count] => *count += ranks.len() as u64,
            counts => {
                let (left, right) = counts.split_at_mut(counts.len() / 2);
                let middle = first + left.len();
                let rank = self.before(edge(middle)).clamp(ranks.start, ranks.end);
                self.spread_parts(edge, ranks.start..rank, first, left);
                self.spread_parts(edge, rank..ranks.end, middle, right);
            }
        }
    }
}
