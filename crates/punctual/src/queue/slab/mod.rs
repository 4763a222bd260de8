//! The timers of a queue, in one growing array of records that never move. A record is found by index;
//! its generation distinguishes its successive timers.
//!
//! The queue decides what a record holds besides its generation.
//!
//! A record is no larger than its body if that has a field that is never 0: the wheel's takes 24
//! bytes for an 8-byte value. A record that has used all generations is never used again, so that
//! no handle is ever valid for another timer: one record is lost in four billion timers.
//!
//! Records are freed from the end, after the last of many timers is gone. Scanning a million of them takes
//! milliseconds, so the wheel and the small array do it in pieces, one with each call that finds nothing
//! due. Until then these records are the *tail*: free, in no free list, and reused from its front when new
//! timers come.

#[cfg(test)]
mod tests;

use super::TimerKey;
use super::prefetch::prefetch;
use super::shorten::{Pieces, shorten};
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// The generation of a free record that has used all generations.
const RETIRED: u32 = u32::MAX;
const LAST_GENERATION: u32 = RETIRED - 1;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// Number of records and entries kept when a queue becomes empty. These are used most, and keep their
/// generations.
pub(super) const KEPT: usize = 1024;

/// Bytes of records that one step scans and frees.
const FREE_STEP: usize = 32 << 10;

/// The body of a live record.
pub(super) trait Tenant {
    /// Returns the generation it was made with.
    fn generation(&self) -> u32;

    /// Returns its handle.
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
    /// The generation of new records, higher than any of the freed records.
    floor: u32,
    /// The start of the tail: free records in no free list. `NONE` if there is none.
    tail: u32,
    /// Whether so many generations are used that records are no longer freed.
    never_shrinks: bool,
    pieces: Pieces,
}

impl<R: Tenant> Slab<R> {
    /// Size of a record in bytes.
    pub(super) const RECORD: usize = size_of::<Record<R>>();

    pub(super) const fn new() -> Self {
        Slab {
            records: Vec::new(),
            free: NONE,
            live: 0,
            floor: 0,
            tail: NONE,
            never_shrinks: false,
            pieces: Pieces::Freed,
        }
    }

    /// Inserts the body that `make` returns for the record's generation. Returns its handle. O(1) amortised.
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
            && let Some(key) = self.take_from_tail()
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

    /// Takes the first record of the tail that has a generation left.
    #[cold]
    fn take_from_tail(&mut self) -> Option<TimerKey> {
        while let Some(Record::Free { generation, .. }) = self.records.get(self.tail as usize) {
            self.tail += 1;
            if *generation != RETIRED {
                return Some(TimerKey::new(self.tail - 1, *generation));
            }
        }
        self.tail = NONE;
        None
    }

    /// Returns the body of a handle's timer, or `None` if the handle is stale. O(1).
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

