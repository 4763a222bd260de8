//! The timers of a [`Wheel`](super::Wheel), and the places of their entries.
//!
//! Beside each record are two bytes, its *filing*: the place of its entry (ten bits), and a tag (six)
//! that distinguishes that entry from dead ones of the same record.
//!
//! - A cancel leaves the entry in place, spare. The record's next timer reuses the entry if it is due
//!   later or in the same slot. A program that arms and cancels timeouts touches only their records.
//! - A sweep reads filings only, 32 of which share a cache line.
//!
//! A tag repeats after 64 filings of one record. Each of them is in a slot before the last one
//! (otherwise it would have been reused), so few dead entries ever match again. An entry that does is
//! a second entry of a live timer: the earlier of the two fires it.

use super::place::Place;
use super::timers::{Due, Timers};
use crate::queue::armings::Armings;
use crate::queue::prefetch::prefetch;
use crate::queue::shorten::{Pieces, shorten};
use crate::queue::slab::{Slab, Tenant};
use alloc::vec::Vec;
use core::mem::{size_of, take};
use core::num::NonZeroU32;

/// A live timer. The arming order is never 0; a free record has 0 there.
#[derive(Debug)]
pub(in crate::queue) struct Timer<T> {
    pub(in crate::queue) deadline: u64,
    pub(in crate::queue) generation: u32,
    pub(in crate::queue) order: NonZeroU32,
    pub(in crate::queue) value: T,
}

const _: () = assert!(Slab::<Timer<u64>>::RECORD == 24);

impl<T> Tenant for Timer<T> {
    #[inline]
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<T> Slab<Timer<T>> {
    /// Renumbers the arming order of all timers, keeping the sequence. O(n log n).
    #[cold]
    pub(in crate::queue) fn renumber(&mut self, armings: &mut Armings) {
        let armed = self.iter().map(|(index, timer)| (timer.order, index));
        for (order, index) in armings.renumber(armed.collect()) {
            if let Some(timer) = self.at_mut(index) {
                timer.order = order;
            }
        }
    }
}

/// Number of bits of a place; the tag is above them.
const TAG: u32 = 10;

#[derive(Clone, Copy, Debug)]
struct Filing(u16);

impl Filing {
    const NEW: Filing = Filing(Place::NOWHERE.to_bits());

    #[inline]
    fn tag(self) -> u32 {
        u32::from(self.0 >> TAG)
    }

    #[inline]
    fn place(self) -> Place {
        Place::from_bits(self.0)
    }

    #[inline]
    fn set_place(&mut self, place: Place) {
        self.0 = self.0 & !Place::NOWHERE.to_bits() | place.to_bits();
    }

    /// Returns an empty place with the next tag.
    #[inline]
    fn next(self) -> Filing {
        Filing((self.0 >> TAG).wrapping_add(1) << TAG | Place::NOWHERE.to_bits())
    }
}

/// Number of filings that are initialised at once.
const INIT_STEP: usize = 1 << 12;
/// Number of filings that are freed at once.
const FREE_STEP: usize = 1 << 13;

/// The records and their filings.
#[derive(Debug)]
pub(super) struct Records<T> {
    pub(super) slab: Slab<Timer<T>>,
    /// Filings by record index. The last records may have none, and there may be more filings than records.
    filings: Vec<Filing>,
    /// Filings of an emptied wheel, to be freed in pieces.
    old: Vec<Filing>,
    pieces: Pieces,
}

impl<T> Records<T> {
    pub(super) const fn new() -> Self {
        Records {
            slab: Slab::new(),
            filings: Vec::new(),
            old: Vec::new(),
            pieces: Pieces::Freed,
        }
    }

    /// Builds the records from timers of another queue, which have no entries yet.
    pub(super) fn unfiled(slab: Slab<Timer<T>>) -> Self {
        Records {
            slab,
            filings: Vec::new(),
            old: Vec::new(),
            pieces: Pieces::Freed,
        }
    }

    /// Returns the place and the tag of a record's entry.
    #[inline]
    pub(super) fn filed(&mut self, index: u32) -> (Place, u32) {
        let filing = self
            .filings
            .get(index as usize)
            .map_or(Filing::NEW, |&filing| filing);
        (filing.place(), filing.tag())
    }

