//! The interface between a raw wheel and the owner of its timers.

#[cfg(doc)]
use super::RawWheel;
use super::chunk::Entry;

/// The owner of a [`RawWheel`]'s timers, which the wheel queries and notifies.
///
/// An implementation should take a few instructions. The wheel calls it once or twice in a timer's
/// life.
pub trait Timers {
    /// Whether [`Timers::sequence`] returns the sequence of armings. If false, timers with equal
    /// deadlines are popped in no particular order and the wheel never sorts them.
    const ORDERED: bool = false;

    /// Returns the timer's current deadline in ticks, or `None` if an entry of this `generation` is
    /// dead, that is, no longer belongs to the timer `index`.
    ///
    /// Between two calls of the wheel, a deadline may only grow while the generation stays the
    /// same. To re-arm to an earlier tick (or, if `ORDERED`, to the same tick), take a new
    /// generation,
    /// [`insert`](RawWheel::insert) it and [`forget`](RawWheel::forget) the old one.
    fn deadline(&self, index: u32, generation: u32) -> Option<u64>;

    /// Hints that the timer will be queried soon.
    fn prefetch(&self, index: u32) {
        let _ = index;
    }

    /// Returns the number of the timer's last arming. A later arming has a larger number.
    fn sequence(&self, index: u32) -> u32 {
        let _ = index;
        0
    }

    /// Returns whether an entry of this generation belongs to its timer or is spare: without a
    /// timer, and kept for the next timer with this index. Only a [`Wheel`](super::Wheel) has spare
    /// entries.
    #[doc(hidden)]
    fn stands(&self, index: u32, generation: u32) -> bool {
        self.deadline(index, generation).is_some()
    }

    /// Reports that the timer's entry is filed under this deadline now. Returns it with its
    /// generation from now on.
    #[doc(hidden)]
    fn refiled(&mut self, entry: Entry) -> Entry {
        entry
    }

    /// Reports that the wheel dropped an entry that belongs to no timer. Returns whether it was
    /// spare.
    #[doc(hidden)]
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        let _ = (index, generation);
        false
    }
}

/// The result of a [`RawWheel::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This timer is due, and its entry was removed from the wheel.
    Due(Entry),
    /// The budget is used up; more work may be left at this tick.
    Busy,
    /// Nothing is due.
    Idle,
}
