//! The timers of a queue, in one array of records. A timer's record keeps its index as long as the
//! timer lives. The record's generation distinguishes the timers that use the record one after
//! another. A handle is an index and a generation.
//!
//! The queue defines the body of a live record ([`RecordBody`]), and data that stays in the record
//! when its timer is removed ([`RecordBody::Kept`]).
//!
//! If the body has a field that is never 0, the compiler stores there whether the record is live,
//! so the record is no larger than its body and its kept data. A wheel's record takes 32 bytes for
//! an 8-byte value.
//!
//! A record that has used all generations, after four billion timers, is never used again. So a
//! handle is never valid for another timer.
//!
//! The *tail* is the records from some index to the end: they are free, and not in the free list.
//! When the free list is empty, it gets records from the start of the tail. When the last of many
//! timers is removed, all records become the tail. To free a million records takes milliseconds, so
//! the wheel frees the tail in pieces, from the end, one piece with each call that finds nothing
//! due.

#[cfg(test)]
mod tests;

use super::TimerKey;
use super::prefetch::prefetch;
use super::shorten::{ShrinkMode, lengthen, shorten};
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// The generation of a free record that has used all generations.
const RETIRED: u32 = u32::MAX;
const LAST_GENERATION: u32 = RETIRED - 1;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// Maximum number of records, and of a heap's entries, whose memory an empty queue keeps.
pub(super) const RECORDS_KEPT: usize = 1024;

/// Maximum number of records that are added to the free list at once.
const REFILL: usize = 64;

/// Number of bytes of records that one step scans and frees.
const FREE_STEP: usize = 32 << 10;

/// The body of a live record.
pub(super) trait RecordBody {
    /// Data that stays in a record when its timer is removed.
    type Kept: Copy + core::fmt::Debug;

    /// The kept data of a new record.
    const NEW: Self::Kept;

    /// Returns the generation with which the body was created.
    fn generation(&self) -> u32;

    /// Returns the handle of the timer, given its index.
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
struct Record<R: RecordBody> {
    state: State<R>,
    kept: R::Kept,
}

impl<R: RecordBody> Record<R> {
    /// Returns the body of a live record.
    #[inline]
    fn body(&self) -> Option<&R> {
        match &self.state {
            State::Live(body) => Some(body),
            State::Free { .. } => None,
        }
    }
}

/// The records of one queue, live and free.
#[derive(Debug)]
pub(super) struct Slab<R: RecordBody> {
    records: Vec<Record<R>>,
    free_head: u32,
    live: usize,
    /// The generation that new records start with. It is higher than the generations of all handles
    /// to freed records.
    new_generation: u32,
    /// The index at which the tail starts. Live records and records of the free list are before it.
    tail: usize,
    /// Whether so many generations are used that the slab no longer frees records.
    never_shrinks: bool,
    shrink_mode: ShrinkMode,
}

impl<R: RecordBody> Slab<R> {
    /// Size of a record in bytes.
    pub(super) const RECORD: usize = size_of::<Record<R>>();

    /// Returns an empty slab whose new records have this generation.
    pub(super) const fn new(new_generation: u32) -> Self {
        Slab {
            records: Vec::new(),
            free_head: NONE,
            live: 0,
            new_generation,
            tail: 0,
            never_shrinks: false,
            shrink_mode: ShrinkMode::InPlace,
        }
    }

    /// Returns an empty slab with room for this many records.
    pub(super) fn with_capacity(records: usize) -> Self {
        Slab {
            records: Vec::with_capacity(records),
            ..Self::new(0)
        }
    }

    /// Inserts the body that `make` returns for the record's generation. Returns the handle and the
    /// record's kept data. O(1) amortised.
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
        let index = self.free_head;
        let record = &mut self.records[index as usize];
        let State::Free { generation, next } = record.state else {
            unreachable!("the free list has live records");
        };
        self.free_head = next;
        self.live += 1;
        record.state = State::Live(make(generation));
        (TimerKey::new(index, generation), record.kept)
    }

