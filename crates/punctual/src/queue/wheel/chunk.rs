//! The storage of a wheel's entries: chunks of a few entries each, taken from one pool.
//!
//! A slot is a list of chunks, so it grows without copying, its entries are contiguous, and an emptied
//! slot gives its chunks to the next one. The pool grows by whole segments: nothing is copied when a million
//! timers arrive, and no growth stalls an insertion.

use super::leftovers::Leftovers;
use crate::queue::prefetch::prefetch;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{replace, size_of, take};

/// No chunk: the end of a list, or an empty slot.
pub(super) const NONE: u32 = u32::MAX;

/// Number of entries in a chunk. Twenty take 248 bytes: four cache lines prefetched together, 12.4 bytes
/// an entry, and little waste in a slot with a single timer.
pub(super) const CHUNK: usize = 20;

/// Number of chunks in a segment of the pool, which is just under a page of 4 KiB.
const SEGMENT: usize = 16;

/// A filed entry. The slot gives the upper bits of the deadline, so 32 bits of it are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The lower 32 bits of the deadline under which the entry is filed.
    pub(super) low: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A list node with the entries `entries[begin..end]`, never empty while it is in a slot's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) next: u32,
    pub(super) begin: u8,
    pub(super) end: u8,
    pub(super) entries: [Entry; CHUNK],
}

impl Chunk {
    const EMPTY: Chunk = Chunk {
        next: NONE,
        begin: 0,
        end: 0,
        entries: [Entry {
            low: 0,
            index: 0,
            generation: 0,
        }; CHUNK],
    };

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.end) - usize::from(self.begin)
    }

    /// Returns the first entry; the chunk must be in a list.
    #[inline]
    pub(super) fn first(&self) -> Entry {
        self.entries[usize::from(self.begin)]
    }

    #[inline]
    pub(super) fn live(&self) -> &[Entry] {
        &self.entries[usize::from(self.begin)..usize::from(self.end)]
    }
}

/// All chunks of one wheel, used or free.
#[derive(Debug)]
pub(super) struct Pool {
    #[expect(clippy::vec_box, reason = "no chunk is copied when the pool grows")]
    segments: Vec<Box<[Chunk; SEGMENT]>>,
    free: u32,
    used: u32,
    /// The chunk after which the sweep continues; `NONE` as soon as that chunk is freed.
    pub(super) watched: u32,
    /// Segments of an earlier pool, to be reused or freed.
    pub(super) leftovers: Leftovers<Box<[Chunk; SEGMENT]>>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Pool {
            segments: Vec::new(),
            free: NONE,
            used: 0,
            watched: NONE,
            leftovers: Leftovers::new(),
        }
    }

    /// Takes the segments of an earlier pool without used chunks, to reuse them or free them in pieces.
    pub(super) fn reclaim(&mut self, mut before: Pool) {
        self.leftovers = take(&mut before.leftovers);
        self.leftovers.add(take(&mut before.segments));
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Chunk {
        &self.segments[id as usize / SEGMENT][id as usize % SEGMENT]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Chunk {
        &mut self.segments[id as usize / SEGMENT][id as usize % SEGMENT]
    }

    /// Prefetches a chunk that is needed soon; `id` may be `NONE`.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        if let Some(segment) = self.segments.get(id as usize / SEGMENT) {
            prefetch(&segment[id as usize % SEGMENT]);
        }
    }

    /// Takes an empty chunk. O(1).
    #[inline]
    fn take(&mut self) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let id = self.free;
        let chunk = self.get_mut(id);
        let next = replace(&mut chunk.next, NONE);
        chunk.begin = 0;
        chunk.end = 0;
        self.free = next;
        self.used += 1;
        id
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.segments.len() * SEGMENT;
        assert!(
            first < NONE as usize - SEGMENT,
            "a wheel holds at most 2^32 - 1 chunks of entries"
        );
        let mut segment = match self.leftovers.take() {
            Some(segment) => segment,
            None => Box::new([Chunk::EMPTY; SEGMENT]),
        };
        for (id, chunk) in (first as u32..).zip(&mut segment[..]) {
            chunk.next = id + 1;
        }
        segment[SEGMENT - 1].next = self.free;
        self.free = first as u32;
        self.segments.push(segment);
    }

    #[inline]
    pub(super) fn give(&mut self, id: u32) {
        if self.watched == id {
            self.watched = NONE;
        }
        let free = replace(&mut self.free, id);
        self.get_mut(id).next = free;
        self.used -= 1;
    }

    /// Returns whether so little is used that moving it to a new pool pays: the move costs an eighth
    /// of the earlier allocations.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        let made = self.segments.len() * SEGMENT;
        made > 512 && (self.used as usize) < made / 8
    }

    pub(super) fn memory(&self) -> usize {
        (self.segments.len() + self.leftovers.len()) * size_of::<[Chunk; SEGMENT]>()
            + self.segments.capacity() * size_of::<Box<Chunk>>()
            + self.leftovers.memory()
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used as usize
    }
}

