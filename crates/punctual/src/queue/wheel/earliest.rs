//! What is known about the earliest deadline.
//!
//! - `first` is a lower bound of all live deadlines and of the ticks of spare entries, without the
//!   entry that is held. If its timer confirms it, it is the earliest of them.
//! - One entry that is due before all others may be `held`: it is in no slot and not in front. So a
//!   timer that is the first while it lives, and is cancelled before it is due, is never filed, and
//!   the one that was first before is known. The entry stays held when its timer is cancelled or
//!   re-armed, for the record's next timer.
//! - `bound` is the earlier of both. It is what a call reads that finds nothing due.

use super::chunk::Entry;
use super::timers::Timers;

/// The index that stands for no timer. A timer with this index fires as usual, but its deadline is
/// never confirmed.
const NO_TIMER: u32 = u32::MAX;

/// No entry is due that late.
const NEVER: Entry = no_timer_before(u64::MAX);

/// A lower bound of all deadlines that names no timer.
const fn no_timer_before(deadline: u64) -> Entry {
    Entry {
        deadline,
        index: NO_TIMER,
        generation: 0,
    }
}

/// The cache of the earliest deadline.
#[derive(Debug)]
pub(super) struct Earliest {
    bound: u64,
    first: Entry,
    held: Entry,
}

impl Earliest {
    pub(super) const fn new() -> Self {
        Earliest {
            bound: u64::MAX,
            first: NEVER,
            held: NEVER,
        }
    }

    /// Returns a lower bound of all live deadlines.
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// Returns a lower bound of all live deadlines but the held one. A timer armed for a later tick
    /// changes nothing here.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first.deadline
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.held.deadline != u64::MAX
    }

    /// Sets the earliest timer, while no entry is held.
    #[inline]
    pub(super) fn set(&mut self, first: Entry) {
        debug_assert!(!self.is_held());
        self.bound = first.deadline;
        self.first = first;
    }

    /// Sets a lower bound of all deadlines, while no entry is held.
    #[inline]
    pub(super) fn set_bound(&mut self, bound: u64) {
        self.set(no_timer_before(bound));
    }

    /// Holds an entry that is due before `first`, while no other one is held, or the held entry
    /// under an earlier tick.
    #[inline]
    pub(super) fn hold(&mut self, entry: Entry) {
        debug_assert!(!self.is_held() || self.held.index == entry.index);
        debug_assert!(entry.deadline < self.named().deadline);
        self.bound = entry.deadline;
        self.held = entry;
    }

    /// Returns whether an entry of this index is held.
    #[inline]
    pub(super) fn holds(&self, index: u32) -> bool {
        self.is_held() && self.held.index == index
    }

    /// Returns the held entry, which is held no longer; its timer stays the earliest.
    #[inline]
    pub(super) fn release(&mut self) -> Option<Entry> {
        self.release_if(|_| true).inspect(|&held| self.set(held))
    }

    /// Returns the held entry if `condition` holds for it, and holds it no longer.
    #[inline]
    pub(super) fn release_if(&mut self, condition: impl FnOnce(Entry) -> bool) -> Option<Entry> {
        let held = self.held;
        (self.is_held() && condition(held)).then(|| {
            self.held = NEVER;
            self.bound = self.first.deadline;
            held
        })
    }

    /// Returns the entry that may be the first one.
    #[inline]
    pub(super) fn named(&self) -> Entry {
        if self.is_held() {
            self.held
        } else {
            self.first
        }
    }

    /// Returns the earliest deadline if its timer confirms it.
    #[inline]
    pub(super) fn known(&self, timers: &impl Timers) -> Option<u64> {
        // The timer of the held entry may have been re-armed later.
        if self.is_held()
            && let Some(deadline) = timers.deadline(self.held.index, self.held.generation)
            && deadline <= self.first.deadline
        {
            return Some(deadline);
        }
        let Entry {
            deadline,
            index,
            generation,
        } = self.first;
        let is_known = index != NO_TIMER && timers.deadline(index, generation) == Some(deadline);
        is_known.then_some(deadline)
    }
}
