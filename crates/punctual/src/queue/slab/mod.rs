//! The timers of a queue, in one growing array of records that never move. A record is found by
//! index; its generation distinguishes its successive timers.
//!
//! The queue decides what a record holds besides its generation, and what it keeps when its timer
//! leaves.
//!
//! A record is no larger than its body and what it keeps if the body has a field that is never 0:
//! the wheel's takes 32 bytes for an 8-byte value. A record that has used all generations is never
//! used again, so that no handle is ever valid for another timer: one record is lost in four
//! billion timers.
//!
//! The last records, from some index on, are the *tail*: free, and in no free list. New timers take
//! records from its start. When the last of many timers is gone, all records become the tail.
//! Freeing a million of them takes milliseconds, so the wheel frees them in pieces, from the end,
//! one with each call that finds nothing due.

#[cfg(test)]
mod tests;

use super::TimerKey;
use super::prefetch::prefetch;
use super::shorten::{Pieces, lengthen, shorten};
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// The generation of a free record that has used all generations.
const RETIRED: u32 = u32::MAX;
const LAST_GENERATION: u32 = RETIRED - 1;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// Number of records and entries kept when a queue becomes empty.
pub(super) const RECORDS_KEPT: usize = 1024;

/// Maximum number of records that are added to the free list at once.
const REFILL: usize = 64;

/// Bytes of records that one step scans and frees.
const FREE_STEP: usize = 32 << 10;

/// The body of a live record.
pub(super) trait Tenant {
    /// What a record keeps when its timer leaves.
    type Kept: Copy + core::fmt::Debug;

    /// What a new record keeps.
    const NEW: Self::Kept;

    /// Returns the generation it was made with.
    fn generation(&self) -> u32;

    /// Returns its handle.
    #[inline]
    fn key(&self, index: u32) -> TimerKey {
        TimerKey::new(index, self.generation())
    }
}

#[derive(Debug)]
enum State<R> {
    Live(R),
    Free { generation: u32, next: u32 },
}

#[derive(Debug)]
#[repr(C)]
struct Record<R: Tenant> {
    state: State<R>,
    kept: R::Kept,
}

impl<R: Tenant> Record<R> {
    /// Returns the body of a live record.
    #[inline]
    fn tenant(&self) -> Option<&R> {
        match &self.state {
            State::Live(tenant) => Some(tenant),
            State::Free { .. } => None,
        }
    }
}

/// The records.
#[derive(Debug)]
pub(super) struct Slab<R: Tenant> {
    records: Vec<Record<R>>,
    free: u32,
    live: usize,
    /// The generation of new records, higher than any of the freed records.
    floor: u32,
    /// The start of the tail. Live records and those of the free list are before it.
    tail: usize,
    /// Whether so many generations are used that records are no longer freed.
    never_shrinks: bool,
    pieces: Pieces,
}

impl<R: Tenant> Slab<R> {
    /// Size of a record in bytes.
    pub(super) const RECORD: usize = size_of::<Record<R>>();

    /// Returns an empty slab whose new records have this generation.
    pub(super) const fn new(floor: u32) -> Self {
        Slab {
            records: Vec::new(),
            free: NONE,
            live: 0,
            floor,
            tail: 0,
            never_shrinks: false,
            pieces: Pieces::Freed,
        }
    }

    /// Returns an empty slab with room for this many records.
    pub(super) fn with_capacity(records: usize) -> Self {
        Slab {
            records: Vec::with_capacity(records),
            ..Self::new(0)
        }
    }

    /// Inserts the body that `make` returns for the record's generation. Returns its handle and
    /// what the record kept. O(1) amortised.
    ///
    /// # Panics
    ///
    /// If there would be more than 2^32 - 1 records.
    #[inline]
    pub(super) fn insert(&mut self, make: impl FnOnce(u32) -> R) -> (TimerKey, R::Kept) {
        assert!(
            self.reserve(NONE as usize),
            "a queue holds at most 2^32 - 1 timers"
        );
        let index = self.free;
        let record = &mut self.records[index as usize];
        let State::Free { generation, next } = record.state else {
            unreachable!("the free list has live records");
        };
        self.free = next;
        self.live += 1;
        record.state = State::Live(make(generation));
        (TimerKey::new(index, generation), record.kept)
    }

    /// Returns whether the next timer finds a free record. O(1).
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Makes room for a timer among the first `limit` records. Returns whether there is room. O(1)
    /// amortised.
    #[inline]
    pub(super) fn reserve(&mut self, limit: usize) -> bool {
        if self.free == NONE {
            self.refill(limit);
        }
        self.has_room()
    }

