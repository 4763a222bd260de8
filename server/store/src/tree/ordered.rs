//! Trees of slots that implement `Ord`. Such a tree is a set: no two slots are equal.

use std::ops::Range;

use super::{Slot, Tree, TreeSlot, count_before};

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

/// The ordinal, and a second number that orders slots with the same ordinal.
impl TreeSlot for (u64, u64) {
    #[inline]
    fn ordinal(self) -> u64 {
        self.0
    }

    #[inline]
    fn with_ordinal(self, ordinal: u64) -> Self {
        (ordinal, self.1)
    }
}

impl<S: TreeSlot + Ord, const LEAF: usize, const FAN: usize> Tree<S, LEAF, FAN> {
    /// Adds a slot that is not in the tree. O(log n).
    #[inline]
    pub(crate) fn add(&mut self, slot: S) {
        self.insert(slot, |slots| match slots.last() {
            // Fast path: most new deadlines are later than all deadlines in the tree.
            Some(last) if *last < slot => slots.len(),
            _ => count_before(slots, |other| other < slot),
        });
    }

    /// Removes a slot that is in the tree. O(log n).
    ///
    /// # Panics
    /// If the tree is empty.
    #[inline]
    pub(crate) fn discard(&mut self, slot: S) {
        let removed = match self.first() == Some(slot) {
            // Fast path: the slot with the next deadline is removed most often.
            true => self.remove_at(0),
            false => self.remove(|slots| count_before(slots, |other| other <= slot)),
        };
        debug_assert_eq!(removed, slot, "the slot is in the tree");
    }

    /// Returns whether a slot is in the tree. O(log n).
    pub(crate) fn contains(&self, slot: S) -> bool {
        let rank = self.rank(|slots| count_before(slots, |other| other < slot));
        self.get(rank) == Some(slot)
    }
}

impl<S: TreeSlot, const LEAF: usize, const FAN: usize> Tree<S, LEAF, FAN> {
    /// Returns the first slot. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Option<S> {
        self.root.nonempty().then(|| self.root.first())
    }

    /// Returns the number of slots with a smaller ordinal. O(log n).
    pub(crate) fn before(&self, ordinal: u64) -> usize {
        self.rank(|slots| count_before(slots, |other| other.ordinal() < ordinal))
    }

    /// Divides `range` evenly into as many parts as `counts` has elements, and adds to each element
    /// the number of slots with an ordinal in its part. Leaves out the first `skipped` slots.
    /// O(log n) for each part with slots, times the logarithm of the number of parts.
    pub(crate) fn spread(&self, range: Range<u64>, skipped: usize, counts: &mut [u64]) {
        let (width, parts) = (
            u128::from(range.end - range.start),
            counts.len().max(1) as u128,
        );
        let edge = |at: usize| range.start + (width * at as u128 / parts) as u64;
        let ranks = self.before(range.start).max(skipped)..self.before(range.end);
        self.spread_parts(&edge, ranks, 0, counts);
    }

    /// Adds the numbers of the slots of these ranks to `counts`. Halves `counts` until a half has
    /// no slots or is one element. `first` is the number of the part that `counts[0]` counts.
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
