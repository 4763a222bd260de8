//! Which timers need an entry, and filing their entries.
//!
//! Whether a new timer needs an entry depends on its record, which a cancel has often just fetched
//! from memory. A processor guesses the answer; when it guesses wrong, it has to wait for the
//! record and then start again with everything that follows, such as fetching the next record. So a
//! wheel notes these timers without a branch ([`Undecided`]), and files their entries together when
//! the records have arrived.

use super::Wheel;
use super::few::FEW_MAX;
use super::records::Filed;
use crate::queue::TimerKey;
use crate::queue::slab::Tenant;
use core::mem::take;

/// Largest number of timers: each needs an index and an order of arming.
const TIMERS_MAX: usize = u32::MAX as usize - 1;

/// Number of timers that are filed together.
const BATCH: usize = 32;

/// Indices of timers, in the order of arming. Some of the timers may have been cancelled or
/// re-armed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undecided {
    indices: [u32; BATCH],
    len: usize,
}

impl Undecided {
    pub(super) const fn new() -> Self {
        Undecided {
            indices: [0; BATCH],
            len: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer if `condition` holds for it, without a branch on it. Returns whether there is
    /// no room for another.
    #[inline]
    pub(super) fn push_if(&mut self, condition: bool, index: u32) -> bool {
        self.indices[self.len % BATCH] = index;
        self.len += usize::from(condition);
        self.len == BATCH
    }

    /// Removes all timers. Returns their number.
    #[inline]
    pub(super) fn take(&mut self) -> usize {
        take(&mut self.len).min(BATCH)
    }

    /// Returns one of the timers that `take` removed.
    #[inline]
    pub(super) fn taken(&self, at: usize) -> u32 {
        self.indices[at]
    }
}

impl<T> Wheel<T> {
    /// Files an entry for the timer `index`, instead of the one that its record has.
    #[inline(always)]
    fn file_instead(&mut self, deadline: u64, index: u32, filed: Filed) {
        let to = Filed::at(deadline);
        self.records.keep(index, to);
        self.raw.add(to.entry(to.tick(), index));
        if filed != Filed::NOT {
            self.raw.forget_among(self.records.len(), &mut self.records);
        }
    }

    /// Files an entry for the timer `index` if it is not due before all others, but before the
    /// entry of its record. Returns whether it did. The common case of
    /// [`place_early`](Self::place_early).
    #[inline(always)]
    fn file_later(&mut self, deadline: u64, index: u32, filed: Filed) -> bool {
        let is_later = deadline >= self.raw.earliest.first() && deadline < filed.tick();
        if is_later {
            self.file_instead(deadline, index, filed);
        }
        is_later
    }

    /// Files an entry for the timer `index`, which may be due before all others.
    #[inline(never)]
    pub(super) fn file(&mut self, deadline: u64, index: u32, filed: Filed) {
        if deadline < self.raw.earliest.first() {
            self.raw.settle_held(&mut self.records);
        }
        self.file_instead(deadline, index, filed);
    }

    /// Has the timer of `key` fire at `deadline`, given the tick under which an entry of its record
    /// is filed. Returns the key, so that `insert` ends with a jump and saves no registers.
    #[inline(never)]
    pub(super) fn place_early(&mut self, deadline: u64, key: TimerKey, filed: Filed) -> TimerKey {
        let index = key.index();
        if self.is_few {
            self.note_early(deadline, index);
            return key;
        }
        // Not at the last tick: an entry of the tick before may lie there too, out of order.
        let is_covered = deadline > filed.tick() && deadline != u64::MAX;
        if is_covered || self.file_later(deadline, index, filed) {
            return key;
        }
        if self.raw.earliest.holds(index) {
            if deadline < filed.tick() {
                let to = Filed::at(deadline);
                self.records.keep(index, to);
                self.raw.hold(to.entry(deadline, index));
            }
        } else if filed != Filed::at(deadline) {
            self.file(deadline, index, filed);
        } else if deadline == u64::MAX - 1 {
            // The entry may serve `u64::MAX`, and be filed there by now.
            self.file(deadline - 1, index, filed);
        } else {
            self.raw.mark_unordered(filed.tick());
        }
        key
    }

    /// Re-arms a timer whose entry may be found too late.
    #[inline(never)]
    pub(super) fn reset_early(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.armings.must_renumber() {
            self.renumber();
        }
        // In the sequence of arming, and while this timer still has the deadline that its entry
        // has.
        self.decide();
        if let Some((timer, filed)) = self.records.get_kept_mut(key) {
            timer.sequence = self.armings.next();
            timer.deadline = deadline;
            self.place_early(deadline, key, filed);
        }
        true
    }

    /// Files entries for the undecided timers that still need one. O(1).
    #[inline]
    pub(super) fn decide(&mut self) {
        if !self.undecided.is_empty() {
            self.decide_all(TimerKey::new(0, 0));
        }
    }

    /// Returns the key, as the other outlined parts of `insert` do: `insert` ends with a jump and
    /// saves no registers.
    #[inline(never)]
    pub(super) fn decide_all(&mut self, key: TimerKey) -> TimerKey {
        for at in 0..self.undecided.take() {
            let index = self.undecided.taken(at);
            if let Some((timer, filed)) = self.records.kept_at(index) {
                let (deadline, key) = (timer.deadline, timer.key(index));
                if !self.file_later(deadline, index, filed) {
                    self.place_early(deadline, key, filed);
                }
            }
        }
        key
    }

    /// Inserts into a wheel that needs room or has run out of armings.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_slowly(&mut self, deadline: u64, value: T) -> TimerKey {
        if self.armings.must_renumber() {
            self.renumber();
        }
        if self.is_few && !self.records.reserve(FEW_MAX) {
            self.become_many();
        }
        if self.is_few {
            self.records.all_keep(Filed::FEW);
        } else {
            let has_room = self.records.reserve(TIMERS_MAX);
            assert!(has_room, "a wheel holds at most 2^32 - 2 timers");
        }
        self.insert(deadline, value)
    }
}