    /// Returns whether the free list has a record. O(1).
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free_head != NONE
    }

    /// Makes room for a timer in the free list, from the first `limit` records. Returns whether
    /// there is room. O(1) amortised.
    #[inline]
    pub(super) fn reserve(&mut self, limit: usize) -> bool {
        if self.free_head == NONE {
            self.refill(limit);
        }
        self.has_room()
    }

    /// Moves some records of the tail to the empty free list. Allocates records if the tail is
    /// empty.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, limit: usize) {
        while self.free_head == NONE && self.tail < limit {
            let to = limit.min(self.tail + REFILL);
            if self.tail == self.records.len() {
                lengthen(&mut self.records);
                let generation = self.new_generation;
                let len = self.records.capacity().min(to);
                self.records.resize_with(len, || Record {
                    state: State::Free {
                        generation,
                        next: NONE,
                    },
                    kept: R::NEW,
                });
            }
            self.add_to_free_list(to.min(self.records.len()));
        }
    }

    /// Moves the records of the tail before index `to` to the free list, and resets their kept
    /// data. Leaves out records that have used all generations.
    fn add_to_free_list(&mut self, to: usize) {
        for index in (self.tail..to).rev() {
            let record = &mut self.records[index];
            if let State::Free { generation, next } = &mut record.state
                && *generation != RETIRED
            {
                record.kept = R::NEW;
                *next = replace(&mut self.free_head, index as u32);
            }
        }
        self.tail = to;
    }

    /// Returns the body of a handle's timer, or `None` if the handle is stale. O(1).
    #[inline]
    pub(super) fn get(&self, key: TimerKey) -> Option<&R> {
        self.at(key.index)
            .filter(|body| body.generation() == key.generation)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut R> {
        self.get_mut_with_kept(key).map(|(body, _)| body)
    }

    /// Returns the body of a handle's timer and its record's kept data, or `None` if the handle is
    /// stale. O(1).
    #[inline]
    pub(super) fn get_mut_with_kept(&mut self, key: TimerKey) -> Option<(&mut R, R::Kept)> {
        match self.records.get_mut(key.index as usize) {
            Some(Record {
                state: State::Live(body),
                kept,
            }) if body.generation() == key.generation => Some((body, *kept)),
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

    /// Returns the live body at `index`, of any generation.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&R> {
        self.records.get(index as usize)?.body()
    }

    /// Returns the live body at `index`, of any generation, and its record's kept data.
    #[inline]
    pub(super) fn at_with_kept(&self, index: u32) -> Option<(&R, R::Kept)> {
        let record = self.records.get(index as usize)?;
        Some((record.body()?, record.kept))
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut R> {
        match self.records.get_mut(index as usize)?.state {
            State::Live(ref mut body) => Some(body),
            State::Free { .. } => None,
        }
    }

    /// Returns the kept data of the record at `index`, live or free.
    #[inline]
    pub(super) fn kept(&self, index: u32) -> Option<R::Kept> {
        self.records.get(index as usize).map(|record| record.kept)
    }

    /// Sets the kept data of the record at `index`, if there is such a record.
    #[inline]
    pub(super) fn set_kept(&mut self, index: u32, kept: R::Kept) {
        if let Some(record) = self.records.get_mut(index as usize) {
            record.kept = kept;
        }
    }

    /// Sets the kept data of all records before the tail. O(records).
    pub(super) fn set_all_kept(&mut self, kept: R::Kept) {
        for record in &mut self.records[..self.tail] {
            record.kept = kept;
        }
    }

    /// Removes the timer of a handle. O(1).
    #[inline]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<R> {
        self.take_if(key.index, |body| body.generation() == key.generation)
    }

    /// Removes the timer at `index`, of any generation. O(1).
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> Option<R> {
        self.take_if(index, |_| true)
    }

    /// Removes the timer at `index` if `condition` is true for its body. O(1).
    #[inline]
    pub(super) fn take_if(&mut self, index: u32, condition: impl Fn(&R) -> bool) -> Option<R> {
        let state = &mut self.records.get_mut(index as usize)?.state;
        let generation = match state {
            State::Live(body) if condition(body) => body.generation() + 1,
            _ => return None,
        };
        let next = match generation {
            RETIRED => NONE, // not in the free list
            _ => replace(&mut self.free_head, index),
        };
        let free = State::Free { generation, next };
        self.live -= 1;
        match replace(state, free) {
            State::Live(body) => Some(body),
            State::Free { .. } => None,
        }
    }

    /// Returns the number of live and free records.
    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of records before the tail, which include all live records.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.tail
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Returns all live bodies with their indices, in the order of the indices. O(records).
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        (0..)
            .zip(&self.records[..self.tail])
            .filter_map(|(index, record)| Some((index, record.body()?)))
    }

    /// Removes all timers and frees their memory. O(records).
    pub(super) fn clear(&mut self) {
        for index in 0..self.records.len() {
            self.take(index as u32);
        }
        self.free_if_empty();
    }

    /// Frees memory if a large slab has just become empty. O(records), otherwise O(1).
    #[inline]
    pub(super) fn free_if_empty(&mut self) {
        if self.live == 0 && self.records.capacity() > RECORDS_KEPT {
            self.shrink_to_fit(usize::MAX);
        }
    }

    /// Returns whether the slab has so many records that an empty slab should free them. O(1).
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.tail > RECORDS_KEPT && !self.never_shrinks
    }

    /// Moves all records of an empty slab to the tail. A record's kept data is reset when the
    /// record is used again. O(1).
    pub(super) fn restart(&mut self) {
        debug_assert_eq!(self.live, 0);
        (self.tail, self.free_head) = (0, NONE);
    }

    /// Returns whether [`free_piece`](Self::free_piece) has records to free.
    #[inline]
    pub(super) fn has_memory_to_free(&self) -> bool {
        self.records.len() > RECORDS_KEPT.max(self.tail) && !self.never_shrinks
    }

    /// Frees a piece of the tail. Returns whether there is more to free. O(1), a few microseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn free_piece(&mut self) -> bool {
        if !self.has_memory_to_free() {
            return false;
        }
        let min_len = RECORDS_KEPT.max(self.tail);
        let len = self.records.len();
        let piece = (FREE_STEP / Self::RECORD).max(1);
        let to = len.saturating_sub(piece).max(min_len);
        let Some(new_generation) =
            new_generation_after_freeing(&self.records[to..], self.new_generation)
        else {
            self.never_shrinks = true;
            return false;
        };
        self.new_generation = new_generation;
        shorten(&mut self.records, to, min_len, &mut self.shrink_mode);
        self.has_memory_to_free()
    }

    /// Frees the free records at the end of the array, but keeps [`RECORDS_KEPT`] records. Rebuilds
    /// the free list from the first `limit` records, and resets their kept data. O(records).
    #[cold]
    pub(super) fn shrink_to_fit(&mut self, limit: usize) {
        let is_live = |record: &Record<R>| record.body().is_some();
        let last = self.records.iter().rposition(is_live);
        let len = last.map_or(0, |last| last + 1).max(RECORDS_KEPT);
        if len < self.records.len() {
            let Some(new_generation) =
                new_generation_after_freeing(&self.records[len..], self.new_generation)
            else {
                self.never_shrinks = true;
                return;
            };
            self.new_generation = new_generation;
            self.records.truncate(len);
        }
        self.records.shrink_to_fit();
        (self.tail, self.free_head) = (0, NONE);
        self.add_to_free_list(self.records.len().min(limit));
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * Self::RECORD
    }
}

/// Returns the generation that new records start with after these free records are freed: the
/// highest of `new_generation` and the next generation of each record. Returns `None` if more than
/// half of all generations would be used; then the records must stay allocated.
fn new_generation_after_freeing<R: RecordBody>(
    records: &[Record<R>],
    new_generation: u32,
) -> Option<u32> {
    let next = records.iter().map(|record| match record.state {
        State::Live(_) => 0,
        State::Free { generation, .. } => generation,
    });
    Some(next.fold(new_generation, u32::max))
        .filter(|&new_generation| new_generation <= LAST_GENERATION / 2)
}
