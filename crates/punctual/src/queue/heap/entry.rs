//! What stands in a heap, and how it moves.

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

/// A deadline, the order of its arming and the timer's index, in one number: one comparison decides
/// between two timers, and no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::queue) struct Due(u128);

impl Due {
    #[inline]
    pub(in crate::queue) fn new(deadline: u64, order: NonZeroU32, index: u32) -> Self {
        Due(u128::from(deadline) << 64 | u128::from(order.get()) << 32 | u128::from(index))
    }

    #[inline]
    pub(in crate::queue) fn deadline(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl Entry for Due {
    type Held = Due;

    #[inline]
    fn index(&self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn order(&self) -> NonZeroU32 {
        // It was made with an order that is not 0.
        NonZeroU32::new((self.0 >> 32) as u32).unwrap_or(NonZeroU32::MIN)
    }

    fn set_order(&mut self, order: NonZeroU32) {
        *self = Due::new(self.deadline(), order, self.index());
    }

    #[inline]
    fn hold(entries: &[Self], at: usize) -> Due {
        entries[at]
    }

    #[inline]
    fn held<'a>(held: &'a Due, _: &'a [Self], _: usize) -> &'a Due {
        held
    }

    #[inline]
    fn shift(entries: &mut [Self], from: usize, to: usize) {
        entries[to] = entries[from];
    }

    #[inline]
    fn settle(held: Due, entries: &mut [Self], at: usize) {
        entries[at] = held;
    }
}
