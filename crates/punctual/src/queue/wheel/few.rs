//! A [`Wheel`] of few timers, which has no entries. The [module](super) explains the terms.
//!
//! To find the first timer, the wheel scans the records in use, at most [`FEW_MAX`]. That is faster
//! than filing an entry and finding it again. An insert, a cancel or a re-arm runs the same code as
//! in a wheel of many timers: a record with [`Filed::FEW`] never needs an entry. The wheel caches
//! the earliest timer.
//!
//! - The cache is the raw wheel's [`Earliest`]. Its entries have the generation of `Filed::FEW`.
//!   [`note_early`](Wheel::note_early) updates it when a timer is armed for the cached tick or an
//!   earlier tick. As in a large wheel, the cache has two entries: `first`, and `held` for a timer
//!   that is due before `first`.
//! - When all [`FEW_MAX`] records are in use and another timer comes, the wheel files an entry for
//!   each timer.
//! - The wheel returns to this state when a pop finds it empty, or when the last timer is removed
//!   after the wheel has used more than 1,024 records.

use super::Wheel;
use super::chunk::Entry;
use super::earliest::Earliest;
use super::filing::Undecided;
use super::records::Filed;
use crate::queue::Expired;
use crate::queue::armings::Arming;
use crate::queue::slab::RecordBody;
use alloc::vec::Vec;

/// Maximum number of records that a wheel of few timers scans.
pub(super) const FEW_MAX: usize = 32;

impl<T> Wheel<T> {
    /// Files an entry for each timer. The raw wheel must have no entries. O(n log n).
    #[cold]
    pub(super) fn become_many(&mut self) {
        let mut armed: Vec<Arming> = self.records.armings().collect();
        armed.sort_unstable();
        self.records.set_all_kept(Filed::NO_ENTRY);
        self.raw.earliest = Earliest::new();
        self.undecided = Undecided::new();
        self.is_few = false;
        for arming in armed {
            self.file(arming.deadline(), arming.index(), Filed::NO_ENTRY);
        }
    }

    /// Drops the entries of a wheel without timers. Later calls free the memory of the entries and
    /// of the records in pieces. O(1).
    #[cold]
    pub(super) fn become_few(&mut self) {
        self.records.restart();
        self.raw.clear_lazily();
        self.undecided = Undecided::new();
        self.is_few = true;
    }

    /// Updates the cache for a timer that was armed for the tick of the first timer or earlier, or
    /// for `u64::MAX`.
    #[inline]
    pub(super) fn note_early(&mut self, deadline: u64, index: u32) {
        let earliest = &mut self.raw.earliest;
        let entry = Filed::FEW.entry(deadline, index);
        if earliest.holds(index) {
            if deadline < earliest.bound() {
                earliest.hold(entry);
            }
            return;
        }
        let records = &self.records;
        earliest.release_if(|held| records.at(held.index).is_none());
        earliest.release();
        if deadline < earliest.first() {
            earliest.hold(entry);
        } else if deadline == earliest.first() && index == earliest.candidate().index {
            // The record of the cached timer was armed again for the same tick, so another timer
            // with this deadline may now be the first.
            earliest.set_bound(deadline);
        }
    }

    /// Returns the earliest deadline when the cache does not have it.
    #[inline(never)]
    pub(super) fn find_first(&mut self) -> Option<u64> {
        if self.is_few {
            self.raw.earliest.release();
            self.scan();
            return (!self.is_empty()).then_some(self.raw.earliest.bound());
        }
        self.file_undecided();
        self.raw.find_first(&mut self.records)
    }

    /// Scans all timers for the timer that fires first, and caches it as `first`. `held` must be
    /// empty. O(FEW_MAX).
    #[inline]
    fn scan(&mut self) {
        let earliest = &mut self.raw.earliest;
        match self.records.armings().min() {
            Some(first) => earliest.set(Filed::FEW.entry(first.deadline(), first.index())),
            None => earliest.set_bound(u64::MAX),
        }
    }

    /// Returns an entry with the first timer's index and deadline, or with the deadline `u64::MAX`
    /// if the wheel is empty. `held` is empty afterwards. O(FEW_MAX).
    #[inline]
    pub(super) fn first_of_few(&mut self) -> Entry {
        self.raw.earliest.release();
        if self.raw.earliest.known(&self.records).is_none() {
            self.scan();
        }
        self.raw.earliest.candidate()
    }

    /// Pops the first timer if it is due. O(FEW_MAX).
    #[inline(never)]
    pub(super) fn pop_few(&mut self, now: u64) -> Option<Expired<T>> {
        let first = self.first_of_few();
        if first.deadline > now || self.is_empty() {
            self.free_piece_if_any();
            return None;
        }
        let timer = self.records.take(first.index)?;
        self.raw.earliest.set_bound(if self.is_empty() {
            u64::MAX
        } else {
            first.deadline
        });
        Some(Expired {
            key: timer.key(first.index),
            deadline: first.deadline,
            value: timer.value,
        })
    }
}
