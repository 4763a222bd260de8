//! The entries of a heap, and the operations that move them while one entry is sifted.

use crate::queue::armings::Arming;
use core::num::NonZeroU32;

/// An entry of a heap.
pub trait Entry {
    /// Returns the index of the entry's timer.
    fn index(&self) -> u32;

    /// Returns the sequence of its timer's last arming.
    fn sequence(&self) -> NonZeroU32;

    /// Sets the sequence of the arming, after a renumbering.
    fn set_sequence(&mut self, sequence: NonZeroU32);
}

/// An entry whose comparisons cannot fail, unlike the entries of the bindings' heaps (`placed`).
///
/// To sift an entry that is `Copy`, the heap holds a copy of the entry and shifts other entries
/// into the gap, with one assignment per level. Safe code cannot leave a gap among entries that are
/// not `Copy`; such an entry swaps places with the other entry on each level.
pub trait Sifted: Entry + Ord + Sized {
    /// A copy of the entry that is being sifted, or `()` if the entry stays in the slice.
    type Held;

    /// Begins to sift the entry at `at`.
    fn hold(entries: &[Self], at: usize) -> Self::Held;

    /// Returns the sifted entry, whose position is `at` now.
    fn held<'a>(held: &'a Self::Held, entries: &'a [Self], at: usize) -> &'a Self;

    /// Moves the entry at `from` to the position `to` of the sifted entry.
    fn shift(entries: &mut [Self], from: usize, to: usize);

    /// Puts the sifted entry at its final position `at`.
    fn settle(held: Self::Held, entries: &mut [Self], at: usize);
}

impl Entry for Arming {
    #[inline]
    fn index(&self) -> u32 {
        Arming::index(*self)
    }

    #[inline]
    fn sequence(&self) -> NonZeroU32 {
        Arming::sequence(*self)
    }

    fn set_sequence(&mut self, sequence: NonZeroU32) {
        *self = self.renumbered(sequence);
    }
}

impl Sifted for Arming {
    type Held = Arming;

    #[inline]
    fn hold(entries: &[Self], at: usize) -> Arming {
        entries[at]
    }

    #[inline]
    fn held<'a>(held: &'a Arming, _: &'a [Self], _: usize) -> &'a Arming {
        held
    }

    #[inline]
    fn shift(entries: &mut [Self], from: usize, to: usize) {
        entries[to] = entries[from];
    }

    #[inline]
    fn settle(held: Arming, entries: &mut [Self], at: usize) {
        entries[at] = held;
    }
}
