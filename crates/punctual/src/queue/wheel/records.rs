//! The timers of a [`Wheel`](super::Wheel). The [module](super) explains the terms.
//!
//! A record holds a timer and, as [`Filed`], the tick under which the record's entry is filed.
//!
//! - A cancel leaves the entry in place; the entry is then *spare*. The record's next timer reuses
//!   the entry, unless that timer is due before the entry's tick. So a program that arms and
//!   cancels timeouts touches only their records.
//! - An entry carries a hash of its tick as its generation. So the entry is dead as soon as its
//!   record has an entry under another tick.
//!
//! A wheel of few timers has no entries (see `few`): all of its records hold [`Filed::FEW`].
//!
//! A dead entry becomes valid again when its record files another entry under the same tick. Then
//! the timer has two entries, and the earlier one fires the timer. The timer may thus fire too
//! early among equal deadlines, so the wheel marks the slots of new entries unordered while it has
//! dead entries.
//!
//! Rarely, two ticks have the same hash, and a dead entry seems valid. If the wheel finds this
//! entry before its timer is due, it files the entry again under the timer's deadline.

use super::chunk::Entry;
use super::timers::Timers;
use crate::queue::armings::{Arming, ArmingCounter};
use crate::queue::slab::{RecordBody, Slab};
use core::num::NonZeroU32;

/// A live timer. Its sequence is never 0, so a free record can have 0 in the same place.
///
/// The fields that a cancel accesses come first, so that they are in one cache line. Allocators
/// align memory to 16 bytes, so half of the records span two cache lines.
#[derive(Debug)]
#[repr(C)]
pub(in crate::queue) struct Timer<T> {
    pub(in crate::queue) generation: u32,
    pub(in crate::queue) sequence: NonZeroU32,
    pub(in crate::queue) value: T,
    pub(in crate::queue) deadline: u64,
}

const _: () = assert!(Slab::<Timer<u64>>::RECORD == 32);

/// The tick under which a record's entry is filed, or one of the two special values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::queue) struct Filed(u64);

impl Filed {
    /// The record has no entry. Every deadline except `u64::MAX` compares as due before it, so the
    /// timer needs a new entry.
    pub(super) const NO_ENTRY: Filed = Filed(u64::MAX);

    /// The record needs no entry, because the wheel scans all timers. No deadline is before it.
    pub(super) const FEW: Filed = Filed(0);

    /// Returns the tick under which an entry for `deadline` is filed: the deadline itself, or one
    /// tick less for `u64::MAX`, which stands for [`Filed::NO_ENTRY`].
    #[inline]
    pub(super) fn at(deadline: u64) -> Self {
        Filed(deadline.min(u64::MAX - 1))
    }

    #[inline]
    pub(super) fn tick(self) -> u64 {
        self.0
    }

    /// Returns an entry with this deadline and the generation of the filed tick.
    #[inline]
    pub(super) fn entry(self, deadline: u64, index: u32) -> Entry {
        Entry {
            deadline,
            index,
            generation: self.generation(),
        }
    }

    /// Returns the generation of the record's entry: a multiplicative hash of the tick.
    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
    }
}

impl<T> RecordBody for Timer<T> {
    type Kept = Filed;
    const NEW: Filed = Filed::NO_ENTRY;

    #[inline]
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<T> Slab<Timer<T>> {
    /// Returns the armings of all timers, in the order of their indices. O(records).
    #[inline]
    pub(super) fn armings(&self) -> impl Iterator<Item = Arming> {
        self.iter()
            .map(|(index, timer)| Arming::new(timer.deadline, timer.sequence, index))
    }

    /// Renumbers the armings of all timers from 1. Their order stays the same. O(n log n).
    #[cold]
    pub(in crate::queue) fn renumber(&mut self, counter: &mut ArmingCounter) {
        let armed = self.iter().map(|(index, timer)| (timer.sequence, index));
        for (sequence, index) in counter.renumber(armed.collect()) {
            if let Some(timer) = self.at_mut(index) {
                timer.sequence = sequence;
            }
        }
    }
}

impl<T> Timers for Slab<Timer<T>> {
    const ORDERED: bool = true;

    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let (timer, filed) = self.at_with_kept(index)?;
        (filed.generation() == generation).then_some(timer.deadline)
    }

    #[inline]
    fn prefetch(&self, index: u32) {
        Slab::prefetch(self, index);
    }

    #[inline]
    fn is_current(&self, index: u32, generation: u32) -> bool {
        self.kept(index)
            .is_some_and(|filed| filed.generation() == generation && filed != Filed::NO_ENTRY)
    }

    #[inline]
    fn sequence(&self, index: u32) -> u32 {
        self.at(index).map_or(0, |timer| timer.sequence.get())
    }

    #[inline]
    fn refiled(&mut self, entry: Entry) -> Entry {
        let filed = Filed::at(entry.deadline);
        self.set_kept(entry.index, filed);
        Entry {
            generation: filed.generation(),
            ..entry
        }
    }

    #[inline]
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        let was_spare = self.is_current(index, generation);
        if was_spare {
            self.set_kept(index, Filed::NO_ENTRY);
        }
        was_spare
    }
}
