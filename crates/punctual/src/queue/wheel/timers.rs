//! What a raw wheel and the owner of its timers say to each other.

#[cfg(doc)]
use super::RawWheel;

use super::Place;

/// What a [`RawWheel`] asks and tells the owner of the timers.
///
/// An implementation should be a few instructions: it is asked once or twice in a timer's life.
pub trait Timers {
    /// Whether [`Timers::order`] tells the arming order. If not, equal deadlines are popped in no
    /// particular order and the wheel never sorts.
    const ORDERED: bool = false;

    /// The deadline the timer `index` has now, in ticks, if an entry of this `generation` still
    /// stands for it; `None` if that entry is dead.
    ///
    /// Between two calls that reach the wheel, a deadline may only grow while the generation stays
    /// the same. To re-arm earlier (or, when `ORDERED`, to the same tick), take a new generation,
    /// [`insert`](RawWheel::insert) it and [`forget`](RawWheel::forget) the old one.
    fn deadline(&self, index: u32, generation: u32) -> Option<u64>;

    /// The timer is going to be asked for soon, after some others: a hint.
    fn prefetch(&self, index: u32) {
        let _ = index;
    }

    /// How many timers are armed, if the owner may leave a timer's entry spare: when the timer is
    /// gone, it neither forgets the entry nor changes its generation, so that the next timer of the
    /// index may [take it over](RawWheel::reuse). Spare entries go when their time comes; there are
    /// never more than the owner has records.
    fn armed(&self) -> Option<usize> {
        None
    }

    /// Whether an entry of this generation stands for its timer or is spare.
    fn stands(&self, index: u32, generation: u32) -> bool {
        self.deadline(index, generation).is_some()
    }

    /// The place of the timer's last arming among all armings; compared modulo 2^32.
    fn order(&self, index: u32) -> u32 {
        let _ = index;
        0
    }

    /// [`Timers::deadline`] and [`Timers::order`] in one look.
    fn look(&self, index: u32, generation: u32) -> Option<(u64, u32)> {
        let deadline = self.deadline(index, generation)?;
        Some((deadline, self.order(index)))
    }

    /// The timer's entry, which stands, lies elsewhere now. (Only those need to know who want to
    /// [`reuse`](RawWheel::reuse) it.)
    fn moved(&mut self, index: u32, generation: u32, place: Place) {
        let _ = (index, generation, place);
    }

    /// An entry that does not stand for a timer is out of the wheel; tells whether it was spare.
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        let _ = (index, generation);
        false
    }
}

/// An entry that fell due, taken out of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The timer's deadline, in ticks.
    pub deadline: u64,
    /// The timer's index.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

/// What a [`RawWheel::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This timer is due and its entry is out of the wheel.
    Due(Due),
    /// The budget is used up; there may be more to do now.
    Busy,
    /// Nothing is due.
    Idle,
}