    /// Moves some records of the tail, which may be new ones, to the empty free list.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, limit: usize) {
        while self.free == NONE && self.tail < limit {
            let to = limit.min(self.tail + REFILL);
            if self.tail == self.records.len() {
                lengthen(&mut self.records);
                let generation = self.floor;
                let len = self.records.capacity().min(to);
                self.records.resize_with(len, || Record {
                    state: State::Free {
                        generation,
                        next: NONE,
                    },
                    kept: R::NEW,
                });
            }
            self.list(to.min(self.records.len()));
        }
    }

    /// Moves the records of the tail before `to` to the free list, as new ones. Records that have
    /// used all generations stay out of it.
    fn list(&mut self, to: usize) {
        for index in (self.tail..to).rev() {
            let record = &mut self.records[index];
            if let State::Free { generation, next } = &mut record.state
                && *generation != RETIRED
            {
                record.kept = R::NEW;
                *next = replace(&mut self.free, index as u32);
            }
        }
        self.tail = to;
    }

    /// Returns the body of a handle's timer, or `None` if the handle is stale. O(1).
    #[inline]
    pub(super) fn get(&self, key: TimerKey) -> Option<&R> {
        self.at(key.index)
            .filter(|tenant| tenant.generation() == key.generation)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut R> {
        self.get_kept_mut(key).map(|(tenant, _)| tenant)
    }

    /// Returns the body of a handle's timer and what its record keeps. O(1).
    #[inline]
    pub(super) fn get_kept_mut(&mut self, key: TimerKey) -> Option<(&mut R, R::Kept)> {
        match self.records.get_mut(key.index as usize) {
            Some(Record {
                state: State::Live(tenant),
                kept,
            }) if tenant.generation() == key.generation => Some((tenant, *kept)),
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
        self.records.get(index as usize)?.tenant()
    }

    /// Returns the body at `index` and what its record keeps.
    #[inline]
    pub(super) fn kept_at(&self, index: u32) -> Option<(&R, R::Kept)> {
        let record = self.records.get(index as usize)?;
        Some((record.tenant()?, record.kept))
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut R> {
        match self.records.get_mut(index as usize)?.state {
            State::Live(ref mut tenant) => Some(tenant),
            State::Free { .. } => None,
        }
    }

    /// Returns what the record at `index` keeps, live or free.
    #[inline]
    pub(super) fn kept(&self, index: u32) -> Option<R::Kept> {
        self.records.get(index as usize).map(|record| record.kept)
    }

    /// Has the record at `index` keep `kept`, if there is such a record.
    #[inline]
    pub(super) fn keep(&mut self, index: u32, kept: R::Kept) {
        if let Some(record) = self.records.get_mut(index as usize) {
            record.kept = kept;
        }
    }

    /// Has all records before the tail keep `kept`. O(records).
    pub(super) fn all_keep(&mut self, kept: R::Kept) {
        for record in &mut self.records[..self.tail] {
            record.kept = kept;
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
        let state = &mut self.records.get_mut(index as usize)?.state;
        let generation = match state {
            State::Live(tenant) if condition(tenant) => tenant.generation() + 1,
            _ => return None,
        };
        let next = match generation {
            RETIRED => NONE, // not in the free list
            _ => replace(&mut self.free, index),
        };
        let free = State::Free { generation, next };
        self.live -= 1;
        match replace(state, free) {
            State::Live(tenant) => Some(tenant),
            State::Free { .. } => None,
        }
    }

    /// Returns the number of records, free ones included.
    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of records before the tail: all live ones are among them.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.tail
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Returns all live bodies, by index. O(records).
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        (0..)
            .zip(&self.records[..self.tail])
            .filter_map(|(index, record)| Some((index, record.tenant()?)))
    }

    /// Removes all timers and frees their memory. O(records).
    pub(super) fn clear(&mut self) {
        for index in 0..self.records.len() {
            self.take(index as u32);
        }
        self.release();
    }

    /// Frees memory if a large slab has just become empty. O(records), otherwise O(1).
    #[inline]
    pub(super) fn release(&mut self) {
        if self.live == 0 && self.records.capacity() > RECORDS_KEPT {
            self.shrink_to_fit(usize::MAX);
        }
    }

    /// Returns whether so many records are in use that freeing them pays when the slab is empty.
    /// O(1).
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.tail > RECORDS_KEPT && !self.never_shrinks
    }

    /// Moves all records to the tail of an empty slab. They keep nothing of their last timers.
    /// O(1).
    pub(super) fn restart(&mut self) {
        debug_assert_eq!(self.live, 0);
        (self.tail, self.free) = (0, NONE);
    }

    /// Returns whether memory is waiting to be freed.
    #[inline]
    pub(super) fn has_memory_to_free(&self) -> bool {
        self.records.len() > RECORDS_KEPT.max(self.tail) && !self.never_shrinks
    }

    /// Frees a piece of the tail. Returns whether more is waiting. O(1), a few microseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn free_piece(&mut self) -> bool {
        if !self.has_memory_to_free() {
            return false;
        }
        let least = RECORDS_KEPT.max(self.tail);
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

    /// Frees the free records at the end, and lists those among the first `limit` anew. Free
    /// records keep nothing of their last timers. O(records).
    #[cold]
    pub(super) fn shrink_to_fit(&mut self, limit: usize) {
        let is_live = |record: &Record<R>| record.tenant().is_some();
        let last = self.records.iter().rposition(is_live);
        let len = last.map_or(0, |last| last + 1).max(RECORDS_KEPT);
        if len < self.records.len() {
            let Some(floor) = floor_after_freeing(&self.records[len..], self.floor) else {
                self.never_shrinks = true;
                return;
            };
            self.floor = floor;
            self.records.truncate(len);
        }
        self.records.shrink_to_fit();
        (self.tail, self.free) = (0, NONE);
        self.list(self.records.len().min(limit));
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * Self::RECORD
    }
}

/// Returns the generation for new records after these free records are freed: no lower than `floor`
/// and the next generation of each. Returns `None` if more than half of the generations would be
/// used; then the records stay allocated.
fn floor_after_freeing<R: Tenant>(records: &[Record<R>], floor: u32) -> Option<u32> {
    let next = records.iter().map(|record| match record.state {
        State::Live(_) => 0,
        State::Free { generation, .. } => generation,
    });
    Some(next.fold(floor, u32::max)).filter(|&floor| floor <= LAST_GENERATION / 2)
}
