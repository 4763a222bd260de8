//! The timers of a [`Wheel`](super::Wheel), and what is known of their entries.
//!
//! Beside each record stand two bytes, its *filing*: where its entry lies (ten bits), and a tag (six)
//! that tells that entry from dead ones of the same record. Hence
//!
//! - a cancel leaves the entry where it is, spare; who takes the record next, for a deadline after it
//!   or in the same slot, takes the entry over, and nothing is filed. A program that arms and
//!   cancels timeouts only touches their records;
//! - a sweep looks at filings only, 32 of which share a cache line.
//!
//! A tag comes round after 64 filings of one record. Each of them lies in a slot before the last
//! one (else it would have been taken over), so few dead entries ever stand again by that; one
//! that does is one more entry of a living timer: whichever comes first fires it.

use super::place::Place;
use super::timers::{Due, Timers};
use crate::queue::armings::Armings;
use crate::queue::prefetch::prefetch;
use crate::queue::shorten::{Pieces, shorten};
use crate::queue::slab::{Slab, Tenant};
use alloc::vec::Vec;
use core::mem::{size_of, take};
use core::num::NonZeroU32;

/// A living timer. The arming order is never 0, which is how a free record is told.
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
    /// Numbers the armings of all timers anew, in their order. O(n log n).
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

/// Bits of a place; the tag's are above them.
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

    /// Nowhere, with the tag of the next filing.
    #[inline]
    fn next(self) -> Filing {
        Filing((self.0 >> TAG).wrapping_add(1) << TAG | Place::NOWHERE.to_bits())
    }
}

/// So many filings are made at once,
const MADE: usize = 1 << 12;
/// and given back.
const FREED: usize = 1 << 13;

/// The records and their filings.
#[derive(Debug)]
pub(super) struct Records<T> {
    pub(super) slab: Slab<Timer<T>>,
    /// By index; of some records at the end there may be none yet, and there may be some too many.
    filings: Vec<Filing>,
    /// Those of a crowd that has gone, on their way back to the system.
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

    /// Of timers that come from another queue: nothing is filed yet.
    pub(super) fn unfiled(slab: Slab<Timer<T>>) -> Self {
        Records {
            slab,
            filings: Vec::new(),
            old: Vec::new(),
            pieces: Pieces::Freed,
        }
    }

    /// Where the entry of a record lies, if it has one, and the tag it carries.
    #[inline]
    pub(super) fn filed(&mut self, index: u32) -> (Place, u32) {
        let filing = self
            .filings
            .get(index as usize)
            .map_or(Filing::NEW, |&filing| filing);
        (filing.place(), filing.tag())
    }

    /// The tag of the entry that is going to be filed for a record: those before are dead.
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

    /// Makes filings for so many records, and for some more. O(1) amortised.
    #[cold]
    fn make_filings(&mut self, records: usize) {
        if records > self.filings.capacity() {
            let room = records.next_power_of_two();
            let room = room.min(self.slab.capacity()).max(records);
            self.filings.reserve_exact(room - self.filings.len());
        }
        let room = self.filings.capacity();
        self.filings.resize(room.min(records + MADE), Filing::NEW);
    }

    /// Where that entry lies, then.
    #[inline]
    pub(super) fn set_place(&mut self, index: u32, place: Place) {
        if let Some(filing) = self.filings.get_mut(index as usize) {
            filing.set_place(place);
        }
    }

    /// Takes the timer that `entry` stands for, if it is due then. O(1).
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

    /// No entries are filed any more. O(1).
    pub(super) fn forget_filings(&mut self) {
        let gone = take(&mut self.filings);
        if gone.len() > self.old.len() {
            self.old = gone;
        }
    }

    /// Gives back a piece of what a crowd has left; tells whether there is more. O(1).
    pub(super) fn tidy(&mut self) -> bool {
        let more = self.slab.tidy();
        let to = self.old.len().saturating_sub(FREED);
        shorten(&mut self.old, to, 0, &mut self.pieces);
        more | !self.old.is_empty()
    }

    /// Records at the end are gone, and no entries of theirs are filed.
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
