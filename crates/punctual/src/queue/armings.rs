//! The order in which timers were armed, which parts timers of equal deadlines.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// The wheel compares orders modulo 2^32, so they are numbered anew before they span half of it.
const LAST: u32 = 1 << 31;

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

    /// Armings that are worn after so many more.
    #[cfg(test)]
    pub(super) const fn left(armings: u32) -> Self {
        match NonZeroU32::new(LAST - armings) {
            Some(next) => Armings { next },
            None => Self::new(),
        }
    }

    /// Whether all timers must be [numbered anew](Self::renumber) before the next arming.
    #[inline]
    pub(super) fn are_worn(&self) -> bool {
        self.next.get() >= LAST
    }

    /// The order of an arming.
    #[inline]
    pub(super) fn next(&mut self) -> NonZeroU32 {
        let order = self.next;
        self.next = order.saturating_add(1);
        order
    }

    /// Numbers anew, from 1 on: takes what is armed, with its order, and gives the new orders. The
    /// sequence stays the same. O(n log n), once in two billion armings.
    ///
    /// Should two billion timers live, orders stay worn, and this is done again and again.
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