/// A list of chunks. Its entries are due within one span of ticks, in the order of insertion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        head: NONE,
        tail: NONE,
    };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(super) fn is_one_chunk(self) -> bool {
        self.head == self.tail
    }

    /// Appends an entry. Returns whether it took a new chunk. O(1).
    #[inline(always)]
    pub(super) fn push(&mut self, pool: &mut Pool, low: u32, index: u32, generation: u32) -> bool {
        if self.tail != NONE {
            let chunk = pool.get_mut(self.tail);
            if let Some(place) = chunk.entries.get_mut(usize::from(chunk.end)) {
                *place = Entry {
                    low,
                    index,
                    generation,
                };
                chunk.end += 1;
                return false;
            }
        }
        let id = pool.take();
        if self.tail == NONE {
            self.head = id;
        } else {
            pool.get_mut(self.tail).next = id;
        }
        self.tail = id;
        let chunk = pool.get_mut(id);
        chunk.entries[0] = Entry {
            low,
            index,
            generation,
        };
        chunk.end = 1;
        true
    }

    /// Removes the first entry; the slot must not be empty. O(1).
    #[inline]
    pub(super) fn pop(&mut self, pool: &mut Pool) -> Entry {
        let chunk = pool.get_mut(self.head);
        let entry = chunk.entries[usize::from(chunk.begin)];
        chunk.begin += 1;
        if chunk.begin == chunk.end {
            self.drop_head(pool);
        }
        entry
    }

    /// Removes the first chunk and returns a copy of it; the slot must not be empty. O(1).
    #[inline]
    pub(super) fn pop_chunk(&mut self, pool: &mut Pool) -> Chunk {
        let chunk = *pool.get(self.head);
        self.drop_head(pool);
        chunk
    }

    /// Calls `visit` with each chunk and frees it. O(chunks).
    #[inline]
    pub(super) fn drain(self, pool: &mut Pool, mut visit: impl FnMut(&Chunk)) {
        let mut id = self.head;
        while id != NONE {
            let chunk = pool.get(id);
            let next = chunk.next;
            pool.prefetch(next);
            visit(chunk);
            pool.give(id);
            id = next;
        }
    }

    /// Unlinks the first chunk.
    #[inline]
    fn drop_head(&mut self, pool: &mut Pool) {
        let id = self.head;
        self.head = pool.get(id).next;
        if self.head == NONE {
            self.tail = NONE;
        }
        pool.give(id);
    }

    /// Returns whether the slot has at most `most` entries. O(most).
    #[inline]
    pub(super) fn has_at_most(self, pool: &Pool, most: usize) -> bool {
        let (mut id, mut count) = (self.head, 0);
        while id != NONE && count <= most {
            let chunk = pool.get(id);
            count += chunk.len();
            id = chunk.next;
        }
        count <= most
    }

    /// Appends all of `other`. O(1).
    pub(super) fn append(&mut self, pool: &mut Pool, other: Slot) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            pool.get_mut(self.tail).next = other.head;
            self.tail = other.tail;
        }
    }

    /// Unlinks `id`, which follows `before` (`NONE` if it is the first). O(1).
    pub(super) fn unlink(&mut self, pool: &mut Pool, before: u32, id: u32) {
        let next = pool.get(id).next;
        if before == NONE {
            self.head = next;
        } else {
            pool.get_mut(before).next = next;
        }
        if self.tail == id {
            self.tail = before;
        }
        pool.give(id);
    }
}