    /// Returns the tag for a new entry of a record. All earlier entries of the record become dead.
    #[inline]
    pub(super) fn refile(&mut self, index: u32) -> u32 {
        let at = index as usize;
        if at >= self.filings.len() {
            self.make_filings(at + 1);
        }
        let filing = &mut self.filings[at];
        *filing = filing.next();
        filing.tag()
    }

    /// Initialises the filings of the first `records` records and some more. O(1) amortised.
    #[cold]
    fn make_filings(&mut self, records: usize) {
        if records > self.filings.capacity() {
            let room = records.next_power_of_two();
            let room = room.min(self.slab.capacity()).max(records);
            self.filings.reserve_exact(room - self.filings.len());
        }
        let room = self.filings.capacity();
        self.filings
            .resize(room.min(records + INIT_STEP), Filing::NEW);
    }

    /// Sets the place of a record's entry.
    #[inline]
    pub(super) fn set_place(&mut self, index: u32, place: Place) {
        if let Some(filing) = self.filings.get_mut(index as usize) {
            filing.set_place(place);
        }
    }

    /// Removes and returns the timer of `entry` if the entry is current and its deadline unchanged. O(1).
    #[inline]
    pub(super) fn take_due(&mut self, entry: &Due) -> Option<Timer<T>> {
        let filing = self.filings.get_mut(entry.index as usize)?;
        if filing.tag() != entry.generation {
            return None;
        }
        let is_due = |timer: &Timer<T>| timer.deadline == entry.deadline;
        let timer = self.slab.take_if(entry.index, is_due)?;
        filing.set_place(Place::NOWHERE);
        Some(timer)
    }

    /// Drops all filings. O(1).
    pub(super) fn clear_filings(&mut self) {
        let filings = take(&mut self.filings);
        if filings.len() > self.old.len() {
            self.old = filings;
        }
    }

    /// Frees a piece of memory. Returns whether more is waiting. O(1).
    pub(super) fn free_piece(&mut self) -> bool {
        let more = self.slab.free_piece();
        let to = self.old.len().saturating_sub(FREE_STEP);
        shorten(&mut self.old, to, 0, &mut self.pieces);
        more | !self.old.is_empty()
    }

    /// Frees unused memory. The free records at the end must have no entries.
    pub(super) fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.filings.truncate(self.slab.records());
        self.filings.shrink_to_fit();
        self.old = Vec::new();
    }

    pub(super) fn memory(&self) -> usize {
        let filings = self.filings.capacity() + self.old.capacity();
        self.slab.memory() + filings * size_of::<Filing>()
    }
}

impl<T> Timers for Records<T> {
    const ORDERED: bool = true;

    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        if self.filings.get(index as usize)?.tag() != generation {
            return None;
        }
        self.slab.at(index).map(|timer| timer.deadline)
    }

    #[inline]
    fn prefetch(&self, index: u32) {
        self.slab.prefetch(index);
        if let Some(filing) = self.filings.get(index as usize) {
            prefetch(filing);
        }
    }

    #[inline]
    fn armed(&self) -> Option<usize> {
        Some(self.slab.len())
    }

    #[inline]
    fn stands(&self, index: u32, generation: u32) -> bool {
        self.filings
            .get(index as usize)
            .is_some_and(|filing| filing.tag() == generation)
    }

    #[inline]
    fn order(&self, index: u32) -> u32 {
        self.slab.at(index).map_or(0, |timer| timer.order.get())
    }

    #[inline]
    fn look(&self, index: u32, generation: u32) -> Option<(u64, u32)> {
        if self.filings.get(index as usize)?.tag() != generation {
            return None;
        }
        self.slab
            .at(index)
            .map(|timer| (timer.deadline, timer.order.get()))
    }

    #[inline]
    fn moved(&mut self, index: u32, _: u32, place: Place) {
        self.set_place(index, place);
    }

    #[inline]
    fn dropped(&mut self, index: u32, generation: u32) -> bool {
        match self.filings.get_mut(index as usize) {
            Some(filing) if filing.tag() == generation => {
                filing.set_place(Place::NOWHERE);
                true
            }
            _ => false,
        }
    }
}
