//! The interface between a raw wheel and the owner of its timers.

#[cfg(doc)]
use super::RawWheel;

/// The owner of a [`RawWheel`]'s timers, which the wheel queries and notifies.
///
/// An implementation should take a few instructions. The wheel calls it once or twice in a timer's life.
pub trait Timers {
    /// Whether [`Timers::order`] returns the arming order. If false, timers with equal deadlines are popped
    /// in no particular order and the wheel never sorts.
    const ORDERED: bool = false;

    /// Returns the timer's current deadline in ticks, or `None` if an entry of this `generation` is dead,
    /// that is, no longer belongs to the timer `index`.
    ///
    /// Between two calls of the wheel, a deadline may only grow while the generation stays the same. To
    /// re-arm to an earlier tick (or, if `ORDERED`, to the same tick), take a new generation,
    /// [`insert`](RawWheel::insert) it and [`forget`](RawWheel::forget) the old one.
    fn deadline(&self, index: u32, generation: u32) -> Option<u64>;

    /// Hints that the timer will be queried soon.
    fn prefetch(&self, index: u32) {
        let _ = index;
    }

    /// Returns the number of armed timers if the owner keeps *spare* entries, `None` if it does not.
    ///
    /// An owner that keeps spare entries does not forget the entry of a cancelled timer and does not change
    /// its generation: it serves the next timer with that index if that one is due after the tick under which the
    /// entry is filed. The wheel drops a spare entry when its slot comes. There are never more spare entries than
    /// records.
    fn armed(&self) -> Option<usize> {
        None
    }

    /// Returns whether an entry of this generation belongs to its timer or is spare.
    fn stands(&self, index: u32, generation: u32) -> bool {
        self.deadline(index, generation).is_some()
    }

    /// Returns the position of the timer's last arming among all armings, compared modulo 2^32.
    fn order(&self, index: u32) -> u32 {
        let _ = index;
        0
    }

    /// Returns [`Timers::deadline`] and [`Timers::order`] with one access to the timer.
    fn look(&self, index: u32, generation: u32) -> Option<(u64, u32)> {
        let deadline = self.deadline(index, generation)?;
        Some((deadline, self.order(index)))
    }

    /// Reports that the timer's entry is filed under `deadline` now, perhaps because the timer was re-armed later.
    /// Returns the entry's generation from now on.
    fn refiled(&mut self, index: u32, generation: u32, deadline: u64) -> u32 {
        let _ = (index, deadline);
        generation
    }

    /// Reports that the wheel dropped an entry that belongs to no timer. Returns whether it was spare.
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        let _ = (index, generation);
        false
    }
}

/// A due entry that was removed from the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The timer's deadline, in ticks.
    pub deadline: u64,
    /// The timer's index.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

/// The result of a [`RawWheel::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This timer is due, and its entry was removed from the wheel.
    Due(Due),
    /// The budget is used up; more work may be left at this tick.
    Busy,
    /// Nothing is due.
    Idle,
}
