//! The timers of a queue, in one growing array: records that never move, found by index, each with
//! a generation that tells its tenants apart.
//!
//! The queue decides what a record holds besides its generation.
//!
//! A record takes no more than its body if that has a number that is never 0: the wheel's take 24
//! bytes for an 8-byte value. A record whose generations are used up is never used again, so that
//! no handle is ever mistaken for another one: one record is lost in four billion timers.
//!
//! Records are given back from the end, when the last timer of a crowd is gone. To look through a million of them takes
//! milliseconds, so the wheel and the array of few have that done a piece at a time, with each call that finds the queue
//! empty or nothing due. Until then they are the *tail*: free, in no list, and taken again from its front if the crowd
//! comes back.

#[cfg(test)]
mod tests;

use super::TimerKey;
use super::prefetch::prefetch;
use super::shorten::{Pieces, shorten};
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// The generation of a free record whose generations are used up.
const SPENT: u32 = u32::MAX;
const LAST_GENERATION: u32 = SPENT - 1;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// Records and entries kept when a queue empties. These records are used most, and keep their
/// generations.
pub(super) const KEPT: usize = 1024;

/// Bytes of records that are looked through and given back in a step.
const STEP: usize = 32 << 10;

/// What lives in a record.
pub(super) trait Tenant {
    /// The generation it was made with.
    fn generation(&self) -> u32;

    /// Its handle.
    #[inline]
    fn key(&self, index: u32) -> TimerKey {
        TimerKey::new(index, self.generation())
    }
}

#[derive(Debug)]
enum Record<R> {
    Live(R),
    Free { generation: u32, next: u32 },
}

/// The records.
#[derive(Debug)]
pub(super) struct Slab<R> {
    records: Vec<Record<R>>,
    free: u32,
    live: usize,
    /// The generation of new records: higher than any that given-back records had.
    floor: u32,
    /// Where the tail begins: free records that are in no list. `NONE` if there is none.
    tail: u32,
    /// Too many generations are used up for records to be given back.
    stays: bool,
    pieces: Pieces,
}

impl<R: Tenant> Slab<R> {
    /// Bytes of a record.
    pub(super) const RECORD: usize = size_of::<Record<R>>();

    pub(super) const fn new() -> Self {
        Slab {
            records: Vec::new(),
            free: NONE,
            live: 0,
            floor: 0,
            tail: NONE,
            stays: false,
            pieces: Pieces::Freed,
        }
    }

    /// Makes a tenant of the record's next generation, and returns its handle. O(1) amortised.
    ///
    /// # Panics
    ///
    /// If there would be more than 2^32 - 1 records.
    #[inline]
    pub(super) fn insert(&mut self, make: impl FnOnce(u32) -> R) -> TimerKey {
        let index = self.free;
        let generation = match self.records.get(index as usize) {
            Some(&Record::Free { generation, next }) => {
                self.free = next;
                generation
            }
            _ => return self.grow(make),
        };
        self.records[index as usize] = Record::Live(make(generation));
        self.live += 1;
        TimerKey::new(index, generation)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, make: impl FnOnce(u32) -> R) -> TimerKey {
        if self.tail != NONE
            && let Some(key) = self.take_of_tail()
        {
            self.records[key.index as usize] = Record::Live(make(key.generation));
            self.live += 1;
            return key;
        }
        let index = self.records.len();
        assert!(
            index < NONE as usize,
            "a queue holds at most 2^32 - 1 timers"
        );
        self.records.push(Record::Live(make(self.floor)));
        self.live += 1;
        TimerKey::new(index as u32, self.floor)
    }

    /// The first record of the tail that has a generation left.
    #[cold]
    fn take_of_tail(&mut self) -> Option<TimerKey> {
        while let Some(Record::Free { generation, .. }) = self.records.get(self.tail as usize) {
            self.tail += 1;
            if *generation != SPENT {
                return Some(TimerKey::new(self.tail - 1, *generation));
            }
        }
        self.tail = NONE;
        None
    }

    /// The tenant of a handle, if it lives. O(1).
    #[inline]
    pub(super) fn get(&self, key: TimerKey) -> Option<&R> {
        match self.records.get(key.index as usize) {
            Some(Record::Live(tenant)) if tenant.generation() == key.generation => Some(tenant),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut R> {
        match self.records.get_mut(key.index as usize) {
            Some(Record::Live(tenant)) if tenant.generation() == key.generation => Some(tenant),
            _ => None,
        }
    }

    /// Asks for a record that is needed soon.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        if let Some(record) = self.records.get(index as usize) {
            prefetch(record);
        }
    }

    /// The tenant at `index`, whoever it is.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&R> {
        match self.records.get(index as usize) {
            Some(Record::Live(tenant)) => Some(tenant),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut R> {
        match self.records.get_mut(index as usize) {
            Some(Record::Live(tenant)) => Some(tenant),
            _ => None,
        }
    }

    /// Removes the tenant of a handle. O(1).
    #[inline]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<R> {
        self.take_if(key.index, |tenant| tenant.generation() == key.generation)
    }

