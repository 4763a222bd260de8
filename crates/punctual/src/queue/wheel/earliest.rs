//! The cache of the earliest deadline. The [module](super) explains the terms. The cache has three
//! fields:
//!
//! - `first` is an entry whose deadline is a lower bound of the deadlines of all live timers and of
//!   the ticks of all spare entries, except the held entry's. If the timer of `first` still has
//!   that deadline, it is the earliest timer.
//! - `held` is an entry that is due before all others and is in no slot and not in the front, if
//!   there is such an entry. So a timer that is armed as the earliest and cancelled soon is never
//!   filed, and `first` still has the next deadline after the cancel. The entry stays held when its
//!   timer is cancelled or re-armed, so that the record's next timer can reuse it.
//! - `bound` is the earlier of the two deadlines. A call that finds nothing due reads only `bound`.

use super::chunk::Entry;
use super::timers::Timers;

/// Index of an entry that belongs to no timer. A timer with this index fires as usual, but `known`
/// never returns its deadline.
const NO_TIMER: u32 = u32::MAX;

/// An entry that is never due: the bound of an empty wheel, and `held` when no entry is held.
const NEVER: Entry = no_timer_before(u64::MAX);

/// Returns an entry that holds only a lower bound of all deadlines, without a timer.
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

    /// Returns a lower bound of all live deadlines except the held entry's. Arming a timer for a
    /// later tick does not change the cache.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first.deadline
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.held.deadline != u64::MAX
    }

    /// Caches the earliest timer's entry. No entry may be held.
    #[inline]
    pub(super) fn set(&mut self, first: Entry) {
        debug_assert!(!self.is_held());
        self.bound = first.deadline;
        self.first = first;
    }

    /// Caches a lower bound of all deadlines, without a timer. No entry may be held.
    #[inline]
    pub(super) fn set_bound(&mut self, bound: u64) {
        self.set(no_timer_before(bound));
    }

    /// Holds an entry that is due before `first`. No other entry may be held; the held entry itself
    /// may move to an earlier tick.
    #[inline]
    pub(super) fn hold(&mut self, entry: Entry) {
        debug_assert!(!self.is_held() || self.held.index == entry.index);
        debug_assert!(entry.deadline < self.candidate().deadline);
        self.bound = entry.deadline;
        self.held = entry;
    }

    /// Returns whether an entry of this index is held.
    #[inline]
    pub(super) fn holds(&self, index: u32) -> bool {
        self.is_held() && self.held.index == index
    }

    /// Stops holding the held entry and returns it. Its timer stays the earliest.
    #[inline]
    pub(super) fn release(&mut self) -> Option<Entry> {
        self.release_if(|_| true).inspect(|&held| self.set(held))
    }

    /// Stops holding the held entry and returns it, if `condition` is true for it.
    #[inline]
    pub(super) fn release_if(&mut self, condition: impl FnOnce(Entry) -> bool) -> Option<Entry> {
        let held = self.held;
        (self.is_held() && condition(held)).then(|| {
            self.held = NEVER;
            self.bound = self.first.deadline;
            held
        })
    }

    /// Returns the entry with the earliest known deadline: the held entry, or `first`.
    #[inline]
    pub(super) fn candidate(&self) -> Entry {
        if self.is_held() {
            self.held
        } else {
            self.first
        }
    }

    /// Returns the earliest deadline if a timer has it now. Returns `None` if the cache has only a
    /// lower bound.
    #[inline]
    pub(super) fn known(&self, timers: &impl Timers) -> Option<u64> {
        // The held entry's timer may have been re-armed to a later tick.
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
