//! Numbers the armings of timers. The number of a timer's last arming is its *sequence*: of timers
//! with equal deadlines, the timer with the lower sequence fires first.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// When the counter reaches this sequence, the queue renumbers all timers. So no timer gets it.
const SEQUENCE_LIMIT: NonZeroU32 = NonZeroU32::MAX;

/// An arming: deadline, sequence and the timer's index, from the upper to the lower bits of one
/// number. One comparison orders two armings, and no two armings are equal. (The processor stalls
/// when a struct is written field by field and then read as a whole.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arming(u128);

impl Arming {
    #[inline]
    pub(super) fn new(deadline: u64, sequence: NonZeroU32, index: u32) -> Self {
        let low = u64::from(sequence.get()) << 32 | u64::from(index);
        Arming(u128::from(deadline) << 64 | u128::from(low))
    }

    #[inline]
    pub(super) fn deadline(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Returns the sequence in the upper half and the index in the lower half.
    #[inline]
    pub(super) fn sequence_and_index(self) -> u64 {
        self.0 as u64
    }

    #[inline]
    pub(super) fn sequence(self) -> NonZeroU32 {
        // `new` never stores 0.
        NonZeroU32::new((self.sequence_and_index() >> 32) as u32).unwrap_or(NonZeroU32::MIN)
    }

    #[inline]
    pub(super) fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns the same arming with another sequence.
    #[inline]
    pub(super) fn renumbered(self, sequence: NonZeroU32) -> Self {
        Arming::new(self.deadline(), sequence, self.index())
    }
}

/// The counter that numbers the armings of one queue, starting at 1.
#[derive(Debug)]
pub(super) struct ArmingCounter {
    next: NonZeroU32,
}

impl ArmingCounter {
    pub(super) const fn new() -> Self {
        ArmingCounter {
            next: NonZeroU32::MIN,
        }
    }

    /// Returns a counter that needs renumbering after this many more armings.
    #[cfg(test)]
    pub(super) const fn with_remaining(armings: u32) -> Self {
        match NonZeroU32::new(SEQUENCE_LIMIT.get() - armings) {
            Some(next) => ArmingCounter { next },
            None => Self::new(),
        }
    }

    /// Returns whether all timers must be [renumbered](Self::renumber) before the next arming.
    #[inline]
    pub(super) fn must_renumber(&self) -> bool {
        self.next == SEQUENCE_LIMIT
    }

    /// Returns the sequence of a new arming.
    #[inline]
    pub(super) fn next(&mut self) -> NonZeroU32 {
        let sequence = self.next;
        self.next = sequence.saturating_add(1);
        sequence
    }

    /// Restarts the counter at 1. Takes all timers with their sequences and returns them with new
    /// sequences, in the same order. O(n log n), once in four billion armings.
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
