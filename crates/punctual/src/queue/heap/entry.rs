//! What stands in a heap, and how it moves.

use crate::queue::armings::Arming;
use core::num::NonZeroU32;

/// An entry of a heap.
///
/// While its place is sought, an entry is held and other entries are shifted into the place that it
/// left, so that a level costs one assignment. Safe code can only do so with entries that can be
/// copied; the others trade places with the held one.
pub(in crate::queue) trait Entry: Ord + Sized {
    /// The entry whose place is sought.
    type Held;

    /// The timer it stands for.
    fn index(&self) -> u32;

    /// The order of its arming.
    fn order(&self) -> NonZeroU32;

    /// The same entry, its arming numbered anew.
    fn set_order(&mut self, order: NonZeroU32);

    /// Holds the entry at `at`.
    fn hold(entries: &[Self], at: usize) -> Self::Held;

    /// The held entry, whose place is `at`.
    fn held<'a>(held: &'a Self::Held, entries: &'a [Self], at: usize) -> &'a Self;

    /// Shifts an entry into the held one's place, whose new place is `from`.
    fn shift(entries: &mut [Self], from: usize, to: usize);

    /// Lets the held entry go at its place.
    fn settle(held: Self::Held, entries: &mut [Self], at: usize);
}

impl Entry for Arming {
    type Held = Arming;

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
