//! The entries of a heap, and how they are sifted.

use crate::queue::armings::Arming;
use core::num::NonZeroU32;

/// An entry of a heap.
pub trait Entry {
    /// Returns the index of the entry's timer.
    fn index(&self) -> u32;

    /// Returns the order of its arming.
    fn order(&self) -> NonZeroU32;

    /// Sets the order of its arming, after a renumbering.
    fn set_order(&mut self, order: NonZeroU32);
}

/// An entry whose comparisons cannot fail.
///
/// While an entry is sifted, it is held and other entries are shifted into the gap, so that a level
/// costs one assignment. Safe code can do that only with entries that are `Copy`; other entries
/// swap places with the held one.
pub trait Sifted: Entry + Ord + Sized {
    /// The entry that is being sifted.
    type Held;

    /// Holds the entry at `at`.
    fn hold(entries: &[Self], at: usize) -> Self::Held;

    /// Returns the held entry, whose position is `at`.
    fn held<'a>(held: &'a Self::Held, entries: &'a [Self], at: usize) -> &'a Self;

    /// Shifts an entry from `from` to the held one's position `to`.
    fn shift(entries: &mut [Self], from: usize, to: usize);

    /// Puts the held entry at its final position.
    fn settle(held: Self::Held, entries: &mut [Self], at: usize);
}

impl Entry for Arming {
    #[inline]
    fn index(&self) -> u32 {
        Arming::index(*self)
    }

    #[inline]
    fn order(&self) -> NonZeroU32 {
        Arming::order(*self)
    }

    fn set_order(&mut self, order: NonZeroU32) {
        *self = self.renumbered(order);
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
