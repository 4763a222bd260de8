//! The timers of a [`Wheel`](super::Wheel).
//!
//! A record keeps, beside its timer, the tick under which its entry is filed.
//!
//! - A cancel leaves the entry in place, spare. The record's next timer reuses the entry unless it
//!   is due earlier. A program that arms and cancels timeouts touches only their records.
//! - An entry carries a hash of that tick as its generation. So it is dead as soon as its record
//!   has an entry under another tick.
//!
//! While timers are few, there are no entries (see `few`): every record keeps [`Filed::FEW`].
//!
//! An entry that is dead may match again, when its record files another entry under the same tick.
//! Then its timer has two entries, and the first of them fires it. So slots are marked unordered
//! while there are dead entries. The same happens, rarely, if two ticks have the same hash: an
//! entry that is found before its timer is due is filed again, and then the other one is dead.

use super::chunk::Entry;
use super::timers::Timers;
use crate::queue::armings::{Arming, Armings};
use crate::queue::slab::{Slab, Tenant};
use core::num::NonZeroU32;

/// A live timer. Its sequence number is never 0; a free record has 0 in the same place.
///
/// What a cancel touches comes first: allocators align memory to 16 bytes, so half of the records
/// are in two cache lines.
#[derive(Debug)]
#[repr(C)]
pub(in crate::queue) struct Timer<T> {
    pub(in crate::queue) generation: u32,
    pub(in crate::queue) sequence: NonZeroU32,
    pub(in crate::queue) value: T,
    pub(in crate::queue) deadline: u64,
}

const _: () = assert!(Slab::<Timer<u64>>::RECORD == 32);

/// The tick under which a record's entry is filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::queue) struct Filed(u64);

impl Filed {
    /// There is no entry. No tick is later.
    pub(super) const NOT: Filed = Filed(u64::MAX);

    /// No entry is needed, because all timers are looked at. No tick is earlier.
    pub(super) const FEW: Filed = Filed(0);

    /// An entry for `deadline` is filed there, or one tick earlier at the end of time.
    #[inline]
    pub(super) fn at(deadline: u64) -> Self {
        Filed(deadline.min(u64::MAX - 1))
    }

    #[inline]
    pub(super) fn tick(self) -> u64 {
        self.0
    }

    /// Returns the entry of the timer `index`, which is due at `deadline`.
    #[inline]
    pub(super) fn entry(self, deadline: u64, index: u32) -> Entry {
        Entry {
            deadline,
            index,
            generation: self.generation(),
        }
    }

    /// Returns the generation of the entry: the upper half of a product, which all bits of the tick
    /// change.
    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
    }
}

impl<T> Tenant for Timer<T> {
    type Kept = Filed;
    const NEW: Filed = Filed::NOT;

    #[inline]
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<T> Slab<Timer<T>> {
    /// Returns the armings of all timers, by index. O(records).
    #[inline]
    pub(super) fn armings(&self) -> impl Iterator<Item = Arming> {
        self.iter()
            .map(|(index, timer)| Arming::new(timer.deadline, timer.sequence, index))
    }

    /// Numbers the armings of all timers anew, in the same sequence. O(n log n).
    #[cold]
    pub(in crate::queue) fn renumber(&mut self, armings: &mut Armings) {
        let armed = self.iter().map(|(index, timer)| (timer.sequence, index));
        for (sequence, index) in armings.renumber(armed.collect()) {
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
        let (timer, filed) = self.kept_at(index)?;
        (filed.generation() == generation).then_some(timer.deadline)
    }

    #[inline]
    fn prefetch(&self, index: u32) {
        Slab::prefetch(self, index);
    }

    #[inline]
    fn stands(&self, index: u32, generation: u32) -> bool {
        self.kept(index)
            .is_some_and(|filed| filed.generation() == generation && filed != Filed::NOT)
    }

    #[inline]
    fn sequence(&self, index: u32) -> u32 {
        self.at(index).map_or(0, |timer| timer.sequence.get())
    }

    #[inline]
    fn refiled(&mut self, entry: Entry) -> Entry {
        let filed = Filed::at(entry.deadline);
        self.keep(entry.index, filed);
        Entry {
            generation: filed.generation(),
            ..entry
        }
    }

    #[inline]
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        let was_spare = self.stands(index, generation);
        if was_spare {
            self.keep(index, Filed::NOT);
        }
        was_spare
    }
}
