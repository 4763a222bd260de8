//! Decides which timers of a [`Wheel`] need an entry, and files their entries. The [module](super)
//! explains the terms.
//!
//! A new timer needs an entry if it is due before the tick of its record's spare entry. A branch on
//! that tick stalls the processor when it predicts wrong and the record is not in the cache: the
//! processor waits for the record, and then repeats what it has done ahead, such as fetching the
//! next record. So `insert` notes these timers without a branch ([`Undecided`]), and the wheel
//! files their entries in batches.

use super::Wheel;
use super::few::FEW_MAX;
use super::records::Filed;
use crate::queue::TimerKey;
use crate::queue::slab::RecordBody;
use core::mem::take;

/// Maximum number of timers: each needs an index and a sequence of its own.
const TIMERS_MAX: usize = u32::MAX as usize - 1;

/// Maximum number of undecided timers.
const BATCH: usize = 32;

/// Indices of timers that may need an entry, in the order of arming. Some of the timers may have
/// been cancelled or re-armed since.
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

    /// Adds a timer if `condition` is true, without a branch. Returns true if there is no room for
    /// another timer.
    #[inline]
    pub(super) fn push_if(&mut self, condition: bool, index: u32) -> bool {
        self.indices[self.len % BATCH] = index;
        self.len += usize::from(condition);
        self.len == BATCH
    }

    /// Removes all timers and returns their number. [`taken`](Self::taken) returns the timers.
    #[inline]
    pub(super) fn take(&mut self) -> usize {
        take(&mut self.len).min(BATCH)
    }

    /// Returns the timer at position `at` of those that `take` removed.
    #[inline]
    pub(super) fn taken(&self, at: usize) -> u32 {
        self.indices[at]
    }
}

impl<T> Wheel<T> {
    /// Files an entry for the timer `index`. An entry that the record already has becomes dead.
    #[inline(always)]
    fn replace_entry(&mut self, deadline: u64, index: u32, filed: Filed) {
        let to = Filed::at(deadline);
        self.records.set_kept(index, to);
        self.raw.add(to.entry(to.tick(), index));
        if filed != Filed::NO_ENTRY {
            self.raw.forget_among(self.records.len(), &mut self.records);
        }
    }

    /// Files an entry for the timer `index` if the timer is due before its record's entry, but not
    /// before all other timers. Returns true if it filed one. This is the common case of
    /// [`ensure_entry`](Self::ensure_entry).
    #[inline(always)]
    fn file_if_earlier(&mut self, deadline: u64, index: u32, filed: Filed) -> bool {
        let needs_entry = deadline >= self.raw.earliest.first() && deadline < filed.tick();
        if needs_entry {
            self.replace_entry(deadline, index, filed);
        }
        needs_entry
    }

    /// Files an entry for the timer `index`, which may be due before all other timers.
    #[inline(never)]
    pub(super) fn file(&mut self, deadline: u64, index: u32, filed: Filed) {
        if deadline < self.raw.earliest.first() {
            self.raw.update_held(&mut self.records);
        }
        self.replace_entry(deadline, index, filed);
    }

    /// Makes sure that an entry fires the timer of `key` at `deadline`. `filed` is the tick of its
    /// record's entry. Returns the key, so that `insert` ends with a jump and saves no registers.
    #[inline(never)]
    pub(super) fn ensure_entry(&mut self, deadline: u64, key: TimerKey, filed: Filed) -> TimerKey {
        let index = key.index();
        if self.is_few {
            self.note_early(deadline, index);
            return key;
        }
        // Excludes the last tick, `u64::MAX`: its entries are filed under the tick before, so the
        // entries in that slot may be out of order.
        let is_covered = deadline > filed.tick() && deadline != u64::MAX;
        if is_covered || self.file_if_earlier(deadline, index, filed) {
            return key;
        }
        if self.raw.earliest.holds(index) {
            if deadline < filed.tick() {
                let to = Filed::at(deadline);
                self.records.set_kept(index, to);
                self.raw.hold(to.entry(deadline, index));
            }
        } else if filed != Filed::at(deadline) {
            self.file(deadline, index, filed);
        } else if deadline == u64::MAX - 1 {
            // The record's entry may have served a timer due at `u64::MAX`, and the raw wheel may
            // have moved the entry to that tick.
            self.file(deadline - 1, index, filed);
        } else {
            self.raw.mark_unordered(filed.tick());
        }
        key
    }

    /// Re-arms a timer that may need an earlier entry, or a renumbering. Part of `reset` that is
    /// rare.
    #[inline(never)]
    pub(super) fn reset_slowly(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.arming_counter.must_renumber() {
            self.renumber();
        }
        // Undecided timers were armed earlier, so their entries come first. This timer may also be
        // undecided; then it must be filed before its deadline changes.
        self.file_undecided();
        if let Some((timer, filed)) = self.records.get_mut_with_kept(key) {
            timer.sequence = self.arming_counter.next();
            timer.deadline = deadline;
            self.ensure_entry(deadline, key, filed);
        }
        true
    }

    /// Files entries for the undecided timers that still need one. O(1).
    #[inline]
    pub(super) fn file_undecided(&mut self) {
        if !self.undecided.is_empty() {
            self.file_all_undecided(TimerKey::new(0, 0));
        }
    }

    /// Files entries for all undecided timers that still need one. Returns the key, so that
    /// `insert` ends with a jump and saves no registers.
    #[inline(never)]
    pub(super) fn file_all_undecided(&mut self, key: TimerKey) -> TimerKey {
        for at in 0..self.undecided.take() {
            let index = self.undecided.taken(at);
            if let Some((timer, filed)) = self.records.at_with_kept(index) {
                let (deadline, key) = (timer.deadline, timer.key(index));
                if !self.file_if_earlier(deadline, index, filed) {
                    self.ensure_entry(deadline, key, filed);
                }
            }
        }
        key
    }

    /// Inserts into a wheel that must first allocate records or renumber its armings.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_slowly(&mut self, deadline: u64, value: T) -> TimerKey {
        if self.arming_counter.must_renumber() {
            self.renumber();
        }
        if self.is_few && !self.records.reserve(FEW_MAX) {
            self.become_many();
        }
        if self.is_few {
            self.records.set_all_kept(Filed::FEW);
        } else {
            let has_room = self.records.reserve(TIMERS_MAX);
            assert!(has_room, "a wheel holds at most 2^32 - 2 timers");
        }
        self.insert(deadline, value)
    }
}