    /// Removes the tenant at `index`, whoever it is. O(1).
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> Option<R> {
        self.take_if(index, |_| true)
    }

    /// Removes the tenant at `index` if it is the one that is meant. O(1).
    #[inline]
    pub(super) fn take_if(&mut self, index: u32, is_meant: impl Fn(&R) -> bool) -> Option<R> {
        let record = self.records.get_mut(index as usize)?;
        let generation = match record {
            Record::Live(tenant) if is_meant(tenant) => tenant.generation() + 1,
            _ => return None,
        };
        let next = match generation {
            SPENT => NONE, // and not in the free list
            _ => replace(&mut self.free, index),
        };
        let free = Record::Free { generation, next };
        self.live -= 1;
        match replace(record, free) {
            Record::Live(tenant) => Some(tenant),
            Record::Free { .. } => None,
        }
    }

    /// Records, free ones included.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// Records there is room for before more memory is needed.
    pub(super) fn capacity(&self) -> usize {
        self.records.capacity()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// All tenants, by index. O(records).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        (0..)
            .zip(&self.records)
            .filter_map(|(index, record)| match record {
                Record::Live(tenant) => Some((index, tenant)),
                Record::Free { .. } => None,
            })
    }

    /// Removes all tenants, and gives their memory back. O(records).
    pub(super) fn clear(&mut self) {
        for index in 0..self.records.len() {
            self.take(index as u32);
        }
        if self.records.capacity() > KEPT {
            self.shrink_to_fit();
        }
    }

    /// Gives memory back if the slab has just emptied after being large; tells whether it did. O(records), and O(1)
    /// otherwise.
    #[inline]
    pub(super) fn release(&mut self) -> bool {
        if self.live > 0 || self.records.capacity() <= KEPT {
            return false;
        }
        self.shrink_to_fit();
        true
    }

    /// The same, a piece at a time: if the slab has just emptied, gives a piece back; tells whether that is the first
    /// one of a crowd's, and all handles are stale. The others are given back by [`tidy_up`](Self::tidy_up). O(1).
    #[inline]
    pub(super) fn begin_release(&mut self) -> bool {
        if self.live > 0 || self.records.capacity() <= KEPT {
            return false;
        }
        self.empty()
    }

    #[cold]
    #[inline(never)]
    fn empty(&mut self) -> bool {
        let listed = self.records.len().min(self.tail as usize);
        let is_crowd = listed > KEPT && !self.stays;
        if is_crowd {
            (self.tail, self.free) = (0, NONE);
        }
        self.tidy();
        is_crowd
    }

    /// Whether there is memory to give back.
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        (self.tail as usize) < self.records.len() && self.records.len() > KEPT && !self.stays
    }

    /// Nothing is due: gives back a piece of what there is to give back. O(1).
    #[inline]
    pub(super) fn tidy_up(&mut self) {
        if self.is_untidy() {
            self.tidy();
        }
    }

    /// Gives back a piece of the tail; tells whether there is more. O(1): some microseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn tidy(&mut self) -> bool {
        if !self.is_untidy() {
            return false;
        }
        let least = KEPT.max(self.tail as usize);
        let len = self.records.len();
        let piece = (STEP / Self::RECORD).max(1);
        let to = len.saturating_sub(piece).max(least);
        let Some(floor) = may_go(&self.records[to..], self.floor) else {
            self.stays = true;
            return false;
        };
        self.floor = floor;
        shorten(&mut self.records, to, least, &mut self.pieces);
        self.is_untidy()
    }

    /// Gives back the free records at the end. O(records).
    #[cold]
    pub(super) fn shrink_to_fit(&mut self) {
        let mut len = self.records.len();
        if self.live == 0 {
            len = len.min(KEPT);
        } else {
            while len > KEPT && matches!(self.records[len - 1], Record::Free { .. }) {
                len -= 1;
            }
        }
        if len < self.records.len() {
            let Some(floor) = may_go(&self.records[len..], self.floor) else {
                self.stays = true;
                return;
            };
            self.floor = floor;
            self.records.truncate(len);
        }
        self.records.shrink_to_fit();
        (self.tail, self.free) = (NONE, NONE);
        for (index, record) in self.records.iter_mut().enumerate().rev() {
            if let Record::Free { generation, next } = record
                && *generation != SPENT
            {
                *next = replace(&mut self.free, index as u32);
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * Self::RECORD
    }
}

/// Whether free records may be given back: then new records begin at this generation, at or above the next one of
/// each of them and at or above `floor`. Half of the generations may go that way; from then on the records stay.
fn may_go<R>(records: &[Record<R>], floor: u32) -> Option<u32> {
    let next = records.iter().map(|record| match record {
        Record::Live(_) => 0,
        Record::Free { generation, .. } => *generation,
    });
    Some(next.fold(floor, u32::max)).filter(|&floor| floor <= LAST_GENERATION / 2)
}
