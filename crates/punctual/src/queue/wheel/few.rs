//! A wheel of few timers, which has no entries at all.
//!
//! The first timer to fire is found by a look at all records in use, at most [`FEW_MAX`]. That is
//! faster than filing an entry and finding it again, and an insert, a cancel or a re-arm does what
//! it does in a wheel of many timers: for a record that keeps [`Filed::FEW`] no deadline needs an
//! entry. The earliest one is noted.
//!
//! - The raw wheel's cache of the earliest deadline names timers here too, with the generation of
//!   `Filed::FEW`. Every timer that is armed for its tick or earlier passes
//!   [`note_early`](Wheel::note_early).
//! - The wheel has few timers until all [`FEW_MAX`] records are in use. Then it files an entry for
//!   each.
//! - It has few again when a call finds it empty, or when the last of more than a thousand timers
//!   is gone.

use super::Wheel;
use super::chunk::Entry;
use super::earliest::Earliest;
use super::filing::Undecided;
use super::records::Filed;
use crate::queue::Expired;
use crate::queue::armings::Arming;
use crate::queue::slab::Tenant;
use alloc::vec::Vec;

/// Number of records that are looked at.
pub(super) const FEW_MAX: usize = 32;

impl<T> Wheel<T> {
    /// Files an entry for each timer, while the raw wheel has no entries. O(n log n).
    #[cold]
    pub(super) fn become_many(&mut self) {
        let mut armed: Vec<Arming> = self.records.armings().collect();
        armed.sort_unstable();
        self.records.all_keep(Filed::NOT);
        self.raw.earliest = Earliest::new();
        self.undecided = Undecided::new();
        self.is_few = false;
        for arming in armed {
            self.file(arming.deadline(), arming.index(), Filed::NOT);
        }
    }

    /// Drops the entries of a wheel without timers. Their memory and that of the records is freed
    /// in pieces. O(1).
    #[cold]
    pub(super) fn become_few(&mut self) {
        self.records.restart();
        self.raw.clear_lazily();
        self.undecided = Undecided::new();
        self.is_few = true;
    }

    /// Notes a timer that was armed for the tick of the first one or earlier, or for the last tick.
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
        } else if deadline == earliest.first() && index == earliest.named().index {
            // Another timer may have been armed for this tick before it.
            earliest.set_bound(deadline);
        }
    }

    /// Returns the earliest deadline, which is not known.
    #[inline(never)]
    pub(super) fn find_first(&mut self) -> Option<u64> {
        if self.is_few {
            self.raw.earliest.release();
            self.look();
            return (!self.is_empty()).then_some(self.raw.earliest.bound());
        }
        self.decide();
        self.raw.find_first(&mut self.records)
    }

    /// Finds the first timer, while no entry is held. O(FEW_MAX).
    #[inline]
    fn look(&mut self) {
        let earliest = &mut self.raw.earliest;
        match self.records.armings().min() {
            Some(first) => earliest.set(Filed::FEW.entry(first.deadline(), first.index())),
            None => earliest.set_bound(u64::MAX),
        }
    }

    /// Returns the first timer, which is not held any more. O(FEW_MAX).
    #[inline]
    pub(super) fn named_few(&mut self) -> Entry {
        self.raw.earliest.release();
        if self.raw.earliest.known(&self.records).is_none() {
            self.look();
        }
        self.raw.earliest.named()
    }

    /// Pops the first timer if it is due. O(FEW_MAX).
    #[inline(never)]
    pub(super) fn pop_few(&mut self, now: u64) -> Option<Expired<T>> {
        let first = self.named_few();
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
