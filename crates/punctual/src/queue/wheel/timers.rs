//! The interface between a raw wheel and the owner of its timers.

#[cfg(doc)]
use super::RawWheel;
use super::chunk::Entry;

/// The owner of a [`RawWheel`]'s timers. The wheel reads the timers through this trait, and reports
/// changes of their entries to the owner.
///
/// A method should take a few instructions, because each call of [`RawWheel::next_deadline`] may
/// call it.
pub trait Timers {
    /// Whether [`Timers::sequence`] numbers the armings. If false, the wheel pops timers with equal
    /// deadlines in no particular order.
    const ORDERED: bool = false;

    /// Returns the deadline of the timer `index` in ticks, or `None` if an entry of this
    /// `generation` is dead, which means that it no longer belongs to this timer.
    ///
    /// While the generation stays the same, a deadline may only grow. To re-arm to an earlier tick
    /// (or, if `ORDERED`, to the same tick), give the timer a new generation,
    /// [`insert`](RawWheel::insert) an entry of that generation, and [`forget`](RawWheel::forget)
    /// the old entry.
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

    /// Returns whether an entry of this generation belongs to a timer or is *spare*. A spare entry
    /// has no timer now; the next timer with this index reuses it. Only a [`Wheel`](super::Wheel)
    /// has spare entries.
    #[doc(hidden)]
    fn is_current(&self, index: u32, generation: u32) -> bool {
        self.deadline(index, generation).is_some()
    }

    /// Reports that the wheel files the entry again, under the entry's new deadline. Returns the
    /// entry with the generation that it has from now on.
    #[doc(hidden)]
    fn refiled(&mut self, entry: Entry) -> Entry {
        entry
    }

    /// Reports that the wheel dropped an entry that belongs to no timer. Returns whether the entry
    /// was spare.
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