    /// Prefetches a record that is needed soon.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        if let Some(record) = self.records.get(index as usize) {
            prefetch(record);
        }
    }

    /// Returns the body at `index`, whatever its generation.
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

    /// Removes the timer of a handle. O(1).
    #[inline]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<R> {
        self.take_if(key.index, |tenant| tenant.generation() == key.generation)
    }

    /// Removes the timer at `index`, whatever its generation. O(1).
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> Option<R> {
        self.take_if(index, |_| true)
    }

    /// Removes the timer at `index` if `condition` holds for it. O(1).
    #[inline]
    pub(super) fn take_if(&mut self, index: u32, condition: impl Fn(&R) -> bool) -> Option<R> {
        let record = self.records.get_mut(index as usize)?;
        let generation = match record {
            Record::Live(tenant) if condition(tenant) => tenant.generation() + 1,
            _ => return None,
        };
        let next = match generation {
            RETIRED => NONE, // not in the free list
            _ => replace(&mut self.free, index),
        };
        let free = Record::Free { generation, next };
        self.live -= 1;
        match replace(record, free) {
            Record::Live(tenant) => Some(tenant),
            Record::Free { .. } => None,
        }
    }

    /// Returns the number of records, free ones included.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of records for which memory is allocated.
    pub(super) fn capacity(&self) -> usize {
        self.records.capacity()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Returns all live bodies, by index. O(records).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        (0..)
            .zip(&self.records)
            .filter_map(|(index, record)| match record {
                Record::Live(tenant) => Some((index, tenant)),
                Record::Free { .. } => None,
            })
    }

    /// Removes all timers and frees their memory. O(records).
    pub(super) fn clear(&mut self) {
        for index in 0..self.records.len() {
            self.take(index as u32);
        }
        if self.records.capacity() > KEPT {
            self.shrink_to_fit();
        }
    }

    /// Frees memory if a large slab has just become empty. Returns whether it did. O(records), otherwise
    /// O(1).
    #[inline]
    pub(super) fn release(&mut self) -> bool {
        if self.live > 0 || self.records.capacity() <= KEPT {
            return false;
        }
        self.shrink_to_fit();
        true
    }

    /// Starts to free memory in pieces if a large slab has just become empty. Returns whether it did; all
    /// handles are stale then. [`free_piece_if_any`](Self::free_piece_if_any) frees the other pieces. O(1).
    #[inline]
    pub(super) fn begin_release(&mut self) -> bool {
        if self.live > 0 || self.records.capacity() <= KEPT {
            return false;
        }
        self.start_tail()
    }

    #[cold]
    #[inline(never)]
    fn start_tail(&mut self) -> bool {
        let listed = self.records.len().min(self.tail as usize);
        let is_large = listed > KEPT && !self.never_shrinks;
        if is_large {
            (self.tail, self.free) = (0, NONE);
        }
        self.free_piece();
        is_large
    }

    /// Returns whether memory is waiting to be freed.
    #[inline]
    pub(super) fn has_memory_to_free(&self) -> bool {
        (self.tail as usize) < self.records.len()
            && self.records.len() > KEPT
            && !self.never_shrinks
    }

    /// Frees a piece of memory if some is waiting. Called when nothing is due. O(1).
    #[inline]
    pub(super) fn free_piece_if_any(&mut self) {
        if self.has_memory_to_free() {
            self.free_piece();
        }
    }

    /// Frees a piece of the tail. Returns whether more is waiting. O(1), a few microseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn free_piece(&mut self) -> bool {
        if !self.has_memory_to_free() {
            return false;
        }
        let least = KEPT.max(self.tail as usize);
        let len = self.records.len();
        let piece = (FREE_STEP / Self::RECORD).max(1);
        let to = len.saturating_sub(piece).max(least);
        let Some(floor) = floor_after_freeing(&self.records[to..], self.floor) else {
            self.never_shrinks = true;
            return false;
        };
        self.floor = floor;
        shorten(&mut self.records, to, least, &mut self.pieces);
        self.has_memory_to_free()
    }

    /// Frees the free records at the end. O(records).
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
            let Some(floor) = floor_after_freeing(&self.records[len..], self.floor) else {
                self.never_shrinks = true;
                return;
            };
            self.floor = floor;
            self.records.truncate(len);
        }
        self.records.shrink_to_fit();
        (self.tail, self.free) = (NONE, NONE);
        for (index, record) in self.records.iter_mut().enumerate().rev() {
            if let Record::Free { generation, next } = record
                && *generation != RETIRED
            {
                *next = replace(&mut self.free, index as u32);
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * Self::RECORD
    }
}

/// Returns the generation for new records after these free records are freed: no lower than `floor` and the
/// next generation of each. Returns `None` if more than half of the generations would be used; then the
/// records stay allocated.
fn floor_after_freeing<R>(records: &[Record<R>], floor: u32) -> Option<u32> {
    let next = records.iter().map(|record| match record {
        Record::Live(_) => 0,
        Record::Free { generation, .. } => *generation,
    });
    Some(next.fold(floor, u32::max)).filter(|&floor| floor <= LAST_GENERATION / 2)
}
