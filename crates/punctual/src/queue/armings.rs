//! The order in which timers were armed, which orders timers with equal deadlines.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// All timers are renumbered before an order would be this one: orders are compared as numbers.
const LAST: NonZeroU32 = NonZeroU32::MAX;

/// An arming: deadline, order and the timer's index, in one number. One comparison orders two
/// armings, and no two are equal. (A struct would be written field by field and copied as a whole,
/// which stalls a processor that has just written it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arming(u128);

impl Arming {
    #[inline]
    pub(super) fn new(deadline: u64, order: NonZeroU32, index: u32) -> Self {
        let low = u64::from(order.get()) << 32 | u64::from(index);
        Arming(u128::from(deadline) << 64 | u128::from(low))
    }

    #[inline]
    pub(super) fn deadline(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Returns the order and the index.
    #[inline]
    pub(super) fn order_and_index(self) -> u64 {
        self.0 as u64
    }

    #[inline]
    pub(super) fn order(self) -> NonZeroU32 {
        // `new` stores an order that is not 0.
        NonZeroU32::new((self.order_and_index() >> 32) as u32).unwrap_or(NonZeroU32::MIN)
    }

    #[inline]
    pub(super) fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns the same arming with another order.
    #[inline]
    pub(super) fn renumbered(self, order: NonZeroU32) -> Self {
        Arming::new(self.deadline(), order, self.index())
    }
}

/// Numbers armings from 1 on.
#[derive(Debug)]
pub(super) struct Armings {
    next: NonZeroU32,
}

impl Armings {
    pub(super) const fn new() -> Self {
        Armings {
            next: NonZeroU32::MIN,
        }
    }

    /// Returns a counter that needs renumbering after this many more armings.
    #[cfg(test)]
    pub(super) const fn with_remaining(armings: u32) -> Self {
        match NonZeroU32::new(LAST.get() - armings) {
            Some(next) => Armings { next },
            None => Self::new(),
        }
    }

    /// Returns whether all timers must be [renumbered](Self::renumber) before the next arming.
    #[inline]
    pub(super) fn must_renumber(&self) -> bool {
        self.next == LAST
    }

    /// Returns the order of a new arming.
    #[inline]
    pub(super) fn next(&mut self) -> NonZeroU32 {
        let order = self.next;
        self.next = order.saturating_add(1);
        order
    }

    /// Renumbers from 1 on: takes all timers with their orders and returns them with their new
    /// orders, in the same sequence. O(n log n), once in four billion armings.
    #[cold]
    pub(super) fn renumber<I: Ord>(
        &mut self,
        mut armed: Vec<(NonZeroU32, I)>,
    ) -> impl Iterator<Item = (NonZeroU32, I)> {
        armed.sort_unstable();
        self.next = NonZeroU32::MIN;
        armed.into_iter().map(|(_, timer)| (self.next(), timer))
    }
}
